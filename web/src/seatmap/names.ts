//! Lettering of the map: names of sections, zones, areas and shapes, as far as they fit. Drawn over the seats.
//! `seat_map.ts` calls `drawNames` once a frame; `seat_labels.ts` does the same for single seats.
import type { Camera } from "./camera";
import type { Ground, Region } from "./ground";
import { type Box, inside, type Point } from "./outline";
import type { Palette } from "./palette";
import { drawPlates, LINE_HALF_HEIGHT_PX, PLATE_HALF_HEIGHT_PX, type Plate, placePlates, type Wanted } from "./plates";

export const FONT = 'system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", sans-serif';

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
    const fitting = ground.sections.map((section) => fitOf(context, section, camera, linesOf(section, count)));
    const unnamed = ground.sections.filter((_, i) => !fitting[i]);
    const byZone = ground.zones.length > 0 && unnamed.length > ground.sections.length * ZONES_FROM_SHARE;
    if (!byZone) for (const section of ground.sections) drawRegionName(context, section, camera, palette, count);
    const areas = ground.areas.filter((area) => area.points.length > 2);
    const named = areas.filter((area) => drawRegionName(context, area, camera, palette, count));
    const wanted = byZone
      ? zonePlates(context, ground, camera, count)
      : unnamed.map((section) => regionPlate(context, section, camera, count));
    for (const area of areas) if (!named.includes(area)) wanted.push(regionPlate(context, area, camera, count));
    drawPlates(context, placePlates(wanted, camera.width), palette, FONT);
    context.globalAlpha = 1;
  } else {
    for (const area of ground.areas) drawRegionName(context, area, camera, palette, count);
  }
  if (namesShown < 1) {
    context.globalAlpha = 1 - namesShown;
    drawPlates(context, headings(context, ground, camera, count), palette, FONT);
    context.globalAlpha = 1;
  }
}

/** When more than this share of the sections cannot be named, their zones are. */
const ZONES_FROM_SHARE = 0.4;

function linesOf(region: Region, count: (left: number) => string): string[] {
  return [region.price, count(region.left)].filter(Boolean);
}

function plate(context: CanvasRenderingContext2D, camera: Camera, name: string, words: string, at: Point): Plate {
  const half = Math.max(textWidth(context, name, 650) * 12, textWidth(context, words, 450) * 11) / 2 + 10;
  const tall = words ? PLATE_HALF_HEIGHT_PX : LINE_HALF_HEIGHT_PX;
  return { name, words, half, tall, x: at[0] * camera.scale + camera.x, y: at[1] * camera.scale + camera.y };
}

/** Beside the section first, so that it stays visible; on it where neither side is free. */
function regionPlate(
  context: CanvasRenderingContext2D,
  region: Region,
  camera: Camera,
  count: (left: number) => string,
): Wanted {
  const own = plate(context, camera, region.name, linesOf(region, count).join(" · "), region.middle);
  const beside = ((region.box.y1 - region.box.y0) / 2) * camera.scale + PLATE_HALF_HEIGHT_PX + 4;
  return {
    ...own,
    tries: [
      [0, -beside],
      [0, beside],
      [0, 0],
    ],
  };
}

function zonePlates(
  context: CanvasRenderingContext2D,
  ground: Ground,
  camera: Camera,
  count: (left: number) => string,
): Wanted[] {
  const step = 2 * PLATE_HALF_HEIGHT_PX + 4;
  return ground.zones.map((zone) => {
    const left = zone.sections.reduce((sum, section) => sum + section.left, 0);
    const own = plate(context, camera, zone.name, count(left), zone.middle);
    const x0 = Math.min(...zone.sections.map(({ box }) => box.x0));
    const x1 = Math.max(...zone.sections.map(({ box }) => box.x1));
    const y0 = Math.min(...zone.sections.map(({ box }) => box.y0)) * camera.scale + camera.y;
    const y1 = Math.max(...zone.sections.map(({ box }) => box.y1)) * camera.scale + camera.y;
    const hides = 2 * own.half > (x1 - x0) * camera.scale && 2 * own.tall > (y1 - y0) * MOST_HIDDEN_SHARE;
    const beside: Wanted["tries"] = [
      [0, y0 - own.y - PLATE_HALF_HEIGHT_PX - 4],
      [0, y1 - own.y + PLATE_HALF_HEIGHT_PX + 4],
    ];
    return {
      ...own,
      tries: [...(hides ? beside : []), [0, 0], [0, step], [0, -step]],
    };
  });
}

/** A plate as wide as its zone stands beside it when it would hide more than this of its height. */
const MOST_HIDDEN_SHARE = 2 / 3;

