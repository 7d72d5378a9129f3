//! One order: its payment state told truthfully, what can be done about it, and the tickets once it is paid.
//! Reached after checkout, by link (on any device, with the link's secret), or after the bank's page; updates itself by push.
import { useSignal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import { app } from "../app";
import { newKey } from "../booking/key";
import type { SeatPlan } from "../proto/layout";
import { unpackLayout } from "../proto/layout";
import type { EventDetail, Order, OrderState, Refusal } from "../proto/messages";
import { Sums } from "./basket_panel";
import { money, time } from "./format";
import { AlertIcon, BankIcon, CalendarIcon, CheckIcon, ClockIcon, CloseIcon, PinIcon } from "./icons";
import { fetchLayout } from "./live_event";
import { orderNote, orderTitle } from "./order_words";
import { Failed, Spinner, usePageTitle } from "./page";
import { FIRST_METHOD, PaymentChoice } from "./payment_choice";
import { ReadAgain } from "./read_again";
import { lineWords } from "./seat_words";
import { errorText, refusalText, t } from "./texts";
import { Tickets } from "./tickets";

/** Pushes tell first; this asks anyway, for a page whose socket is blocked. */
const ASK_AGAIN_MS = 5_000;

const UNSETTLED: OrderState[] = ["payment_pending", "action_required", "payment_unknown", "refund_due"];

export function OrderPage({ id, secret }: { id: string; secret?: string }) {
  const refused = useSignal<Refusal | null>(null);
  const order = app.shop.orders.value.get(id) ?? null;
  const known = useEventFacts(order?.event ?? null, order?.state);
  usePageTitle(order ? `${t.value.reference} ${order.reference}` : t.value.orderTitle);

  const load = async () => {
    const answer = await (secret ? app.api.orderBySecret(id, secret) : app.api.order(id));
    refused.value = answer.ok ? null : answer.error;
    if (answer.ok) app.shop.putOrder(answer.order);
  };
  const unsettled = order === null || UNSETTLED.includes(order.state);
  useEffect(() => {
    void load();
    if (!unsettled) return;
    const timer = setInterval(() => document.visibilityState === "visible" && load(), ASK_AGAIN_MS);
    return () => clearInterval(timer);
  }, [id, unsettled]);

  if (!order) {
    return (
      <main id="content" class="narrow" tabIndex={-1}>
        {refused.value ? (
          <Failed text={errorText(refused.value.code)} retry={refused.value.retry === "never" ? undefined : load}>
            <a class="button quiet" href="/orders">
              {t.value.myOrders}
            </a>
          </Failed>
        ) : (
          <div class="nothing">
            <Spinner /> {t.value.loading}
          </div>
        )}
      </main>
    );
  }
  return (
    <main id="content" class="narrow order" tabIndex={-1}>
      <StateCard order={order} mayCancel={!secret} />
      {order.state === "payment_declined" && <PayAgain order={order} secret={secret} />}
      {known.detail && <EventCard detail={known.detail} />}
      {order.tickets?.length ? <Tickets order={order} plan={known.plan} detail={known.detail} secret={secret} /> : null}
      <section class="box">
        <h2>
          {t.value.reference} <span class="reference">{order.reference}</span>
        </h2>
        <ul class="lines plain">
          {order.lines.map((line) => (
            <li key={line.seat ?? `area ${line.area}`}>
              <span class="line-name">
                <strong>{lineWords(line, known.plan, known.detail)}</strong>
                {line.quantity > 1 && <span class="muted">{line.quantity} ×</span>}
              </span>
              <span class="line-price">
                {money(line.quantity * (line.price_minor + line.fee_minor), order.currency)}
              </span>
            </li>
          ))}
        </ul>
        <Sums hold={order} />
        {order.refunded_minor > 0 && (
          <p class="muted">{t.value.refundedAmount(money(order.refunded_minor, order.currency))}</p>
        )}
        <p class="muted small-text">{t.value.orderedOn(time(order.created_ms, "long"))}</p>
      </section>
      <p class="order-links">
        <a class="button quiet" href={`/events/${order.event}`}>
          {t.value.moreFromEvent}
        </a>
        <a class="button quiet" href="/orders">
          {t.value.myOrders}
        </a>
      </p>
    </main>
  );
}

const LOOK: Record<OrderState, { tone: "good" | "wait" | "bad" | "calm"; icon: typeof CheckIcon }> = {
  payment_pending: { tone: "wait", icon: ClockIcon },
  action_required: { tone: "wait", icon: BankIcon },
  payment_declined: { tone: "bad", icon: AlertIcon },
  payment_unknown: { tone: "wait", icon: ClockIcon },
  paid: { tone: "good", icon: CheckIcon },
  cancelled: { tone: "calm", icon: CloseIcon },
  refund_due: { tone: "wait", icon: ClockIcon },
  partially_refunded: { tone: "good", icon: CheckIcon },
  refunded: { tone: "calm", icon: CheckIcon },
};

function StateCard({ order, mayCancel }: { order: Order; mayCancel: boolean }) {
  const { tone, icon: StateIcon } = LOOK[order.state];
  const heading = useRef<HTMLHeadingElement>(null);
  useEffect(() => heading.current?.focus({ preventScroll: true }), [order.state]);
  const reason = order.decline?.reason;
  const link = order.action?.type === "redirect" ? order.action.url : null;
  return (
    <section class={`state-card ${tone}`} data-state={order.state}>
      <div class="state-icon">
        <StateIcon size={28} />
      </div>
      <h1 ref={heading} tabIndex={-1}>
        {orderTitle(order)}
      </h1>
      <p role="status">
        {order.state === "payment_declined" && reason && (
          <strong>{t.value.declineReason[reason] ?? t.value.declineReason.card_declined} </strong>
        )}
        {orderNote(order)}
      </p>
      {order.state === "payment_pending" && <div class="progress" aria-hidden="true" />}
      {order.state === "payment_unknown" && <div class="progress" aria-hidden="true" />}
      {order.state === "action_required" && link && (
        <a class="button wide" href={link} rel="external">
          {t.value.confirmAtBank}
        </a>
      )}
      {mayCancel && (order.state === "action_required" || order.state === "payment_declined") && (
        <Cancel order={order} />
      )}
    </section>
  );
}

function Cancel({ order }: { order: Order }) {
  const asked = useSignal(false);
  const busy = useSignal(false);
  const ask = useRef<HTMLButtonElement>(null);
  const keep = useRef<HTMLButtonElement>(null);
  // The harmless answer is the nearest: a key pressed twice must not cancel.
  useEffect(() => {
    if (asked.value) keep.current?.focus();
  }, [asked.value]);
  const cancel = async () => {
    busy.value = true;
    await app.shop.cancel(order.id);
    busy.value = false;
    asked.value = false;
  };
  if (!asked.value) {
    return (
      <button ref={ask} type="button" class="button text" onClick={() => (asked.value = true)}>
        {t.value.cancelOrder}
      </button>
    );
  }
  return (
    <div class="confirm" role="group" aria-label={t.value.cancelSure}>
      <p>{t.value.cancelSure}</p>
      <button type="button" class="button danger" disabled={busy.value} onClick={() => void cancel()}>
        {t.value.cancelOrder}
      </button>
      <button
        ref={keep}
        type="button"
        class="button quiet"
        onClick={() => {
          asked.value = false;
          requestAnimationFrame(() => ask.current?.focus());
        }}
      >
        {t.value.keepOrder}
      </button>
    </div>
  );
}

function PayAgain({ order, secret }: { order: Order; secret?: string }) {
  const method = useSignal(FIRST_METHOD);
  const busy = useSignal(false);
  const refusal = useSignal("");
  const pay = async (event: Event) => {
    event.preventDefault();
    if (busy.value) return;
    busy.value = true;
    refusal.value = "";
    const answer = await (secret
      ? app.api.payBySecret(order.id, secret, method.value, newKey())
      : app.shop.pay(order.id, method.value));
    busy.value = false;
    if (answer.ok) app.shop.putOrder(answer.order);
    if (!answer.ok) refusal.value = refusalText(answer.error);
  };
  return (
    <form class="box" onSubmit={pay}>
      <PaymentChoice method={method.value} choose={(id) => (method.value = id)} />
      {refusal.value && (
        <p class="refusal" role="alert">
          {refusal.value}
        </p>
      )}
      <button type="submit" class="button wide" disabled={busy.value}>
        {busy.value ? (
          <>
            <Spinner /> {t.value.paying}
          </>
        ) : (
          t.value.payAgain(money(order.total_minor, order.currency))
        )}
      </button>
    </form>
  );
}

function EventCard({ detail }: { detail: EventDetail }) {
  return (
    <section class="box event-box">
      <h2>{detail.name}</h2>
      <p class="event-facts">
        <span>
          <CalendarIcon size={16} /> {time(detail.starts_ms, "long", detail.venue.time_zone)}
        </span>
        <span>
          <PinIcon size={16} /> {detail.venue.name}
          {detail.venue.city ? `, ${detail.venue.city}` : ""}
        </span>
      </p>
      {detail.state === "cancelled" && (
        <p class="state-note">
          {t.value.stateNote.cancelled} {detail.reason}
        </p>
      )}
    </section>
  );
}

/**
 * Name, date and plan of the order's event, for the words on tickets and lines. Read again when the order's state changes: that
 * the money comes back may be because the event is cancelled.
 */
function useEventFacts(
  event: string | null,
  state: OrderState | undefined,
): {
  detail: EventDetail | null;
  plan: SeatPlan | null;
} {
  const detail = useSignal<EventDetail | null>(null);
  const plan = useSignal<SeatPlan | null>(null);
  const again = useRef<ReadAgain | null>(null);
  useEffect(() => {
    if (!event) return;
    let gone = false;
    const read = async (anew: boolean) => {
      const answer = await app.api.event(event, anew);
      if (gone || !answer.ok) return gone;
      detail.value = answer;
      const layout = await fetchLayout(answer.layout);
      if (!gone && layout) plan.value = unpackLayout(layout);
      return true;
    };
    const later = new ReadAgain(() => read(true));
    again.current = later;
    void read(false);
    return () => {
      gone = true;
      later.end();
    };
  }, [event]);
  const shown = useRef(state);
  useEffect(() => {
    if (shown.current && shown.current !== state) again.current?.soon();
    shown.current = state;
  }, [state]);
  return { detail: detail.value, plan: plan.value };
}
