//! The check-in and what a door must know, asked at the listener this page came from. Keys stay in session storage: they are gone
//! with the tab. Facts, plans and kept scans stay on the device, so that a reload without a network goes on.

import { type SeatPlan, unpackLayout } from "../proto/layout";
import { COMPACT_LAYOUT, decodeLayout } from "../proto/layout_compact";
import type { Answer, Facts, Kept, Seen, Shelf } from "./judge";

export type EventName = Pick<Facts, "id" | "name" | "starts_ms" | "time_zone" | "venue" | "city">;

export interface Door {
  key: string;
  name: string;
}

/** Longest a person at a door waits for an answer before the scan counts as offline. */
const ANSWER_WITHIN_MS = 4_000;
const KEY_ITEM = "seatwire.door";
const NAME_ITEM = "seatwire.door.name";
const factsItem = (event: string) => `seatwire.door.facts.${event}`;
const keptItem = (event: string, scan = "") => `seatwire.door.kept.${event}.${scan}`;
const seenItem = (event: string) => `seatwire.door.seen.${event}`;
/** Tickets remembered of one event, the newest: half a megabyte, far below what storage takes. */
const MAX_SEEN = 5_000;

export class Refused extends Error {}
export class Offline extends Error {}

/** What storage has, or nothing where there is no storage or something else lies in it. */
function kept<T>(storage: () => Storage, item: string): T | null {
  try {
    const text = storage().getItem(item);
    return text ? (JSON.parse(text) as T) : null;
  } catch {
    return null;
  }
}

function keep(storage: () => Storage, item: string, value: unknown): void {
  try {
    if (value === null) storage().removeItem(item);
    else storage().setItem(item, JSON.stringify(value));
  } catch {
    // Then it lives as long as the page.
  }
}

const session = () => sessionStorage;
const device = () => localStorage;

export const savedDoor = (): Door | null => kept<Door>(session, KEY_ITEM);
export const savedName = (): string => kept<string>(device, NAME_ITEM) ?? "";
export function saveDoor(door: Door | null): void {
  keep(session, KEY_ITEM, door);
  if (door) keep(device, NAME_ITEM, door.name);
}

/** Names of what storage has that begin so. */
function itemsOf(prefix: string): string[] {
  try {
    return Object.keys(localStorage).filter((item) => item.startsWith(prefix));
  } catch {
    return [];
  }
}

export function shelfOf(event: string, door: string): Shelf {
  // Where there is no storage it lives as long as the page.
  const here = new Map<string, Seen>();
  return {
    load: () =>
      itemsOf(keptItem(event))
        .map((item) => kept<Kept>(device, item))
        .filter((scan) => scan !== null)
        .sort((a, b) => a.at_ms - b.at_ms),
    add: (scan) => keep(device, keptItem(event, scan.scan), { ...scan, door }),
    remove: (scan) => keep(device, keptItem(event, scan), null),
    seen: (ticket) => kept<Record<string, Seen>>(device, seenItem(event))?.[ticket] ?? here.get(ticket),
    note(ticket, seen) {
      here.set(ticket, seen);
      const all = Object.entries({ ...kept<Record<string, Seen>>(device, seenItem(event)), [ticket]: seen });
      keep(device, seenItem(event), Object.fromEntries(all.slice(-MAX_SEEN)));
    },
  };
}

async function call(key: string, path: string, body?: unknown): Promise<Response> {
  const headers: Record<string, string> = { Authorization: `Bearer ${key}` };
  if (body !== undefined) headers["Content-Type"] = "application/json";
  let response: Response;
  try {
    response = await fetch(path, {
      method: body === undefined ? "GET" : "POST",
      headers,
      body: body === undefined ? undefined : JSON.stringify(body),
      signal: AbortSignal.timeout(ANSWER_WITHIN_MS),
      cache: "no-store",
      credentials: "omit",
    });
  } catch {
    throw new Offline();
  }
  if (response.status === 401 || response.status === 403) throw new Refused();
  // Our trouble or a proxy's: the scan is asked about again later.
  if (response.status >= 500 || response.status === 429 || response.status === 408) throw new Offline();
  return response;
}

export async function events(key: string): Promise<EventName[]> {
  const response = await call(key, "/v1/door/events");
  return ((await response.json()) as { items: EventName[] }).items;
}

/** The facts of an event: asked for, and what was kept of it where nobody answers. `null`: there is no such event. */
export async function facts(key: string, event: string): Promise<Facts | null> {
  try {
    const response = await call(key, `/v1/door/events/${encodeURIComponent(event)}`);
    if (!response.ok) return null;
    const { id: _, ...found } = (await response.json()) as Facts;
    const whole = { ...found, id: event };
    keep(device, factsItem(event), whole);
    return whole;
  } catch (error) {
    const old = error instanceof Offline ? kept<Facts>(device, factsItem(event)) : null;
    if (old) return old;
    throw error;
  }
}

/** The plan, for the names of seats; `null` where it cannot be had: seats are then told by their number. */
export async function plan(hash: string): Promise<SeatPlan | null> {
  try {
    const response = await fetch(`/v1/layouts/${hash}`, { headers: { Accept: COMPACT_LAYOUT } });
    if (!response.ok) return null;
    const layout = decodeLayout(new Uint8Array(await response.arrayBuffer()), hash);
    return layout && unpackLayout(layout);
  } catch {
    return null;
  }
}

export async function checkIn(door: Door, event: string, ticket: string, scan: string): Promise<Answer> {
  try {
    const body = { ticket, door: door.name, scan };
    const response = await call(door.key, `/v1/door/events/${encodeURIComponent(event)}/check-in`, body);
    if (response.status !== 200) return "trouble";
    const answer = (await response.json()) as Answer | null;
    // A page that some network shows before it lets anybody through is no answer of ours.
    return typeof answer === "object" && typeof answer?.admitted === "boolean" ? answer : "offline";
  } catch (error) {
    return error instanceof Refused ? "key" : "offline";
  }
}
