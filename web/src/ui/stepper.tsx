//! How many: a number between two round buttons. Used by every dialog that asks for a number of places.
import { MinusIcon, PlusIcon } from "./icons";
import { t } from "./texts";

interface Props {
  value: number;
  /** the largest value; the smallest is 1 */
  most: number;
  change: (value: number) => void;
}

export function Stepper({ value, most, change }: Props) {
  return (
    <div class="stepper">
      <button
        type="button"
        class="icon-button"
        aria-label={t.value.fewer}
        disabled={value <= 1}
        onClick={() => change(value - 1)}
      >
        <MinusIcon />
      </button>
      <output aria-live="polite">{value}</output>
      <button
        type="button"
        class="icon-button"
        aria-label={t.value.more}
        disabled={value >= most}
        onClick={() => change(value + 1)}
      >
        <PlusIcon />
      </button>
    </div>
  );
}
