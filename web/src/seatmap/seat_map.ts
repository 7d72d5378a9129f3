//! The live map as one object without a framework: canvas, camera, seats, names, taps.
//! `ui/map_view.tsx` makes it; the socket's changes come in as dirty seats, one redraw an animation frame goes out.
import type { SeatPlan } from "../proto/layout";
import { Camera, type Insets } from "./camera";
import { SeatGrid } from "./grid";
import { drawGround, type Ground, makeGround } from "./ground";
import { listen } from "./input";
import { drawNames } from "./names";
import { boxOf, inside, type Point } from "./outline";
import { DARK, LIGHT, type Palette, STYLE_AVAILABLE, STYLE_DIMMED, STYLE_MINE, STYLE_PENDING } from "./palette";
import { BlitRenderer, SEAT_OF_PITCH, type SeatRenderer } from "./renderer";
import { drawLabels } from "./seat_labels";

/** More device pixels than this cost time and show nothing. */
const MAX_PIXEL_RATIO = 2;
/** Seats appear between these diameters, in CSS pixels. */
const SEATS_FROM_PX = 2.2;
const SEATS_WHOLE_PX = 3.6;
/** Section names leave between these. */
const NAMES_WHOLE_PX = 5;
const NAMES_UNTIL_PX = 8;
const LABELS_FROM_PX = 12;
/** Smaller seats cannot be hit on purpose: a tap goes nearer instead. */
const PICK_FROM_MOUSE_PX = 6;
const PICK_FROM_TOUCH_PX = 11;
/** Half of a 24 px target. */
const PICK_REACH_PX = 12;
/** Distance between seats after a tap has brought the buyer nearer. */
const NEAR_PITCH_PX = 24;
/** Labels drawn at most, and while moving: text is the slowest thing on the map. */
const MOST_LABELS = 6_000;
const MOST_LABELS_MOVING = 900;

export interface SeatMapHandlers {
  seat: (seat: number) => void;
  area: (area: number) => void;
  hover: (seat: number | null, x: number, y: number) => void;
}

export class SeatMap {
  readonly camera = new Camera();
  readonly canvas = document.createElement("canvas");
  readonly #handlers: SeatMapHandlers;
  readonly #context = this.canvas.getContext("2d", { alpha: false });
  readonly #dark = matchMedia("(prefers-color-scheme: dark)");
  readonly #calm = matchMedia("(prefers-reduced-motion: reduce)");
  readonly #stop = new AbortController();
  readonly #unlisten: () => void;
  readonly #observer: ResizeObserver;
  #renderer: SeatRenderer;
  #palette: Palette;
  #plan: SeatPlan | null = null;
  #grid: SeatGrid | null = null;
  #ground: Ground | null = null;
  #states: Uint8Array = new Uint8Array(0);
  #styles = new Uint8Array(0);
  #mine: ReadonlySet<number> = new Set();
  #pending: ReadonlySet<number> = new Set();
  #shown: ((seat: number) => boolean) | null = null;
  #hovered: number | null = null;
  #count: (left: number) => string = String;
  #moving = false;
  #fitted = false;
  #frame = 0;

