//! What a push about an event does to what the page knows of it. Pure; `ui/live_event.ts` moves its facts by it.
import type { EventDetail, Push } from "../proto/messages";

/** The facts after a push; the same object when the push is about something else. */
export function factsAfter(detail: EventDetail, push: Push): EventDetail {
  switch (push.push) {
    case "event.state": {
      const reason = typeof push.reason === "string" ? push.reason : undefined;
      return { ...detail, state: push.state as EventDetail["state"], reason };
    }
    case "price.change":
      return { ...detail, price_tiers: push.price_tiers as EventDetail["price_tiers"] };
    default:
      return detail;
  }
}
