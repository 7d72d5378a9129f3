//! The roaring reader against sets written here container by container, and against damaged ones.
import { describe, expect, it } from "vitest";
import { ByteReader, InvalidFrame } from "../src/proto/reader";
import { readRoaring } from "../src/proto/roaring";

type Kind = "array" | "bitmap" | "run";

function u16(value: number): number[] {
  return [value & 255, value >> 8];
}

function u32(value: number): number[] {
  return [...u16(value & 0xffff), ...u16(value >>> 16)];
}

function runsOf(lows: number[]): [start: number, length: number][] {
  const runs: [number, number][] = [];
  for (const low of lows) {
    const last = runs[runs.length - 1];
    if (last && last[0] + last[1] + 1 === low) last[1]++;
    else runs.push([low, 0]);
  }
  return runs;
}

/** Writes the portable format, as its specification says, with the container kinds asked for. */
function write(values: number[], kindOf: (key: number) => Kind): Uint8Array {
  const keys = [...new Set(values.map((value) => value >>> 16))];
  const withRuns = keys.some((key) => kindOf(key) === "run");
  const lows = keys.map((key) => values.filter((value) => value >>> 16 === key).map((value) => value & 0xffff));
  const bodies = keys.map((key, i) => {
    if (kindOf(key) === "run") {
      const runs = runsOf(lows[i]);
      return [...u16(runs.length), ...runs.flatMap(([start, length]) => [...u16(start), ...u16(length)])];
    }
    if (kindOf(key) === "array") return lows[i].flatMap(u16);
    const bits = new Array(8192).fill(0);
    for (const low of lows[i]) bits[low >> 3] |= 1 << (low & 7);
    return bits;
  });
  const head = withRuns ? [...u16(12347), ...u16(keys.length - 1)] : [...u32(12346), ...u32(keys.length)];
  if (withRuns) {
    const flags = new Array((keys.length + 7) >> 3).fill(0);
    keys.forEach((key, i) => {
      if (kindOf(key) === "run") flags[i >> 3] |= 1 << (i & 7);
    });
    head.push(...flags);
  }
  keys.forEach((key, i) => {
    head.push(...u16(key), ...u16(lows[i].length - 1));
  });
  if (!withRuns || keys.length >= 4) {
    let at = head.length + 4 * keys.length;
    for (const body of bodies) {
      head.push(...u32(at));
      at += body.length;
    }
  }
  return Uint8Array.from([...head, ...bodies.flat()]);
}

function read(bytes: Uint8Array, limit = 1 << 20): number[] {
  const out: number[] = [];
  readRoaring(new ByteReader(bytes), limit, (value) => out.push(value));
  return out;
}

/** A small repeatable random source. */
function random(seed: number): () => number {
  let state = seed;
  return () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return state / 2 ** 32;
  };
}

describe("roaring sets", () => {
  it("reads an empty set", () => expect(read(write([], () => "array"))).toEqual([]));

  it("reads array containers, the first and the last value included", () => {
    const values = [0, 1, 65535, 65536, 131071, 200000];
    expect(read(write(values, () => "array"))).toEqual(values);
  });

  it("reads a bitmap container", () => {
    const values = Array.from({ length: 5000 }, (_, i) => i * 13);
    expect(read(write(values, () => "bitmap"))).toEqual(values);
  });

  it("reads runs, with and without the offset table", () => {
    for (const containers of [1, 3, 4, 6]) {
      const values: number[] = [];
      for (let key = 0; key < containers; key++) {
        for (let low = 10; low < 4000; low++) if (low % 100 < 70) values.push(key * 65536 + low);
      }
      expect(read(write(values, () => "run"))).toEqual(values);
    }
  });

  it("reads sets of mixed containers", () => {
    const next = random(7);
    const values: number[] = [];
    for (let key = 0; key < 5; key++) {
      const share = [0.01, 0.5, 0.9, 0.02, 0.4][key];
      for (let low = 0; low < 65536; low++) if (next() < share) values.push(key * 65536 + low);
    }
    const kinds: Kind[] = ["array", "bitmap", "run", "array", "bitmap"];
    expect(read(write(values, (key) => kinds[key]))).toEqual(values);
  });

  it("refuses a value at the limit", () => {
    const bytes = write([9, 10], () => "array");
    expect(() => read(bytes, 10)).toThrow(InvalidFrame);
    expect(read(bytes, 11)).toEqual([9, 10]);
  });

  it("refuses a value that stands twice", () => {
    const bytes = write([9, 10], () => "array");
    bytes[bytes.length - 2] = 9;
    expect(() => read(bytes)).toThrow(InvalidFrame);
  });

  it("refuses every cut of a good set, and a byte behind it", () => {
    const bytes = write([3, 4, 5, 70000, 70001], (key) => (key === 0 ? "run" : "array"));
    for (let length = 0; length < bytes.length; length++) {
      expect(() => read(bytes.subarray(0, length))).toThrow(InvalidFrame);
    }
    expect(() => read(Uint8Array.from([...bytes, 0]))).toThrow(InvalidFrame);
  });
});
