//! The scanner's page: before the desk the gate (`gate.tsx`), then camera, field and one large answer. State and verbs are in
//! `desk.ts`.
import { useSignal } from "@preact/signals";
import type { ComponentChildren, TargetedSubmitEvent } from "preact";
import { useEffect, useRef } from "preact/hooks";
import * as desk from "./desk";
import { Languages, Pick, SignIn } from "./gate";
import { MoodIcon } from "./mood_icon";
import { openReader, type Reader } from "./reader";

export function ScanPage() {
  const stage = desk.stage.value;
  if (stage === "scan") return <Scan />;
  return (
    <main class="gate">
      <Languages />
      {stage === "sign_in" && <SignIn />}
      {stage === "pick" && <Pick />}
    </main>
  );
}

function Scan() {
  const facts = desk.facts.value;
  return (
    <div class="desk">
      <header>
        <div class="what">
          <h1>{facts?.name}</h1>
          <p>
            {facts && desk.dateOf(facts)} · {desk.doorName.value}
          </p>
        </div>
        <Net />
      </header>
      <main>
        <Answer />
        <Unsettled />
        <Late />
        <Camera />
        <Typed />
        <Counts />
        <Last />
        <Ends />
      </main>
    </div>
  );
}

function Net() {
  const words = desk.t.value;
  const isOnline = desk.isOnline.value;
  return (
    <p class={`net ${isOnline ? "" : "off"}`} role="status">
      <span class="dot" aria-hidden="true" />
      {isOnline ? words.online : words.offline}
      {desk.waiting.value > 0 && ` · ${words.waiting(desk.waiting.value)}`}
    </p>
  );
}

function Answer() {
  const words = desk.t.value;
  const last = desk.last.value;
  const verdict = last?.verdict;
  const mood = verdict ? desk.mood(verdict.kind) : "idle";
  const said = verdict ? words.said[verdict.kind] : words.ready;
  const place = verdict && desk.placeOf(verdict);
  // Of one that is let in it is this moment, here.
  const used = verdict?.kind !== "admitted" && verdict?.used_ms && desk.clockOf(verdict.used_ms);
  return (
    <section
      class={`answer ${mood} ${desk.isChecking.value ? "checking" : ""}`}
      data-kind={verdict?.kind ?? "ready"}
      data-n={last?.n ?? 0}
      aria-live="assertive"
      aria-atomic="true"
    >
      {/* A new scan of the same kind is a new answer, seen and spoken again. */}
      <div class="answer-inside" key={last?.n ?? 0}>
        <MoodIcon mood={mood} />
        <h2>{said.title}</h2>
        {place && <PlaceWords place={place} />}
        {used && <p class="used">{verdict.used_door ? words.usedAt(used, verdict.used_door) : words.usedHere(used)}</p>}
        {verdict?.holder && <p class="holder">{verdict.holder}</p>}
        <p class="answer-hint">{said.hint}</p>
      </div>
      {desk.isChecking.value && <p class="checking-words">{words.checking}</p>}
    </section>
  );
}

function PlaceWords({ place }: { place: desk.Place }) {
  if (place.parts.length === 0) return <p class="place-line">{place.line}</p>;
  return (
    <dl class="place">
      {place.parts.map((part) => (
        <div key={part.name}>
          <dt>{part.name}</dt>
          <dd>{part.value}</dd>
        </div>
      ))}
    </dl>
  );
}

function Unsettled() {
  const problem = desk.unsettled.value;
  return (
    <div role="alert" class="alert-place">
      {problem && desk.waiting.value > 0 && <p class="failure">{desk.t.value.unsettled[problem]}</p>}
    </div>
  );
}

function Late() {
  const words = desk.t.value;
  const late = desk.refusedLate.value;
  return (
    <div role="alert" class="alert-place">
      {late.length > 0 && (
        <section class="late">
          <h2>{words.late(late.length)}</h2>
          <p>{words.lateHint}</p>
          <ul>
            {late.map((entry) => (
              <li key={entry.n}>
                {desk.clockOf(entry.at_ms)} · {desk.placeOf(entry.verdict)?.line ?? ""} ·{" "}
                {words.said[entry.verdict.kind].title}
              </li>
            ))}
          </ul>
          <button type="button" onClick={desk.noteLate}>
            {words.lateDone}
          </button>
        </section>
      )}
    </div>
  );
}

