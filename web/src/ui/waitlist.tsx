//! The waiting list of a sold-out event: join, where one stands, leave. Fetched when an event is sold out; what is offered
//! comes as a hold and is shown by the basket.
import { useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { app } from "../app";
import type { WaitlistPlace } from "../proto/messages";
import type { LiveEvent } from "./live_event";
import { Stepper } from "./stepper";
import { t } from "./texts";

/** How often the place is asked for while it is shown: people before one come and go. */
const PLACE_EVERY_MS = 15_000;

export function Waitlist({ event }: { event: LiveEvent }) {
  const place = useSignal<WaitlistPlace | null>(null);
  const quantity = useSignal(1);
  const busy = useSignal(false);
  const most = event.detail.value?.rules.seats_per_identity ?? 1;

  useEffect(() => {
    let gone = false;
    const look = async () => {
      const answer = await app.api.waitlistPlace(event.id);
      if (gone || busy.value) return;
      if (answer.ok) place.value = answer.place;
      else if (answer.error.code === "place_unknown") place.value = null;
    };
    void look();
    const timer = setInterval(() => void look(), PLACE_EVERY_MS);
    return () => {
      gone = true;
      clearInterval(timer);
    };
  }, [event.id]);

  const ask = async (joins: boolean) => {
    busy.value = true;
    const answer = await (joins ? app.shop.joinWaitlist(event.id, quantity.value) : app.shop.leaveWaitlist(event.id));
    busy.value = false;
    if (answer.ok) place.value = answer.place;
    else if (answer.error.code === "place_unknown") place.value = null;
  };

  return (
    <section class="waitlist" aria-label={t.value.waitlist}>
      <h3>{t.value.waitlist}</h3>
      {place.value ? (
        <>
          <p role="status">
            <strong>{t.value.waitlistPlace(place.value.place)}</strong> {t.value.ticketsCount(place.value.quantity)}
          </p>
          <p class="muted">{t.value.waitlistStay}</p>
          <button type="button" class="button quiet" disabled={busy.value} onClick={() => void ask(false)}>
            {t.value.waitlistLeave}
          </button>
        </>
      ) : (
        <>
          <p class="muted">{t.value.waitlistHint}</p>
          <Stepper value={quantity.value} most={most} change={(seats) => (quantity.value = seats)} />
          <button type="button" class="button wide" disabled={busy.value} onClick={() => void ask(true)}>
            {t.value.waitlistJoin}
          </button>
        </>
      )}
    </section>
  );
}
