//! The orders of this guest, newest first. Reads GET /v1/orders.
import { useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { app } from "../app";
import type { EventDetail, Refusal } from "../proto/messages";
import { money, time } from "./format";
import { ForwardIcon, TicketIcon } from "./icons";
import { orderTitle } from "./order_words";
import { Failed, Spinner, usePageTitle } from "./page";
import { errorText, t } from "./texts";

export function OrdersPage() {
  usePageTitle(t.value.myOrders);
  const loaded = useSignal(false);
  const refused = useSignal<Refusal | null>(null);
  const events = useSignal<ReadonlyMap<string, EventDetail>>(new Map());

  const load = async () => {
    const answer = await app.api.orders();
    refused.value = answer.ok ? null : answer.error;
    if (!answer.ok) return;
    for (const order of answer.items) app.shop.putOrder(order);
    loaded.value = true;
    for (const id of new Set(answer.items.map((order) => order.event))) {
      const event = await app.api.event(id);
      if (event.ok) events.value = new Map(events.value).set(id, event);
    }
  };
  useEffect(() => void load(), []);

  const orders = [...app.shop.orders.value.values()].sort((a, b) => b.created_ms - a.created_ms);
  return (
    <main id="content" class="narrow" tabIndex={-1}>
      <h1>{t.value.myOrders}</h1>
      {refused.value && orders.length === 0 ? (
        <Failed within text={errorText(refused.value.code)} retry={load} />
      ) : !loaded.value && orders.length === 0 ? (
        <div class="nothing">
          <Spinner /> {t.value.loading}
        </div>
      ) : orders.length === 0 ? (
        <div class="nothing">
          <TicketIcon size={40} />
          <h2>{t.value.ordersEmpty}</h2>
          <p>{t.value.ordersEmptyHint}</p>
          <a class="button" href="/">
            {t.value.backToEvents}
          </a>
        </div>
      ) : (
        <ul class="order-list">
          {orders.map((order) => {
            const event = events.value.get(order.event);
            const places = order.lines.reduce((sum, line) => sum + line.quantity, 0);
            return (
              <li key={order.id}>
                <a href={`/orders/${order.id}`} class="order-row">
                  <span class="order-what">
                    <strong>{event?.name ?? `${t.value.reference} ${order.reference}`}</strong>
                    {event && <span class="muted">{time(event.starts_ms, "short", event.venue.time_zone)}</span>}
                    <span class="muted">
                      {t.value.ticketsCount(places)} · {money(order.total_minor, order.currency)}
                    </span>
                  </span>
                  <span class={`pill ${order.state}`}>{orderTitle(order)}</span>
                  <ForwardIcon size={18} />
                </a>
              </li>
            );
          })}
        </ul>
      )}
    </main>
  );
}
