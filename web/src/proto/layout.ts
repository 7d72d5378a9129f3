//! A layout as the server tells it (JSON), and as the map uses it: flat arrays by seat index.
//! `unpackLayout` runs once a layout; the seat map, the list view and the texts read its result.

export interface LayoutRow {
  label: string;
  /** seat index of the first seat; position p in the row is seat index first + p */
  first: number;
  seats: string[];
  x: number[];
  y: number[];
  gaps?: number[];
  accessible?: number[];
  companion?: number[];
  restricted?: number[];
}

export interface LayoutSection {
  index: number;
  name: string;
  zone?: string;
  floor?: string;
  outline: [number, number][];
  entrance?: string;
  focal?: [number, number];
  rows: LayoutRow[];
}

export interface LayoutArea {
  index: number;
  name: string;
  outline: [number, number][];
}

/** Coordinates are integers, y downwards. */
export interface LayoutJson {
  hash: string;
  name: string;
  seat_count: number;
  unit_mm: number;
  bounds: [number, number, number, number];
  focal: [number, number];
  sections: LayoutSection[];
  areas: LayoutArea[];
  shapes?: unknown[];
  texts?: unknown[];
}

export const FLAG_ACCESSIBLE = 1;
export const FLAG_COMPANION = 2;
export const FLAG_RESTRICTED = 4;

/** A layout unpacked for drawing and picking: everything by seat index, rows numbered through all sections. */
export interface SeatPlan {
  layout: LayoutJson;
  seatCount: number;
  x: Float32Array;
  y: Float32Array;
  /** position of the seat's section in `layout.sections` */
  section: Uint16Array;
  row: Uint32Array;
  flags: Uint8Array;
  rows: { section: number; row: LayoutRow }[];
  /** distance between the centres of two usual neighbours, in layout units */
  pitch: number;
}

/** Spreads the rows into arrays. Seats that no row names keep NaN coordinates and are never drawn. */
export function unpackLayout(layout: LayoutJson): SeatPlan {
  const n = layout.seat_count;
  const plan: SeatPlan = {
    layout,
    seatCount: n,
    x: new Float32Array(n).fill(Number.NaN),
    y: new Float32Array(n).fill(Number.NaN),
    section: new Uint16Array(n),
    row: new Uint32Array(n),
    flags: new Uint8Array(n),
    rows: [],
    pitch: 1,
  };
  layout.sections.forEach((section, sectionAt) => {
    for (const row of section.rows) {
      const rowAt = plan.rows.push({ section: sectionAt, row }) - 1;
      for (let p = 0; p < row.x.length && row.first + p < n; p++) {
        const seat = row.first + p;
        plan.x[seat] = row.x[p];
        plan.y[seat] = row.y[p];
        plan.section[seat] = sectionAt;
        plan.row[seat] = rowAt;
      }
      for (const p of row.accessible ?? []) plan.flags[row.first + p] |= FLAG_ACCESSIBLE;
      for (const p of row.companion ?? []) plan.flags[row.first + p] |= FLAG_COMPANION;
      for (const p of row.restricted ?? []) plan.flags[row.first + p] |= FLAG_RESTRICTED;
    }
  });
  plan.pitch = usualPitch(plan);
  return plan;
}

/** The lower quartile of neighbour distances: aisles and odd rows pull a mean, not this. */
function usualPitch(plan: SeatPlan): number {
  const distances: number[] = [];
  const step = Math.max(1, Math.floor(plan.rows.length / 400));
  for (let r = 0; r < plan.rows.length; r += step) {
    const { x, y } = plan.rows[r].row;
    for (let p = 1; p < x.length; p++) {
      const d = Math.hypot(x[p] - x[p - 1], y[p] - y[p - 1]);
      if (d > 0) distances.push(d);
    }
  }
  distances.sort((a, b) => a - b);
  return distances[Math.floor(distances.length / 4)] || 500 / (plan.layout.unit_mm || 1);
}

export interface SeatName {
  section: string;
  row: string;
  seat: string;
}

/** The words printed on a seat's ticket. */
export function seatName(plan: SeatPlan, seat: number): SeatName {
  const { section, row } = plan.rows[plan.row[seat]];
  return { section: plan.layout.sections[section].name, row: row.label, seat: row.seats[seat - row.first] };
}
