//! Where the buyer looks: scale and offset in CSS pixels, with limits and animated moves.
//! `seat_map.ts` owns one; `input.ts` moves it.
import type { Box } from "./outline";

/** Seats are never drawn larger than this, in CSS pixels between neighbours. */
const MAX_PITCH_PX = 52;
/** Zooming out stops a little beyond the whole venue. */
const MIN_OF_FIT = 0.85;
const FLIGHT_MS = 420;
const FIT_MARGIN_PX = 20;
const SECTION_MARGIN_PX = 34;

export interface Insets {
  top: number;
  right: number;
  bottom: number;
  left: number;
}

interface Pose {
  scale: number;
  x: number;
  y: number;
}

export class Camera {
  scale = 1;
  x = 0;
  y = 0;
  width = 1;
  height = 1;
  insets: Insets = { top: 0, right: 0, bottom: 0, left: 0 };
  #bounds: Box = { x0: 0, y0: 0, x1: 1, y1: 1 };
  #pitch = 1;
  #flight: { from: Pose; to: Pose; startMs: number } | null = null;

  setWorld(bounds: Box, pitch: number): void {
    this.#bounds = bounds;
    this.#pitch = pitch;
  }

  /** distance between neighbouring seats on the screen, CSS pixels */
  get pitchPx(): number {
    return this.#pitch * this.scale;
  }

  get flying(): boolean {
    return this.#flight !== null;
  }

  toWorld(px: number, py: number): [number, number] {
    return [(px - this.x) / this.scale, (py - this.y) / this.scale];
  }

  /** The pose that shows `box` whole in the part of the screen that nothing covers. */
  poseFor(box: Box, margin = FIT_MARGIN_PX): Pose {
    const { top, right, bottom, left } = this.insets;
    const width = Math.max(80, this.width - left - right - 2 * margin);
    const height = Math.max(80, this.height - top - bottom - 2 * margin);
    const scale = Math.min(width / Math.max(box.x1 - box.x0, 1e-6), height / Math.max(box.y1 - box.y0, 1e-6));
    return this.#centred((box.x0 + box.x1) / 2, (box.y0 + box.y1) / 2, Math.min(scale, MAX_PITCH_PX / this.#pitch));
  }

  #centred(worldX: number, worldY: number, scale: number): Pose {
    const { top, right, bottom, left } = this.insets;
    return {
      scale,
      x: left + (this.width - left - right) / 2 - worldX * scale,
      y: top + (this.height - top - bottom) / 2 - worldY * scale,
    };
  }

  fit(animate: boolean): void {
    this.#go(this.poseFor(this.#bounds), animate);
  }

  /** Brings a section into view, with room for its name above it. */
  showBox(box: Box, animate: boolean): void {
    this.#go(this.poseFor(box, SECTION_MARGIN_PX), animate);
  }

  /** Brings a point to the middle with neighbours `pitchPx` apart. */
  showPoint(worldX: number, worldY: number, pitchPx: number, animate: boolean): void {
    this.#go(this.#centred(worldX, worldY, pitchPx / this.#pitch), animate);
  }

  panBy(dx: number, dy: number): void {
    this.#flight = null;
    this.x += dx;
    this.y += dy;
    this.#limit(this);
  }

  /** Zooms by `factor` keeping the screen point still. */
  zoomAt(px: number, py: number, factor: number, animate = false): void {
    const base = this.#flight && animate ? this.#flight.to : this;
    const scale = this.#limitScale(base.scale * factor);
    const worldX = (px - base.x) / base.scale;
    const worldY = (py - base.y) / base.scale;
    this.#go({ scale, x: px - worldX * scale, y: py - worldY * scale }, animate);
  }

  zoomBy(factor: number, animate: boolean): void {
    const { top, right, bottom, left } = this.insets;
    this.zoomAt(left + (this.width - left - right) / 2, top + (this.height - top - bottom) / 2, factor, animate);
  }

  #limitScale(scale: number): number {
    const least = this.poseFor(this.#bounds).scale * MIN_OF_FIT;
    return Math.min(Math.max(scale, least), Math.max(MAX_PITCH_PX / this.#pitch, least));
  }

  /** Keeps the venue under the middle of the screen. */
  #limit(pose: Pose): void {
    const { top, right, bottom, left } = this.insets;
    const midX = left + (this.width - left - right) / 2;
    const midY = top + (this.height - top - bottom) / 2;
    const b = this.#bounds;
    pose.x = Math.min(Math.max(pose.x, midX - b.x1 * pose.scale), midX - b.x0 * pose.scale);
    pose.y = Math.min(Math.max(pose.y, midY - b.y1 * pose.scale), midY - b.y0 * pose.scale);
  }

  #go(to: Pose, animate: boolean): void {
    this.#limit(to);
    if (animate) {
      this.#flight = { from: { scale: this.scale, x: this.x, y: this.y }, to, startMs: performance.now() };
      return;
    }
    this.#flight = null;
    Object.assign(this, to);
  }

  /** Advances an animated move; false when there is none. */
  step(nowMs: number): boolean {
    if (!this.#flight) return false;
    const { from, to, startMs } = this.#flight;
    const t = Math.min(1, Math.max(0, (nowMs - startMs) / FLIGHT_MS));
    const eased = 1 - (1 - t) ** 3;
    // The scale moves by equal ratios and the offset along with it, so that the way there looks straight.
    const scale = from.scale * (to.scale / from.scale) ** eased;
    const share = from.scale === to.scale ? eased : (scale - from.scale) / (to.scale - from.scale);
    this.scale = scale;
    this.x = from.x + (to.x - from.x) * share;
    this.y = from.y + (to.y - from.y) * share;
    if (t >= 1) {
      Object.assign(this, to);
      this.#flight = null;
    }
    return true;
  }
}
