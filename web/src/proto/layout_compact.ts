//! Reads the compact form of a layout back into the same plan as its JSON: rows as curves with corrections, labels
//! as rules. The bytes are told in proto/README.md. Loaded beside the first layout, by `ui/live_event.ts`.
import { inflateRaw } from "./inflate";
import type { LayoutArea, LayoutJson, LayoutRow, LayoutSection } from "./layout";
import { ByteReader, InvalidFrame } from "./reader";

export const COMPACT_LAYOUT = "application/vnd.seatwire.layout";

const HEADER_BYTES = 8;
const MAX_INFLATED_BYTES = 8 * 1024 * 1024;
/** No deflate stream shrinks by more. */
const MAX_RATIO = 1032;
const MAX_SEATS = 1 << 20;
const MAX_SECTIONS = 4096;
const MAX_ROWS = 1 << 17;
const MAX_POINTS = 1 << 16;
const MAX_LABEL_BYTES = 200;
/** What all labels together may expand to: a rule of a few bytes can stand for a million long ones. */
const MAX_LABELS_CHARS = 16 << 20;
const MAX_COUNTER = 1_000_000_000;
const MAX_FRACTION_BITS = 8;

const ROW_CORRECTED = 1;
const ROW_CHAINED = 2;
const ROW_LISTS = [
  ["gaps", 4],
  ["accessible", 8],
  ["companion", 16],
  ["restricted", 32],
] as const;
/** Two corrections share a byte when both are below this. */
const SMALL = 15;
const LARGE = 255;
const TERMS = 4;

/** start, way, bulge, skew of one coordinate of a row, in fractions of a unit. */
type Curve = number[];

type Run = { word: string } | { label: (counter: number) => string; start: number; step: number; labels: number };

/** Decodes a compact layout; null when its bytes are damaged. `hash` is the name it was fetched under. */
export function decodeLayout(bytes: Uint8Array, hash: string): LayoutJson | null {
  try {
    return new LayoutReader(inflate(bytes)).layout(hash);
  } catch (error) {
    // TextDecoder throws TypeError for text that is not UTF-8.
    if (error instanceof InvalidFrame || error instanceof TypeError) return null;
    throw error;
  }
}

function inflate(bytes: Uint8Array): Uint8Array {
  if (bytes.length < HEADER_BYTES || bytes[0] !== 0x53 || bytes[1] !== 0x4c || bytes[2] !== 1) {
    throw new InvalidFrame("not a compact layout of version 1");
  }
  const inflatedBytes = new ByteReader(bytes, 4).u32();
  const stream = bytes.subarray(HEADER_BYTES);
  if (inflatedBytes > MAX_INFLATED_BYTES || inflatedBytes > stream.length * MAX_RATIO) {
    throw new InvalidFrame("promises more than may be");
  }
  return inflateRaw(stream, inflatedBytes);
}

class LayoutReader {
  readonly #in: ByteReader;
  readonly #utf8 = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });
  #penX = 0;
  #penY = 0;
  #labelChars = 0;
  #rowsLeft = MAX_ROWS;

  constructor(bytes: Uint8Array) {
    this.#in = new ByteReader(bytes);
  }

