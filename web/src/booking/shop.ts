//! The buyer's side of the counter: taps become commands with keys, answers become baskets, orders and notices.
//! `app.ts` makes one for the page and feeds it hello and pushes; pages call its verbs and read its signals.
import { type Signal, signal } from "@preact/signals";
import type {
  Answer,
  EventId,
  HelloReply,
  Hold,
  HoldId,
  HoldLine,
  HoldReply,
  Order,
  OrderId,
  OrderReply,
  OrderState,
  Push,
  Refusal,
  UnlockReply,
  WaitlistReply,
} from "../proto/messages";
import type { SeatwireClient } from "../socket/client";
import { type Basket, type BasketMove, basketNext, EMPTY_BASKET, mySeats } from "./basket";
import { newKey } from "./key";

/** Something the buyer must hear of, by code; `urgent` for their own loss. */
export type Notice =
  | { kind: "refused"; refusal: Refusal; event?: EventId }
  /** `gone`: after a reconnect the server no longer knows the hold */
  | { kind: "expired" | "gone"; event: EventId }
  /** taken back: the event is over, or the seats are another's */
  | { kind: "revoked"; event: EventId; reason: string }
  /** the waiting list's turn */
  | { kind: "offered"; event: EventId }
  | { kind: "extended" | "prices" }
  | { kind: "seat_lost"; event: EventId; alternatives: number[][] };

export interface Buyer {
  name: string;
  email: string;
  /** of the messages about the order */
  lang: string;
}

/** What best seats are wished for; the members are those of the command. */
export interface BestWish {
  quantity: number;
  together: "required" | "preferred" | "no";
  price_tiers?: string[];
}

/** An order that may still be paid, or may have been. */
const OPEN: OrderState[] = ["payment_pending", "action_required", "payment_declined", "payment_unknown"];
/** An order whose hold is over. */
const SETTLED: OrderState[] = ["paid", "cancelled", "refund_due", "refunded"];

export class Shop {
  readonly orders = signal<ReadonlyMap<OrderId, Order>>(new Map());
  /** the hold each order was made of, as far as this page has seen it: an old order says nothing of a new basket */
  readonly #made = new Map<OrderId, HoldId>();
  readonly #client: SeatwireClient;
  readonly #notify: (notice: Notice) => void;
  /** asks the server for one hold, by its id */
  readonly #readHold: (hold: string) => Promise<Answer<HoldReply>>;
  #baskets = new Map<EventId, Signal<Basket>>();

  constructor(
    client: SeatwireClient,
    notify: (notice: Notice) => void,
    readHold: (hold: string) => Promise<Answer<HoldReply>>,
  ) {
    this.#client = client;
    this.#readHold = readHold;
    this.#notify = notify;
  }

  basket(event: EventId): Signal<Basket> {
    let basket = this.#baskets.get(event);
    if (!basket) {
      basket = signal(EMPTY_BASKET);
      this.#baskets.set(event, basket);
    }
    return basket;
  }

  /** The order a locked hold belongs to, as far as this page knows. */
  openOrder(event: EventId): Order | undefined {
    return [...this.orders.value.values()].find((order) => order.event === event && OPEN.includes(order.state));
  }

  /** A tap on a seat: hold it, or let it go when it is one's own. Ignored while an answer is on its way. */
  async tapSeat(event: EventId, seat: number): Promise<void> {
    const basket = this.basket(event).value;
    if (basket.asked.has(seat)) return;
    if (mySeats(basket).has(seat)) await this.releaseSeats(event, [seat]);
    else await this.holdSeats(event, [seat]);
  }

  async holdSeats(event: EventId, seats: number[]): Promise<void> {
    this.#move(event, { type: "ask", seats, hold: true });
    const answer = await this.#client.command<HoldReply>("hold", { event, seats, key: newKey() });
    this.#settle(event, answer);
    this.#move(event, { type: "answer", seats });
    if (answer.ok || answer.error.code !== "seat_taken") return;
    const offered = answer.error.data?.alternatives;
    this.#notify({ kind: "seat_lost", event, alternatives: Array.isArray(offered) ? (offered as number[][]) : [] });
  }

