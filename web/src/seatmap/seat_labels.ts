//! Seat numbers, wheelchair marks and row letters, for seats large enough to read them. Drawn over everything.
import { FLAG_ACCESSIBLE, type SeatPlan } from "../proto/layout";
import type { Camera } from "./camera";
import type { SeatGrid } from "./grid";
import { FONT } from "./names";
import { type Palette, STYLE_AVAILABLE, STYLE_HELD } from "./palette";

/** Seat numbers, wheelchair marks and row letters: only when seats are large enough to read them. */
export function drawLabels(
  context: CanvasRenderingContext2D,
  plan: SeatPlan,
  grid: SeatGrid,
  styles: Uint8Array,
  camera: Camera,
  ratio: number,
  palette: Palette,
  diameter: number,
  most: number,
): void {
  const [x0, y0] = camera.toWorld(-diameter, -diameter);
  const [x1, y1] = camera.toWorld(camera.width + diameter, camera.height + diameter);
  const seen: number[] = [];
  grid.each(x0, y0, x1, y1, (seat) => {
    if (seen.length <= most) seen.push(seat);
  });
  if (seen.length > most) return;
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  context.textAlign = "center";
  context.textBaseline = "middle";
  const rows = new Set<number>();
  const held = `rgb(${palette.seats[STYLE_HELD].slice(0, 3).join(" ")})`;
  context.font = `600 ${diameter * 0.44}px ${FONT}`;
  // One colour after the other: setting a fill style for each seat costs more than the letters.
  for (const [style, colour] of [
    [STYLE_AVAILABLE, palette.seatText],
    [STYLE_HELD, held],
  ] as const) {
    context.fillStyle = colour;
    for (const seat of seen) {
      if (styles[seat] !== style) continue;
      const px = plan.x[seat] * camera.scale + camera.x;
      const py = plan.y[seat] * camera.scale + camera.y;
      if (plan.flags[seat] & FLAG_ACCESSIBLE) {
        drawWheelchair(context, px, py, diameter * 0.52, colour);
        continue;
      }
      const { row } = plan.rows[plan.row[seat]];
      const label = row.seats[seat - row.first];
      if (label.length <= 3) context.fillText(label, px, py + diameter * 0.03);
    }
  }
  for (const seat of seen) rows.add(plan.row[seat]);

  context.font = `600 ${Math.min(14, diameter * 0.6)}px ${FONT}`;
  context.fillStyle = palette.mutedText;
  for (const at of rows) {
    const { row } = plan.rows[at];
    if (!row.label) continue;
    const last = row.x.length - 1;
    const ends: [number, number][] =
      last > 0
        ? [
            [0, 1],
            [last, last - 1],
          ]
        : [[0, 0]];
    for (const [end, beside] of ends) {
      let dx = row.x[end] - row.x[beside];
      let dy = row.y[end] - row.y[beside];
      const length = Math.hypot(dx, dy);
      if (length === 0) [dx, dy] = [-1, 0];
      else [dx, dy] = [dx / length, dy / length];
      context.fillText(
        row.label,
        (row.x[end] + dx * plan.pitch) * camera.scale + camera.x,
        (row.y[end] + dy * plan.pitch) * camera.scale + camera.y,
      );
    }
  }
}

function drawWheelchair(context: CanvasRenderingContext2D, x: number, y: number, size: number, colour: string): void {
  const u = size / 10;
  context.strokeStyle = colour;
  context.lineWidth = u * 1.3;
  context.lineCap = "round";
  context.beginPath();
  context.arc(x - u * 0.6, y + u * 1.6, u * 3, -Math.PI * 0.75, Math.PI * 0.85, true);
  context.moveTo(x - u * 0.6, y - u * 2.4);
  context.lineTo(x - u * 0.6, y + u * 1);
  context.lineTo(x + u * 2.4, y + u * 1);
  context.lineTo(x + u * 3.6, y + u * 4);
  context.stroke();
  context.beginPath();
  context.arc(x - u * 0.6, y - u * 4.2, u * 1.1, 0, Math.PI * 2);
  context.fill();
}
