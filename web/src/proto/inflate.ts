//! Raw deflate (RFC 1951), synchronous and bounded: the caller says how many bytes must come out.
//! Synchronous on purpose: frames are applied in the order they arrive, and the platform's stream answers
//! later than the next frame (web/README.md has the timings). Called by `frame.ts` and `layout_compact.ts`.
import { InvalidFrame } from "./reader";

/** Codes of one Huffman alphabet in canonical order: how many of each length, and the symbols sorted by code. */
interface Huffman {
  counts: Uint16Array;
  symbols: Uint16Array;
}

const MAX_CODE_BITS = 15;
const LENGTH_BASE = [
  3, 4, 5, 6, 7, 8, 9, 10, 11, 13, 15, 17, 19, 23, 27, 31, 35, 43, 51, 59, 67, 83, 99, 115, 131, 163, 195, 227, 258,
];
const LENGTH_EXTRA = [0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3, 4, 4, 4, 4, 5, 5, 5, 5, 0];
const DISTANCE_BASE = [
  1, 2, 3, 4, 5, 7, 9, 13, 17, 25, 33, 49, 65, 97, 129, 193, 257, 385, 513, 769, 1025, 1537, 2049, 3073, 4097, 6145,
  8193, 12289, 16385, 24577,
];
const CODE_LENGTH_ORDER = [16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15];

function huffman(lengths: Uint8Array): Huffman {
  const counts = new Uint16Array(MAX_CODE_BITS + 1);
  for (const length of lengths) counts[length]++;
  counts[0] = 0;
  const next = new Uint16Array(MAX_CODE_BITS + 2);
  let room = 1;
  for (let bits = 1; bits <= MAX_CODE_BITS; bits++) {
    room = room * 2 - counts[bits];
    if (room < 0) throw new InvalidFrame("deflate: more codes than fit");
    next[bits + 1] = next[bits] + counts[bits];
  }
  const symbols = new Uint16Array(lengths.length);
  lengths.forEach((length, symbol) => {
    if (length > 0) symbols[next[length]++] = symbol;
  });
  return { counts, symbols };
}

const fixedLiterals = huffman(
  Uint8Array.from({ length: 288 }, (_, i) => (i < 144 ? 8 : i < 256 ? 9 : i < 280 ? 7 : 8)),
);
const fixedDistances = huffman(new Uint8Array(30).fill(5));

/**
 * Inflates `input` into exactly `outBytes` bytes. Throws InvalidFrame when the stream is broken, wants to
 * grow past `outBytes`, stops short of it, or does not end with the input's last byte.
 */
export function inflateRaw(input: Uint8Array, outBytes: number): Uint8Array {
  const out = new Uint8Array(outBytes);
  let written = 0;
  let at = 0;
  let held = 0;
  let heldBits = 0;

  const bits = (need: number): number => {
    while (heldBits < need) {
      if (at >= input.length) throw new InvalidFrame("deflate: truncated");
      held |= input[at++] << heldBits;
      heldBits += 8;
    }
    const value = held & ((1 << need) - 1);
    held >>>= need;
    heldBits -= need;
    return value;
  };

  const symbol = (code: Huffman): number => {
    let value = 0;
    let first = 0;
    let index = 0;
    for (let length = 1; length <= MAX_CODE_BITS; length++) {
      if (heldBits === 0) {
        if (at >= input.length) throw new InvalidFrame("deflate: truncated");
        held = input[at++];
        heldBits = 8;
      }
      value |= held & 1;
      held >>>= 1;
      heldBits--;
      const count = code.counts[length];
      if (value - first < count) return code.symbols[index + value - first];
      index += count;
      first = (first + count) << 1;
      value <<= 1;
    }
    throw new InvalidFrame("deflate: no such code");
  };

  const codes = (literals: Huffman, distances: Huffman): void => {
    for (;;) {
      let sym = symbol(literals);
      if (sym < 256) {
        if (written >= outBytes) throw new InvalidFrame("deflate: larger than told");
        out[written++] = sym;
        continue;
      }
      if (sym === 256) return;
      sym -= 257;
      if (sym >= 29) throw new InvalidFrame("deflate: no such length");
      const length = LENGTH_BASE[sym] + bits(LENGTH_EXTRA[sym]);
      const far = symbol(distances);
      if (far >= 30) throw new InvalidFrame("deflate: no such distance");
      const distance = DISTANCE_BASE[far] + bits(far < 4 ? 0 : (far >> 1) - 1);
      if (distance > written) throw new InvalidFrame("deflate: before the beginning");
      if (written + length > outBytes) throw new InvalidFrame("deflate: larger than told");
      for (let n = 0; n < length; n++, written++) out[written] = out[written - distance];
    }
  };

  const dynamicCodes = (): [Huffman, Huffman] => {
    const literalCount = bits(5) + 257;
    const distanceCount = bits(5) + 1;
    const codeCount = bits(4) + 4;
    const lengths = new Uint8Array(19);
    for (let n = 0; n < codeCount; n++) lengths[CODE_LENGTH_ORDER[n]] = bits(3);
    const lengthCode = huffman(lengths);
    const all = new Uint8Array(literalCount + distanceCount);
    for (let n = 0; n < all.length; ) {
      const sym = symbol(lengthCode);
      if (sym < 16) {
        all[n++] = sym;
        continue;
      }
      if (sym === 16 && n === 0) throw new InvalidFrame("deflate: nothing to repeat");
      const value = sym === 16 ? all[n - 1] : 0;
      const times = sym === 16 ? 3 + bits(2) : sym === 17 ? 3 + bits(3) : 11 + bits(7);
      if (n + times > all.length) throw new InvalidFrame("deflate: repeat past the end");
      all.fill(value, n, n + times);
      n += times;
    }
    return [huffman(all.subarray(0, literalCount)), huffman(all.subarray(literalCount))];
  };

  for (let last = false; !last; ) {
    last = bits(1) === 1;
    const type = bits(2);
    if (type === 0) {
      held = 0;
      heldBits = 0;
      if (at + 4 > input.length) throw new InvalidFrame("deflate: truncated");
      const length = input[at] | (input[at + 1] << 8);
      if ((length ^ 0xffff) !== (input[at + 2] | (input[at + 3] << 8)))
        throw new InvalidFrame("deflate: stored length");
      at += 4;
      if (at + length > input.length) throw new InvalidFrame("deflate: truncated");
      if (written + length > outBytes) throw new InvalidFrame("deflate: larger than told");
      out.set(input.subarray(at, at + length), written);
      at += length;
      written += length;
    } else if (type === 1) {
      codes(fixedLiterals, fixedDistances);
    } else if (type === 2) {
      codes(...dynamicCodes());
    } else {
      throw new InvalidFrame("deflate: no such block");
    }
  }
  if (written !== outBytes) throw new InvalidFrame("deflate: shorter than told");
  if (at !== input.length) throw new InvalidFrame("deflate: bytes after the stream");
  return out;
}