  /** N good seats in one question; the seats that were added, or null when it was refused. */
  async holdBest(event: EventId, wish: BestWish): Promise<number[] | null> {
    let added: number[] | null = null;
    await this.#while(event, async () => {
      const body = { event, ...wish, key: newKey() };
      const answer = await this.#client.command<HoldReply>("hold_best", body);
      if (answer.ok) added = answer.added ?? [];
      return this.#settle(event, answer);
    });
    return added;
  }

  async holdArea(event: EventId, area: number, quantity: number): Promise<boolean> {
    return this.#while(event, async () => {
      const answer = await this.#client.command<HoldReply>("hold_area", { event, area, quantity, key: newKey() });
      return this.#settle(event, answer);
    });
  }

  async releaseSeats(event: EventId, seats: number[]): Promise<void> {
    const hold = this.basket(event).value.hold;
    if (!hold) return;
    this.#move(event, { type: "ask", seats, hold: false });
    const answer = await this.#client.command<HoldReply>("release", { hold: hold.id, seats, key: newKey() });
    this.#settle(event, answer, hold);
    this.#move(event, { type: "answer", seats });
  }

  async releaseArea(event: EventId, area: number, quantity: number): Promise<void> {
    const hold = this.basket(event).value.hold;
    if (!hold) return;
    await this.#while(event, async () => {
      const body = { hold: hold.id, areas: [{ area, quantity }], key: newKey() };
      return this.#settle(event, await this.#client.command<HoldReply>("release", body), hold);
    });
  }

  async releaseAll(event: EventId): Promise<void> {
    const hold = this.basket(event).value.hold;
    if (!hold) return;
    await this.#while(event, async () =>
      this.#settle(event, await this.#client.command<HoldReply>("release", { hold: hold.id, key: newKey() }), hold),
    );
  }

  async extend(event: EventId): Promise<void> {
    const hold = this.basket(event).value.hold;
    if (!hold) return;
    await this.#while(event, async () => {
      const answer = await this.#client.command<HoldReply>("extend", { hold: hold.id, key: newKey() });
      if (answer.ok) this.#notify({ kind: "extended" });
      return this.#settle(event, answer, hold);
    });
  }

  /** A presale code; the refusal comes back to the form it was typed in. */
  unlock(event: EventId, code: string): Promise<Answer<UnlockReply>> {
    return this.#client.command<UnlockReply>("unlock", { event, code, key: newKey() });
  }

  joinWaitlist(event: EventId, quantity: number): Promise<Answer<WaitlistReply>> {
    return this.#waitlist("waitlist_join", { event, quantity, key: newKey() });
  }

  leaveWaitlist(event: EventId): Promise<Answer<WaitlistReply>> {
    return this.#waitlist("waitlist_leave", { event, key: newKey() });
  }

  async #waitlist(op: string, body: Record<string, unknown>): Promise<Answer<WaitlistReply>> {
    const answer = await this.#client.command<WaitlistReply>(op, body);
    if (!answer.ok) this.#notify({ kind: "refused", refusal: answer.error });
    return answer;
  }

  /** Begins an order from the hold. The refusal comes back to the form; the order also lands in `orders`. */
  async checkout(event: EventId, hold: Hold, buyer: Buyer, method: string): Promise<Answer<OrderReply>> {
    this.#move(event, { type: "busy", by: 1 });
    const answer = await this.#client.command<OrderReply>("checkout", {
      hold: hold.id,
      buyer,
      payment: { method },
      expect_total_minor: hold.total_minor,
      key: newKey(),
    });
    this.#move(event, { type: "busy", by: -1 });
    if (answer.ok) {
      this.#made.set(answer.order.id, hold.id);
      this.putOrder(answer.order);
    } else if (holdIsOver(answer.error)) this.#move(event, { type: "over", id: hold.id });
    return answer;
  }

  async pay(order: OrderId, method: string): Promise<Answer<OrderReply>> {
    const answer = await this.#client.command<OrderReply>("pay", { order, payment: { method }, key: newKey() });
    if (answer.ok) this.putOrder(answer.order);
    return answer;
  }

  async cancel(order: OrderId): Promise<Answer<OrderReply>> {
    const answer = await this.#client.command<OrderReply>("cancel", { order, key: newKey() });
    if (answer.ok) this.putOrder(answer.order);
    else this.#notify({ kind: "refused", refusal: answer.error });
    return answer;
  }

  putOrder(order: Order): void {
    this.orders.value = new Map(this.orders.value).set(order.id, order);
    // The push about the hold may come later or not at all. An open order keeps its hold locked, and whoever comes back to
    // the map must not be asked to pay for the same seats again; a settled one has used it up.
    const hold = this.basket(order.event).value.hold;
    if (!hold) return;
    if (OPEN.includes(order.state) && (this.#made.get(order.id) ?? hold.id) === hold.id && isOf(hold, order)) {
      this.#made.set(order.id, hold.id);
      this.#move(order.event, { type: "hold", hold: { ...hold, locked: true } });
    } else if (SETTLED.includes(order.state) && this.#made.get(order.id) === hold.id) {
      this.#move(order.event, { type: "over", id: hold.id });
    }
  }

  greeted(hello: HelloReply): void {
    for (const order of hello.orders ?? []) this.putOrder(order);
    const holds = hello.holds ?? [];
    for (const hold of holds) this.basket(hold.event);
    for (const event of this.#baskets.keys()) {
      const hold = holds.find((one) => one.event === event) ?? null;
      const before = this.basket(event).value.hold;
      if (hold || !before) this.#move(event, { type: "greeted", hold });
      else void this.#verify(event, before);
    }
  }

  /** Hello names what the node knows of; a hold it does not name is looked up before the buyer hears that it is gone. */
  async #verify(event: EventId, before: Hold): Promise<void> {
    const answer = await this.#readHold(before.id);
    if (this.basket(event).value.hold?.id !== before.id) return;
    if (answer.ok && answer.hold) this.#move(event, { type: "hold", hold: answer.hold });
    else if (answer.ok || holdIsOver(answer.error)) {
      if (!before.locked) this.#notify({ kind: "gone", event });
      this.#move(event, { type: "greeted", hold: null });
    }
  }

  pushed(push: Push): void {
    const hold = push.hold as Hold | null | undefined;
    switch (push.push) {
      case "hold.update":
        if (hold) this.#move(hold.event, { type: "hold", hold });
        else this.#over(String(push.id));
        break;
      case "hold.expiring":
        if (hold) this.#move(hold.event, { type: "hold", hold });
        break;
      case "waitlist.offer":
        if (!hold) break;
        this.#notify({ kind: "offered", event: hold.event });
        this.#move(hold.event, { type: "hold", hold });
        break;
      case "hold.expired":
      case "hold.revoked":
        if (!hold) break;
        if (this.basket(hold.event).value.hold?.id === hold.id) {
          const { event } = hold;
          if (push.push === "hold.expired") this.#notify({ kind: "expired", event });
          else this.#notify({ kind: "revoked", event, reason: String(push.reason) });
        }
        this.#move(hold.event, { type: "over", id: hold.id });
        break;
      case "order.update":
        this.putOrder(push.order as Order);
        break;
    }
  }

  #over(id: string): void {
    for (const event of this.#baskets.keys()) {
      if (this.basket(event).value.hold?.id === id) this.#move(event, { type: "over", id });
    }
  }

  async #while(event: EventId, work: () => Promise<boolean>): Promise<boolean> {
    this.#move(event, { type: "busy", by: 1 });
    try {
      return await work();
    } finally {
      this.#move(event, { type: "busy", by: -1 });
    }
  }

  /** Takes an inventory answer into the basket. `before` is the hold the command named. True when it was ok. */
  #settle(event: EventId, answer: Answer<HoldReply>, before?: Hold): boolean {
    if (answer.ok) {
      if (answer.hold) this.#move(event, { type: "hold", hold: answer.hold });
      else if (before) this.#move(event, { type: "over", id: before.id });
      return true;
    }
    const { error } = answer;
    if (before && holdIsOver(error)) this.#move(event, { type: "over", id: before.id });
    if (error.code !== "seat_taken") this.#notify({ kind: "refused", refusal: error, event });
    return false;
  }

  #move(event: EventId, move: BasketMove): void {
    const basket = this.basket(event);
    basket.value = basketNext(basket.value, move);
  }
}

/** Whether the hold has the places of this order, and no others. */
function isOf(hold: Hold, order: Order): boolean {
  const places = (lines: HoldLine[]) =>
    lines
      .map(({ seat, area, quantity }) => `${seat ?? "area"} ${area ?? ""} ${quantity}`)
      .sort()
      .join();
  return places(hold.lines) === places(order.lines);
}

function holdIsOver(error: Refusal): boolean {
  return error.code === "hold_expired" || error.code === "hold_not_found";
}
