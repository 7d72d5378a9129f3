//! Gestures on the map: drag, wheel, pinch, tap, hover. Turns them into camera moves and taps.
//! `seat_map.ts` attaches it to the canvas; what a tap means is decided there.

/** A finger that moved less than this between down and up meant the spot, not the way. */
const TAP_SLOP_PX = 8;
const TAP_MAX_MS = 600;
/** A wheel notch of 100 px zooms by about a fifth. */
const WHEEL_ZOOM = 0.0018;
const PINCH_WHEEL_ZOOM = 0.01;

export interface InputHandlers {
  pan: (dx: number, dy: number) => void;
  zoom: (x: number, y: number, factor: number, animate: boolean) => void;
  tap: (x: number, y: number, coarse: boolean) => void;
  /** null: the pointer left */
  hover: (at: { x: number; y: number } | null) => void;
  /** a gesture runs: the map may draw less */
  moving: (moving: boolean) => void;
}

/** Listens until the returned function is called. Coordinates are CSS pixels inside `target`. */
export function listen(target: HTMLElement, handlers: InputHandlers): () => void {
  const fingers = new Map<number, { x: number; y: number }>();
  let down: { x: number; y: number; atMs: number; dragged: boolean } | null = null;
  let wheelTimer: ReturnType<typeof setTimeout> | undefined;
  const stop = new AbortController();
  const { signal } = stop;

  const place = (event: MouseEvent) => {
    const box = target.getBoundingClientRect();
    return { x: event.clientX - box.left, y: event.clientY - box.top };
  };

  target.addEventListener(
    "pointerdown",
    (event) => {
      if (event.button !== 0) return;
      target.setPointerCapture(event.pointerId);
      const at = place(event);
      fingers.set(event.pointerId, at);
      if (fingers.size === 1) down = { ...at, atMs: event.timeStamp, dragged: false };
      else if (down) down.dragged = true;
    },
    { signal },
  );

  target.addEventListener(
    "pointermove",
    (event) => {
      const at = place(event);
      const before = fingers.get(event.pointerId);
      if (!before) {
        if (event.pointerType === "mouse") handlers.hover(at);
        return;
      }
      if (fingers.size === 1 && down) {
        if (!down.dragged && Math.hypot(at.x - down.x, at.y - down.y) < TAP_SLOP_PX) return;
        if (!down.dragged) {
          down.dragged = true;
          handlers.hover(null);
          handlers.moving(true);
        }
        handlers.pan(at.x - before.x, at.y - before.y);
      } else if (fingers.size === 2) {
        const other = [...fingers].find(([id]) => id !== event.pointerId)?.[1] ?? at;
        const apartBefore = Math.hypot(before.x - other.x, before.y - other.y);
        const apart = Math.hypot(at.x - other.x, at.y - other.y);
        handlers.moving(true);
        handlers.pan((at.x - before.x) / 2, (at.y - before.y) / 2);
        if (apartBefore > 0) {
          handlers.zoom((at.x + other.x) / 2, (at.y + other.y) / 2, apart / apartBefore, false);
        }
      }
      fingers.set(event.pointerId, at);
    },
    { signal },
  );

  const lift = (event: PointerEvent, cancelled: boolean) => {
    if (!fingers.delete(event.pointerId)) return;
    if (fingers.size > 0) return;
    handlers.moving(false);
    const from = down;
    down = null;
    if (cancelled || !from || from.dragged || event.timeStamp - from.atMs > TAP_MAX_MS) return;
    const coarse = event.pointerType !== "mouse";
    handlers.tap(from.x, from.y, coarse);
  };
  target.addEventListener("pointerup", (event) => lift(event, false), { signal });
  target.addEventListener("pointercancel", (event) => lift(event, true), { signal });
  target.addEventListener("pointerleave", () => handlers.hover(null), { signal });

  target.addEventListener(
    "wheel",
    (event) => {
      event.preventDefault();
      const at = place(event);
      const unit = event.deltaMode === 1 ? 16 : event.deltaMode === 2 ? 400 : 1;
      const delta = Math.max(-400, Math.min(400, event.deltaY * unit));
      handlers.moving(true);
      handlers.zoom(at.x, at.y, Math.exp(-delta * (event.ctrlKey ? PINCH_WHEEL_ZOOM : WHEEL_ZOOM)), false);
      clearTimeout(wheelTimer);
      wheelTimer = setTimeout(() => handlers.moving(fingers.size > 0), 160);
    },
    { signal, passive: false },
  );

  return () => {
    clearTimeout(wheelTimer);
    stop.abort();
  };
}
