//! The inflater against zlib's own streams of every kind, its bounds, and damaged streams.
import { constants, deflateRawSync } from "node:zlib";
import { describe, expect, it } from "vitest";
import { inflateRaw } from "../src/proto/inflate";
import { InvalidFrame } from "../src/proto/reader";

function sample(kind: string, length: number): Uint8Array {
  let state = 1;
  const out = new Uint8Array(length);
  for (let i = 0; i < length; i++) {
    state = (Math.imul(state, 1103515245) + 12345) & 0x7fffffff;
    out[i] = kind === "noise" ? state >> 16 : kind === "text" ? 97 + ((state >> 16) % 7) : (i >> 9) & 255;
  }
  return out;
}

describe("inflate", () => {
  for (const kind of ["noise", "text", "runs"]) {
    for (const length of [0, 1, 100, 70_000, 300_000]) {
      it(`reads ${length} bytes of ${kind} at every level and strategy`, () => {
        const bytes = sample(kind, length);
        for (const level of [0, 1, 6, 9]) {
          for (const strategy of [constants.Z_DEFAULT_STRATEGY, constants.Z_FIXED, constants.Z_HUFFMAN_ONLY]) {
            const stream = deflateRawSync(bytes, { level, strategy });
            expect(Buffer.from(inflateRaw(stream, length)).equals(Buffer.from(bytes))).toBe(true);
          }
        }
      });
    }
  }

  it("refuses a stream that is longer or shorter than told", () => {
    const stream = deflateRawSync(sample("text", 1000));
    expect(() => inflateRaw(stream, 999)).toThrow(InvalidFrame);
    expect(() => inflateRaw(stream, 1001)).toThrow(InvalidFrame);
  });

  it("refuses to copy from before the beginning", () => {
    // One fixed block: copy three bytes from one back, with nothing written yet.
    expect(() => inflateRaw(Uint8Array.of(0x03, 0x02, 0x00), 3)).toThrow(InvalidFrame);
  });

  it("refuses every cut of a stream and a byte behind it", () => {
    const stream = deflateRawSync(sample("text", 300));
    for (let length = 0; length < stream.length; length++) {
      expect(() => inflateRaw(stream.subarray(0, length), 300)).toThrow(InvalidFrame);
    }
    expect(() => inflateRaw(Buffer.concat([stream, Buffer.from([0])]), 300)).toThrow(InvalidFrame);
  });

  it("never fails otherwise on damaged streams", () => {
    const stream = deflateRawSync(sample("text", 2000));
    for (let at = 0; at < stream.length; at++) {
      const damaged = Uint8Array.from(stream);
      damaged[at] ^= 0x55;
      try {
        expect(inflateRaw(damaged, 2000).length).toBe(2000);
      } catch (error) {
        expect(error).toBeInstanceOf(InvalidFrame);
      }
    }
  });
});
