//! The grip of the bottom sheet: opens and closes it. Only phones show it.
import type { Signal } from "@preact/signals";
import { UpIcon } from "./icons";
import { t } from "./texts";

export function SheetHandle({ open }: { open: Signal<boolean> }) {
  return (
    <button
      type="button"
      class="sheet-handle"
      aria-expanded={open.value}
      aria-controls="basket-body"
      onClick={() => (open.value = !open.value)}
    >
      <UpIcon size={18} />
      <span class="visually-hidden">{open.value ? t.value.closeBasket : t.value.openBasket}</span>
    </button>
  );
}
