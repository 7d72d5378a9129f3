//! A small QR encoder (ISO/IEC 18004): byte mode, error level M, versions 1 to 10. Loaded with the first ticket.
//! A ticket code fits version 2 or 3; the limit of version 10 is 213 bytes.

const MAX_VERSION = 10;
/** by version: [error-correction bytes a block, blocks of group 1, data bytes in them, blocks of group 2]; group 2 has one more */
const LEVEL_M: [number, number, number, number][] = [
  [10, 1, 16, 0],
  [16, 1, 28, 0],
  [26, 1, 44, 0],
  [18, 2, 32, 0],
  [24, 2, 43, 0],
  [16, 4, 27, 0],
  [18, 4, 31, 0],
  [22, 2, 38, 2],
  [22, 3, 36, 2],
  [26, 4, 43, 1],
];
const ALIGNMENT: number[][] = [
  [],
  [6, 18],
  [6, 22],
  [6, 26],
  [6, 30],
  [6, 34],
  [6, 22, 38],
  [6, 24, 42],
  [6, 26, 46],
  [6, 28, 50],
];

const EXP = new Uint8Array(512);
const LOG = new Uint8Array(256);
for (let i = 0, x = 1; i < 255; i++) {
  EXP[i] = x;
  EXP[i + 255] = x;
  LOG[x] = i;
  x <<= 1;
  if (x & 256) x ^= 0x11d;
}

/** Reed-Solomon remainder of `data` over the field of QR codes. */
function correction(data: number[], count: number): number[] {
  let generator = [1];
  for (let i = 0; i < count; i++) {
    const next = [...generator, 0];
    for (let j = 0; j < generator.length; j++) if (generator[j]) next[j + 1] ^= EXP[LOG[generator[j]] + i];
    generator = next;
  }
  const rest = [...data, ...new Array(count).fill(0)];
  for (let i = 0; i < data.length; i++) {
    const lead = rest[i];
    if (lead === 0) continue;
    for (let j = 0; j < generator.length; j++) if (generator[j]) rest[i + j] ^= EXP[LOG[generator[j]] + LOG[lead]];
  }
  return rest.slice(data.length);
}

/** All code words in the order in which they are placed. */
function codeWords(bytes: Uint8Array, version: number): number[] {
  const [ec, blocks1, size1, blocks2] = LEVEL_M[version - 1];
  const capacity = blocks1 * size1 + blocks2 * (size1 + 1);
  const bits: number[] = [];
  const push = (value: number, count: number) => {
    for (let i = count - 1; i >= 0; i--) bits.push((value >> i) & 1);
  };
  push(4, 4);
  push(bytes.length, version < 10 ? 8 : 16);
  for (const byte of bytes) push(byte, 8);
  push(0, Math.min(4, capacity * 8 - bits.length));
  while (bits.length % 8) bits.push(0);
  const data: number[] = [];
  for (let i = 0; i < bits.length; i += 8) data.push(bits.slice(i, i + 8).reduce((byte, bit) => byte * 2 + bit, 0));
  for (let pad = 0xec; data.length < capacity; pad ^= 0xec ^ 0x11) data.push(pad);

  const blocks: number[][] = [];
  for (let i = 0, at = 0; i < blocks1 + blocks2; i++) {
    const size = i < blocks1 ? size1 : size1 + 1;
    blocks.push(data.slice(at, at + size));
    at += size;
  }
  const checks = blocks.map((block) => correction(block, ec));
  const out: number[] = [];
  for (let i = 0; i <= size1; i++) for (const block of blocks) if (i < block.length) out.push(block[i]);
  for (let i = 0; i < ec; i++) for (const check of checks) out.push(check[i]);
  return out;
}

const MASKS: ((row: number, column: number) => boolean)[] = [
  (r, c) => (r + c) % 2 === 0,
  (r) => r % 2 === 0,
  (_, c) => c % 3 === 0,
  (r, c) => (r + c) % 3 === 0,
  (r, c) => ((r >> 1) + Math.floor(c / 3)) % 2 === 0,
  (r, c) => ((r * c) % 2) + ((r * c) % 3) === 0,
  (r, c) => (((r * c) % 2) + ((r * c) % 3)) % 2 === 0,
  (r, c) => (((r + c) % 2) + ((r * c) % 3)) % 2 === 0,
];

/** The bits of a BCH code, `generator` of degree `degree`, appended to `value`. */
function bch(value: number, generator: number, degree: number): number {
  let rest = value << degree;
  for (let bit = 31 - Math.clz32(rest || 1); rest && bit >= degree; bit = 31 - Math.clz32(rest || 1)) {
    rest ^= generator << (bit - degree);
  }
  return (value << degree) | rest;
}

