//! The blitter, pixel by pixel: what lands where, in which colour, and what is left alone.
import { describe, expect, it } from "vitest";
import { blitSeats, type Pixels } from "../src/seatmap/blit";
import { DARK, LIGHT, STYLE_AVAILABLE, STYLE_COUNT, STYLE_HELD, STYLE_MINE, STYLE_SOLD } from "../src/seatmap/palette";
import { makeStamps } from "../src/seatmap/stamps";

const ONE_TO_ONE = { scale: 1, offsetX: 0, offsetY: 0 };

function canvas(width: number, height: number): Pixels {
  return { width, height, words: new Uint32Array(width * height) };
}

function rgba(pixels: Pixels, x: number, y: number): number[] {
  const word = pixels.words[y * pixels.width + x];
  return [word & 255, (word >> 8) & 255, (word >> 16) & 255, word >>> 24];
}

function draw(pixels: Pixels, seats: [x: number, y: number, style: number][], diameter = 8, view = ONE_TO_ONE): number {
  return blitSeats(
    pixels,
    Float32Array.from(seats, ([x]) => x),
    Float32Array.from(seats, ([, y]) => y),
    Uint8Array.from(seats, ([, , style]) => style),
    view,
    makeStamps(LIGHT, diameter),
  );
}

/** The picture as text: # opaque, + partly, . nothing. */
function shape(pixels: Pixels): string[] {
  return Array.from({ length: pixels.height }, (_, y) =>
    Array.from({ length: pixels.width }, (_, x) => {
      const alpha = rgba(pixels, x, y)[3];
      return alpha === 255 ? "#" : alpha > 0 ? "+" : ".";
    }).join(""),
  );
}

describe("blitter", () => {
  it("draws an available seat as a filled disc of its colour around its centre", () => {
    const pixels = canvas(11, 11);
    expect(draw(pixels, [[5.5, 5.5, STYLE_AVAILABLE]])).toBe(1);
    expect(rgba(pixels, 5, 5)).toEqual([0x00, 0x72, 0xb2, 255]);
    expect(shape(pixels)).toEqual([
      "...........",
      "...+++++...",
      "..++###++..",
      ".++#####++.",
      ".+#######+.",
      ".+#######+.",
      ".+#######+.",
      ".++#####++.",
      "..++###++..",
      "...+++++...",
      "...........",
    ]);
  });

  it("draws a held seat as a ring, a sold one as a cross, mine as a square with a tick", () => {
    const held = canvas(17, 17);
    draw(held, [[8.5, 8.5, STYLE_HELD]], 12);
    expect(rgba(held, 8, 8)[3]).toBe(0);
    expect(rgba(held, 13, 8)).toEqual([0xb2, 0x6a, 0x00, 255]);

    const sold = canvas(17, 17);
    draw(sold, [[8.5, 8.5, STYLE_SOLD]], 12);
    expect(rgba(sold, 8, 8).slice(0, 3)).toEqual([0x8a, 0x8f, 0x98]);
    expect(rgba(sold, 6, 6)[3]).toBeGreaterThan(200);
    expect(rgba(sold, 8, 5)[3]).toBe(0);

    const mine = canvas(25, 25);
    draw(mine, [[12.5, 12.5, STYLE_MINE]], 20);
    expect(rgba(mine, 3, 12)).toEqual([0x11, 0x11, 0x11, 255]);
    expect(mine.words).toContain(0xffffffff);
  });

  it("places seats between pixels by quarters", () => {
    const at = (x: number) => {
      const pixels = canvas(9, 9);
      draw(pixels, [[x, 4.5, STYLE_AVAILABLE]], 4);
      return [rgba(pixels, 2, 4)[3], rgba(pixels, 6, 4)[3]];
    };
    const [left0, right0] = at(4.5);
    const [left1, right1] = at(4.75);
    expect(left1).toBeLessThan(left0);
    expect(right1).toBeGreaterThan(right0);
  });

  it("cuts seats at every edge and leaves the rest of memory alone", () => {
    const pixels = canvas(6, 4);
    const seats: [number, number, number][] = [];
    for (const x of [-2, 0, 3, 6, 8]) for (const y of [-2, 0, 2, 4, 6]) seats.push([x, y, STYLE_AVAILABLE]);
    expect(() => draw(pixels, seats)).not.toThrow();
    expect(pixels.words.length).toBe(24);
    const left = canvas(12, 8);
    draw(left, [[0, 4, STYLE_AVAILABLE]]);
    expect(shape(left).map((row) => row.slice(6))).toEqual(new Array(8).fill("......"));
    expect(rgba(left, 0, 4)[3]).toBe(255);
    const far = canvas(6, 4);
    expect(
      draw(far, [
        [100, 2, 0],
        [-100, 2, 0],
        [2, 100, 0],
        [Number.NaN, 2, 0],
      ]),
    ).toBe(0);
    expect(far.words.every((word) => word === 0)).toBe(true);
  });

  it("moves and scales with the view", () => {
    const pixels = canvas(40, 40);
    draw(pixels, [[1000, 2000, STYLE_AVAILABLE]], 6, { scale: 0.01, offsetX: 10.5, offsetY: -4.5 });
    expect(rgba(pixels, 20, 15)).toEqual([0x00, 0x72, 0xb2, 255]);
  });

  it("looks the same whatever the order of overlapping seats", () => {
    const seats: [number, number, number][] = [
      [5, 5, STYLE_AVAILABLE],
      [8, 6, STYLE_AVAILABLE],
      [7, 9, STYLE_AVAILABLE],
    ];
    const one = canvas(14, 14);
    const other = canvas(14, 14);
    draw(one, seats);
    draw(other, [...seats].reverse());
    expect([...other.words]).toEqual([...one.words]);
  });

  it("has a stamp for every style, phase and palette", () => {
    for (const palette of [LIGHT, DARK]) {
      for (const diameter of [3.5, 13.75, 14, 60]) {
        const stamps = makeStamps(palette, diameter);
        expect(stamps.pixels.length).toBe(STYLE_COUNT * stamps.phases ** 2);
        for (const stamp of stamps.pixels) expect(stamp.some((word) => word >>> 24 > 0)).toBe(true);
      }
    }
  });
});

describe("palettes", () => {
  const luminance = ([r, g, b]: number[]) =>
    [r, g, b]
      .map((value) => value / 255)
      .map((value) => (value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4))
      .reduce((sum, value, i) => sum + value * [0.2126, 0.7152, 0.0722][i], 0);
  const contrast = (a: number[], b: number[]) => {
    const [light, dark] = [luminance(a), luminance(b)].sort((x, y) => y - x);
    return (light + 0.05) / (dark + 0.05);
  };
  const hex = (colour: string) => [1, 3, 5].map((at) => Number.parseInt(colour.slice(at, at + 2), 16));

  it.each([
    ["light", LIGHT],
    ["dark", DARK],
  ] as const)("%s: seat colours keep 3:1 to the section they stand on", (_, palette) => {
    for (const style of [STYLE_AVAILABLE, STYLE_HELD, STYLE_SOLD, STYLE_MINE]) {
      expect(contrast(palette.seats[style], hex(palette.section))).toBeGreaterThanOrEqual(3);
    }
    expect(contrast(hex(palette.seatText), palette.seats[STYLE_AVAILABLE])).toBeGreaterThanOrEqual(4.5);
  });
});
