//! Before the desk: who opens a door, at which event. `scan_page.tsx` shows it; its languages stand at the desk's end as well.
import { useSignal } from "@preact/signals";
import type { TargetedSubmitEvent } from "preact";
import { useRef } from "preact/hooks";
import * as desk from "./desk";

export function Languages() {
  const names = { en: "English", de: "Deutsch" } as const;
  return (
    <div class="languages">
      {(["en", "de"] as const).map((tag) => (
        <button
          key={tag}
          type="button"
          lang={tag}
          aria-pressed={desk.language.value === tag}
          onClick={() => desk.setLanguage(tag)}
        >
          {names[tag]}
        </button>
      ))}
    </div>
  );
}

function Failure() {
  const failure = desk.failure.value;
  return (
    <div role="alert" class="alert-place">
      {failure && <p class="failure">{desk.t.value.errors[failure]}</p>}
    </div>
  );
}

export function SignIn() {
  const key = useRef<HTMLInputElement>(null);
  const door = useRef<HTMLInputElement>(null);
  const isBusy = useSignal(false);
  const words = desk.t.value.signIn;
  const submit = async (event: TargetedSubmitEvent<HTMLFormElement>) => {
    event.preventDefault();
    const empty = [key.current, door.current].find((field) => !field?.value.trim());
    if (empty) {
      desk.failure.value = "empty";
      empty.focus();
      return;
    }
    isBusy.value = true;
    await desk.signIn(key.current?.value ?? "", door.current?.value ?? "");
    isBusy.value = false;
    if (desk.failure.value === "key") key.current?.select();
  };
  return (
    <form class="card" onSubmit={(event) => void submit(event)} noValidate>
      <h1>{words.title}</h1>
      <p class="muted">{words.intro}</p>
      <Failure />
      <label for="door-key">{words.key}</label>
      <input
        id="door-key"
        ref={key}
        type="password"
        autoComplete="off"
        spellcheck={false}
        required
        aria-describedby="door-key-hint"
      />
      <p class="hint" id="door-key-hint">
        {words.keyHint}
      </p>
      <label for="door-name">{words.door}</label>
      <input
        id="door-name"
        ref={door}
        defaultValue={desk.doorName.value}
        maxLength={60}
        autoComplete="off"
        required
        aria-describedby="door-name-hint"
      />
      <p class="hint" id="door-name-hint">
        {words.doorHint}
      </p>
      <button class="button" type="submit" disabled={isBusy.value}>
        {words.go}
      </button>
    </form>
  );
}

export function Pick() {
  const words = desk.t.value.pick;
  return (
    <section class="card" aria-labelledby="pick-title">
      <h1 id="pick-title">{words.title}</h1>
      <Failure />
      {desk.events.value.length === 0 && <p class="muted">{words.none}</p>}
      <ul class="events">
        {desk.events.value.map((event) => (
          <li key={event.id}>
            <button type="button" onClick={() => void desk.choose(event.id)}>
              <strong>{event.name}</strong>
              <span>
                {desk.dateOf(event)} · {event.venue}, {event.city}
              </span>
            </button>
          </li>
        ))}
      </ul>
      <button class="button quiet" type="button" onClick={desk.end}>
        {words.back}
      </button>
    </section>
  );
}
