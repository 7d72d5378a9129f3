//! The shop: pushes of the organiser and of the waiting list become baskets and notices; its commands carry keys.
import { describe, expect, it } from "vitest";
import { type Notice, Shop } from "../src/booking/shop";
import type { EventDetail, Hold, Order, Push } from "../src/proto/messages";
import type { SeatwireClient } from "../src/socket/client";
import { factsAfter } from "../src/state/event_facts";

function holdOf(more: Partial<Hold> = {}): Hold {
  const line = { seat: 2, quantity: 1, price_tier: "A", price_minor: 4000, fee_minor: 500 };
  return {
    id: "hld_1",
    event: "evt_1",
    lines: [line],
    total_minor: 4500,
    currency: "EUR",
    expires_ms: 700_000,
    server_ms: 100_000,
    extended: false,
    locked: false,
    ...more,
  };
}

function open(answer: object = { ok: true }) {
  const sent: { op: string; body: Record<string, unknown> }[] = [];
  const notices: Notice[] = [];
  const client = {
    command: async (op: string, body: Record<string, unknown>) => {
      sent.push({ op, body });
      return answer;
    },
  } as unknown as SeatwireClient;
  const refusal = { code: "offline", number: 0, retry: "now" as const, message: "" };
  const shop = new Shop(
    client,
    (notice) => notices.push(notice),
    async () => ({ ok: false, error: refusal }),
  );
  return { shop, sent, notices };
}

describe("best seats", () => {
  it("are one question with a key, and land in the basket", async () => {
    const hold = holdOf();
    const { shop, sent, notices } = open({ ok: true, hold, added: [2], together: true });
    const wish = { quantity: 1, together: "required", price_tiers: ["A"] } as const;
    expect(await shop.holdBest("evt_1", { ...wish, price_tiers: ["A"] })).toEqual([2]);
    expect(sent.map(({ op }) => op)).toEqual(["hold_best"]);
    expect(sent[0]?.body).toMatchObject({ event: "evt_1", ...wish });
    expect(String(sent[0]?.body.key)).not.toBe("");
    expect(shop.basket("evt_1").value).toMatchObject({ hold, busy: 0 });
    expect(notices).toEqual([]);
  });

  it("are told when there are not enough, by code", async () => {
    const error = { code: "not_enough", number: 2004, retry: "never", message: "", data: { most_together: 1 } };
    const { shop, notices } = open({ ok: false, error });
    expect(await shop.holdBest("evt_1", { quantity: 2, together: "required" })).toBeNull();
    expect(notices).toEqual([{ kind: "refused", refusal: error, event: "evt_1" }]);
    expect(shop.basket("evt_1").value.busy).toBe(0);
  });
});

describe("the waiting list", () => {
  it("shows an offer as a basket with its own time, and says so once", () => {
    const { shop, notices } = open();
    const hold = holdOf({ offer: true });
    shop.pushed({ push: "waitlist.offer", hold } as Push);
    shop.pushed({ push: "hold.update", id: hold.id, hold } as Push);
    expect(shop.basket("evt_1").value.hold).toEqual(hold);
    expect(notices).toEqual([{ kind: "offered", event: "evt_1" }]);
    shop.pushed({ push: "hold.expired", hold } as Push);
    expect(shop.basket("evt_1").value.hold).toBeNull();
    expect(notices[1]).toEqual({ kind: "expired", event: "evt_1" });
  });

  it("joins and leaves with a key each", async () => {
    const place = { place: 3, state: "waiting", quantity: 2, price_tiers: [] };
    const { shop, sent } = open({ ok: true, place });
    const joined = await shop.joinWaitlist("evt_1", 2);
    expect(joined).toEqual({ ok: true, place });
    await shop.leaveWaitlist("evt_1");
    expect(sent.map(({ op }) => op)).toEqual(["waitlist_join", "waitlist_leave"]);
    expect(sent[0].body).toMatchObject({ event: "evt_1", quantity: 2 });
    expect(sent[0].body.key).not.toBe(sent[1].body.key);
  });

  it("tells a refusal by its code", async () => {
    const error = { code: "waitlist_closed", number: 4101, retry: "never", message: "" };
    const { shop, notices } = open({ ok: false, error });
    const joined = await shop.joinWaitlist("evt_1", 2);
    expect(joined.ok).toBe(false);
    expect(notices).toEqual([{ kind: "refused", refusal: error }]);
  });
});

