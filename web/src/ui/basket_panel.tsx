//! The basket: side panel on a wide screen, bottom sheet on a phone. Lines, sums, countdown, the way to checkout.
import { type Signal, useSignal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import { app } from "../app";
import { placeCount, sums } from "../booking/basket";
import type { Hold, HoldLine } from "../proto/messages";
import { money } from "./format";
import { CloseIcon, LockIcon } from "./icons";
import { lazy, partFrame } from "./lazy";
import type { LiveEvent } from "./live_event";
import { NoSeats } from "./no_seats";
import { Spinner } from "./page";
import { lineWords } from "./seat_words";
import { sheetHeight } from "./sheet";
import { SheetHandle } from "./sheet_handle";
import { t } from "./texts";
import { SpokenCountdown, Timer, useLeft } from "./timer";

const loadCheckout = () => import("./checkout_form").then((room) => room.CheckoutForm);
const CheckoutForm = lazy(loadCheckout, partFrame);

const EXTENSION_MS = 120_000;

interface Props {
  event: LiveEvent;
  showSeat: Signal<number | null>;
}

export function BasketPanel({ event, showSeat }: Props) {
  const basket = app.shop.basket(event.id).value;
  // What is being paid stays in the form until it is answered: the push that its seats are sold may be faster.
  const paying = useSignal<Hold | null>(null);
  const hold = paying.value ?? basket.hold;
  const left = useLeft(hold);
  const open = useSignal(false);
  const step = useSignal<"basket" | "checkout">("basket");
  const totalMs = (event.detail.value?.rules.hold_ttl_ms ?? 600_000) + (hold?.extended ? EXTENSION_MS : 0);
  const busy = basket.busy > 0 || basket.asked.size > 0;

  useEffect(() => {
    // With the first seat the way to pay is fetched ahead, so that a bad network at the till does not show.
    if (hold) void loadCheckout().catch(() => {});
    if (hold) return;
    step.value = "basket";
    open.value = false;
  }, [hold?.id, event.detail.value?.state, event.opened.value]);

  // On a phone the map ends where the closed sheet begins, and the sheet grows with its first seat.
  const panel = useRef<HTMLElement>(null);
  useEffect(() => {
    if (!panel.current) return;
    const observer = new ResizeObserver(([entry]) => {
      if (!open.value) sheetHeight.value = Math.round(entry.borderBoxSize[0].blockSize);
    });
    observer.observe(panel.current);
    return () => observer.disconnect();
  }, []);

  const checkout = () => {
    step.value = "checkout";
    open.value = true;
  };

  return (
    <aside ref={panel} class={`panel ${open.value ? "open" : ""}`} aria-label={t.value.basket}>
      <SpokenCountdown left={hold && !hold.locked ? left : 0} />
      {hold?.locked && !paying.value ? (
        <Locked event={event} hold={hold} />
      ) : hold && step.value === "checkout" ? (
        <CheckoutForm
          hold={hold}
          left={left}
          totalMs={totalMs}
          paying={paying}
          back={() => {
            step.value = "basket";
          }}
        />
      ) : hold ? (
        <>
          <div class="panel-head">
            <SheetHandle open={open} />
            <h2>{t.value.ticketsCount(placeCount(hold))}</h2>
            {busy && <Spinner />}
            <Timer left={left} totalMs={totalMs} />
          </div>
          <div class="panel-body" id="basket-body">
            {hold.offer && <p class="offer-note">{t.value.offerHint}</p>}
            <Lines event={event} hold={hold} showSeat={showSeat} close={() => (open.value = false)} />
          </div>
          <div class="panel-foot">
            <Sums hold={hold} />
            <div class="foot-buttons">
              {!hold.extended && !hold.offer && (
                <button
                  type="button"
                  class="button quiet"
                  title={t.value.extendLong}
                  disabled={busy}
                  onClick={() => void app.shop.extend(event.id)}
                >
                  {t.value.extend} <span class="visually-hidden">{t.value.extendLong}</span>
                </button>
              )}
              <button type="button" class="button wide" disabled={left === 0} onClick={checkout}>
                {t.value.checkout} <span class="on-phone">· {money(hold.total_minor, hold.currency)}</span>
              </button>
            </div>
          </div>
        </>
      ) : (
        <NoSeats event={event} open={open} />
      )}
    </aside>
  );
}

function Locked({ event, hold }: { event: LiveEvent; hold: Hold }) {
  const order = app.shop.openOrder(event.id);
  return (
    <div class="locked">
      <LockIcon size={28} />
      <h2>{t.value.lockedTitle}</h2>
      <p class="muted">{t.value.lockedText}</p>
      <p>
        <strong>
          {t.value.ticketsCount(placeCount(hold))} · {money(hold.total_minor, hold.currency)}
        </strong>
      </p>
      {order && (
        <a class="button wide" href={`/orders/${order.id}`}>
          {t.value.toOrder}
        </a>
      )}
    </div>
  );
}

interface LinesProps {
  event: LiveEvent;
  hold: Hold;
  showSeat: Signal<number | null>;
  close: () => void;
}

function Lines({ event, hold, showSeat, close }: LinesProps) {
  const plan = event.plan.value;
  const detail = event.detail.value;
  const basket = app.shop.basket(event.id).value;
  const remove = (line: HoldLine) => {
    if (line.seat !== undefined) void app.shop.releaseSeats(event.id, [line.seat]);
    else if (line.area !== undefined) void app.shop.releaseArea(event.id, line.area, line.quantity);
  };
  return (
    <ul class="lines">
      {hold.lines.map((line) => {
        const words = lineWords(line, plan, detail);
        const tier = detail?.price_tiers.find((candidate) => candidate.code === line.price_tier);
        const leaving = line.seat !== undefined && basket.asked.get(line.seat) === false;
        return (
          <li key={line.seat ?? `area ${line.area}`} class={leaving ? "leaving" : ""}>
            <button
              type="button"
              class="line-name"
              disabled={line.seat === undefined}
              onClick={() => {
                showSeat.value = line.seat ?? null;
                close();
              }}
            >
              <strong>{words}</strong>
              <span class="muted">
                {tier?.name ?? line.price_tier}
                {line.quantity > 1 ? ` · ${line.quantity} ×` : ""}
              </span>
            </button>
            <span class="line-price">{money(line.quantity * (line.price_minor + line.fee_minor), hold.currency)}</span>
            <button
              type="button"
              class="icon-button"
              aria-label={t.value.remove(words)}
              disabled={leaving}
              onClick={() => remove(line)}
            >
              <CloseIcon size={18} />
            </button>
          </li>
        );
      })}
    </ul>
  );
}

export function Sums({ hold }: { hold: Pick<Hold, "lines" | "total_minor" | "currency"> }) {
  const { pricesMinor, feesMinor } = sums(hold.lines);
  return (
    <dl class="sums">
      {feesMinor > 0 && (
        <>
          <div>
            <dt>{t.value.subtotal}</dt>
            <dd>{money(pricesMinor, hold.currency)}</dd>
          </div>
          <div>
            <dt>{t.value.fees}</dt>
            <dd>{money(feesMinor, hold.currency)}</dd>
          </div>
        </>
      )}
      <div class="sum-total">
        <dt>{t.value.total}</dt>
        <dd>{money(hold.total_minor, hold.currency)}</dd>
      </div>
    </dl>
  );
}
