//! Everything of the map that is not a seat: stage and pitch, section shapes shaded by what is left, areas.
//! Drawn under the seats by `seat_map.ts`; `names.ts` letters it.
import type { SeatPlan } from "../proto/layout";
import type { Camera } from "./camera";
import { type Box, boxOf, grow, hull, middle, type Point } from "./outline";
import { availabilityFill, type Palette } from "./palette";

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
  zones: { name: string; middle: Point; sections: Region[] }[];
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
  const byZone = new Map<string, Region[]>();
  layout.sections.forEach((section, i) => {
    if (section.zone) byZone.set(section.zone, [...(byZone.get(section.zone) ?? []), sections[i]]);
  });
  const zones = [...byZone].map(([name, members]) => {
    const mean = (at: 0 | 1) => members.reduce((sum, member) => sum + member.middle[at], 0) / members.length;
    return { name, middle: [mean(0), mean(1)] as Point, sections: members };
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
  return { sections, zones, areas, shapes, texts };
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
