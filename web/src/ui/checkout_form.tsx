//! Name, email, payment: turns the hold into an order and goes to the order's page, whatever its state.
import { type Signal, useSignal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import { app } from "../app";
import { placeCount } from "../booking/basket";
import { clockText } from "../booking/countdown";
import type { Hold } from "../proto/messages";
import { money } from "./format";
import { BackIcon, LockIcon } from "./icons";
import { Spinner } from "./page";
import { FIRST_METHOD, PaymentChoice } from "./payment_choice";
import { go } from "./router";
import { lang, refusalText, t } from "./texts";
import { Timer } from "./timer";

const BUYER_ITEM = "seatwire.buyer";

/** Kept for this tab only, so that a second try after a mistake need not be typed again. */
function knownBuyer(): { name: string; email: string } {
  try {
    return { name: "", email: "", ...JSON.parse(sessionStorage.getItem(BUYER_ITEM) ?? "{}") };
  } catch {
    return { name: "", email: "" };
  }
}

interface Props {
  hold: Hold;
  left: number;
  totalMs: number;
  /** what is being paid, from the press of the button to its answer */
  paying: Signal<Hold | null>;
  back: () => void;
}

export function CheckoutForm({ hold, left, totalMs, paying, back }: Props) {
  const buyer = useSignal(knownBuyer());
  const method = useSignal(FIRST_METHOD);
  const tried = useSignal(false);
  const refusal = useSignal("");
  const heading = useRef<HTMLHeadingElement>(null);
  const form = useRef<HTMLFormElement>(null);

  useEffect(() => heading.current?.focus(), []);

  const nameBad = buyer.value.name.trim() === "";
  const emailBad = !/^[^\s@]+@[^\s@]+\.[^\s@]+$/.test(buyer.value.email.trim());

  const submit = async (event: Event) => {
    event.preventDefault();
    tried.value = true;
    if (nameBad || emailBad) {
      form.current?.querySelector<HTMLInputElement>(nameBad ? "[name=name]" : "[name=email]")?.focus();
      return;
    }
    if (paying.value) return;
    paying.value = hold;
    refusal.value = "";
    const asked = { name: buyer.value.name.trim(), email: buyer.value.email.trim(), lang: lang.value };
    try {
      sessionStorage.setItem(BUYER_ITEM, JSON.stringify(asked));
    } catch {
      // Typing it again is all that is lost.
    }
    const answer = await app.shop.checkout(hold.event, hold, asked, method.value);
    if (answer.ok) go(`/orders/${answer.order.id}`);
    paying.value = null;
    if (answer.ok) return;
    const total = answer.error.data?.total_minor;
    refusal.value =
      answer.error.code === "price_changed" && typeof total === "number"
        ? t.value.totalChanged(money(total, hold.currency))
        : refusalText(answer.error);
    if (answer.error.code === "hold_locked" && typeof answer.error.data?.order === "string") {
      go(`/orders/${answer.error.data.order}`);
    }
  };

  return (
    <form ref={form} class="checkout" noValidate onSubmit={submit}>
      <div class="panel-head">
        <button type="button" class="icon-button" aria-label={t.value.backToBasket} onClick={back}>
          <BackIcon />
        </button>
        <h2 ref={heading} tabIndex={-1}>
          {t.value.checkoutTitle}
        </h2>
        <Timer left={left} totalMs={totalMs} />
      </div>
      <div class="panel-body">
        <fieldset class="fields">
          <legend>{t.value.yourDetails}</legend>
          <label class="field">
            <span>{t.value.name}</span>
            <input
              name="name"
              autocomplete="name"
              maxLength={120}
              value={buyer.value.name}
              aria-invalid={tried.value && nameBad}
              aria-describedby={tried.value && nameBad ? "name-error" : undefined}
              onInput={(event) => {
                buyer.value = { ...buyer.value, name: event.currentTarget.value };
              }}
            />
            {tried.value && nameBad && (
              <span id="name-error" class="field-error">
                {t.value.nameMissing}
              </span>
            )}
          </label>
          <label class="field">
            <span>{t.value.email}</span>
            <input
              name="email"
              type="email"
              inputMode="email"
              autocomplete="email"
              maxLength={254}
              value={buyer.value.email}
              aria-invalid={tried.value && emailBad}
              aria-describedby={tried.value && emailBad ? "email-error" : "email-hint"}
              onInput={(event) => {
                buyer.value = { ...buyer.value, email: event.currentTarget.value };
              }}
            />
            {tried.value && emailBad ? (
              <span id="email-error" class="field-error">
                {t.value.emailBad}
              </span>
            ) : (
              <span id="email-hint" class="muted small-text">
                {t.value.emailHint}
              </span>
            )}
          </label>
        </fieldset>
        <PaymentChoice method={method.value} choose={(id) => (method.value = id)} />
      </div>
      <div class="panel-foot">
        {refusal.value && (
          <p class="refusal" role="alert">
            {refusal.value}
          </p>
        )}
        <div class="sum-row">
          <span class="muted">{t.value.ticketsCount(placeCount(hold))}</span>
          <strong>{money(hold.total_minor, hold.currency)}</strong>
        </div>
        <button type="submit" class="button wide" disabled={paying.value !== null || left === 0}>
          {paying.value ? (
            <>
              <Spinner /> {t.value.paying}
            </>
          ) : (
            <>
              <LockIcon size={18} /> {t.value.payNow(money(hold.total_minor, hold.currency))}
            </>
          )}
        </button>
        <span class="visually-hidden">{t.value.timeLeftLong(clockText(left))}</span>
      </div>
    </form>
  );
}
