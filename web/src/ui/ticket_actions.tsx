//! What a buyer does with tickets besides showing them: print them all, pass one on. Under one key a try, so that a lost answer
//! passes nothing on twice. Loaded with the tickets.
import { useSignal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import { app } from "../app";
import { newKey } from "../booking/key";
import type { Order, Ticket } from "../proto/messages";
import { Spinner } from "./page";
import { errorText, t } from "./texts";

const SECRET_HEADER = "Seatwire-Pay-Secret";
/** Longest wait for the document or the answer. */
const ANSWER_WITHIN_MS = 15_000;

async function headers(secret?: string): Promise<Record<string, string>> {
  return secret ? { [SECRET_HEADER]: secret } : { Authorization: `Bearer ${await app.api.token()}` };
}

/** The tickets as a PDF: fetched, since the order's secret travels in a header, then handed to the browser. */
export function PrintTickets({ order, secret }: { order: Order; secret?: string }) {
  const busy = useSignal(false);
  const refusal = useSignal("");
  const save = async () => {
    busy.value = true;
    refusal.value = "";
    try {
      const path = `/v1/orders/${encodeURIComponent(order.id)}/tickets.pdf`;
      const signal = AbortSignal.timeout(ANSWER_WITHIN_MS);
      const response = await fetch(path, { headers: await headers(secret), signal });
      if (!response.ok) throw new Error(String(response.status));
      const link = document.createElement("a");
      link.href = URL.createObjectURL(await response.blob());
      link.download = `tickets-${order.reference}.pdf`;
      link.click();
      setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
    } catch {
      refusal.value = errorText("offline");
    }
    busy.value = false;
  };
  return (
    <div class="ticket-print">
      <button type="button" class="button quiet small" disabled={busy.value} onClick={() => void save()}>
        {busy.value ? <Spinner /> : null} {t.value.printTickets}
      </button>
      <span role="alert">{refusal.value && <span class="refusal">{refusal.value}</span>}</span>
    </div>
  );
}

/** Gives one ticket to somebody else. */
export function PassOn({ order, ticket, words }: { order: Order; ticket: Ticket; words: string }) {
  const open = useSignal(false);
  const busy = useSignal(false);
  const refusal = useSignal("");
  const key = useRef(newKey());
  /** whom the key stands for */
  const meant = useRef("");
  const name = useRef<HTMLInputElement>(null);
  const email = useRef<HTMLInputElement>(null);
  const opener = useRef<HTMLButtonElement>(null);
  useEffect(() => {
    if (open.value) name.current?.focus();
  }, [open.value]);
  if (!open.value) {
    return (
      <button
        ref={opener}
        type="button"
        class="button text"
        aria-label={`${t.value.passOn.open}: ${words}`}
        onClick={() => (open.value = true)}
      >
        {t.value.passOn.open}
      </button>
    );
  }
  const send = async (event: Event) => {
    event.preventDefault();
    const to = { name: name.current?.value.trim() ?? "", email: email.current?.value.trim() ?? "" };
    const wrong = !to.name ? name : /^[^\s@]+@[^\s@]+\.[^\s@]+$/.test(to.email) ? null : email;
    if (wrong) {
      refusal.value = wrong === name ? t.value.passOn.nameMissing : t.value.emailBad;
      wrong.current?.focus();
      return;
    }
    const person = JSON.stringify(to);
    // Under one key it can be asked again whatever the answer was; with another person the same key would be refused.
    if (meant.current && meant.current !== person) key.current = newKey();
    meant.current = person;
    busy.value = true;
    refusal.value = "";
    try {
      const path = `/v1/orders/${encodeURIComponent(order.id)}/tickets/${encodeURIComponent(ticket.id)}/transfer`;
      const response = await fetch(path, {
        method: "POST",
        headers: { ...(await headers()), "Content-Type": "application/json", "Idempotency-Key": key.current },
        body: JSON.stringify({ to }),
        signal: AbortSignal.timeout(ANSWER_WITHIN_MS),
      });
      const answer = (await response.json()) as { order?: Order; error?: { code: string } };
      if (answer.order) app.shop.putOrder(answer.order);
      else refusal.value = errorText(answer.error?.code ?? "offline");
    } catch {
      refusal.value = errorText("offline");
    }
    busy.value = false;
  };
  return (
    <form
      class="pass-on"
      noValidate
      aria-label={`${t.value.passOn.open}: ${words}`}
      onSubmit={(event) => void send(event)}
    >
      <p class="small-text">{t.value.passOn.note}</p>
      <label class="field">
        <span>{t.value.passOn.name}</span>
        <input ref={name} name="to-name" autocomplete="off" maxLength={120} />
      </label>
      <label class="field">
        <span>{t.value.passOn.email}</span>
        <input ref={email} name="to-email" type="email" inputMode="email" autocomplete="off" maxLength={254} />
      </label>
      <span role="alert">{refusal.value && <span class="refusal">{refusal.value}</span>}</span>
      <div class="pass-on-row">
        <button type="submit" class="button small" disabled={busy.value}>
          {busy.value ? <Spinner /> : null} {t.value.passOn.send}
        </button>
        <button
          type="button"
          class="button quiet small"
          onClick={() => {
            open.value = false;
            requestAnimationFrame(() => opener.current?.focus());
          }}
        >
          {t.value.passOn.keep}
        </button>
      </div>
    </form>
  );
}
