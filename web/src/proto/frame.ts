//! Decodes one binary map frame: header, inflate, records. Bytes in, an outcome out; applies nothing.
//! The socket room hands binary messages here, `state/event_map.ts` applies the result.
import { inflateRaw } from "./inflate";
import { ByteReader, InvalidFrame } from "./reader";
import { readRoaring } from "./roaring";

export const KIND_SNAPSHOT = 1;
export const KIND_DELTA = 2;
export const KIND_BEACON = 3;

const FLAG_DEFLATED = 1;
const FLAG_COALESCED = 2;
const FLAG_DIGEST = 8;

const HEADER_BYTES = 48;
/** The protocol's cap on an inflated payload; larger is invalid before a byte is allocated. */
const MAX_PAYLOAD_BYTES = 4 * 1024 * 1024;

/** Seat states on the wire. */
export const AVAILABLE = 0;
export const HELD = 1;
export const SOLD = 2;
export const BLOCKED = 3;
export type SeatState = 0 | 1 | 2 | 3;

export interface FrameHeader {
  kind: number;
  coalesced: boolean;
  deflated: boolean;
  digestValid: boolean;
  enc: number;
  channel: number;
  epoch: number;
  seqFrom: number;
  seqTo: number;
  digest: number;
  headerBytes: number;
  payloadBytes: number;
  serverMs: number;
}

/** What a frame says: `seats[i]` is now in `states[i]`; `areas` are pairs of area index and remaining. */
export interface FrameRecords {
  seats: Uint32Array;
  states: Uint8Array;
  areas: [area: number, remaining: number][];
}

/** Seat encodings a frame may name. */
const ENC_NONE = 0;
const ENC_ROARING = 1;
const ENC_PACKED2 = 2;

const STATE_OF_TAG = [0, HELD, SOLD, BLOCKED, AVAILABLE];

/**
 * Reads and checks the fixed part of a frame. `drop`: of a version or a kind we do not know. `invalid`: cut short,
 * not ours, or contradicting itself; the caller starts over from nothing.
 */
export function readHeader(bytes: Uint8Array): FrameHeader | "drop" | "invalid" {
  if (bytes.length < 4 || bytes[0] !== 0x53 || bytes[1] !== 0x57) return "invalid";
  if (bytes[2] !== 1 || bytes[3] < KIND_SNAPSHOT || bytes[3] > KIND_BEACON) return "drop";
  if (bytes.length < HEADER_BYTES) return "invalid";
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const flags = bytes[4];
  const header: FrameHeader = {
    kind: bytes[3],
    deflated: (flags & FLAG_DEFLATED) !== 0,
    coalesced: (flags & FLAG_COALESCED) !== 0,
    digestValid: (flags & FLAG_DIGEST) !== 0,
    enc: bytes[5],
    headerBytes: view.getUint16(6, true),
    channel: view.getUint32(8, true),
    epoch: view.getUint32(12, true),
    seqFrom: Number(view.getBigUint64(16, true)),
    seqTo: Number(view.getBigUint64(24, true)),
    digest: view.getUint32(32, true),
    payloadBytes: view.getUint32(36, true),
    serverMs: Number(view.getBigUint64(40, true)),
  };
  return consistent(header, bytes.length) ? header : "invalid";
}

function consistent(header: FrameHeader, frameBytes: number): boolean {
  const { kind, enc, seqFrom, seqTo } = header;
  if (header.headerBytes < HEADER_BYTES || header.headerBytes > frameBytes) return false;
  if (header.payloadBytes > MAX_PAYLOAD_BYTES || header.epoch === 0 || enc > ENC_PACKED2) return false;
  if (kind === KIND_SNAPSHOT) return seqFrom === 0;
  if (kind === KIND_DELTA) return seqFrom <= seqTo && enc !== ENC_PACKED2;
  return seqFrom === seqTo && enc === ENC_NONE && header.payloadBytes === 0;
}

/** The records behind a header, for an event of so many seats and areas; null when they break a rule. */
export function readPayload(
  bytes: Uint8Array,
  header: FrameHeader,
  seatCount: number,
  areaCount: number,
): FrameRecords | null {
  try {
    let payload = bytes.subarray(header.headerBytes);
    if (header.deflated) payload = inflateRaw(payload, header.payloadBytes);
    if (payload.length !== header.payloadBytes) throw new InvalidFrame("payload length");
    return readRecords(payload, header, seatCount, areaCount);
  } catch (error) {
    if (error instanceof InvalidFrame) return null;
    throw error;
  }
}

function readRecords(payload: Uint8Array, header: FrameHeader, seatCount: number, areaCount: number): FrameRecords {
  const reader = new ByteReader(payload);
  const seats: number[] = [];
  const states: number[] = [];
  const areas: [number, number][] = [];
  const areasNamed = new Set<number>();
  const named = new Uint8Array(header.enc === ENC_NONE ? 0 : seatCount);
  let packed = false;

  while (reader.left > 0) {
    const tag = reader.u8();
    const length = reader.leb128();
    const at = reader.skip(length);
    if (tag >= 0x80) continue;
    const body = new ByteReader(payload, at, at + length);
    if (tag >= 1 && tag <= 4) {
      if (header.enc !== ENC_ROARING) throw new InvalidFrame("seat set in another encoding");
      const state = STATE_OF_TAG[tag];
      readRoaring(body, seatCount, (seat) => {
        if (named[seat]) throw new InvalidFrame("seat in two sets");
        named[seat] = 1;
        seats.push(seat);
        states.push(state);
      });
    } else if (tag === 5) {
      while (body.left > 0) {
        const area = body.leb128();
        if (area >= areaCount || areasNamed.has(area)) throw new InvalidFrame("area index out of range or twice");
        areasNamed.add(area);
        areas.push([area, body.leb128()]);
      }
    } else if (tag === 6) {
      if (header.enc !== ENC_PACKED2 || packed) throw new InvalidFrame("packed states out of place");
      packed = true;
      readPacked(payload.subarray(at, at + length), seatCount, (seat, state) => {
        seats.push(seat);
        states.push(state);
      });
    } else {
      throw new InvalidFrame("unknown tag");
    }
  }
  if (header.enc === ENC_PACKED2 && !packed) throw new InvalidFrame("packed states missing");
  if (header.kind === KIND_SNAPSHOT && areas.length !== areaCount) throw new InvalidFrame("area missing");
  return { seats: Uint32Array.from(seats), states: Uint8Array.from(states), areas };
}

/** Two bits a seat, four seats a byte, lowest bits first; calls `visit` for seats that are not available. */
function readPacked(body: Uint8Array, seatCount: number, visit: (seat: number, state: number) => void): void {
  if (body.length !== (seatCount + 3) >> 2) throw new InvalidFrame("packed states of another length");
  for (let byte = 0; byte < body.length; byte++) {
    for (let bits = body[byte], seat = byte * 4; bits !== 0; bits >>= 2, seat++) {
      if ((bits & 3) === 0) continue;
      if (seat >= seatCount) throw new InvalidFrame("spare bits set");
      visit(seat, bits & 3);
    }
  }
}
