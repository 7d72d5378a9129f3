//! The seat map on the page: makes a SeatMap, feeds it the live event, shows its buttons, legend and hover card.
import { type Signal, useComputed, useSignal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import { app } from "../app";
import { mySeats, pendingSeats } from "../booking/basket";
import { SeatMap } from "../seatmap/seat_map";
import { count, money } from "./format";
import { FitIcon, MinusIcon, PlusIcon } from "./icons";
import type { LiveEvent } from "./live_event";
import { seatWords } from "./seat_words";
import { coveredPx, sheetHeight } from "./sheet";
import { t } from "./texts";

/** One press of a zoom button. */
const ZOOM_STEP = 1.7;
const CHIPS_HEIGHT_PX = 60;

interface Props {
  event: LiveEvent;
  /** price tier codes to show; empty: all */
  tiers: Signal<ReadonlySet<string>>;
  /** a seat to bring into view, from the basket */
  showSeat: Signal<number | null>;
  onSeat: (seat: number) => void;
  onArea: (area: number) => void;
}

export function MapView({ event, tiers, showSeat, onSeat, onArea }: Props) {
  const host = useRef<HTMLDivElement>(null);
  const map = useRef<SeatMap | null>(null);
  const hovered = useSignal<{ seat: number; x: number; y: number } | null>(null);
  const basket = app.shop.basket(event.id);
  const plan = event.plan.value;
  const detail = event.detail.value;
  const handlers = useRef({ onSeat, onArea });
  handlers.current = { onSeat, onArea };
  const over = detail?.state === "closed" || detail?.state === "cancelled";
  const dim = useComputed(() => !event.live.value && app.socket.value.was);

  useEffect(() => {
    if (!host.current) return;
    const made = new SeatMap(host.current, {
      seat: (seat) => handlers.current.onSeat(seat),
      area: (area) => handlers.current.onArea(area),
      hover: (seat, x, y) => {
        hovered.value = seat === null ? null : { seat, x, y };
      },
    });
    map.current = made;
    const inset = () => {
      made.setInsets({ top: CHIPS_HEIGHT_PX, right: 0, bottom: coveredPx(), left: 0 });
    };
    const stopInset = sheetHeight.subscribe(inset);
    addEventListener("resize", inset);
    return () => {
      stopInset();
      removeEventListener("resize", inset);
      made.destroy();
      map.current = null;
    };
  }, []);

  useEffect(() => {
    if (!map.current || !plan || !detail) return;
    const prices = plan.layout.sections.map((section) => {
      const codes = detail.sections[section.index]?.price_tiers ?? [];
      const all = detail.price_tiers
        .filter((tier) => codes.includes(tier.code))
        .map((p) => p.price_minor + p.fee_minor);
      return all.length > 0 ? t.value.from(money(Math.min(...all), detail.currency, true)) : "";
    });
    map.current.setPlan(plan, prices, (left) => t.value.seatsLeft(count(left)));
    // For end-to-end tests, which must find a seat on a canvas.
    (host.current as unknown as { seatMap: SeatMap }).seatMap = map.current;
    return event.onMap((state, seats) => {
      map.current?.setStates(event.states, seats);
      map.current?.setAreas(
        detail.areas.map((area) => {
          const tier = detail.price_tiers.find((candidate) => candidate.code === area.price_tier);
          return {
            left: state.areas[area.index] ?? 0,
            total: area.capacity,
            price: tier ? money(tier.price_minor + tier.fee_minor, detail.currency, true) : "",
          };
        }),
      );
    });
  }, [plan, detail, t.value]);

  useEffect(() => {
    map.current?.setOwn(mySeats(basket.value), pendingSeats(basket.value));
  }, [basket.value, plan]);

  useEffect(() => {
    const wanted = tiers.value;
    map.current?.setFilter(wanted.size === 0 ? null : (seat) => wanted.has(event.tierOf(seat)?.code ?? ""));
  }, [tiers.value, plan, detail]);

  useEffect(() => {
    if (showSeat.value !== null) map.current?.showSeat(showSeat.value);
    showSeat.value = null;
  }, [showSeat.value]);

  return (
    <div class={`map ${dim.value ? "stale" : ""} ${over ? "over" : ""}`} role="group" aria-label={t.value.mapLabel}>
      <div class="map-host" ref={host} />
      {!plan && <div class="map-loading">{t.value.loading}</div>}
      <div class="zoom">
        <button
          type="button"
          title={t.value.zoomIn}
          aria-label={t.value.zoomIn}
          onClick={() => map.current?.zoomBy(ZOOM_STEP)}
        >
          <PlusIcon />
        </button>
        <button
          type="button"
          title={t.value.zoomOut}
          aria-label={t.value.zoomOut}
          onClick={() => map.current?.zoomBy(1 / ZOOM_STEP)}
        >
          <MinusIcon />
        </button>
        <button type="button" title={t.value.zoomFit} aria-label={t.value.zoomFit} onClick={() => map.current?.fit()}>
          <FitIcon />
        </button>
      </div>
      <Legend />
      {hovered.value && plan && <HoverCard event={event} at={hovered.value} />}
    </div>
  );
}

export function Legend() {
  return (
    <ul class="legend" aria-label={t.value.legend}>
      <li class="available">{t.value.legendAvailable}</li>
      <li class="held">{t.value.legendHeld}</li>
      <li class="sold">{t.value.legendSold}</li>
      <li class="mine">{t.value.legendMine}</li>
    </ul>
  );
}

function HoverCard({ event, at }: { event: LiveEvent; at: { seat: number; x: number; y: number } }) {
  const plan = event.plan.value;
  const detail = event.detail.value;
  if (!plan || !detail) return null;
  const tier = event.tierOf(at.seat);
  const mine = mySeats(app.shop.basket(event.id).value).has(at.seat);
  const state = mine ? "mine" : (["available", "held", "sold", "blocked"] as const)[event.states[at.seat] ?? 0];
  return (
    <div class="hover-card" style={{ left: `${at.x}px`, top: `${at.y}px` }} aria-hidden="true">
      <strong>{seatWords(plan, at.seat)}</strong>
      <span>
        {tier && state === "available"
          ? `${money(tier.price_minor + tier.fee_minor, detail.currency)} · ${tier.name}`
          : t.value.seatState[state]}
      </span>
    </div>
  );
}
