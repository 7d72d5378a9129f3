//! The basket's reducer and its countdown: what a buyer sees as theirs, on their way, and how long.
import { describe, expect, it } from "vitest";
import { type Basket, basketNext, EMPTY_BASKET, mySeats, pendingSeats, placeCount, sums } from "../src/booking/basket";
import { clockText, leftMs, spokenBetween } from "../src/booking/countdown";
import type { Hold } from "../src/proto/messages";

function holdOf(seats: number[], more: Partial<Hold> = {}): Hold {
  const lines = seats.map((seat) => ({ seat, quantity: 1, price_tier: "A", price_minor: 4000, fee_minor: 500 }));
  return {
    id: "hld_1",
    event: "evt_1",
    lines,
    total_minor: 4500 * seats.length,
    currency: "EUR",
    expires_ms: 700_000,
    server_ms: 100_000,
    extended: false,
    locked: false,
    ...more,
  };
}

const withHold = (hold: Hold): Basket => basketNext(EMPTY_BASKET, { type: "hold", hold });

describe("basket", () => {
  it("shows a seat as on its way until the answer, then as mine", () => {
    let basket = basketNext(EMPTY_BASKET, { type: "ask", seats: [7], hold: true });
    expect([...pendingSeats(basket)]).toEqual([7]);
    expect(mySeats(basket).size).toBe(0);
    basket = basketNext(basket, { type: "hold", hold: holdOf([7]) });
    basket = basketNext(basket, { type: "answer", seats: [7] });
    expect(pendingSeats(basket).size).toBe(0);
    expect([...mySeats(basket)]).toEqual([7]);
  });

  it("lets a refused seat go without a trace", () => {
    const asked = basketNext(withHold(holdOf([1])), { type: "ask", seats: [2], hold: true });
    const basket = basketNext(asked, { type: "answer", seats: [2] });
    expect([...mySeats(basket)]).toEqual([1]);
    expect(pendingSeats(basket).size).toBe(0);
  });

  it("keeps a seat that is being released until the server says so", () => {
    const basket = basketNext(withHold(holdOf([1, 2])), { type: "ask", seats: [2], hold: false });
    expect([...mySeats(basket)]).toEqual([1, 2]);
    expect([...pendingSeats(basket)]).toEqual([2]);
  });

  it("ignores an older picture of the same hold", () => {
    const basket = withHold(holdOf([1, 2], { server_ms: 200 }));
    const late = basketNext(basket, { type: "hold", hold: holdOf([1], { server_ms: 100 }) });
    expect([...mySeats(late)]).toEqual([1, 2]);
  });

  it("never brings back a hold that is over", () => {
    const over = basketNext(withHold(holdOf([1])), { type: "over", id: "hld_1" });
    expect(over.hold).toBeNull();
    expect(basketNext(over, { type: "hold", hold: holdOf([1], { server_ms: 999_999 }) }).hold).toBeNull();
    expect(basketNext(over, { type: "hold", hold: holdOf([3], { id: "hld_2" }) }).hold?.id).toBe("hld_2");
  });

  it("is what hello says after a reconnect", () => {
    const basket = withHold(holdOf([1, 2]));
    expect(basketNext(basket, { type: "greeted", hold: holdOf([1], { server_ms: 5 }) }).hold?.lines.length).toBe(1);
    const gone = basketNext(basket, { type: "greeted", hold: null });
    expect(gone.hold).toBeNull();
    expect(gone.over.has("hld_1")).toBe(true);
  });

  it("counts places and sums prices and fees by quantity", () => {
    const hold = holdOf([1]);
    hold.lines.push({ area: 0, quantity: 3, price_tier: "B", price_minor: 2000, fee_minor: 100 });
    expect(placeCount(hold)).toBe(4);
    expect(sums(hold.lines)).toEqual({ pricesMinor: 10_000, feesMinor: 800 });
  });
});

describe("countdown", () => {
  it("ends two seconds before the server does", () => {
    expect(leftMs(100_000, 40_000)).toBe(58_000);
    expect(leftMs(100_000, 98_000)).toBe(0);
    expect(leftMs(100_000, 200_000)).toBe(0);
  });

  it("reads as minutes and seconds", () => {
    expect(clockText(598_000)).toBe("9:58");
    expect(clockText(59_001)).toBe("1:00");
    expect(clockText(400)).toBe("0:01");
    expect(clockText(0)).toBe("0:00");
  });

  it("speaks at five minutes, one minute and half a minute, each once", () => {
    const spoken: number[] = [];
    for (let ms = 600_000; ms > 0; ms -= 250) {
      const due = spokenBetween(ms, ms - 250);
      if (due) spoken.push(due);
    }
    expect(spoken).toEqual([300, 60, 30]);
  });

  it("speaks only of the latest after a sleep", () => {
    expect(spokenBetween(400_000, 25_000)).toBe(30);
    expect(spokenBetween(400_000, 0)).toBeNull();
  });
});
