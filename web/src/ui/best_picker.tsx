//! How many good seats, at what price, side by side or not: a small dialog over the map. Fetched when it is asked for.
import { useSignal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import { app } from "../app";
import { placeCount } from "../booking/basket";
import { money } from "./format";
import { CloseIcon } from "./icons";
import type { LiveEvent } from "./live_event";
import { Stepper } from "./stepper";
import { t } from "./texts";

interface Props {
  event: LiveEvent;
  /** prices chosen above the map; none = all */
  tiers: ReadonlySet<string>;
  /** the first of the seats that were held */
  found: (seat: number) => void;
  close: () => void;
}

export function BestPicker({ event, tiers, found, close }: Props) {
  const dialog = useRef<HTMLDialogElement>(null);
  const quantity = useSignal(2);
  const apart = useSignal(false);
  const price = useSignal(tiers.size === 1 ? [...tiers][0] : "");
  const detail = event.detail.value;
  const basket = app.shop.basket(event.id).value;

  useEffect(() => dialog.current?.showModal(), []);

  if (!detail) return null;
  const most = Math.max(1, detail.rules.seats_per_identity - placeCount(basket.hold));
  const chosen = Math.min(quantity.value, most);

  const hold = async () => {
    const wish = {
      quantity: chosen,
      together: apart.value && chosen > 1 ? ("preferred" as const) : ("required" as const),
      ...(price.value ? { price_tiers: [price.value] } : tiers.size > 0 ? { price_tiers: [...tiers] } : {}),
    };
    const seats = await app.shop.holdBest(event.id, wish);
    // A refusal is told above everything else; the dialog stays for another try.
    if (!seats) return;
    dialog.current?.close();
    if (seats[0] !== undefined) found(seats[0]);
  };

  return (
    <dialog ref={dialog} class="picker" aria-labelledby="best-title" onClose={close}>
      <div class="panel-head">
        <h2 id="best-title">{t.value.bestSeats}</h2>
        <button type="button" class="icon-button" aria-label={t.value.close} onClick={() => dialog.current?.close()}>
          <CloseIcon />
        </button>
      </div>
      <p class="muted">{t.value.bestHint}</p>
      <Stepper value={chosen} most={most} change={(seats) => (quantity.value = seats)} />
      {detail.price_tiers.length > 1 && (
        <label class="field">
          <span>{t.value.bestPrice}</span>
          <select value={price.value} onChange={(change) => (price.value = change.currentTarget.value)}>
            <option value="">{t.value.allPrices}</option>
            {detail.price_tiers.map((tier) => (
              <option key={tier.code} value={tier.code}>
                {tier.name} · {money(tier.price_minor + tier.fee_minor, detail.currency)}
              </option>
            ))}
          </select>
        </label>
      )}
      <label class="check">
        <input
          type="checkbox"
          checked={apart.value}
          onChange={(change) => (apart.value = change.currentTarget.checked)}
        />
        <span>{t.value.bestApart}</span>
      </label>
      <button type="button" class="button wide" disabled={basket.busy > 0} onClick={() => void hold()}>
        {t.value.bestHold(chosen)}
      </button>
    </dialog>
  );
}
