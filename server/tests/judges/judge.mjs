//! Stripe's own library for Node drives the simulator: whatever it cannot read, no client could. Run by scripts/judges.sh.
import assert from "node:assert/strict";
import { createServer } from "node:http";
import { once } from "node:events";
import Stripe from "stripe";

const base = new URL(process.argv[2]);
const options = { host: base.hostname, port: base.port, protocol: "http", maxNetworkRetries: 0 };
const stripe = new Stripe("sk_test_judge", options);
const key = () => `judge-${Math.random()}`;
const create = (more = {}, request = {}) =>
  stripe.paymentIntents.create({ amount: 4750, currency: "eur", payment_method_types: ["card"], ...more }, request);

// Webhooks: the library itself says whether they are signed as they should be.
const secret = "whsec_judge";
const told = [];
const door = createServer(async (request, response) => {
  const chunks = [];
  for await (const chunk of request) chunks.push(chunk);
  told.push({ body: Buffer.concat(chunks).toString(), signature: request.headers["stripe-signature"] });
  response.end();
});
door.listen(0, "127.0.0.1");
await once(door, "listening");
const sim = (what, form) => fetch(new URL(`/_sim/${what}`, base), { method: "POST", body: new URLSearchParams(form) });
await sim("webhooks", { url: `http://127.0.0.1:${door.address().port}/`, secret });

const checks = {
  async "an intent is made, confirmed and read"() {
    const made = await create({ metadata: { order: "ord_1" } });
    assert.equal(made.object, "payment_intent");
    assert.equal(made.status, "requires_payment_method");
    const paid = await stripe.paymentIntents.confirm(made.id, { payment_method: "pm_card_visa", return_url: "https://x.example" });
    assert.equal(paid.status, "succeeded");
    const read = await stripe.paymentIntents.retrieve(made.id, { expand: ["latest_charge"] });
    assert.equal(read.metadata.order, "ord_1");
    assert.equal(read.latest_charge.amount, 4750);
    assert.equal(read.latest_charge.paid, true);
  },
  async "a decline is a card error with its code"() {
    const made = await create();
    await assert.rejects(
      stripe.paymentIntents.confirm(made.id, { payment_method: "pm_card_visa_chargeDeclinedInsufficientFunds" }),
      (error) =>
        error instanceof Stripe.errors.StripeCardError &&
        error.decline_code === "insufficient_funds" &&
        error.payment_intent.status === "requires_payment_method",
    );
  },
  async "a key has one answer and one meaning"() {
    const idempotencyKey = key();
    const first = await create({}, { idempotencyKey });
    const again = await create({}, { idempotencyKey });
    assert.equal(again.id, first.id);
    assert.equal(again.lastResponse.headers["idempotent-replayed"], "true");
    await assert.rejects(create({ amount: 1 }, { idempotencyKey }), Stripe.errors.StripeIdempotencyError);
  },
  async "an approval is asked for"() {
    const made = await create();
    const asked = await stripe.paymentIntents.confirm(made.id, {
      payment_method: "pm_card_authenticationRequired",
      return_url: "https://x.example/back",
    });
    assert.equal(asked.status, "requires_action");
    assert.match(asked.next_action.redirect_to_url.url, /^http/);
    assert.equal((await stripe.paymentIntents.cancel(made.id)).status, "canceled");
  },
  async "a paid intent is not cancelled, and says where it stands"() {
    const paid = await create({ confirm: true, payment_method: "pm_card_visa" });
    await assert.rejects(stripe.paymentIntents.cancel(paid.id), (error) => error.payment_intent?.status === "succeeded");
  },
  async "refunds add up and are listed"() {
    const paid = await create({ confirm: true, payment_method: "pm_card_visa" });
    const part = await stripe.refunds.create({ payment_intent: paid.id, amount: 750, metadata: { refund: "r1" } });
    assert.equal(part.status, "succeeded");
    await stripe.refunds.create({ payment_intent: paid.id });
    await assert.rejects(stripe.refunds.create({ payment_intent: paid.id }), Stripe.errors.StripeInvalidRequestError);
    const list = await stripe.refunds.list({ payment_intent: paid.id });
    assert.deepEqual(list.data.map((refund) => refund.amount).sort(), [4000, 750]);
    assert.equal((await stripe.refunds.retrieve(part.id)).metadata.refund, "r1");
    assert.equal((await stripe.charges.retrieve(paid.latest_charge)).amount_refunded, 4750);
  },
  async "lists are walked to their end"() {
    const ids = new Set();
    for await (const event of stripe.events.list({ limit: 2 })) ids.add(event.id);
    assert.ok(ids.size > 5);
    for await (const event of stripe.events.list({ limit: 1, types: ["payment_intent.succeeded"] })) {
      assert.equal(event.type, "payment_intent.succeeded");
    }
  },
  async "strangers, nonsense and a busy provider are told apart"() {
    await assert.rejects(new Stripe("nonsense", options).paymentIntents.list(), Stripe.errors.StripeAuthenticationError);
    await assert.rejects(stripe.paymentIntents.retrieve("pi_none"), (error) => error.code === "resource_missing");
    await sim("faults", { busy_percent: "100" });
    await assert.rejects(create(), Stripe.errors.StripeRateLimitError);
    await sim("faults", { busy_percent: "0", outage: "fail" });
    await assert.rejects(create(), Stripe.errors.StripeAPIError);
    await sim("faults", { outage: "none" });
  },
  async "webhooks are signed as the library expects"() {
    const paid = await create({ confirm: true, payment_method: "pm_card_visa" });
    // That it was created is told first, on a connection of its own.
    const wanted = () => told.find(({ body }) => body.includes(paid.id) && body.includes("payment_intent.succeeded"));
    for (let n = 0; n < 3000 && !wanted(); n++) {
      await new Promise((resolve) => setTimeout(resolve, 10));
    }
    assert.ok(wanted(), `no webhook tells that ${paid.id} succeeded, among ${told.length}`);
    const { body, signature } = wanted();
    const event = stripe.webhooks.constructEvent(body, signature, secret);
    assert.equal(event.data.object.id, paid.id);
    assert.throws(() => stripe.webhooks.constructEvent(body, signature, "whsec_other"), Stripe.errors.StripeSignatureVerificationError);
    assert.throws(() => stripe.webhooks.constructEvent(`${body} `, signature, secret), Stripe.errors.StripeSignatureVerificationError);
  },
};

let failed = 0;
for (const [name, check] of Object.entries(checks)) {
  try {
    await check();
    console.log(`ok   ${name}`);
  } catch (error) {
    failed++;
    console.log(`FAIL ${name}\n${error.stack}`);
  }
}
console.log(`stripe for Node ${Stripe.PACKAGE_VERSION}: ${Object.keys(checks).length - failed} passed; ${failed} failed`);
door.close();
process.exit(failed ? 1 : 0);
