//! The little pictures of seats: one block of pixels for each style, size and sub-pixel phase.
//! Built when the zoom changes, copied by `blit.ts` for every seat of every frame. Pure: arrays in, arrays out.
import {
  type Palette,
  STYLE_AVAILABLE,
  STYLE_BLOCKED,
  STYLE_COUNT,
  STYLE_DIMMED,
  STYLE_HELD,
  STYLE_MINE,
  STYLE_PENDING,
  STYLE_SOLD,
} from "./palette";

/** Small seats move visibly when rounded to whole pixels, large ones do not: phases a pixel, by size. */
const PHASES_SMALL = 4;
const LARGE_SEAT_PX = 14;
/** Below this the cross and the tick are mush: a plain dot says more. */
const DETAIL_FROM_PX = 6;

export interface Stamps {
  /** diameter of a seat in device pixels */
  diameterPx: number;
  /** side of each square stamp */
  sidePx: number;
  phases: number;
  /** pixels as little-endian RGBA words, at [(style * phases + phaseY) * phases + phaseX] */
  pixels: Uint32Array[];
}

/** Signed distance to the shape's edge in pixels, negative inside, for a point relative to the seat's centre. */
type Shape = (x: number, y: number) => number;

const disc =
  (r: number): Shape =>
  (x, y) =>
    Math.hypot(x, y) - r;

const ring =
  (r: number, thick: number): Shape =>
  (x, y) =>
    Math.abs(Math.hypot(x, y) - (r - thick / 2)) - thick / 2;

const square =
  (half: number, round: number): Shape =>
  (x, y) => {
    const dx = Math.max(Math.abs(x) - half + round, 0);
    const dy = Math.max(Math.abs(y) - half + round, 0);
    return Math.hypot(dx, dy) - round + Math.min(Math.max(Math.abs(x), Math.abs(y)) - half + round, 0);
  };

/** Distance to a segment, minus half its thickness. */
function stroke(ax: number, ay: number, bx: number, by: number, thick: number): Shape {
  const dx = bx - ax;
  const dy = by - ay;
  return (x, y) => {
    const t = Math.min(1, Math.max(0, ((x - ax) * dx + (y - ay) * dy) / (dx * dx + dy * dy)));
    return Math.hypot(x - ax - t * dx, y - ay - t * dy) - thick / 2;
  };
}

const union =
  (a: Shape, b: Shape): Shape =>
  (x, y) =>
    Math.min(a(x, y), b(x, y));

/** The figure of a style; `mark` is drawn over it in the palette's tick colour. */
function figure(style: number, d: number): { shape: Shape; mark?: Shape } {
  const r = d / 2;
  const fine = d >= DETAIL_FROM_PX;
  switch (style) {
    case STYLE_HELD:
      return { shape: fine ? ring(r, Math.max(1.25, d * 0.17)) : disc(r * 0.85) };
    case STYLE_SOLD: {
      if (!fine) return { shape: disc(r * 0.6) };
      const a = r * 0.52;
      const thick = Math.max(1.2, d * 0.14);
      return { shape: union(stroke(-a, -a, a, a, thick), stroke(-a, a, a, -a, thick)) };
    }
    case STYLE_BLOCKED:
      return { shape: disc(r * 0.3) };
    case STYLE_MINE: {
      const shape = square(r * 1.08, d * 0.22);
      if (!fine) return { shape };
      const thick = Math.max(1.2, d * 0.13);
      const tick = union(
        stroke(-r * 0.5, r * 0.02, -r * 0.12, r * 0.4, thick),
        stroke(-r * 0.12, r * 0.4, r * 0.52, -r * 0.38, thick),
      );
      return { shape, mark: tick };
    }
    case STYLE_PENDING: {
      const frame = square(r * 1.08, d * 0.22);
      const hole = square(r * 1.08 - Math.max(1.2, d * 0.14), d * 0.16);
      const outline: Shape = (x, y) => Math.max(frame(x, y), -hole(x, y));
      return { shape: fine ? union(outline, disc(r * 0.34)) : frame };
    }
    case STYLE_DIMMED:
    case STYLE_AVAILABLE:
      return { shape: disc(r) };
    default:
      return { shape: disc(r) };
  }
}

/** Builds every stamp for seats of `diameterPx` device pixels. */
export function makeStamps(palette: Palette, diameterPx: number): Stamps {
  const phases = diameterPx < LARGE_SEAT_PX ? PHASES_SMALL : 1;
  const sidePx = Math.ceil(diameterPx * 1.08) + 3;
  const pixels: Uint32Array[] = [];
  for (let style = 0; style < STYLE_COUNT; style++) {
    const { shape, mark } = figure(style, diameterPx);
    for (let py = 0; py < phases; py++) {
      for (let px = 0; px < phases; px++) {
        const centre = (sidePx >> 1) + 0.5;
        pixels.push(rasterise(sidePx, centre + px / phases, centre + py / phases, shape, mark, palette, style));
      }
    }
  }
  return { diameterPx, sidePx, phases, pixels };
}

function rasterise(
  side: number,
  cx: number,
  cy: number,
  shape: Shape,
  mark: Shape | undefined,
  palette: Palette,
  style: number,
): Uint32Array {
  const out = new Uint32Array(side * side);
  const [r, g, b, a] = palette.seats[style];
  for (let y = 0; y < side; y++) {
    for (let x = 0; x < side; x++) {
      const dx = x + 0.5 - cx;
      const dy = y + 0.5 - cy;
      const cover = Math.min(1, Math.max(0, 0.5 - shape(dx, dy)));
      const alpha = Math.round(cover * a);
      if (alpha === 0) continue;
      const over = mark ? Math.min(1, Math.max(0, 0.5 - mark(dx, dy))) : 0;
      const mixed = [r, g, b].map((base, i) => Math.round(base + (palette.tick[i] - base) * over));
      out[y * side + x] = ((alpha << 24) | (mixed[2] << 16) | (mixed[1] << 8) | mixed[0]) >>> 0;
    }
  }
  return out;
}
