//! What this buyer holds in one event, and what has been asked for but not answered. A pure reducer.
//! `shop.ts` moves it on taps, replies and pushes; the map and the basket panel show it.
import type { Hold, HoldId } from "../proto/messages";

export interface Basket {
  hold: Hold | null;
  /** seats asked for (true: to hold, false: to release) and not yet answered */
  asked: ReadonlyMap<number, boolean>;
  /** other questions on their way: extend, areas, checkout */
  busy: number;
  /** holds known to be over: a late message about one must not bring it back */
  over: ReadonlySet<HoldId>;
}

export type BasketMove =
  | { type: "ask"; seats: readonly number[]; hold: boolean }
  | { type: "answer"; seats: readonly number[] }
  | { type: "busy"; by: 1 | -1 }
  | { type: "hold"; hold: Hold }
  | { type: "over"; id: HoldId }
  /** hello told all open holds: what is not among them is gone */
  | { type: "greeted"; hold: Hold | null };

export const EMPTY_BASKET: Basket = { hold: null, asked: new Map(), busy: 0, over: new Set() };

export function basketNext(basket: Basket, move: BasketMove): Basket {
  switch (move.type) {
    case "ask": {
      const asked = new Map(basket.asked);
      for (const seat of move.seats) asked.set(seat, move.hold);
      return { ...basket, asked };
    }
    case "answer": {
      const asked = new Map(basket.asked);
      for (const seat of move.seats) asked.delete(seat);
      return { ...basket, asked };
    }
    case "busy":
      return { ...basket, busy: basket.busy + move.by };
    case "hold": {
      const { hold } = move;
      const older = basket.hold?.id === hold.id && hold.server_ms < basket.hold.server_ms;
      return older || basket.over.has(hold.id) ? basket : { ...basket, hold };
    }
    case "over": {
      const over = new Set(basket.over).add(move.id);
      return { ...basket, over, hold: basket.hold?.id === move.id ? null : basket.hold };
    }
    case "greeted": {
      if (move.hold) return basketNext({ ...basket, hold: null }, { type: "hold", hold: move.hold });
      return basket.hold ? basketNext(basket, { type: "over", id: basket.hold.id }) : basket;
    }
  }
}

/** Seats of the hold, those being released included until the server has said so. */
export function mySeats(basket: Basket): Set<number> {
  const seats = new Set<number>();
  for (const line of basket.hold?.lines ?? []) if (line.seat !== undefined) seats.add(line.seat);
  return seats;
}

/** Seats to show as on their way, in or out. */
export function pendingSeats(basket: Basket): Set<number> {
  const mine = mySeats(basket);
  const pending = new Set<number>();
  for (const [seat, hold] of basket.asked) if (hold !== mine.has(seat)) pending.add(seat);
  return pending;
}

export function placeCount(hold: Hold | null): number {
  return hold?.lines.reduce((sum, line) => sum + line.quantity, 0) ?? 0;
}

/** Prices and fees of a hold or an order, each summed over its lines. */
export function sums(lines: Hold["lines"]): { pricesMinor: number; feesMinor: number } {
  let pricesMinor = 0;
  let feesMinor = 0;
  for (const line of lines) {
    pricesMinor += line.quantity * line.price_minor;
    feesMinor += line.quantity * line.fee_minor;
  }
  return { pricesMinor, feesMinor };
}