  layout(hash: string): LayoutJson {
    const name = this.#text();
    const unit_mm = this.#in.leb128();
    if (unit_mm === 0) throw new InvalidFrame("unit");
    const bounds: LayoutJson["bounds"] = [this.#signed(), this.#signed(), this.#signed(), this.#signed()];
    const focal: LayoutJson["focal"] = [this.#signed(), this.#signed()];
    const fractionBits = this.#in.u8();
    if (fractionBits > MAX_FRACTION_BITS) throw new InvalidFrame("fraction bits");
    const sectionCount = this.#count(MAX_SECTIONS);
    const areaCount = this.#count(MAX_SECTIONS);
    const shapeCount = this.#count(MAX_POINTS);
    const textCount = this.#count(MAX_POINTS);
    const rules = this.#rules();
    const sections = times(sectionCount, (index) => this.#section(index, rules));
    const seat_count = this.#rows(sections, rules, fractionBits);
    const areas: LayoutArea[] = times(areaCount, (index) => ({ index, name: this.#text(), outline: this.#points() }));
    const shapes = times(shapeCount, () => {
      const kind = ["polygon", "polyline", "ellipse"][this.#in.u8()];
      if (!kind) throw new InvalidFrame("kind of shape");
      const label = this.#optional();
      return { kind, points: this.#points(), label };
    });
    const texts = times(textCount, () => {
      const text = this.#text();
      const at: [number, number] = [this.#signed(), this.#signed()];
      return { text, at, size: this.#in.leb128(), angle_deg: this.#signed() };
    });
    if (this.#in.left !== 0) throw new InvalidFrame("bytes after the end");
    return { hash, name, seat_count, unit_mm, bounds, focal, sections, areas, shapes, texts };
  }

  #rules(): Run[][] {
    let runsLeft = MAX_SEATS + MAX_ROWS;
    return times(this.#count(MAX_ROWS + MAX_SECTIONS), () => {
      const runs = this.#count(runsLeft);
      runsLeft -= runs;
      return times(runs, () => this.#run());
    });
  }

  #run(): Run {
    const kind = this.#in.u8();
    if (kind === 0) return { word: this.#text() };
    if (kind > 3) throw new InvalidFrame("kind of label");
    const width = kind === 1 ? this.#in.u8() : 0;
    if (width > 9) throw new InvalidFrame("width of a number");
    const prefix = this.#text();
    const suffix = this.#text();
    const counted =
      kind === 1 ? (n: number) => String(n).padStart(width, "0") : kind === 2 ? spreadsheetLetters : doubledLetters;
    const start = this.#in.leb128();
    const step = this.#signed();
    return { label: (n) => prefix + counted(n) + suffix, start, step, labels: this.#in.leb128() };
  }

  /** A section whose rows have their labels only. */
  #section(index: number, rules: Run[][]): LayoutSection {
    const name = this.#text();
    const zone = this.#optional();
    const floor = this.#optional();
    const entrance = this.#optional();
    const hasFocal = this.#in.leb128();
    if (hasFocal > 1) throw new InvalidFrame("focal point");
    const focal: [number, number] | undefined = hasFocal ? [this.#signed(), this.#signed()] : undefined;
    const outline = this.#points();
    const rowCount = this.#count(this.#rowsLeft);
    this.#rowsLeft -= rowCount;
    const labels = rowCount === 0 ? [] : this.#labels(rules, rowCount);
    const rows: LayoutRow[] = labels.map((label) => ({ label, first: 0, seats: [], x: [], y: [] }));
    return { index, name, zone, floor, outline, entrance, focal, rows };
  }

  #labels(rules: Run[][], labels: number): string[] {
    const rule = rules[this.#in.leb128()];
    if (!rule) throw new InvalidFrame("no such rule");
    const out: string[] = [];
    const push = (label: string) => {
      this.#labelChars += label.length;
      if (label.length > MAX_LABEL_BYTES || this.#labelChars > MAX_LABELS_CHARS)
        throw new InvalidFrame("labels too long");
      out.push(label);
    };
    for (const run of rule) {
      const left = labels - out.length;
      if (left === 0) throw new InvalidFrame("more labels than seats");
      if ("word" in run) {
        push(run.word);
        continue;
      }
      const count = run.labels || left;
      if (count > left) throw new InvalidFrame("more labels than seats");
      for (let at = 0; at < count; at++) {
        const counter = run.start + at * run.step;
        if (counter < 0 || counter >= MAX_COUNTER) throw new InvalidFrame("counter out of range");
        push(run.label(counter));
      }
    }
    if (out.length !== labels) throw new InvalidFrame("fewer labels than seats");
    return out;
  }

  /** Fills in the rows of all sections; the number of seats comes back. */
  #rows(sections: LayoutSection[], rules: Run[][], fractionBits: number): number {
    const rows = sections.flatMap((section) => section.rows);
    let seatCount = 0;
    let size = 0;
    const sizes = rows.map(() => {
      size += this.#signed();
      seatCount += size;
      if (size <= 0 || seatCount > MAX_SEATS) throw new InvalidFrame("size of a row");
      return size;
    });
    let next = 0;
    rows.forEach((row, at) => {
      row.first = next;
      next += sizes[at];
      row.seats = this.#labels(rules, sizes[at]);
    });
    const flags = rows.map(() => this.#in.u8());
    if (flags.some((flag) => flag > 63)) throw new InvalidFrame("row flags");
    rows.forEach((row, at) => {
      for (const [list, flag] of ROW_LISTS) if (flags[at] & flag) row[list] = this.#positions(sizes[at]);
    });
    // Differences from what is foretold stand term by term, x before y, each for all rows.
    const differences: [Curve, Curve][] = rows.map(() => [[], []]);
    for (let term = 0; term < TERMS; term++) {
      for (const axis of [0, 1]) for (const row of differences) row[axis][term] = this.#signed();
    }
    const foretell = [new Foretell(), new Foretell()];
    let at = 0;
    for (const section of sections) {
      for (const axis of foretell) axis.beginSection();
      for (const row of section.rows) {
        const curves = foretell.map((axis, n) => axis.curve(differences[at][n]));
        this.#seats(row, sizes[at], flags[at], curves, fractionBits);
        at++;
      }
    }
    return seatCount;
  }

  #seats(row: LayoutRow, seats: number, flags: number, curves: Curve[], fractionBits: number): void {
    const axes = [row.x, row.y];
    for (let at = 0; at < seats; at++) {
      const corrections = flags & ROW_CORRECTED ? this.#corrections() : [0, 0];
      axes.forEach((values, axis) => {
        const curve = curves[axis];
        let expected: number;
        if (!(flags & ROW_CHAINED)) expected = curvePoint(curve, fractionBits, at, seats);
        else if (at === 0) expected = rounded(curve[0], fractionBits);
        else if (at === 1) expected = values[0] + rounded(curve[1], fractionBits);
        else expected = 2 * values[at - 1] - values[at - 2];
        values.push((expected + corrections[axis]) | 0);
      });
    }
  }

  #corrections(): [number, number] {
    const byte = this.#in.u8();
    if (byte === LARGE) return [this.#signed(), this.#signed()];
    if (byte >= SMALL * SMALL) throw new InvalidFrame("correction");
    return [unzigzag(byte % SMALL), unzigzag(Math.floor(byte / SMALL))];
  }

  #positions(seats: number): number[] {
    let next = 0;
    return times(this.#count(seats), () => {
      const position = next + this.#in.leb128();
      if (position >= seats) throw new InvalidFrame("position");
      next = position + 1;
      return position;
    });
  }

  #points(): [number, number][] {
    return times(this.#count(MAX_POINTS), () => {
      this.#penX = (this.#penX + this.#signed()) | 0;
      this.#penY = (this.#penY + this.#signed()) | 0;
      return [this.#penX, this.#penY] as [number, number];
    });
  }

  /** A number of things to follow. */
  #count(max: number): number {
    const count = this.#in.leb128();
    if (count > max) throw new InvalidFrame("too many");
    return count;
  }

  #signed(): number {
    return unzigzag(this.#in.leb128());
  }

  #text(): string {
    return this.#string(this.#in.leb128());
  }

  #optional(): string | undefined {
    const more = this.#in.leb128();
    return more === 0 ? undefined : this.#string(more - 1);
  }

  #string(bytes: number): string {
    if (bytes > MAX_LABEL_BYTES) throw new InvalidFrame("text too long");
    const at = this.#in.skip(bytes);
    return this.#utf8.decode(this.#in.bytes.subarray(at, at + bytes));
  }
}

/** What a row's curve is expected to be, from the rows before it; the difference to that is what is written. */
class Foretell {
  #first: Curve = [0, 0, 0, 0];
  #last: Curve | null = null;
  #before: Curve | null = null;

  beginSection(): void {
    this.#last = null;
    this.#before = null;
  }

  curve(difference: Curve): Curve {
    const { expected } = this;
    const curve = difference.map((value, term) => (expected[term] + value) | 0);
    if (!this.#last) this.#first = curve;
    this.#before = this.#last;
    this.#last = curve;
    return curve;
  }

  private get expected(): Curve {
    const last = this.#last;
    const before = this.#before;
    if (!last) return this.#first;
    return before ? last.map((value, term) => (2 * value - before[term]) | 0) : last;
  }
}

/** IEEE doubles in exactly this order, so that every language lands on the same unit. */
function curvePoint(curve: Curve, fractionBits: number, at: number, seats: number): number {
  const [start, way, bulge, skew] = curve;
  const t = seats > 1 ? at / (seats - 1) : 0;
  const u = 4 * t * (1 - t);
  return rounded(start + way * t + u * (bulge + skew * (1 - 2 * t)), fractionBits);
}

function rounded(value: number, fractionBits: number): number {
  return Math.floor(value / (1 << fractionBits) + 0.5) | 0;
}

function unzigzag(value: number): number {
  return (value >>> 1) ^ -(value & 1);
}

/** A..Z, AA, AB .. AZ, BA .. */
function spreadsheetLetters(counter: number): string {
  let letters = "";
  for (let left = counter + 1; left > 0; left = Math.floor(left / 26)) {
    left--;
    letters = String.fromCharCode(65 + (left % 26)) + letters;
  }
  return letters;
}

/** A..Z, AA, BB .. ZZ, AAA .. */
function doubledLetters(counter: number): string {
  const repeats = Math.min(Math.floor(counter / 26) + 1, MAX_LABEL_BYTES + 1);
  return String.fromCharCode(65 + (counter % 26)).repeat(repeats);
}

function times<T>(count: number, make: (index: number) => T): T[] {
  const out: T[] = [];
  for (let index = 0; index < count; index++) out.push(make(index));
  return out;
}
