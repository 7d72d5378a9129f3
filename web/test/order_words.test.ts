//! What a buyer reads of an order is true for every way into its state, in every language.
import { afterEach, expect, it } from "vitest";
import type { OrderState } from "../src/proto/messages";
import { money } from "../src/ui/format";
import { orderNote, orderTitle } from "../src/ui/order_words";
import { lang, t } from "../src/ui/texts";
import { de } from "../src/ui/texts_de";
import { en } from "../src/ui/texts_en";

afterEach(() => {
  t.value = en;
  lang.value = "en";
});

const order = (state: OrderState, refunded_minor: number, total_minor = 9500) => ({
  state,
  refunded_minor,
  total_minor,
});

it.each([en, de])("an order is called refunded in full only where it was", (texts) => {
  t.value = texts;
  expect(orderNote(order("refunded", 9500))).toBe(texts.orderNote.refunded);
  expect(orderTitle(order("refunded", 9500))).toBe(texts.orderState.refunded);
  // A dispute that was lost: nothing, or only the part from before, went back through us.
  for (const given of [0, 4750]) {
    expect(orderNote(order("refunded", given))).toBe(texts.orderOverNote.disputed);
    expect(orderTitle(order("refunded", given))).toBe(texts.orderOver);
  }
  expect(orderNote(order("refunded", 0, 0))).toBe(texts.orderOverNote.free);
  // Amounts of other states mean nothing of the kind.
  for (const state of ["paid", "partially_refunded", "refund_due", "cancelled", "payment_unknown"] as const) {
    expect(orderNote(order(state, 0))).toBe(texts.orderNote[state]);
    expect(orderTitle(order(state, 0))).toBe(texts.orderState[state]);
  }
});

it("money that is due back is not said to be all of it, to be on its way, or to need nobody", () => {
  expect(en.orderNote.refund_due).not.toMatch(/in full|full amount|need not/);
  expect(de.orderNote.refund_due).not.toMatch(/vollen Betrag|nichts tun/);
  expect(en.orderNote.refund_due).toMatch(/or a part.*if it fails/);
  expect(de.orderNote.refund_due).toMatch(/oder ein Teil.*scheitert/);
  expect(en.orderState.refund_due).not.toMatch(/way/);
  expect(de.orderState.refund_due).not.toMatch(/unterwegs/);
});

it("an unknown payment does not promise seats that may have been given back", () => {
  expect(en.orderNote.payment_unknown).not.toMatch(/stay locked|did not answer/);
  expect(de.orderNote.payment_unknown).not.toMatch(/bleiben gesperrt|nicht geantwortet/);
  expect(en.orderNote.payment_unknown).toMatch(/given back.*or all your money/);
  expect(de.orderNote.payment_unknown).toMatch(/wieder frei.*dein ganzes Geld/);
});

it("amounts have the decimals their currency is counted in, not those a browser likes to show", () => {
  expect(money(4750, "EUR")).toMatch(/47\.50/);
  expect(money(475_000, "HUF")).toMatch(/4,750\.00/);
  expect(money(1234, "KWD")).toMatch(/1\.234/);
  expect(money(500, "JPY")).toMatch(/500$/);
  expect(money(500, "ISK")).toMatch(/500$/);
  expect(money(4700, "EUR", true)).toMatch(/47$/);
  expect(money(4750, "EUR", true)).toMatch(/47\.50/);
});
