//! The basket panel while nothing is held: by the state of the event, what can be done now. On a phone the panel is a sheet
//! of one line, which opens where there is something to fill in.
import type { Signal } from "@preact/signals";
import type { EventState } from "../proto/messages";
import { TicketIcon } from "./icons";
import { lazy } from "./lazy";
import type { LiveEvent } from "./live_event";
import { Legend } from "./map_view";
import { SheetHandle } from "./sheet_handle";
import { t } from "./texts";

const Waitlist = lazy(
  () => import("./waitlist").then((room) => room.Waitlist),
  () => null,
);
const PresaleCode = lazy(
  () => import("./presale_code").then((room) => room.PresaleCode),
  () => null,
);

/** States in which tickets may be waiting elsewhere, and nothing can be bought here any more. */
const OVER: EventState[] = ["closed", "cancelled"];

export function NoSeats({ event, open }: { event: LiveEvent; open: Signal<boolean> }) {
  const detail = event.detail.value;
  // Whoever has the code is as free to choose as everybody later.
  const state = !detail || (detail.state === "presale" && event.opened.value) ? "on_sale" : detail.state;
  const form =
    state === "sold_out" && detail?.waitlist ? (
      <Waitlist event={event} />
    ) : state === "presale" ? (
      <PresaleCode event={event} />
    ) : null;
  const canBuy = state === "on_sale" || state === "presale";
  return (
    <>
      <div class={`panel-head ${OVER.includes(state) ? "lone" : ""}`}>
        {form && <SheetHandle open={open} />}
        <h2>
          {t.value.emptyTitle[state]}
          <span class="hint on-phone">{state === "on_sale" ? t.value.mapHint : t.value.emptyHint[state]}</span>
        </h2>
        {form && (
          <button
            type="button"
            class="button small on-phone"
            aria-expanded={open.value}
            aria-controls="basket-body"
            onClick={() => (open.value = true)}
          >
            {state === "presale" ? t.value.code : t.value.waitlist}
          </button>
        )}
      </div>
      <div class="panel-body" id="basket-body">
        <div class="empty-basket">
          <div class="empty-picture">
            <TicketIcon size={34} />
          </div>
          <p>{t.value.emptyHint[state]}</p>
          {form}
          {OVER.includes(state) && (
            <a class="button quiet" href="/orders">
              {t.value.myOrders}
            </a>
          )}
          {detail && canBuy && (
            <ul class="facts">
              <li>{t.value.limitHint(detail.rules.seats_per_identity)}</li>
              <li>{t.value.holdHint(Math.round(detail.rules.hold_ttl_ms / 60_000))}</li>
            </ul>
          )}
        </div>
      </div>
      {!OVER.includes(state) && (
        <div class="panel-legend">
          <Legend />
        </div>
      )}
    </>
  );
}
