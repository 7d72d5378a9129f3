//! Tickets as stubs with seat, code and QR picture. The encoder is loaded when the first ticket is shown.
import { useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import type { SeatPlan } from "../proto/layout";
import { seatName } from "../proto/layout";
import type { EventDetail, Order, Ticket } from "../proto/messages";
import { lineWords } from "./seat_words";
import { t } from "./texts";
import { PassOn, PrintTickets } from "./ticket_actions";

interface Props {
  order: Order;
  plan: SeatPlan | null;
  detail: EventDetail | null;
  /** of whoever came by the order's link: may print, but not pass on */
  secret?: string;
}

export function Tickets({ order, plan, detail, secret }: Props) {
  const admits = order.tickets?.some((ticket) => ticket.state === "valid");
  return (
    <section aria-labelledby="tickets-title">
      <h2 id="tickets-title">{t.value.ticketsCount(order.tickets?.length ?? 0)}</h2>
      <ul class="tickets">
        {(order.tickets ?? []).map((ticket) => (
          <li key={ticket.id}>
            <TicketStub ticket={ticket} plan={plan} detail={detail} />
            {ticket.state === "valid" && !secret && (
              <PassOn order={order} ticket={ticket} words={wordsOf(ticket, plan, detail)} />
            )}
          </li>
        ))}
      </ul>
      {admits && <PrintTickets order={order} secret={secret} />}
    </section>
  );
}

const wordsOf = (ticket: Ticket, plan: SeatPlan | null, detail: EventDetail | null) =>
  lineWords({ ...ticket, quantity: 1, price_tier: "", price_minor: 0, fee_minor: 0 }, plan, detail);

function TicketStub({ ticket, plan, detail }: { ticket: Ticket; plan: SeatPlan | null; detail: EventDetail | null }) {
  const words = wordsOf(ticket, plan, detail);
  const name = ticket.seat !== undefined && plan ? seatName(plan, ticket.seat) : null;
  const usable = ticket.state === "valid";
  return (
    <article class={`ticket ${usable ? "" : "spent"}`} data-state={ticket.state} aria-label={words}>
      <div class="ticket-main">
        <p class="ticket-event">{detail?.name}</p>
        {name ? (
          <dl class="ticket-seat">
            <div>
              <dt>{t.value.section}</dt>
              <dd>{name.section}</dd>
            </div>
            {name.row && (
              <div>
                <dt>{t.value.row}</dt>
                <dd>{name.row}</dd>
              </div>
            )}
            <div>
              <dt>{t.value.seat}</dt>
              <dd>{name.seat}</dd>
            </div>
          </dl>
        ) : (
          <p class="ticket-area">{words}</p>
        )}
        <p class="ticket-code">
          <span class="visually-hidden">{t.value.ticketCode} </span>
          <code>{ticket.code}</code>
        </p>
        {!usable && <p class="ticket-state">{t.value.ticketState[ticket.state]}</p>}
      </div>
      {usable && (
        <div class="ticket-stub">
          <QrPicture text={ticket.qr ?? ticket.code} />
          <p class="small-text">{t.value.showAtDoor}</p>
        </div>
      )}
    </article>
  );
}

function QrPicture({ text }: { text: string }) {
  const picture = useSignal<{ side: number; path: string } | null>(null);
  useEffect(() => {
    let gone = false;
    void import("./qr").then(({ qrPath }) => {
      if (!gone) picture.value = qrPath(text);
    });
    return () => {
      gone = true;
    };
  }, [text]);
  if (!picture.value) return <div class="qr" />;
  const { side, path } = picture.value;
  return (
    <svg
      class="qr"
      viewBox={`0 0 ${side} ${side}`}
      role="img"
      aria-label={t.value.qrAlt(text)}
      shape-rendering="crispEdges"
    >
      <rect width={side} height={side} fill="#fff" />
      <path d={path} fill="#000" />
    </svg>
  );
}
