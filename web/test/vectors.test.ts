//! The golden vectors of the protocol, the same files that the Rust decoder and third parties must pass.
import { readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { digestOf, mix } from "../src/proto/digest";
import { applyBytes, emptyMap, resyncAnswered } from "../src/state/event_map";
import { fromHex } from "./hex";

const read = (name: string) =>
  JSON.parse(readFileSync(new URL(`../../proto/vectors/${name}.json`, import.meta.url), "utf8"));

interface Step {
  resync_answered?: true;
  frame: string;
  outcome: "applied" | "in_step" | "dropped" | "resync";
  from?: { epoch: number; seq: number };
  position: { epoch: number; seq: number };
  states: [state: number, count: number][];
  areas: number[];
  digest: number | null;
}

interface Case {
  name: string;
  seat_count: number;
  area_count: number;
  live?: { epoch: number; seq: number };
  steps: Step[];
}

describe("digest", () => {
  const vectors = read("digest");
  it("mixes as the vectors say", () => {
    for (const { x, mix: expected } of vectors.mix) expect(mix(x)).toBe(expected);
  });
  it("sums whole maps as the vectors say", () => {
    for (const { states, areas, digest } of vectors.maps) expect(digestOf([...states].map(Number), areas)).toBe(digest);
  });
});

for (const file of ["frames", "frames_refused"]) {
  const { cases } = read(file) as { cases: Case[] };
  describe(file, () => {
    it("has cases", () => expect(cases.length).toBeGreaterThan(20));
    it.each(cases.map((one) => [one.name, one] as const))("%s", (_, { seat_count, area_count, live, steps }) => {
      const map = emptyMap(seat_count, area_count);
      if (live) Object.assign(map, live);
      steps.forEach((step, at) => {
        if (step.resync_answered) {
          resyncAnswered(map);
          return;
        }
        const applied = applyBytes(map, fromHex(step.frame));
        const where = `step ${at}`;
        expect(applied.outcome, where).toBe(step.outcome);
        if (applied.outcome === "resync") expect(applied.from, where).toEqual(step.from);
        expect({ epoch: map.epoch, seq: map.seq }, where).toEqual(step.position);
        expect(runs(map.states), where).toEqual(step.states);
        expect([...map.areas], where).toEqual(step.areas);
        expect(map.whole ? map.digest : null, where).toBe(step.digest);
      });
    });
  });
}

/** States as runs of [state, count]. */
function runs(states: Uint8Array): [number, number][] {
  const out: [number, number][] = [];
  for (const state of states) {
    const last = out[out.length - 1];
    if (last?.[0] === state) last[1]++;
    else out.push([state, 1]);
  }
  return out;
}
