//! The state of a door, as signals: who we are, which event, the last verdict, what waits. The page draws it and calls its verbs.
import { computed, signal } from "@preact/signals";
import { type SeatPlan, seatName } from "../proto/layout";
import { type Facts, Judge, type Kind, type Unsettled, type Verdict } from "./judge";
import * as office from "./office";
import { prepareLook } from "./reader";
import { verifier } from "./seal";
import { de } from "./texts_de";
import { en, type ScanTexts } from "./texts_en";

/** Scans shown below the last one. */
const MAX_SHOWN = 12;
/** After nobody answered, scans count as offline at once for so long: a queue of people waits for no timeout twice. */
const SILENT_MS = 4_000;
/** How often what was kept is tried again. */
const SEND_EVERY_MS = 5_000;
const LANGUAGE_ITEM = "seatwire.language";

export type Language = "en" | "de";
export type Stage = "starting" | "sign_in" | "pick" | "scan";

export interface Scanned {
  n: number;
  at_ms: number;
  verdict: Verdict;
  /** of a kept scan: its name, until it was confirmed */
  kept?: string;
  isConfirmed?: boolean;
}

export const language = signal<Language>("en");
export const t = computed<ScanTexts>(() => (language.value === "de" ? de : en));
export const stage = signal<Stage>("starting");
export const failure = signal<keyof ScanTexts["errors"] | null>(null);
export const events = signal<office.EventName[]>([]);
export const facts = signal<Facts | null>(null);
export const plan = signal<SeatPlan | null>(null);
export const isOnline = signal(true);
export const isChecking = signal(false);
export const scanned = signal<Scanned[]>([]);
export const refusedLate = signal<Scanned[]>([]);
export const counts = signal({ admitted: 0, refused: 0 });
export const waiting = signal(0);
/** Why scans that wait were not settled when they were last sent, unless it is the network. */
export const unsettled = signal<Exclude<Unsettled, "offline"> | null>(null);
export const last = computed(() => scanned.value[0] ?? null);
export const doorName = signal(office.savedName());

let door: office.Door | null = null;
let judge: Judge | null = null;
let silentUntil = 0;
let scansN = 0;
/** One scan after the other: the second look at a ticket must know the first. */
let queue: Promise<void> = Promise.resolve();

export function setLanguage(to: Language, isKept = true): void {
  language.value = to;
  document.documentElement.lang = to;
  document.title = t.value.name;
  try {
    if (isKept) localStorage.setItem(LANGUAGE_ITEM, to);
  } catch {
    // For this page only.
  }
}

export async function start(): Promise<void> {
  let wanted: string | null = null;
  try {
    wanted = localStorage.getItem(LANGUAGE_ITEM);
  } catch {
    // The browser's own choice.
  }
  setLanguage((wanted ?? navigator.language).toLowerCase().startsWith("de") ? "de" : "en", false);
  addEventListener("online", () => {
    silentUntil = 0;
    void send();
  });
  addEventListener("offline", () => {
    isOnline.value = false;
  });
  setInterval(() => {
    if (waiting.value > 0 || !isOnline.value) void send();
  }, SEND_EVERY_MS);
  door = office.savedDoor();
  if (!door) {
    stage.value = "sign_in";
    return;
  }
  await afterKey();
}

export async function signIn(key: string, name: string): Promise<void> {
  door = { key: key.trim(), name: name.trim() };
  doorName.value = door.name;
  await afterKey();
}

async function afterKey(): Promise<void> {
  if (!door) return;
  failure.value = null;
  const wanted = new URLSearchParams(location.search).get("event");
  try {
    if (wanted) {
      await open(wanted);
      return;
    }
    events.value = await office.events(door.key);
    office.saveDoor(door);
    stage.value = "pick";
  } catch (error) {
    fail(error);
  }
}

function fail(error: unknown): void {
  if (error instanceof office.Refused) {
    office.saveDoor(null);
    door = null;
    failure.value = "key";
  } else {
    failure.value = "offline";
  }
  stage.value = "sign_in";
}

export async function choose(event: string): Promise<void> {
  failure.value = null;
  try {
    await open(event);
  } catch (error) {
    fail(error);
  }
}

async function open(event: string): Promise<void> {
  if (!door) return;
  const found = await office.facts(door.key, event);
  if (!found) {
    setEvent(null);
    failure.value = "event";
    events.value = await office.events(door.key);
    stage.value = "pick";
    return;
  }
  office.saveDoor(door);
  const here = door;
  const verify = await verifier(found.public_key);
  judge = new Judge(
    event,
    verify,
    (text, scan, door) => ask({ ...here, name: door ?? here.name }, event, text, scan),
    office.shelfOf(event, here.name),
  );
  unsettled.value = null;
  waiting.value = judge.kept.length;
  facts.value = found;
  scanned.value = [];
  refusedLate.value = [];
  counts.value = { admitted: 0, refused: 0 };
  setEvent(event);
  stage.value = "scan";
  void office.plan(found.layout).then((read) => {
    if (facts.value === found) plan.value = read;
  });
  // What a door needs without a network is there before it is needed.
  void prepareLook().catch(() => undefined);
  void send();
}

