//! The live map of one event and the rules that move it: frames in, states by seat index out.
//! `socket/client.ts` feeds it; the seat map and the list view read it. No I/O, no clock: tested on vectors.
import { areaMix, seatMix } from "../proto/digest";
import {
  type FrameHeader,
  type FrameRecords,
  KIND_BEACON,
  KIND_SNAPSHOT,
  readHeader,
  readPayload,
} from "../proto/frame";
import type { Position } from "../proto/messages";

export interface EventMap {
  seatCount: number;
  areaCount: number;
  epoch: number;
  seq: number;
  /** state by seat index: 0 available, 1 held, 2 sold, 3 blocked */
  states: Uint8Array;
  /** remaining places by area index */
  areas: Uint32Array;
  /** running digest of `states` and `areas`; meaningless until `whole` */
  digest: number;
  /** a snapshot has been applied, so digests can be compared */
  whole: boolean;
  /** a resync has been asked for and not yet answered: nothing else asks, no digest is compared */
  resyncing: boolean;
}

/** What a frame did. `seats` are the changed seat indices, or "all" after a snapshot. */
export type Applied =
  | { outcome: "applied"; seats: Uint32Array | "all"; areas: boolean }
  /** a beacon for exactly this position */
  | { outcome: "in_step" }
  | { outcome: "dropped" }
  /** to be sent; `moved` when the frame was applied all the same (its digest did not fit) */
  | { outcome: "resync"; from: Position; moved: boolean };

const DROPPED: Applied = { outcome: "dropped" };

export function emptyMap(seatCount: number, areaCount: number): EventMap {
  return {
    seatCount,
    areaCount,
    epoch: 0,
    seq: 0,
    states: new Uint8Array(seatCount),
    areas: new Uint32Array(areaCount),
    digest: 0,
    whole: false,
    resyncing: false,
  };
}

/**
 * Applies the bytes of one frame of this map's channel, by the Apply rules of the protocol, in their order. A frame
 * that its header settles is not read further. Changes `map` in place.
 */
export function applyBytes(map: EventMap, bytes: Uint8Array): Applied {
  const header = readHeader(bytes);
  if (header === "drop") return DROPPED;
  if (header === "invalid") return resync(map, 0);
  if (header.epoch < map.epoch) return DROPPED;

  if (header.kind === KIND_SNAPSHOT) {
    if (header.epoch === map.epoch && header.seqTo < map.seq) return DROPPED;
    const records = readPayload(bytes, header, map.seatCount, map.areaCount);
    if (!records) return resync(map, 0);
    replaceAll(map, header, records);
    return digestFits(map, header) ? { outcome: "applied", seats: "all", areas: true } : resync(map, 0, true);
  }

  if (header.kind === KIND_BEACON) {
    if (header.epoch > map.epoch || header.seqTo > map.seq) return resync(map, map.seq);
    if (header.seqTo < map.seq) return DROPPED;
    return digestFits(map, header) ? { outcome: "in_step" } : resync(map, 0);
  }

  if (header.epoch > map.epoch) return resync(map, map.seq);
  if (header.seqTo <= map.seq) return DROPPED;
  if (header.seqFrom > map.seq + 1) return resync(map, map.seq);
  const records = readPayload(bytes, header, map.seatCount, map.areaCount);
  if (!records) return resync(map, 0);
  const seats = change(map, records);
  map.seq = header.seqTo;
  return digestFits(map, header)
    ? { outcome: "applied", seats, areas: records.areas.length > 0 }
    : resync(map, 0, true);
}

/** The reply to the outstanding resync came: from here on the map may ask again. */
export function resyncAnswered(map: EventMap): void {
  map.resyncing = false;
}

function resync(map: EventMap, seq: number, moved = false): Applied {
  if (map.resyncing) return DROPPED;
  map.resyncing = true;
  return { outcome: "resync", from: { epoch: map.epoch, seq }, moved };
}

function digestFits(map: EventMap, header: FrameHeader): boolean {
  return !header.digestValid || !map.whole || map.resyncing || header.digest === map.digest;
}

function replaceAll(map: EventMap, header: FrameHeader, records: FrameRecords): void {
  map.states.fill(0);
  map.areas.fill(0);
  map.digest = 0;
  for (let area = 0; area < map.areaCount; area++) map.digest ^= areaMix(area, 0);
  map.epoch = header.epoch;
  map.seq = header.seqTo;
  map.whole = true;
  change(map, records);
}

/** Writes what the records say and returns the seats that really changed. */
function change(map: EventMap, records: FrameRecords): Uint32Array {
  const changed: number[] = [];
  let digest = map.digest;
  for (let i = 0; i < records.seats.length; i++) {
    const seat = records.seats[i];
    const before = map.states[seat];
    const after = records.states[i];
    if (before === after) continue;
    digest ^= seatMix(seat, before) ^ seatMix(seat, after);
    map.states[seat] = after;
    changed.push(seat);
  }
  for (const [area, remaining] of records.areas) {
    digest ^= areaMix(area, map.areas[area]) ^ areaMix(area, remaining);
    map.areas[area] = remaining;
  }
  map.digest = digest >>> 0;
  return Uint32Array.from(changed);
}

/** More seats were appended to the event's layout: keep what is known, the new ones begin available. */
export function growMap(map: EventMap, seatCount: number): void {
  if (seatCount <= map.seatCount) return;
  const states = new Uint8Array(seatCount);
  states.set(map.states);
  map.states = states;
  map.seatCount = seatCount;
}
