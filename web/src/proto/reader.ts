//! A cursor over foreign bytes: every read is checked, a short or ill-formed one throws InvalidFrame.
//! Used by the frame, roaring and layout decoders of this room; callers catch InvalidFrame once, at the top.

/** Foreign bytes broke a rule of the wire. Never leaves this room: decoders turn it into an outcome. */
export class InvalidFrame extends Error {}

export class ByteReader {
  at: number;
  readonly end: number;
  readonly bytes: Uint8Array;

  constructor(bytes: Uint8Array, at = 0, end = bytes.length) {
    this.bytes = bytes;
    this.at = at;
    this.end = end;
    if (end > bytes.length || at > end) throw new InvalidFrame("range outside the bytes");
  }

  get left(): number {
    return this.end - this.at;
  }

  /** Reserves `count` bytes and returns where they begin. */
  skip(count: number): number {
    const from = this.at;
    if (count > this.end - from) throw new InvalidFrame("truncated");
    this.at = from + count;
    return from;
  }

  u8(): number {
    return this.bytes[this.skip(1)];
  }

  u16(): number {
    const at = this.skip(2);
    return this.bytes[at] | (this.bytes[at + 1] << 8);
  }

  u32(): number {
    const at = this.skip(4);
    const b = this.bytes;
    return (b[at] | (b[at + 1] << 8) | (b[at + 2] << 16) | (b[at + 3] << 24)) >>> 0;
  }

  /** An unsigned LEB128 below 2^32: at most five bytes, minimal (no trailing zero groups). */
  leb128(): number {
    let value = 0;
    for (let group = 0; group < 5; group++) {
      const byte = this.u8();
      value += (byte & 0x7f) * 2 ** (7 * group);
      if (byte < 0x80) {
        if ((byte === 0 && group > 0) || value > 0xffffffff) throw new InvalidFrame("LEB128 not minimal or too large");
        return value;
      }
    }
    throw new InvalidFrame("LEB128 longer than five bytes");
  }
}
