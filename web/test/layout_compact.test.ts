//! Compact layouts against the golden vectors: the same plan as the JSON, and damaged bytes refused.
import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import type { LayoutJson, LayoutRow } from "../src/proto/layout";
import { decodeLayout } from "../src/proto/layout_compact";
import { fromHex } from "./hex";

interface Case {
  name: string;
  compact: string;
  hash: string;
  seat_count: number;
  stored_json?: string;
}

const vectors = JSON.parse(readFileSync(new URL("../../proto/vectors/layouts.json", import.meta.url), "utf8"));

/** The stored JSON of a layout, byte for byte: members in the server's order, absent ones left out. */
function storedJson(layout: LayoutJson): string {
  const some = (list?: unknown[]) => (list?.length ? list : undefined);
  return JSON.stringify({
    name: layout.name,
    seat_count: layout.seat_count,
    unit_mm: layout.unit_mm,
    bounds: layout.bounds,
    focal: layout.focal,
    sections: layout.sections.map(({ index, name, zone, floor, outline, entrance, focal, rows }) => ({
      index,
      name,
      zone,
      floor,
      outline,
      entrance,
      focal,
      rows: rows.map(({ label, first, seats, x, y, gaps, accessible, companion, restricted }: LayoutRow) => ({
        label,
        first,
        seats,
        x,
        y,
        gaps: some(gaps),
        accessible: some(accessible),
        companion: some(companion),
        restricted: some(restricted),
      })),
    })),
    areas: layout.areas,
    shapes: some((layout.shapes as { kind: string; points: unknown; label?: string }[]).map((s) => ({ ...s }))),
    texts: some(
      (layout.texts as { angle_deg: number }[]).map((text) => ({ ...text, angle_deg: text.angle_deg || undefined })),
    ),
  });
}

describe("compact layouts", () => {
  it.each((vectors.cases as Case[]).map((one) => [one.name, one] as const))("%s comes back whole", (_, one) => {
    const layout = decodeLayout(fromHex(one.compact), one.hash);
    if (!layout) throw new Error("refused");
    expect(layout.seat_count).toBe(one.seat_count);
    const json = storedJson(layout);
    if (one.stored_json) expect(JSON.parse(json)).toEqual(JSON.parse(one.stored_json));
    expect(createHash("sha256").update(json).digest("hex").slice(0, 32)).toBe(one.hash);
  });

  it.each((vectors.refused as Case[]).map((one) => [one.name, one] as const))("%s is refused", (_, one) => {
    expect(decodeLayout(fromHex(one.compact), "")).toBeNull();
  });
});
