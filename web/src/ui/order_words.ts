//! What a buyer is told of an order's state, true whichever way it got there: by state, and where that says too little by its
//! amounts. The order's page and the list of orders come in here.
import type { Order } from "../proto/messages";
import { t } from "./texts";

type Told = Pick<Order, "state" | "total_minor" | "refunded_minor">;

/** Why an order that is over did not end with its whole price given back; null: it did, or it is not over. */
function over({ state, total_minor, refunded_minor }: Told): "free" | "disputed" | null {
  if (state !== "refunded") return null;
  if (total_minor === 0) return "free";
  // Only a dispute that the buyer's bank decided ends an order with money that we did not give back.
  return refunded_minor < total_minor ? "disputed" : null;
}

/** The state in a word or three. */
export function orderTitle(order: Told): string {
  return over(order) ? t.value.orderOver : t.value.orderState[order.state];
}

/** What it means for the buyer. */
export function orderNote(order: Told): string {
  const why = over(order);
  return why ? t.value.orderOverNote[why] : t.value.orderNote[order.state];
}
