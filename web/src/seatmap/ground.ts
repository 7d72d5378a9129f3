//! Everything of the map that is not a seat: stage and pitch, section shapes shaded by what is left, areas, names.
//! Drawn under (`drawGround`) and over (`drawNames`) the seats by `seat_map.ts`.
import { FLAG_ACCESSIBLE, type SeatPlan } from "../proto/layout";
import type { Camera } from "./camera";
import type { SeatGrid } from "./grid";
import { type Box, boxOf, grow, hull, middle, type Point } from "./outline";
import { availabilityFill, type Palette, STYLE_AVAILABLE, STYLE_HELD } from "./palette";

/** A section or an area as drawn: path in layout units, where its name goes, how much is left of how much. */
export interface Region {
  name: string;
  path: Path2D;
  points: Point[];
  box: Box;
  middle: Point;
  total: number;
  left: number;
  /** second line of its label, such as "from 45 EUR" */
  price: string;
}

export interface Ground {
  sections: Region[];
  areas: Region[];
  shapes: { path: Path2D; open: boolean; label: string; box: Box }[];
  texts: { text: string; at: Point; size: number; angleDeg: number }[];
}

interface ShapeJson {
  kind: string;
  points: Point[];
  label?: string;
}

interface TextJson {
  text: string;
  at: Point;
  size: number;
  angle_deg?: number;
}

export const FONT = 'system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", sans-serif';

function region(name: string, points: Point[]): Region {
  const path = new Path2D();
  points.forEach(([x, y], i) => {
    if (i === 0) path.moveTo(x, y);
    else path.lineTo(x, y);
  });
  path.closePath();
  return { name, path, points, box: boxOf(points), middle: middle(points), total: 0, left: 0, price: "" };
}

export function makeGround(plan: SeatPlan): Ground {
  const { layout } = plan;
  const seatsOf: Point[][] = layout.sections.map(() => []);
  const totals = new Uint32Array(layout.sections.length);
  for (const { section, row } of plan.rows) {
    const last = row.x.length - 1;
    totals[section] += row.x.length;
    // The hull of the rows' ends and middles is the hull of the seats, but for sharp bends.
    for (const p of new Set([0, last >> 1, last])) seatsOf[section].push([row.x[p], row.y[p]]);
  }
  const sections = layout.sections.map((section, i) => {
    const drawn = section.outline.length > 2 ? section.outline : grow(hull(seatsOf[i]), plan.pitch);
    return Object.assign(region(section.name, drawn), { total: totals[i], left: totals[i] });
  });
  const areas = layout.areas.map((area) => region(area.name, area.outline));
  const shapes = ((layout.shapes ?? []) as ShapeJson[]).map((shape) => {
    if (shape.kind === "ellipse") {
      const [[cx, cy], [rx, ry]] = shape.points;
      const path = new Path2D();
      path.ellipse(cx, cy, Math.abs(rx), Math.abs(ry), 0, 0, 2 * Math.PI);
      return {
        path,
        open: false,
        label: shape.label ?? "",
        box: { x0: cx - rx, y0: cy - ry, x1: cx + rx, y1: cy + ry },
      };
    }
    const path = new Path2D();
    shape.points.forEach(([x, y], i) => {
      if (i === 0) path.moveTo(x, y);
      else path.lineTo(x, y);
    });
    const open = shape.kind === "polyline";
    if (!open) path.closePath();
    return { path, open, label: shape.label ?? "", box: boxOf(shape.points) };
  });
  const texts = ((layout.texts ?? []) as TextJson[]).map((text) => ({
    text: text.text,
    at: text.at,
    size: text.size,
    angleDeg: text.angle_deg ?? 0,
  }));
  return { sections, areas, shapes, texts };
}

/** `seatsShown` 0..1: the shading of sections gives way as their seats appear. */
export function drawGround(
  context: CanvasRenderingContext2D,
  ground: Ground,
  camera: Camera,
  ratio: number,
  palette: Palette,
  seatsShown: number,
): void {
  context.setTransform(1, 0, 0, 1, 0, 0);
  context.fillStyle = palette.ground;
  context.fillRect(0, 0, context.canvas.width, context.canvas.height);
  const scale = camera.scale * ratio;
  context.setTransform(scale, 0, 0, scale, camera.x * ratio, camera.y * ratio);
  context.lineJoin = "round";
  context.lineWidth = ratio / scale;

  for (const shape of ground.shapes) {
    context.fillStyle = palette.shape;
    context.strokeStyle = palette.shapeEdge;
    if (!shape.open) context.fill(shape.path);
    context.stroke(shape.path);
  }
  for (const section of ground.sections) {
    context.fillStyle = palette.section;
    if (seatsShown > 0) context.fill(section.path);
    context.globalAlpha = 1 - 0.86 * seatsShown;
    context.fillStyle = availabilityFill(palette, section.total ? section.left / section.total : 0);
    context.fill(section.path);
    context.globalAlpha = 1;
    context.strokeStyle = palette.sectionEdge;
    context.stroke(section.path);
  }
  for (const area of ground.areas) {
    context.fillStyle = availabilityFill(palette, area.total ? area.left / area.total : 0);
    context.fill(area.path);
    context.lineWidth = (1.5 * ratio) / scale;
    context.strokeStyle = area.left > 0 ? palette.areaEdge : palette.sectionEdge;
    context.stroke(area.path);
  }
}

