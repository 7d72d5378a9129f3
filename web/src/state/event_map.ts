//! The live map of one event and the rules that move it: frames in, states by seat index out.
//! `socket/client.ts` feeds it; the seat map and the list view read it. No I/O, no clock: tested on vectors.
import { areaMix, seatMix } from "../proto/digest";
import { decodeFrame, KIND_BEACON, KIND_SNAPSHOT, type MapFrame } from "../proto/frame";
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
}

/** What a frame did. `seats` are the changed seat indices, or "all" after a snapshot. */
export type Applied =
  | { outcome: "applied"; seats: Uint32Array | "all"; areas: boolean }
  | { outcome: "dropped" }
  | { outcome: "resync"; from: Position };

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
  };
}

/** Decodes and applies the bytes of one frame of this map's channel. */
export function applyBytes(map: EventMap, bytes: Uint8Array): Applied {
  const decoded = decodeFrame(bytes, map.seatCount, map.areaCount);
  if (decoded.outcome === "drop") return DROPPED;
  if (decoded.outcome === "invalid") return { outcome: "resync", from: { epoch: map.epoch, seq: 0 } };
  return applyFrame(map, decoded.frame);
}

/** The Apply rules of the protocol, in its order. Changes `map` in place. */
export function applyFrame(map: EventMap, frame: MapFrame): Applied {
  if (frame.epoch < map.epoch) return DROPPED;
  const mine: Position = { epoch: map.epoch, seq: map.seq };

  if (frame.kind === KIND_SNAPSHOT) {
    if (frame.epoch === map.epoch && frame.seqTo < map.seq) return DROPPED;
    replaceAll(map, frame);
    return digestFits(map, frame) ? { outcome: "applied", seats: "all", areas: true } : startOver(map);
  }

  if (frame.kind === KIND_BEACON) {
    if (frame.epoch > map.epoch || frame.seqTo > map.seq) return { outcome: "resync", from: mine };
    return frame.seqTo === map.seq && !digestFits(map, frame) ? startOver(map) : DROPPED;
  }

  if (frame.epoch > map.epoch) return { outcome: "resync", from: mine };
  if (frame.seqTo <= map.seq) return DROPPED;
  if (frame.seqFrom > map.seq + 1) return { outcome: "resync", from: mine };
  const seats = change(map, frame);
  map.seq = frame.seqTo;
  return digestFits(map, frame) ? { outcome: "applied", seats, areas: frame.areas.length > 0 } : startOver(map);
}

function startOver(map: EventMap): Applied {
  return { outcome: "resync", from: { epoch: map.epoch, seq: 0 } };
}

function digestFits(map: EventMap, frame: MapFrame): boolean {
  return !frame.digestValid || !map.whole || frame.digest === map.digest;
}

function replaceAll(map: EventMap, frame: MapFrame): void {
  map.states.fill(0);
  map.areas.fill(0);
  map.digest = 0;
  for (let area = 0; area < map.areaCount; area++) map.digest ^= areaMix(area, 0);
  map.epoch = frame.epoch;
  map.seq = frame.seqTo;
  map.whole = true;
  change(map, frame);
}

/** Writes what the frame says and returns the seats that really changed. */
function change(map: EventMap, frame: MapFrame): Uint32Array {
  const changed: number[] = [];
  let digest = map.digest;
  for (let i = 0; i < frame.seats.length; i++) {
    const seat = frame.seats[i];
    const before = map.states[seat];
    const after = frame.states[i];
    if (before === after) continue;
    digest ^= seatMix(seat, before) ^ seatMix(seat, after);
    map.states[seat] = after;
    changed.push(seat);
  }
  for (const [area, remaining] of frame.areas) {
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
