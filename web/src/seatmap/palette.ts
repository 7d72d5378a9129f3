//! Colours of the map, light and dark, and the styles a seat can have on it.
//! State colours keep 3:1 to the ground and differ under the three colour-vision deficiencies; shapes differ too.

export const STYLE_AVAILABLE = 0;
export const STYLE_HELD = 1;
export const STYLE_SOLD = 2;
export const STYLE_BLOCKED = 3;
/** held by this buyer */
export const STYLE_MINE = 4;
/** asked for, not yet answered */
export const STYLE_PENDING = 5;
/** available, but outside the buyer's price filter */
export const STYLE_DIMMED = 6;
export const STYLE_COUNT = 7;

export interface Palette {
  /** colour by style, as [red, green, blue, alpha 0..255] */
  seats: [number, number, number, number][];
  /** the tick on one's own seats */
  tick: [number, number, number];
  ground: string;
  section: string;
  sectionEdge: string;
  /** a section with everything left, mixed towards `section` as it sells */
  plenty: [number, number, number];
  gone: [number, number, number];
  areaEdge: string;
  /** behind the name of a zone */
  plate: string;
  shape: string;
  shapeEdge: string;
  text: string;
  mutedText: string;
  seatText: string;
  pin: string;
  pinEdge: string;
}

export const LIGHT: Palette = {
  seats: [
    [0x00, 0x72, 0xb2, 255],
    [0xb2, 0x6a, 0x00, 255],
    [0x8a, 0x8f, 0x98, 255],
    [0x8a, 0x8f, 0x98, 110],
    [0x11, 0x11, 0x11, 255],
    [0x11, 0x11, 0x11, 255],
    [0x00, 0x72, 0xb2, 56],
  ],
  tick: [255, 255, 255],
  ground: "#f4f6f9",
  section: "#ffffff",
  sectionEdge: "#cfd6e0",
  plenty: [0xb9, 0xdc, 0xf3],
  gone: [0xe6, 0xe9, 0xee],
  areaEdge: "#0072b2",
  plate: "#ffffff",
  shape: "#e3e8ef",
  shapeEdge: "#c4ccd8",
  text: "#14181f",
  mutedText: "#5a6473",
  seatText: "#ffffff",
  pin: "#111111",
  pinEdge: "#ffffff",
};

export const DARK: Palette = {
  seats: [
    [0x4f, 0xb3, 0xf0, 255],
    [0xe0, 0x9b, 0x35, 255],
    [0x7c, 0x84, 0x91, 255],
    [0x7c, 0x84, 0x91, 110],
    [0xff, 0xff, 0xff, 255],
    [0xff, 0xff, 0xff, 255],
    [0x4f, 0xb3, 0xf0, 60],
  ],
  tick: [0x11, 0x14, 0x1a],
  ground: "#0b0e13",
  section: "#141921",
  sectionEdge: "#2c3542",
  plenty: [0x16, 0x44, 0x66],
  gone: [0x1d, 0x23, 0x2c],
  areaEdge: "#4fb3f0",
  plate: "#1a212b",
  shape: "#1a212b",
  shapeEdge: "#2f3a48",
  text: "#eef2f7",
  mutedText: "#9aa6b6",
  seatText: "#06121c",
  pin: "#ffffff",
  pinEdge: "#0b0e13",
};

/** The fill of a section by the share of it that is available, as a CSS colour. */
export function availabilityFill(palette: Palette, share: number): string {
  if (share <= 0) return `rgb(${palette.gone.join(" ")})`;
  const t = 0.25 + 0.75 * Math.sqrt(Math.min(share, 1));
  const mixed = palette.plenty.map((full, i) => Math.round(palette.gone[i] + (full - palette.gone[i]) * t));
  return `rgb(${mixed.join(" ")})`;
}
