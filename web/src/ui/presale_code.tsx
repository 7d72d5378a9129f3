//! Where a presale code is typed in. Fetched when an event is in its presale; what the code opens is drawn by
//! `live_event.ts`, which also remembers it for the next visit.
import { useSignal } from "@preact/signals";
import { useRef } from "preact/hooks";
import type { LiveEvent } from "./live_event";
import { Spinner } from "./page";
import { errorText, t } from "./texts";

/** As long as the protocol takes. */
const MAX_CODE_LENGTH = 254;

export function PresaleCode({ event }: { event: LiveEvent }) {
  const code = useSignal("");
  const busy = useSignal(false);
  const refusal = useSignal("");
  const input = useRef<HTMLInputElement>(null);

  const open = async (submit: Event) => {
    submit.preventDefault();
    if (busy.value) return;
    if (code.value.trim() === "") return input.current?.focus();
    busy.value = true;
    refusal.value = "";
    const refused = await event.unlock(code.value.trim());
    busy.value = false;
    if (!refused) return;
    refusal.value = errorText(refused.code);
    input.current?.focus();
  };

  return (
    <form class="presale-code" noValidate onSubmit={open}>
      <label class="field">
        <span>{t.value.code}</span>
        <input
          ref={input}
          name="code"
          autocomplete="off"
          autocapitalize="characters"
          spellcheck={false}
          maxLength={MAX_CODE_LENGTH}
          value={code.value}
          aria-invalid={refusal.value !== ""}
          aria-describedby={refusal.value ? "code-error" : "code-hint"}
          onInput={(typed) => {
            code.value = typed.currentTarget.value;
          }}
        />
        {refusal.value ? (
          <span id="code-error" class="field-error" role="alert">
            {refusal.value}
          </span>
        ) : (
          <span id="code-hint" class="muted small-text">
            {t.value.codeHint}
          </span>
        )}
      </label>
      <button type="submit" class="button wide" disabled={busy.value}>
        {busy.value && <Spinner />} {t.value.codeUse}
      </button>
    </form>
  );
}
