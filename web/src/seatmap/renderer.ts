//! Draws the seats, and nothing but the seats. `SeatRenderer` is what a back end must do; the blitter is the one
//! that needs no GPU. `seat_map.ts` calls it once a frame.
import type { SeatPlan } from "../proto/layout";
import { blitSeats, type Pixels, type View } from "./blit";
import type { Palette } from "./palette";
import { makeStamps, type Stamps } from "./stamps";

/** Seats take this share of the distance to their neighbour. */
export const SEAT_OF_PITCH = 0.8;

export interface SeatRenderer {
  /** New seats to draw; `styles` is read at every frame and may change in between. */
  setPlan(plan: SeatPlan, styles: Uint8Array): void;
  setPalette(palette: Palette): void;
  /** Draws all seats into `context`, `opacity` 0..1. `view` is in device pixels. Returns the seats drawn. */
  draw(context: CanvasRenderingContext2D, view: View, opacity: number): number;
}

/** Zooming rebuilds the stamps; in steps of this share of the size it does so rarely and invisibly. */
const DIAMETER_STEP = 1 / 4;

export class BlitRenderer implements SeatRenderer {
  #plan: SeatPlan | null = null;
  #styles: Uint8Array = new Uint8Array(0);
  #palette: Palette;
  #stamps: Stamps | null = null;
  #canvas = document.createElement("canvas");
  #context = this.#canvas.getContext("2d", { willReadFrequently: true });
  #image: ImageData | null = null;
  #pixels: Pixels = { width: 0, height: 0, words: new Uint32Array(0) };

  constructor(palette: Palette) {
    this.#palette = palette;
  }

  setPlan(plan: SeatPlan, styles: Uint8Array): void {
    this.#plan = plan;
    this.#styles = styles;
  }

  setPalette(palette: Palette): void {
    this.#palette = palette;
    this.#stamps = null;
  }

  draw(context: CanvasRenderingContext2D, view: View, opacity: number): number {
    const plan = this.#plan;
    if (!plan || !this.#context) return 0;
    const { width, height } = context.canvas;
    if (!this.#image || this.#image.width !== width || this.#image.height !== height) {
      this.#canvas.width = width;
      this.#canvas.height = height;
      this.#image = new ImageData(width, height);
      this.#pixels = { width, height, words: new Uint32Array(this.#image.data.buffer) };
    }
    const exact = plan.pitch * view.scale * SEAT_OF_PITCH;
    const diameterPx = Math.max(1, Math.round(exact / DIAMETER_STEP) * DIAMETER_STEP);
    if (this.#stamps?.diameterPx !== diameterPx) this.#stamps = makeStamps(this.#palette, diameterPx);
    this.#pixels.words.fill(0);
    const drawn = blitSeats(this.#pixels, plan.x, plan.y, this.#styles, view, this.#stamps);
    this.#context.putImageData(this.#image, 0, 0);
    context.globalAlpha = opacity;
    context.drawImage(this.#canvas, 0, 0);
    context.globalAlpha = 1;
    return drawn;
  }
}