  constructor(host: HTMLElement, handlers: SeatMapHandlers) {
    this.#handlers = handlers;
    this.#palette = this.#dark.matches ? DARK : LIGHT;
    this.#renderer = new BlitRenderer(this.#palette);
    this.canvas.className = "seat-map-canvas";
    this.canvas.setAttribute("aria-hidden", "true");
    host.append(this.canvas);
    this.#dark.addEventListener(
      "change",
      () => {
        this.#palette = this.#dark.matches ? DARK : LIGHT;
        this.#renderer.setPalette(this.#palette);
        this.dirty();
      },
      { signal: this.#stop.signal },
    );
    this.#unlisten = listen(this.canvas, {
      pan: (dx, dy) => {
        this.camera.panBy(dx, dy);
        this.dirty();
      },
      zoom: (x, y, factor, animate) => {
        this.#hover(null);
        this.camera.zoomAt(x, y, factor, animate && !this.#calm.matches);
        this.dirty();
      },
      tap: (x, y, coarse) => this.#tap(x, y, coarse),
      hover: (at) => this.#hover(at),
      moving: (moving) => {
        this.#moving = moving;
        this.dirty();
      },
    });
    this.#observer = new ResizeObserver(() => this.#resize(host));
    this.#observer.observe(host);
    this.#resize(host);
  }

  destroy(): void {
    cancelAnimationFrame(this.#frame);
    this.#observer.disconnect();
    this.#unlisten();
    this.#stop.abort();
    this.canvas.remove();
  }

  /** A venue to draw. `prices` are the second lines of section labels, `count` words what is left. */
  setPlan(plan: SeatPlan, prices: string[], count: (left: number) => string): void {
    this.#plan = plan;
    this.#grid = new SeatGrid(plan);
    this.#ground = makeGround(plan);
    this.#styles = new Uint8Array(plan.seatCount);
    this.#states = new Uint8Array(plan.seatCount);
    this.#count = count;
    this.#ground.sections.forEach((section, i) => {
      section.price = prices[i] ?? "";
    });
    this.#renderer.setPlan(plan, this.#styles);
    this.camera.setWorld(this.#worldBox(plan), plan.pitch);
    this.#fitted = false;
    this.camera.fit(false);
    this.#restyle();
  }

  setAreas(areas: { left: number; total: number; price: string }[]): void {
    areas.forEach((area, i) => {
      if (this.#ground?.areas[i]) Object.assign(this.#ground.areas[i], area);
    });
    this.dirty();
  }

  /** The live states; `seats` are those that changed. The array is kept and read later. */
  setStates(states: Uint8Array, seats: Uint32Array | "all"): void {
    this.#states = states;
    if (seats === "all") return this.#restyle();
    for (const seat of seats) this.#style(seat);
    this.dirty();
  }

  setOwn(mine: ReadonlySet<number>, pending: ReadonlySet<number>): void {
    const touched = [...this.#mine, ...this.#pending, ...mine, ...pending];
    this.#mine = mine;
    this.#pending = pending;
    for (const seat of touched) this.#style(seat);
    this.dirty();
  }

  /** Seats for which `shown` is false are dimmed; null shows all. */
  setFilter(shown: ((seat: number) => boolean) | null): void {
    this.#shown = shown;
    this.#restyle();
  }

  setInsets(insets: Insets): void {
    this.camera.insets = insets;
    if (!this.#fitted) this.fit(false);
  }

  fit(animate = true): void {
    this.#hover(null);
    this.camera.fit(animate && !this.#calm.matches);
    this.dirty();
  }

  zoomBy(factor: number): void {
    this.#hover(null);
    this.#fitted = true;
    this.camera.zoomBy(factor, !this.#calm.matches);
    this.dirty();
  }

  showSection(section: number): void {
    const region = this.#ground?.sections[section];
    if (!region) return;
    this.#fitted = true;
    this.camera.showBox(region.box, !this.#calm.matches);
    this.dirty();
  }

  showSeat(seat: number): void {
    if (!this.#plan) return;
    this.#hover(null);
    this.#fitted = true;
    const pitch = Math.max(NEAR_PITCH_PX, this.camera.pitchPx);
    this.camera.showPoint(this.#plan.x[seat], this.#plan.y[seat], pitch, !this.#calm.matches);
    this.dirty();
  }

  get seatCount(): number {
    return this.#plan?.seatCount ?? 0;
  }

  /** How a seat is drawn now (the styles of `palette.ts`); for tests, which cannot read a canvas. */
  styleOf(seat: number): number {
    return this.#styles[seat];
  }

  /** Where a seat stands on the screen, CSS pixels inside the canvas; for tests and tooltips. */
  seatPoint(seat: number): { x: number; y: number } | null {
    if (!this.#plan) return null;
    const { camera } = this;
    return {
      x: this.#plan.x[seat] * camera.scale + camera.x,
      y: this.#plan.y[seat] * camera.scale + camera.y,
    };
  }

  /** Asks for one redraw at the next animation frame, however often it is called. */
  dirty(): void {
    this.#frame ||= requestAnimationFrame((now) => {
      this.#frame = 0;
      this.#draw(now);
    });
  }

  #worldBox(plan: SeatPlan) {
    const points: Point[] = [];
    for (const region of [...(this.#ground?.sections ?? []), ...(this.#ground?.areas ?? [])]) {
      if (region.points.length > 0) points.push([region.box.x0, region.box.y0], [region.box.x1, region.box.y1]);
    }
    for (const shape of this.#ground?.shapes ?? []) {
      points.push([shape.box.x0, shape.box.y0], [shape.box.x1, shape.box.y1]);
    }
    for (const text of this.#ground?.texts ?? []) {
      points.push([text.at[0] - text.size, text.at[1] - text.size], [text.at[0] + text.size, text.at[1] + text.size]);
    }
    const [x0, y0, x1, y1] = plan.layout.bounds;
    return points.length > 0 ? boxOf(points) : { x0, y0, x1, y1 };
  }

  #style(seat: number): void {
    const before = this.#styles[seat];
    let style = this.#states[seat];
    if (this.#mine.has(seat)) style = STYLE_MINE;
    else if (this.#pending.has(seat)) style = STYLE_PENDING;
    else if (style === STYLE_AVAILABLE && this.#shown && !this.#shown(seat)) style = STYLE_DIMMED;
    if (style === before) return;
    this.#styles[seat] = style;
    const region = this.#plan && this.#ground?.sections[this.#plan.section[seat]];
    if (region) region.left += Number(style === STYLE_AVAILABLE) - Number(before === STYLE_AVAILABLE);
  }

  #restyle(): void {
    if (!this.#plan || !this.#ground) return;
    for (const section of this.#ground.sections) section.left = 0;
    this.#styles.fill(STYLE_DIMMED);
    for (let seat = 0; seat < this.#plan.seatCount; seat++) {
      this.#style(seat);
    }
    this.dirty();
  }

  #resize(host: HTMLElement): void {
    const { clientWidth, clientHeight } = host;
    if (clientWidth === 0 || clientHeight === 0) return;
    const ratio = this.#ratio();
    this.canvas.width = Math.round(clientWidth * ratio);
    this.canvas.height = Math.round(clientHeight * ratio);
    this.camera.width = clientWidth;
    this.camera.height = clientHeight;
    if (!this.#fitted) this.camera.fit(false);
    this.dirty();
  }

  #ratio(): number {
    return Math.min(devicePixelRatio || 1, MAX_PIXEL_RATIO);
  }

  #draw(nowMs: number): void {
    const context = this.#context;
    if (!context) return;
    const { camera } = this;
    if (camera.step(nowMs)) this.dirty();
    const ratio = this.#ratio();
    if (!this.#plan || !this.#ground || !this.#grid) {
      context.setTransform(1, 0, 0, 1, 0, 0);
      context.fillStyle = this.#palette.ground;
      context.fillRect(0, 0, this.canvas.width, this.canvas.height);
      return;
    }
    const diameter = camera.pitchPx * SEAT_OF_PITCH;
    const seatsShown = between(diameter, SEATS_FROM_PX, SEATS_WHOLE_PX);
    drawGround(context, this.#ground, camera, ratio, this.#palette, seatsShown);
    context.setTransform(1, 0, 0, 1, 0, 0);
    if (seatsShown > 0) {
      const view = { scale: camera.scale * ratio, offsetX: camera.x * ratio, offsetY: camera.y * ratio };
      this.#renderer.draw(context, view, seatsShown);
    }
    if (diameter >= LABELS_FROM_PX) {
      const most = this.#moving || camera.flying ? MOST_LABELS_MOVING : MOST_LABELS;
      drawLabels(context, this.#plan, this.#grid, this.#styles, camera, ratio, this.#palette, diameter, most);
    }
    const names = 1 - between(diameter, NAMES_WHOLE_PX, NAMES_UNTIL_PX);
    drawNames(context, this.#ground, camera, ratio, this.#palette, names, this.#count);
    this.#drawMarks(context, diameter, ratio);
  }

  /** Pins on own seats while they are too small to see, and the ring under the pointer. */
  #drawMarks(context: CanvasRenderingContext2D, diameter: number, ratio: number): void {
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    if (diameter < 9) {
      for (const seat of this.#mine) {
        const at = this.seatPoint(seat);
        if (!at) continue;
        context.beginPath();
        context.arc(at.x, at.y, 6, 0, Math.PI * 2);
        context.fillStyle = this.#palette.pin;
        context.fill();
        context.lineWidth = 2;
        context.strokeStyle = this.#palette.pinEdge;
        context.stroke();
      }
    }
    if (this.#hovered !== null) {
      const at = this.seatPoint(this.#hovered);
      if (!at) return;
      context.beginPath();
      context.arc(at.x, at.y, diameter / 2 + 3, 0, Math.PI * 2);
      context.lineWidth = 2;
      context.strokeStyle = this.#palette.text;
      context.stroke();
    }
  }

  #tap(x: number, y: number, coarse: boolean): void {
    if (!this.#plan || !this.#grid || !this.#ground) return;
    this.#fitted = true;
    const { camera } = this;
    const [wx, wy] = camera.toWorld(x, y);
    const diameter = camera.pitchPx * SEAT_OF_PITCH;
    const seat = this.#grid.nearest(wx, wy, Math.max(diameter / 2, PICK_REACH_PX) / camera.scale);
    if (seat !== null && diameter >= (coarse ? PICK_FROM_TOUCH_PX : PICK_FROM_MOUSE_PX)) {
      return this.#handlers.seat(seat);
    }
    const area = this.#ground.areas.findIndex((region) => inside(region.points, wx, wy));
    if (area >= 0) return this.#handlers.area(area);
    const section =
      seat !== null
        ? this.#plan.section[seat]
        : this.#ground.sections.findIndex((region) => inside(region.points, wx, wy));
    if (section < 0) return;
    this.#hover(null);
    // A section that fits with seats large enough to tap is shown whole; a wider one from the tapped spot.
    const whole = camera.poseFor(this.#ground.sections[section].box);
    if (whole.scale * this.#plan.pitch * SEAT_OF_PITCH >= (coarse ? PICK_FROM_TOUCH_PX : PICK_FROM_MOUSE_PX)) {
      camera.showBox(this.#ground.sections[section].box, !this.#calm.matches);
    } else {
      camera.showPoint(wx, wy, NEAR_PITCH_PX, !this.#calm.matches);
    }
    this.dirty();
  }

  #hover(at: { x: number; y: number } | null): void {
    let seat: number | null = null;
    const diameter = this.camera.pitchPx * SEAT_OF_PITCH;
    if (at && this.#grid && diameter >= PICK_FROM_MOUSE_PX) {
      const [wx, wy] = this.camera.toWorld(at.x, at.y);
      seat = this.#grid.nearest(wx, wy, Math.max(diameter / 2, 5) / this.camera.scale);
    }
    this.canvas.classList.toggle("over-seat", seat !== null);
    if (seat === this.#hovered) return;
    this.#hovered = seat;
    const point = seat === null ? null : this.seatPoint(seat);
    this.#handlers.hover(seat, point?.x ?? 0, point?.y ?? 0);
    this.dirty();
  }
}

/** 0 below `from`, 1 above `to`, straight in between. */
function between(value: number, from: number, to: number): number {
  return Math.min(1, Math.max(0, (value - from) / (to - from)));
}