/** Names of regions and shapes, as far as they fit into them. `namesShown` 0..1. */
export function drawNames(
  context: CanvasRenderingContext2D,
  ground: Ground,
  camera: Camera,
  ratio: number,
  palette: Palette,
  namesShown: number,
  count: (left: number) => string,
): void {
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  context.textAlign = "center";
  context.textBaseline = "middle";
  for (const shape of ground.shapes) {
    if (!shape.label) continue;
    const width = (shape.box.x1 - shape.box.x0) * camera.scale;
    const size = Math.min(18, Math.max(10, width / Math.max(6, shape.label.length)));
    drawFitted(context, shape.label, camera, middleOf(shape.box), size, width, palette.mutedText, 600);
  }
  for (const text of ground.texts) {
    const size = text.size * camera.scale;
    if (size < 7) continue;
    context.save();
    context.translate(text.at[0] * camera.scale + camera.x, text.at[1] * camera.scale + camera.y);
    context.rotate((text.angleDeg * Math.PI) / 180);
    context.font = `500 ${Math.min(size, 40)}px ${FONT}`;
    context.fillStyle = palette.mutedText;
    context.fillText(text.text, 0, 0);
    context.restore();
  }
  if (namesShown > 0) {
    context.globalAlpha = namesShown;
    for (const section of ground.sections) drawRegionName(context, section, camera, palette, count);
    context.globalAlpha = 1;
  }
  for (const area of ground.areas) drawRegionName(context, area, camera, palette, count);
}

function middleOf(box: Box): Point {
  return [(box.x0 + box.x1) / 2, (box.y0 + box.y1) / 2];
}

function drawFitted(
  context: CanvasRenderingContext2D,
  text: string,
  camera: Camera,
  at: Point,
  size: number,
  room: number,
  colour: string,
  weight: number,
): void {
  context.font = `${weight} ${size}px ${FONT}`;
  if (context.measureText(text).width > room) return;
  context.fillStyle = colour;
  context.fillText(text, at[0] * camera.scale + camera.x, at[1] * camera.scale + camera.y);
}

function drawRegionName(
  context: CanvasRenderingContext2D,
  region: Region,
  camera: Camera,
  palette: Palette,
  count: (left: number) => string,
): void {
  const width = (region.box.x1 - region.box.x0) * camera.scale * 0.86;
  const height = (region.box.y1 - region.box.y0) * camera.scale * 0.86;
  if (width < 14 || height < 10) return;
  const px = region.middle[0] * camera.scale + camera.x;
  const py = region.middle[1] * camera.scale + camera.y;
  if (px < -width || py < -height || px > camera.width + width || py > camera.height + height) return;

  // The largest size at which the name fits decides whether there is room for price and count below it.
  let size = Math.min(17, Math.max(10, height / 4));
  context.font = `650 ${size}px ${FONT}`;
  let nameWidth = context.measureText(region.name).width;
  if (nameWidth > width) {
    size = (size * width) / nameWidth;
    if (size < 8) return;
    context.font = `650 ${size}px ${FONT}`;
    nameWidth = width;
  }
  const small = Math.min(13, Math.max(10, size * 0.82));
  const lines = [region.price, count(region.left)].filter(Boolean);
  context.font = `450 ${small}px ${FONT}`;
  const roomy =
    height >= size + lines.length * (small + 5) && lines.every((line) => context.measureText(line).width <= width);
  const top = roomy ? py - (lines.length * (small + 4)) / 2 : py;
  if (roomy) {
    context.fillStyle = palette.mutedText;
    lines.forEach((line, i) => {
      context.fillText(line, px, top + size * 0.5 + 4 + small * 0.5 + i * (small + 4));
    });
  }
  context.font = `650 ${size}px ${FONT}`;
  context.fillStyle = palette.text;
  context.fillText(region.name, px, top);
}

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
  for (const seat of seen) {
    const row = plan.row[seat];
    rows.add(row);
    const style = styles[seat];
    if (style !== STYLE_AVAILABLE && style !== STYLE_HELD) continue;
    const px = plan.x[seat] * camera.scale + camera.x;
    const py = plan.y[seat] * camera.scale + camera.y;
    context.fillStyle = style === STYLE_HELD ? held : palette.seatText;
    if (plan.flags[seat] & FLAG_ACCESSIBLE) {
      drawWheelchair(context, px, py, diameter * 0.52, context.fillStyle);
      continue;
    }
    const { row: json } = plan.rows[row];
    const label = json.seats[seat - json.first];
    if (label.length <= 3) context.fillText(label, px, py + diameter * 0.03);
  }

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