describe("an order", () => {
  const order = (state: string, seats = [2]) =>
    ({ id: "ord_1", event: "evt_1", state, lines: seats.map((seat) => ({ ...holdOf().lines[0], seat })) }) as Order;

  it("locks the hold it was made of while it is open, and uses it up in the end", () => {
    const { shop } = open();
    shop.pushed({ push: "hold.update", id: "hld_1", hold: holdOf() } as Push);
    for (const state of ["payment_pending", "payment_unknown", "payment_declined", "action_required"]) {
      shop.putOrder(order(state));
      expect(shop.basket("evt_1").value.hold, state).toEqual(holdOf({ locked: true }));
    }
    shop.putOrder(order("paid"));
    expect(shop.basket("evt_1").value.hold).toBeNull();
  });

  it("of before says nothing of a new basket, whatever its seats are", () => {
    const { shop } = open();
    shop.pushed({ push: "hold.update", id: "hld_1", hold: holdOf() } as Push);
    for (const state of ["paid", "cancelled", "refunded"]) {
      shop.putOrder(order(state));
      expect(shop.basket("evt_1").value.hold, state).toEqual(holdOf());
    }
    // A basket that is being paid, and an older order listed behind it.
    shop.putOrder({ ...order("payment_pending"), id: "ord_2" });
    shop.putOrder(order("paid"));
    expect(shop.basket("evt_1").value.hold).toEqual(holdOf({ locked: true }));
  });

  it("of other seats leaves the hold alone", () => {
    const { shop } = open();
    shop.pushed({ push: "hold.update", id: "hld_1", hold: holdOf() } as Push);
    shop.putOrder(order("payment_unknown", [3]));
    shop.putOrder(order("paid", [2, 3]));
    expect(shop.basket("evt_1").value.hold).toEqual(holdOf());
  });
});

describe("changes of the organiser", () => {
  it("says why a basket was taken, and only about one's own", () => {
    const { shop, notices } = open();
    shop.pushed({ push: "hold.update", id: "hld_1", hold: holdOf() } as Push);
    shop.pushed({ push: "hold.revoked", hold: holdOf({ id: "hld_2" }), reason: "sold" } as Push);
    expect(notices).toEqual([]);
    shop.pushed({ push: "hold.revoked", hold: holdOf(), reason: "cancelled" } as Push);
    expect(notices).toEqual([{ kind: "revoked", event: "evt_1", reason: "cancelled" }]);
    expect(shop.basket("evt_1").value.hold).toBeNull();
  });

  it("moves state, reason and prices of the event, and nothing else", () => {
    const tier = { code: "A", name: "A", price_minor: 4000, fee_minor: 500 };
    const detail = { state: "on_sale", price_tiers: [tier], seat_count: 4 } as EventDetail;
    const paused = factsAfter(detail, { push: "event.state", state: "paused", reason: "a check" } as Push);
    expect(paused).toMatchObject({ state: "paused", reason: "a check", price_tiers: [tier] });
    const again = factsAfter(paused, { push: "event.state", state: "on_sale" } as Push);
    expect(again.reason).toBeUndefined();
    const dearer = [{ ...tier, price_minor: 6000 }];
    expect(factsAfter(again, { push: "price.change", price_tiers: dearer } as Push).price_tiers).toEqual(dearer);
    expect(factsAfter(detail, { push: "room" } as Push)).toBe(detail);
  });
});
