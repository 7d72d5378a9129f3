//! A uniform grid over the seats: which seat lies nearest to a point. Built once a layout, on the CPU.
//! Taps, hovers and the label layer ask it.
import type { SeatPlan } from "../proto/layout";

/** Cells a side at most: beyond that the empty ones cost more than a fuller cell. */
const MAX_CELLS_A_SIDE = 1024;

export class SeatGrid {
  readonly #plan: SeatPlan;
  readonly #x0: number;
  readonly #y0: number;
  readonly #cell: number;
  readonly #columns: number;
  readonly #rows: number;
  /** seats sorted by cell; cell c holds seats[starts[c]] .. seats[starts[c + 1] - 1] */
  readonly #starts: Uint32Array;
  readonly #seats: Uint32Array;

  constructor(plan: SeatPlan) {
    this.#plan = plan;
    const [x0, y0, x1, y1] = plan.layout.bounds;
    const longest = Math.max(x1 - x0, y1 - y0, 1);
    this.#x0 = x0;
    this.#y0 = y0;
    this.#cell = Math.max(plan.pitch * 2, longest / MAX_CELLS_A_SIDE);
    this.#columns = Math.floor((x1 - x0) / this.#cell) + 1;
    this.#rows = Math.floor((y1 - y0) / this.#cell) + 1;
    const cells = this.#columns * this.#rows;
    const starts = new Uint32Array(cells + 1);
    const cellOf = new Int32Array(plan.seatCount).fill(-1);
    for (let seat = 0; seat < plan.seatCount; seat++) {
      if (Number.isNaN(plan.x[seat])) continue;
      cellOf[seat] = this.#column(plan.x[seat]) + this.#row(plan.y[seat]) * this.#columns;
      starts[cellOf[seat] + 1]++;
    }
    for (let cell = 0; cell < cells; cell++) starts[cell + 1] += starts[cell];
    const next = starts.slice();
    this.#seats = new Uint32Array(starts[cells]);
    for (let seat = 0; seat < plan.seatCount; seat++) {
      if (cellOf[seat] >= 0) this.#seats[next[cellOf[seat]]++] = seat;
    }
    this.#starts = starts;
  }

  #column(x: number): number {
    return Math.min(this.#columns - 1, Math.max(0, Math.floor((x - this.#x0) / this.#cell)));
  }

  #row(y: number): number {
    return Math.min(this.#rows - 1, Math.max(0, Math.floor((y - this.#y0) / this.#cell)));
  }

  /** Calls `visit` for every seat in the cells that touch the box (some lie outside it). */
  each(x0: number, y0: number, x1: number, y1: number, visit: (seat: number) => void): void {
    const toColumn = this.#column(x1);
    const toRow = this.#row(y1);
    for (let row = this.#row(y0); row <= toRow; row++) {
      for (let column = this.#column(x0); column <= toColumn; column++) {
        const cell = row * this.#columns + column;
        for (let i = this.#starts[cell]; i < this.#starts[cell + 1]; i++) visit(this.#seats[i]);
      }
    }
  }

  /** The seat nearest to a point within `reach` layout units, or null. */
  nearest(x: number, y: number, reach: number): number | null {
    let best: number | null = null;
    let bestSquare = reach * reach;
    this.each(x - reach, y - reach, x + reach, y + reach, (seat) => {
      const square = (this.#plan.x[seat] - x) ** 2 + (this.#plan.y[seat] - y) ** 2;
      if (square <= bestSquare) {
        best = seat;
        bestSquare = square;
      }
    });
    return best;
  }
}
