//! Plain geometry of outlines: hull, box, middle, inside. Used by the ground layer and by picking.

export type Point = [number, number];
export interface Box {
  x0: number;
  y0: number;
  x1: number;
  y1: number;
}

export function boxOf(points: Iterable<Point>): Box {
  const box = { x0: Infinity, y0: Infinity, x1: -Infinity, y1: -Infinity };
  for (const [x, y] of points) {
    if (x < box.x0) box.x0 = x;
    if (y < box.y0) box.y0 = y;
    if (x > box.x1) box.x1 = x;
    if (y > box.y1) box.y1 = y;
  }
  return box;
}

/** The convex hull (Andrew's monotone chain), for sections that come without an outline. */
export function hull(points: Point[]): Point[] {
  const sorted = [...points].sort((a, b) => a[0] - b[0] || a[1] - b[1]);
  if (sorted.length < 3) return sorted;
  const half = (list: Point[]) => {
    const chain: Point[] = [];
    for (const p of list) {
      while (chain.length > 1 && turn(chain[chain.length - 2], chain[chain.length - 1], p) <= 0) chain.pop();
      chain.push(p);
    }
    chain.pop();
    return chain;
  };
  return [...half(sorted), ...half(sorted.reverse())];
}

function turn(o: Point, a: Point, b: Point): number {
  return (a[0] - o[0]) * (b[1] - o[1]) - (a[1] - o[1]) * (b[0] - o[0]);
}

/** Pushes the corners of an outline away from its middle, so that seats do not sit on the edge. */
export function grow(points: Point[], by: number): Point[] {
  const [mx, my] = middle(points);
  return points.map(([x, y]) => {
    const length = Math.hypot(x - mx, y - my) || 1;
    return [x + ((x - mx) / length) * by, y + ((y - my) / length) * by];
  });
}

/** The centre of area, or the middle of the box for a line. */
export function middle(points: Point[]): Point {
  let area = 0;
  let cx = 0;
  let cy = 0;
  for (let i = 0, j = points.length - 1; i < points.length; j = i++) {
    const cross = points[j][0] * points[i][1] - points[i][0] * points[j][1];
    area += cross;
    cx += (points[j][0] + points[i][0]) * cross;
    cy += (points[j][1] + points[i][1]) * cross;
  }
  if (Math.abs(area) > 1e-6) {
    const at: Point = [cx / (3 * area), cy / (3 * area)];
    if (inside(points, at[0], at[1])) return at;
  }
  const box = boxOf(points);
  return [(box.x0 + box.x1) / 2, (box.y0 + box.y1) / 2];
}

export function inside(points: Point[], x: number, y: number): boolean {
  let within = false;
  for (let i = 0, j = points.length - 1; i < points.length; j = i++) {
    const [xi, yi] = points[i];
    const [xj, yj] = points[j];
    if (yi > y !== yj > y && x < ((xj - xi) * (y - yi)) / (yj - yi) + xi) within = !within;
  }
  return within;
}
