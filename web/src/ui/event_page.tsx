//! The shop floor: one event with its live map or list, price filter, basket and checkout.
import { useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { app } from "../app";
import { BasketPanel } from "./basket_panel";
import { money, time } from "./format";
import { CalendarIcon, ListIcon, MapIcon, PinIcon } from "./icons";
import { lazy, partFrame } from "./lazy";
import { LiveEvent } from "./live_event";
import { MapView } from "./map_view";
import { Failed, usePageTitle } from "./page";
import { shownEvent } from "./shown_event";
import { errorText, t } from "./texts";

const ListView = lazy(() => import("./list_view").then((room) => room.ListView), partFrame);
const AreaPicker = lazy(
  () => import("./area_picker").then((room) => room.AreaPicker),
  () => null,
);

const BestPicker = lazy(
  () => import("./best_picker").then((room) => room.BestPicker),
  () => null,
);

export function EventPage({ id }: { id: string }) {
  const event = useSignal<LiveEvent | null>(null);
  useEffect(() => {
    const made = new LiveEvent(id);
    event.value = made;
    shownEvent.value = made;
    return () => {
      made.close();
      shownEvent.value = null;
    };
  }, [id]);
  if (!event.value || event.value.id !== id) return <main id="content" class="event" tabIndex={-1} />;
  return <LoadedEventPage event={event.value} />;
}

function LoadedEventPage({ event }: { event: LiveEvent }) {
  const view = useSignal<"map" | "list">("map");
  const tiers = useSignal<ReadonlySet<string>>(new Set());
  const section = useSignal<number | null>(null);
  const showSeat = useSignal<number | null>(null);
  const area = useSignal<number | null>(null);
  const best = useSignal(false);
  const detail = event.detail.value;
  usePageTitle(detail?.name ?? "");

  if (event.refused.value && !event.plan.value) {
    return (
      <main id="content" class="narrow" tabIndex={-1}>
        <Failed
          text={errorText(event.refused.value.code)}
          retry={event.refused.value.retry === "never" ? undefined : () => void event.load()}
        >
          <a class="button quiet" href="/">
            {t.value.backToEvents}
          </a>
        </Failed>
      </main>
    );
  }

  const onSeat = (seat: number) => {
    // An old map would only collect refusals: the seats wait until it is fresh again.
    if (!event.live.value) return;
    const state = event.states[seat] ?? 0;
    const own = app.shop.basket(event.id).value.hold?.lines.some((line) => line.seat === seat);
    if (state === 0 || own) void app.shop.tapSeat(event.id, seat);
  };
  const onArea = (at: number) => {
    if (event.live.value) area.value = at;
  };

  return (
    <main id="content" class="event" tabIndex={-1}>
      <EventHead event={event} />
      <section class="stage">
        <div class="stage-bar">
          {detail && detail.price_tiers.length > 1 && (
            <div class="chips" role="group" aria-label={t.value.priceFilter}>
              <button
                type="button"
                class="chip"
                aria-pressed={tiers.value.size === 0}
                onClick={() => (tiers.value = new Set())}
              >
                {t.value.allPrices}
              </button>
              {detail.price_tiers.map((tier) => (
                <button
                  key={tier.code}
                  type="button"
                  class="chip"
                  aria-pressed={tiers.value.has(tier.code)}
                  onClick={() => {
                    const next = new Set(tiers.value);
                    if (!next.delete(tier.code)) next.add(tier.code);
                    tiers.value = next;
                  }}
                >
                  {tier.name} <strong>{money(tier.price_minor + tier.fee_minor, detail.currency, true)}</strong>
                </button>
              ))}
            </div>
          )}
          {detail && detail.seat_count > 0 && (detail.state === "on_sale" || detail.state === "presale") && (
            <button type="button" class="chip best" disabled={!event.live.value} onClick={() => (best.value = true)}>
              {t.value.bestSeats}
            </button>
          )}
          <div class="switch" role="group" aria-label={t.value.viewSwitch}>
            <button type="button" aria-pressed={view.value === "map"} onClick={() => (view.value = "map")}>
              <MapIcon size={18} /> <span>{t.value.showMap}</span>
            </button>
            <button type="button" aria-pressed={view.value === "list"} onClick={() => (view.value = "list")}>
              <ListIcon size={18} /> <span>{t.value.showList}</span>
            </button>
          </div>
        </div>
        {view.value === "map" ? (
          <MapView event={event} tiers={tiers} showSeat={showSeat} onSeat={onSeat} onArea={onArea} />
        ) : (
          <ListView event={event} tiers={tiers} section={section} onSeat={onSeat} onArea={onArea} />
        )}
        <LiveBadge event={event} />
      </section>
      <BasketPanel event={event} showSeat={showSeat} />
      {best.value && (
        <BestPicker
          event={event}
          tiers={tiers.value}
          found={(seat) => (showSeat.value = seat)}
          close={() => (best.value = false)}
        />
      )}
      {area.value !== null && <AreaPicker event={event} area={area.value} close={() => (area.value = null)} />}
    </main>
  );
}

function LiveBadge({ event }: { event: LiveEvent }) {
  if (event.live.value || !event.map?.whole) return null;
  return (
    <div class="updating" role="status">
      <span class="spinner" aria-hidden="true" /> {t.value.updating}
    </div>
  );
}

function EventHead({ event }: { event: LiveEvent }) {
  const detail = event.detail.value;
  if (!detail) return <header class="event-head" aria-busy="true" />;
  const zone = detail.venue.time_zone;
  const opened = event.opened.value;
  const note = opened
    ? t.value.codeOpen(opened.name, time(opened.until_ms, "short", zone))
    : detail.state === "on_sale"
      ? null
      : detail.state === "scheduled"
        ? t.value.stateNote.scheduled(time(detail.on_sale_ms ?? detail.starts_ms, "short", zone))
        : t.value.stateNote[detail.state];
  return (
    <header class="event-head">
      <h1>{detail.name}</h1>
      <p class="event-facts">
        <span>
          <CalendarIcon size={16} /> {time(detail.starts_ms, "short", zone)}
        </span>
        <span>
          <PinIcon size={16} /> {detail.venue.name}
          {detail.venue.city ? `, ${detail.venue.city}` : ""}
        </span>
      </p>
      {note && (
        <p class="state-note" role="status">
          {note} {detail.reason}
        </p>
      )}
    </header>
  );
}
