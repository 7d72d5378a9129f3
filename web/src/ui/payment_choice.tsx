//! The ways to pay, as a list of radios. The simulated provider's cards say how they behave.
import { t } from "./texts";

export const FIRST_METHOD = "pm_card_visa";

interface Props {
  method: string;
  choose: (method: string) => void;
}

export function PaymentChoice({ method, choose }: Props) {
  return (
    <fieldset class="methods">
      <legend>{t.value.payment}</legend>
      <p class="test-mode">{t.value.testMode}</p>
      {Object.entries(t.value.cards).map(([id, [name, behaviour]]) => (
        <label key={id} class={`method ${method === id ? "chosen" : ""}`}>
          <input type="radio" name="method" value={id} checked={method === id} onChange={() => choose(id)} />
          <span class="method-name">{name}</span>
          <span class="muted">{behaviour}</span>
        </label>
      ))}
    </fieldset>
  );
}
