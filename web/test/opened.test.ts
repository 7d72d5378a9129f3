//! What a presale code opens, and what the map of everybody else still says.
import { describe, expect, it } from "vitest";
import { readSeatSet } from "../src/proto/seat_set";
import { openedStates } from "../src/state/opened";

const NONE = new Uint8Array(0);

describe("the states for a buyer with a code", () => {
  it("are the map's own without one", () => {
    const states = Uint8Array.of(0, 3, 2);
    expect(openedStates(states, null, NONE, "all")).toBe(states);
  });

  it("show blocked seats as available where the code opens them, and nothing else otherwise", () => {
    const states = Uint8Array.of(0, 3, 3, 1, 2);
    const open = Uint8Array.of(1, 1, 0, 1, 1);
    expect([...openedStates(states, open, states, "all")]).toEqual([0, 0, 3, 1, 2]);
    expect([...states]).toEqual([0, 3, 3, 1, 2]);
  });

  it("follow the map seat by seat, and begin anew with another map", () => {
    const states = Uint8Array.of(3, 3, 0);
    const open = Uint8Array.of(1, 0, 0);
    const before = openedStates(states, open, NONE, Uint32Array.of(0));
    expect([...before]).toEqual([0, 3, 0]);
    states[0] = 1;
    states[2] = 2;
    expect(openedStates(states, open, before, Uint32Array.of(0, 2))).toBe(before);
    expect([...before]).toEqual([1, 3, 2]);
    states[0] = 3;
    expect([...openedStates(states, open, before, Uint32Array.of(0))]).toEqual([0, 3, 2]);
    const grown = Uint8Array.of(3, 3, 0, 3);
    expect([...openedStates(grown, open, before, Uint32Array.of(3))]).toEqual([0, 3, 0, 3]);
  });
});

describe("a seat set in base64", () => {
  it("is one byte a seat", () => {
    // One run, 0 to 35, as the server answers `unlock`.
    const seats = readSeatSet("OzAAAAEAACMAAQAAACMA", 40);
    expect([...seats]).toEqual([...Array(36).fill(1), ...Array(4).fill(0)]);
  });

  it("is refused when it names a seat that the event has not, or is none", () => {
    expect(() => readSeatSet("OzAAAAEAACMAAQAAACMA", 35)).toThrow();
    expect(() => readSeatSet("AAAA", 40)).toThrow();
  });
});