/** Dark modules of the code for `text`, row by row. Throws RangeError when it does not fit. */
export function qrModules(text: string): boolean[][] {
  const bytes = new TextEncoder().encode(text);
  let version = 1;
  for (; ; version++) {
    if (version > MAX_VERSION) throw new RangeError("too long for a QR code here");
    const [, blocks1, size1, blocks2] = LEVEL_M[version - 1];
    const room = blocks1 * size1 + blocks2 * (size1 + 1) - (version < 10 ? 2 : 3);
    if (bytes.length <= room) break;
  }
  const side = version * 4 + 17;
  const dark: boolean[][] = Array.from({ length: side }, () => new Array(side).fill(false));
  const fixed: boolean[][] = Array.from({ length: side }, () => new Array(side).fill(false));
  const set = (row: number, column: number, on: boolean) => {
    if (row < 0 || column < 0 || row >= side || column >= side) return;
    dark[row][column] = on;
    fixed[row][column] = true;
  };

  for (let i = 0; i < side; i++) {
    set(6, i, i % 2 === 0);
    set(i, 6, i % 2 === 0);
  }
  for (const [row, column] of [
    [3, 3],
    [3, side - 4],
    [side - 4, 3],
  ]) {
    for (let dr = -4; dr <= 4; dr++) {
      for (let dc = -4; dc <= 4; dc++) {
        const ring = Math.max(Math.abs(dr), Math.abs(dc));
        set(row + dr, column + dc, ring !== 2 && ring !== 4);
      }
    }
  }
  const centres = ALIGNMENT[version - 1];
  for (const row of centres) {
    for (const column of centres) {
      const corner =
        (row === 6 && column === 6) || (row === 6 && column === side - 7) || (row === side - 7 && column === 6);
      if (corner) continue;
      for (let dr = -2; dr <= 2; dr++) {
        for (let dc = -2; dc <= 2; dc++) set(row + dr, column + dc, Math.max(Math.abs(dr), Math.abs(dc)) !== 1);
      }
    }
  }
  const writeFormat = (mask: number) => {
    const bits = bch(mask, 0x537, 10) ^ 0x5412;
    const bit = (i: number) => ((bits >> i) & 1) === 1;
    for (let i = 0; i < 6; i++) set(i, 8, bit(i));
    set(7, 8, bit(6));
    set(8, 8, bit(7));
    set(8, 7, bit(8));
    for (let i = 9; i < 15; i++) set(8, 14 - i, bit(i));
    for (let i = 0; i < 8; i++) set(8, side - 1 - i, bit(i));
    for (let i = 8; i < 15; i++) set(side - 15 + i, 8, bit(i));
    set(side - 8, 8, true);
  };
  writeFormat(0);
  if (version >= 7) {
    const bits = bch(version, 0x1f25, 12);
    for (let i = 0; i < 18; i++) {
      const on = ((bits >> i) & 1) === 1;
      set(Math.floor(i / 3), side - 11 + (i % 3), on);
      set(side - 11 + (i % 3), Math.floor(i / 3), on);
    }
  }

  const words = codeWords(bytes, version);
  let at = 0;
  for (let right = side - 1; right >= 1; right -= 2) {
    if (right === 6) right = 5;
    for (let step = 0; step < side; step++) {
      const upwards = ((right + 1) & 2) === 0;
      const row = upwards ? side - 1 - step : step;
      for (const column of [right, right - 1]) {
        if (fixed[row][column]) continue;
        dark[row][column] = at < words.length * 8 && ((words[at >> 3] >> (7 - (at & 7))) & 1) === 1;
        at++;
      }
    }
  }

  let best = 0;
  let least = Number.POSITIVE_INFINITY;
  const flip = (mask: number) => {
    for (let r = 0; r < side; r++) {
      for (let c = 0; c < side; c++) if (!fixed[r][c] && MASKS[mask](r, c)) dark[r][c] = !dark[r][c];
    }
  };
  for (let mask = 0; mask < 8; mask++) {
    flip(mask);
    writeFormat(mask);
    const cost = penalty(dark);
    if (cost < least) {
      least = cost;
      best = mask;
    }
    flip(mask);
  }
  flip(best);
  writeFormat(best);
  return dark;
}

/** How hard the picture is to read: runs, blocks, false finders, imbalance (the standard's four rules). */
function penalty(dark: boolean[][]): number {
  const side = dark.length;
  let cost = 0;
  let on = 0;
  for (const across of [true, false]) {
    const at = (line: number, i: number) => (across ? dark[line][i] : dark[i][line]);
    for (let line = 0; line < side; line++) {
      let run = 1;
      let last = 0;
      for (let i = 0; i < side; i++) {
        if (i > 0) {
          if (at(line, i) === at(line, i - 1)) {
            run++;
            if (run === 5) cost += 3;
            else if (run > 5) cost++;
          } else run = 1;
        }
        last = ((last << 1) | (at(line, i) ? 1 : 0)) & 0x7ff;
        if (i >= 10 && (last === 0x05d || last === 0x5d0)) cost += 40;
      }
    }
  }
  for (let r = 0; r < side; r++) {
    for (let c = 0; c < side; c++) {
      if (dark[r][c]) on++;
      if (r > 0 && c > 0) {
        const same =
          dark[r][c] === dark[r - 1][c] && dark[r][c] === dark[r][c - 1] && dark[r][c] === dark[r - 1][c - 1];
        if (same) cost += 3;
      }
    }
  }
  return cost + Math.floor(Math.abs((on * 20) / (side * side) - 10)) * 10;
}

/** The code as one SVG path in module units, with the quiet zone of four modules around it. */
export function qrPath(text: string): { side: number; path: string } {
  const modules = qrModules(text);
  let path = "";
  modules.forEach((row, r) => {
    for (let c = 0; c < row.length; c++) {
      if (!row[c]) continue;
      const from = c;
      while (row[c + 1]) c++;
      path += `M${from + 4} ${r + 4}h${c - from + 1}v1h-${c - from + 1}z`;
    }
  });
  return { side: modules.length + 8, path };
}