/** Over sections that are large on the screen: their names, kept in view while their seats are. */
function headings(
  context: CanvasRenderingContext2D,
  ground: Ground,
  camera: Camera,
  count: (left: number) => string,
): Plate[] {
  const top = camera.insets.top + LINE_HALF_HEIGHT_PX + 2;
  const bottom = camera.height - camera.insets.bottom;
  const wanted: Wanted[] = [];
  for (const section of ground.sections) {
    const { box } = section;
    const x0 = Math.max(box.x0 * camera.scale + camera.x, 0);
    const x1 = Math.min(box.x1 * camera.scale + camera.x, camera.width);
    const y0 = box.y0 * camera.scale + camera.y - LINE_HALF_HEIGHT_PX - 3;
    const y1 = box.y1 * camera.scale + camera.y - 2 * LINE_HALF_HEIGHT_PX;
    if (x1 <= x0 || y1 < top || y0 > bottom) continue;
    const own = plate(context, camera, `${section.name} · ${count(section.left)}`, "", section.middle);
    if (x1 - x0 < own.half) continue;
    wanted.push({ ...own, x: (x0 + x1) / 2, y: Math.max(y0, top), tries: [[0, 0]] });
  }
  return placePlates(wanted, camera.width);
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
  if (textWidth(context, text, weight) * size > room) return;
  context.font = `${weight} ${size}px ${FONT}`;
  context.fillStyle = colour;
  context.fillText(text, at[0] * camera.scale + camera.x, at[1] * camera.scale + camera.y);
}

/** Name sizes tried from the largest; smaller ones would not be read. */
const NAME_SIZES_PX = [17, 15, 13, 11, 9.5];
/** Kept free on both sides of a name, so that neighbours do not read as one. */
const NAME_ROOM_PX = 5;

/** Draws the name, with price and count below it where they fit as well; false when not even the name fits. */
function drawRegionName(
  context: CanvasRenderingContext2D,
  region: Region,
  camera: Camera,
  palette: Palette,
  count: (left: number) => string,
): boolean {
  if (region.points.length < 3) return false;
  const px = region.middle[0] * camera.scale + camera.x;
  const py = region.middle[1] * camera.scale + camera.y;
  const width = (region.box.x1 - region.box.x0) * camera.scale;
  const height = (region.box.y1 - region.box.y0) * camera.scale;
  if (px < -width || py < -height || px > camera.width + width || py > camera.height + height) return true;
  if (width < 14 || height < 10) return false;

  const lines = linesOf(region, count);
  const fit = fitOf(context, region, camera, lines);
  if (!fit) return false;
  const { size, full } = fit;
  const small = smallerThan(size);
  const tall = size + (full ? lines.length * (small + 4) : 0);
  const top = py - tall / 2 + size / 2;
  context.font = `650 ${size}px ${FONT}`;
  context.fillStyle = palette.text;
  context.fillText(region.name, px, top);
  if (!full) return true;
  context.font = `450 ${small}px ${FONT}`;
  context.fillStyle = palette.mutedText;
  lines.forEach((line, i) => {
    context.fillText(line, px, top + size / 2 + 3 + small / 2 + i * (small + 4));
  });
  return true;
}

/** The size at which a region's lettering fits, and whether price and count do as well. */
interface Fit {
  size: number;
  full: boolean;
}

/** Fits are tried at every zoom but not at every frame: panning and live counts of the same length keep them. */
const fits = new WeakMap<Region, { scale: number; chars: number; fit: Fit | null }>();

function fitOf(context: CanvasRenderingContext2D, region: Region, camera: Camera, lines: string[]): Fit | null {
  const chars = lines.reduce((sum, line) => sum + line.length, 0);
  const known = fits.get(region);
  if (known?.scale === camera.scale && known.chars === chars) return known.fit;
  const fit = findFit(context, region, camera.scale, lines);
  fits.set(region, { scale: camera.scale, chars, fit });
  return fit;
}

function findFit(context: CanvasRenderingContext2D, region: Region, scale: number, lines: string[]): Fit | null {
  for (const full of [true, false]) {
    for (const size of NAME_SIZES_PX) {
      if (full ? size < 11 : size > 13) continue;
      const small = smallerThan(size);
      const below = full ? Math.max(...lines.map((line) => textWidth(context, line, 450) * small)) : 0;
      const half = Math.max(below, textWidth(context, region.name, 650) * size) / 2 + NAME_ROOM_PX;
      const tall = size + (full ? lines.length * (small + 4) : 0);
      if (holds(region, half / scale, (tall / 2 + 1) / scale)) return { size, full };
    }
  }
  return null;
}

function smallerThan(size: number): number {
  return Math.max(10, size * 0.8);
}

const widths = new Map<string, number>();
/** Texts measured are few (names, prices, counts); beyond this the oldest idea of them is thrown away whole. */
const MOST_WIDTHS = 5_000;

/** Width of a text at a size of one pixel: it grows in proportion, so each text is measured once. */
function textWidth(context: CanvasRenderingContext2D, text: string, weight: number): number {
  const key = `${weight} ${text}`;
  let width = widths.get(key);
  if (width === undefined) {
    if (widths.size >= MOST_WIDTHS) widths.clear();
    context.font = `${weight} 100px ${FONT}`;
    width = context.measureText(text).width / 100;
    widths.set(key, width);
  }
  return width;
}

/** Whether a box around the region's middle lies inside it: its corners and the middles of its sides do. */
function holds(region: Region, half: number, tall: number): boolean {
  const [x, y] = region.middle;
  for (const dx of [-half, 0, half]) {
    for (const dy of [-tall, 0, tall]) if (!inside(region.points, x + dx, y + dy)) return false;
  }
  return true;
}