function setEvent(event: string | null): void {
  const url = new URL(location.href);
  if (event) url.searchParams.set("event", event);
  else url.searchParams.delete("event");
  history.replaceState(null, "", url);
}

async function ask(here: office.Door, event: string, text: string, scan: string) {
  if (performance.now() < silentUntil) return "offline" as const;
  const answer = await office.checkIn(here, event, text, scan);
  isOnline.value = answer !== "offline";
  if (answer === "offline") silentUntil = performance.now() + SILENT_MS;
  return answer;
}

export function scan(text: string): Promise<void> {
  queue = queue.then(async () => {
    if (!judge) return;
    isChecking.value = true;
    const before = new Set(judge.kept.map((kept) => kept.scan));
    try {
      const verdict = await judge.scan(text);
      const kept = judge.kept.find((other) => !before.has(other.scan))?.scan;
      note({ n: ++scansN, at_ms: Date.now(), verdict, kept });
    } catch (error) {
      // One that could not be judged must not silence those behind it.
      console.error(error);
      note({ n: ++scansN, at_ms: Date.now(), verdict: { kind: "trouble" } });
    } finally {
      isChecking.value = false;
      waiting.value = judge?.kept.length ?? 0;
    }
  });
  return queue;
}

function note(entry: Scanned): void {
  scanned.value = [entry, ...scanned.value].slice(0, MAX_SHOWN);
  const { admitted, refused } = counts.value;
  if (entry.verdict.kind === "admitted") counts.value = { admitted: admitted + 1, refused };
  else if (mood(entry.verdict.kind) === "bad") counts.value = { admitted, refused: refused + 1 };
  // Felt where it is too loud or too bright: one short pulse lets in, a long one does not.
  navigator.vibrate?.(mood(entry.verdict.kind) === "good" ? 60 : [300, 80, 300]);
}

async function send(): Promise<void> {
  const now = judge;
  if (!now) return;
  silentUntil = 0;
  if (now.kept.length === 0) {
    if (door && !isOnline.value) {
      // Nothing to tell, but people want to know whether anybody answers.
      isOnline.value = await office.events(door.key).then(
        () => true,
        (error) => error instanceof office.Refused,
      );
    }
    return;
  }
  const met = await now.send((kept, verdict) => {
    waiting.value = now.kept.length;
    const { admitted, refused } = counts.value;
    const entry: Scanned = scanned.value.find((each) => each.kept === kept.scan) ?? {
      n: ++scansN,
      at_ms: kept.at_ms,
      verdict,
    };
    const settled: Scanned = { ...entry, verdict, kept: undefined, isConfirmed: verdict.kind === "admitted" };
    scanned.value = scanned.value.map((each) => (each.kept === kept.scan ? settled : each));
    if (verdict.kind === "admitted") counts.value = { admitted: admitted + 1, refused };
    else refusedLate.value = [settled, ...refusedLate.value];
  });
  if (now !== judge) return;
  // Nothing new is known of the others while nobody answers.
  if (met !== "offline") unsettled.value = met;
  waiting.value = now.kept.length;
}

export function noteLate(): void {
  refusedLate.value = [];
}

export async function leaveEvent(): Promise<void> {
  judge = null;
  facts.value = null;
  plan.value = null;
  setEvent(null);
  await afterKey();
}

export function end(): void {
  office.saveDoor(null);
  door = null;
  judge = null;
  facts.value = null;
  plan.value = null;
  failure.value = null;
  setEvent(null);
  stage.value = "sign_in";
}

export type Mood = "good" | "bad" | "care";

/** Neither yes nor no. */
const CARE: Kind[] = ["offline", "offline_unknown", "key_refused", "trouble"];

export function mood(kind: Kind): Mood {
  if (kind === "admitted") return "good";
  return CARE.includes(kind) ? "care" : "bad";
}

export interface Place {
  parts: { name: string; value: string }[];
  line: string;
}

/** Where the ticket's place is, in words. */
export function placeOf(verdict: Verdict): Place | null {
  const words = t.value;
  if (verdict.area !== undefined) {
    const name = facts.value?.areas[verdict.area];
    return name ? { parts: [], line: name } : null;
  }
  if (verdict.seat === undefined) return null;
  const known = plan.value;
  if (!known || verdict.seat >= known.seatCount) return { parts: [], line: words.seatNumber(verdict.seat + 1) };
  const { section, row, seat } = seatName(known, verdict.seat);
  const parts = [
    { name: words.section, value: section },
    ...(row ? [{ name: words.row, value: row }] : []),
    { name: words.seat, value: seat },
  ];
  return { parts, line: parts.map((part) => part.value).join(" – ") };
}

/** With hours to 24 in both: a door has no time for a.m. and p.m. */
const localeOf = () => (language.value === "de" ? "de-DE" : "en-GB");

export function clockOf(ms: number): string {
  return new Intl.DateTimeFormat(localeOf(), { hour: "2-digit", minute: "2-digit" }).format(ms);
}

export function dateOf(event: { starts_ms: number; time_zone: string }): string {
  const options: Intl.DateTimeFormatOptions = {
    weekday: "short",
    day: "numeric",
    month: "short",
    hour: "2-digit",
    minute: "2-digit",
    timeZone: event.time_zone,
  };
  return new Intl.DateTimeFormat(localeOf(), options).format(event.starts_ms);
}
