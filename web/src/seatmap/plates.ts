//! Small plates with a name and a line below: where names do not fit into their sections, and over open sections.
//! Placing is pure: plates never cover each other, what finds no room is left out. Called by `names.ts`.
import type { Palette } from "./palette";

export const PLATE_HALF_HEIGHT_PX = 20;
/** A plate of one line, over an open section. */
export const LINE_HALF_HEIGHT_PX = 12;
const GAP_PX = 3;

/** A plate's middle and half its sides on the screen, CSS pixels. Without words it has one line. */
export interface Plate {
  name: string;
  words: string;
  x: number;
  y: number;
  half: number;
  tall: number;
}

export interface Wanted extends Plate {
  /** offsets from the wished middle, tried in order */
  tries: [dx: number, dy: number][];
}

/** Places each plate at the first of its places that is free, within the width of the screen. */
export function placePlates(wanted: Wanted[], width: number): Plate[] {
  const placed: Plate[] = [];
  for (const { tries, ...plate } of wanted) {
    const spot = tries
      .map(([dx, dy]) => ({
        ...plate,
        x: Math.min(Math.max(plate.x + dx, plate.half + 4), width - plate.half - 4),
        y: plate.y + dy,
      }))
      .find((own) => placed.every((other) => apart(own, other)));
    if (spot) placed.push(spot);
  }
  return placed;
}

function apart(a: Plate, b: Plate): boolean {
  const dx = Math.abs(a.x - b.x);
  const dy = Math.abs(a.y - b.y);
  return dx >= a.half + b.half + GAP_PX || dy >= a.tall + b.tall + GAP_PX;
}

export function drawPlates(context: CanvasRenderingContext2D, plates: Plate[], palette: Palette, font: string): void {
  for (const { name, words, x, y, half, tall } of plates) {
    context.fillStyle = palette.plate;
    context.beginPath();
    context.roundRect(x - half, y - tall, half * 2, 2 * tall, 10);
    context.fill();
    context.lineWidth = 1;
    context.strokeStyle = palette.sectionEdge;
    context.stroke();
    context.font = `650 12px ${font}`;
    context.fillStyle = palette.text;
    context.fillText(name, x, words ? y - 7 : y + 0.5);
    if (!words) continue;
    context.font = `450 11px ${font}`;
    context.fillStyle = palette.mutedText;
    context.fillText(words, x, y + 8);
  }
}
