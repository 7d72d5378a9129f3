//! The stamp loop: copies one little picture a seat into a block of pixels. The hot path of the map.
//! Called once a frame by `renderer.ts`; pure over arrays, so tests check single pixels.
import type { Stamps } from "./stamps";

/** Where the layout stands on the screen: device pixel = coordinate * scale + offset. */
export interface View {
  scale: number;
  offsetX: number;
  offsetY: number;
}

export interface Pixels {
  width: number;
  height: number;
  /** little-endian RGBA words, not premultiplied */
  words: Uint32Array;
}

/**
 * Draws every seat that touches the picture and returns how many did. Where stamps overlap, the more opaque pixel
 * stays, so the order of seats does not show. Seats without a place (NaN) compare false and are passed over.
 */
export function blitSeats(
  target: Pixels,
  x: Float32Array,
  y: Float32Array,
  styles: Uint8Array,
  view: View,
  stamps: Stamps,
): number {
  const { width, height, words } = target;
  const { sidePx, phases, pixels } = stamps;
  const half = sidePx >> 1;
  let drawn = 0;

  for (let seat = 0; seat < styles.length; seat++) {
    const px = x[seat] * view.scale + view.offsetX;
    const py = y[seat] * view.scale + view.offsetY;
    if (!(px > -half && py > -half && px < width + half && py < height + half)) continue;
    drawn++;

    // The stamp's centre is the middle of a pixel plus its phase.
    let left = Math.floor(px - 0.5);
    let top = Math.floor(py - 0.5);
    let phaseX = Math.round((px - 0.5 - left) * phases);
    let phaseY = Math.round((py - 0.5 - top) * phases);
    if (phaseX === phases) {
      phaseX = 0;
      left++;
    }
    if (phaseY === phases) {
      phaseY = 0;
      top++;
    }
    left -= half;
    top -= half;

    const stamp = pixels[(styles[seat] * phases + phaseY) * phases + phaseX];
    const fromX = left < 0 ? -left : 0;
    const toX = left + sidePx > width ? width - left : sidePx;
    const fromY = top < 0 ? -top : 0;
    const toY = top + sidePx > height ? height - top : sidePx;
    for (let sy = fromY; sy < toY; sy++) {
      let from = sy * sidePx + fromX;
      let to = (top + sy) * width + left + fromX;
      for (let sx = fromX; sx < toX; sx++, from++, to++) {
        const word = stamp[from];
        if (word > 0x00ffffff && word >>> 24 > words[to] >>> 24) words[to] = word;
      }
    }
  }
  return drawn;
}