function Camera() {
  const video = useRef<HTMLVideoElement>(null);
  const reader = useSignal<Reader | null>(null);
  const isWanted = useSignal(false);
  const hasLamp = useSignal(false);
  const isLampOn = useSignal(false);
  const problem = useSignal<"denied" | "none" | null>(null);
  const words = desk.t.value.camera;
  const isOpen = useRef(true);

  const startCamera = async () => {
    if (!video.current) return;
    problem.value = null;
    isWanted.value = true;
    if (!navigator.mediaDevices?.getUserMedia) {
      problem.value = "none";
      isWanted.value = false;
      return;
    }
    try {
      const opened = await openReader(video.current, (text) => void desk.scan(text));
      if (!isOpen.current || !isWanted.value) {
        opened.stop();
        return;
      }
      reader.value = opened;
      hasLamp.value = opened.lamp !== null;
    } catch (error) {
      problem.value = (error as DOMException).name === "NotAllowedError" ? "denied" : "none";
      isWanted.value = false;
    }
  };
  const stopCamera = () => {
    reader.value?.stop();
    reader.value = null;
    isWanted.value = false;
    isLampOn.value = false;
  };
  useEffect(() => {
    isOpen.current = true;
    return () => {
      isOpen.current = false;
      reader.value?.stop();
    };
  }, []);
  return (
    <section class={`camera ${reader.value ? "on" : ""}`} aria-label={words.start}>
      <div class="picture" hidden={!isWanted.value}>
        <video ref={video} playsInline muted aria-label={words.aim} />
        <div class="aim" aria-hidden="true" />
        <p class="aim-words" aria-hidden="true">
          {words.aim}
        </p>
      </div>
      <div role="alert" class="alert-place">
        {problem.value && <p class="failure">{words[problem.value]}</p>}
      </div>
      <div class="row">
        {isWanted.value ? (
          <button type="button" class="button quiet" onClick={stopCamera}>
            {words.stop}
          </button>
        ) : (
          <button type="button" class="button" onClick={() => void startCamera()}>
            {words.start}
          </button>
        )}
        {hasLamp.value && reader.value && (
          <button
            type="button"
            class="button quiet"
            aria-pressed={isLampOn.value}
            onClick={() => {
              isLampOn.value = !isLampOn.value;
              void reader.value?.lamp?.(isLampOn.value).catch(() => undefined);
            }}
          >
            {words.lamp}
          </button>
        )}
      </div>
    </section>
  );
}

/** Hand-held scanners type what they read and press Enter; also when nobody has put the cursor into the field. */
function Typed() {
  const field = useRef<HTMLInputElement>(null);
  const words = desk.t.value.input;
  useEffect(() => {
    const typed = (event: KeyboardEvent) => {
      if ((event.target as HTMLElement | null)?.closest("input")) return;
      // Also from a button, or the Enter at the end of a scan would press it.
      const isLetter = event.key.length === 1 && event.key !== " ";
      if (isLetter && !event.ctrlKey && !event.metaKey && !event.altKey) field.current?.focus();
    };
    document.addEventListener("keydown", typed);
    // A phone would cover half of the page with its keyboard.
    if (matchMedia("(pointer: fine)").matches) field.current?.focus();
    return () => document.removeEventListener("keydown", typed);
  }, []);
  const submit = (event: TargetedSubmitEvent<HTMLFormElement>) => {
    event.preventDefault();
    const input = field.current;
    if (!input?.value.trim()) return;
    const text = input.value;
    input.value = "";
    void desk.scan(text);
  };
  return (
    <form class="typed" onSubmit={submit}>
      <label for="typed">{words.label}</label>
      <div class="row">
        <input
          id="typed"
          ref={field}
          autoComplete="off"
          autoCapitalize="characters"
          spellcheck={false}
          enterKeyHint="go"
          maxLength={512}
          aria-describedby="typed-hint"
        />
        <button class="button quiet" type="submit">
          {words.check}
        </button>
      </div>
      <p class="hint" id="typed-hint">
        {words.hint}
      </p>
    </form>
  );
}

function Counts() {
  const words = desk.t.value.counts;
  const { admitted, refused } = desk.counts.value;
  const shown: [string, number, ComponentChildren][] = [
    [words.admitted, admitted, "good"],
    [words.refused, refused, "bad"],
    [words.waiting, desk.waiting.value, "care"],
  ];
  return (
    <dl class="counts">
      {shown.map(([name, n, mood]) => (
        <div key={name} class={`${mood}`}>
          <dt>{name}</dt>
          <dd>{n}</dd>
        </div>
      ))}
    </dl>
  );
}

function Last() {
  const words = desk.t.value;
  return (
    <section class="last" aria-labelledby="last-title">
      <h2 id="last-title">{words.history}</h2>
      {desk.scanned.value.length === 0 && <p class="muted">{words.historyNone}</p>}
      <ol>
        {desk.scanned.value.map((entry) => (
          <li key={entry.n}>
            <span class="last-time">{desk.clockOf(entry.at_ms)}</span>
            <span class={`last-kind ${desk.mood(entry.verdict.kind)}`}>{words.said[entry.verdict.kind].title}</span>
            <span class="last-place">
              {desk.placeOf(entry.verdict)?.line ?? ""}
              {entry.isConfirmed && ` (${words.confirmed})`}
            </span>
          </li>
        ))}
      </ol>
    </section>
  );
}

function Ends() {
  const words = desk.t.value;
  const end = () => {
    if (desk.waiting.value === 0 || confirm(words.endWithKept(desk.waiting.value))) desk.end();
  };
  return (
    <div class="ends">
      <Languages />
      <div class="row">
        <button class="button quiet" type="button" onClick={() => void desk.leaveEvent()}>
          {words.changeEvent}
        </button>
        <button class="button quiet" type="button" onClick={end}>
          {words.end}
        </button>
      </div>
    </div>
  );
}
