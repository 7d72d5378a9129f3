//! How many places of a general-admission area: a small dialog over the map.
import { useSignal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import { app } from "../app";
import { placeCount } from "../booking/basket";
import { count, money } from "./format";
import { CloseIcon } from "./icons";
import type { LiveEvent } from "./live_event";
import { Stepper } from "./stepper";
import { t } from "./texts";

interface Props {
  event: LiveEvent;
  area: number;
  close: () => void;
}

export function AreaPicker({ event, area, close }: Props) {
  const dialog = useRef<HTMLDialogElement>(null);
  const quantity = useSignal(1);
  const detail = event.detail.value;
  const facts = detail?.areas[area];
  const basket = app.shop.basket(event.id).value;

  useEffect(() => dialog.current?.showModal(), []);

  if (!detail || !facts) return null;
  const tier = detail.price_tiers.find((candidate) => candidate.code === facts.price_tier);
  const remaining = event.map?.areas[area] ?? facts.remaining;
  const most = Math.max(1, Math.min(remaining, detail.rules.seats_per_identity - placeCount(basket.hold)));
  const each = tier ? tier.price_minor + tier.fee_minor : 0;

  const hold = async () => {
    if (await app.shop.holdArea(event.id, area, quantity.value)) dialog.current?.close();
  };

  return (
    <dialog ref={dialog} class="picker" aria-labelledby="picker-title" onClose={close}>
      <div class="panel-head">
        <h2 id="picker-title">{t.value.howMany(facts.name)}</h2>
        <button type="button" class="icon-button" aria-label={t.value.close} onClick={() => dialog.current?.close()}>
          <CloseIcon />
        </button>
      </div>
      <p class="muted">
        {tier?.name} · {money(each, detail.currency)} · {t.value.sectionLeft(remaining, count(remaining))}
      </p>
      <Stepper value={quantity.value} most={most} change={(places) => (quantity.value = places)} />
      <button
        type="button"
        class="button wide"
        disabled={basket.busy > 0 || remaining === 0}
        onClick={() => void hold()}
      >
        {t.value.addPlaces(quantity.value)} · {money(each * quantity.value, detail.currency)}
      </button>
    </dialog>
  );
}
