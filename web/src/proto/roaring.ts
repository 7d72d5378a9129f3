//! Reads a seat set in the roaring 32-bit portable format: array, bitmap and run containers.
//! Called by `frame.ts` for each seat record and by the booking room for unlocked seats.
//! Layout of the bytes: https://github.com/RoaringBitmap/RoaringFormatSpec
import { type ByteReader, InvalidFrame } from "./reader";

const COOKIE_WITHOUT_RUNS = 12346;
const COOKIE_WITH_RUNS = 12347;
/** With runs, offsets are written only from this many containers on. */
const OFFSETS_FROM_CONTAINERS = 4;
/** A container with more values than this is a bitmap. */
const ARRAY_MAX_VALUES = 4096;

/**
 * Calls `visit` with every value below `limit`, ascending, and consumes the reader to its end.
 * Throws InvalidFrame for a value at or above `limit`, an unsorted container or left-over bytes.
 */
export function readRoaring(reader: ByteReader, limit: number, visit: (value: number) => void): void {
  const cookie = reader.u32();
  const withRuns = (cookie & 0xffff) === COOKIE_WITH_RUNS;
  if (!withRuns && cookie !== COOKIE_WITHOUT_RUNS) throw new InvalidFrame("not a roaring set");
  const count = withRuns ? (cookie >>> 16) + 1 : reader.u32();
  if (count > 65536) throw new InvalidFrame("too many containers");
  const runFlags = withRuns ? reader.skip((count + 7) >> 3) : -1;
  const header = reader.skip(count * 4);
  if (!withRuns || count >= OFFSETS_FROM_CONTAINERS) reader.skip(count * 4);
  const b = reader.bytes;
  let lastKey = -1;

  for (let i = 0; i < count; i++) {
    const key = b[header + i * 4] | (b[header + i * 4 + 1] << 8);
    const size = (b[header + i * 4 + 2] | (b[header + i * 4 + 3] << 8)) + 1;
    if (key <= lastKey) throw new InvalidFrame("containers out of order");
    lastKey = key;
    const base = key * 65536;
    const emit = (low: number) => {
      if (base + low >= limit) throw new InvalidFrame("seat index out of range");
      visit(base + low);
    };

    if (withRuns && b[runFlags + (i >> 3)] & (1 << (i & 7))) {
      let next = 0;
      let total = 0;
      for (let run = reader.u16(); run > 0; run--) {
        const start = reader.u16();
        const last = start + reader.u16();
        if (start < next || last > 65535) throw new InvalidFrame("runs out of order");
        for (let low = start; low <= last; low++) emit(low);
        total += last - start + 1;
        next = last + 1;
      }
      if (total !== size) throw new InvalidFrame("run container of another size");
    } else if (size > ARRAY_MAX_VALUES) {
      const at = reader.skip(8192);
      let total = 0;
      for (let byte = 0; byte < 8192; byte++) {
        for (let bits = b[at + byte]; bits !== 0; bits &= bits - 1) {
          emit(byte * 8 + 31 - Math.clz32(bits & -bits));
          total++;
        }
      }
      if (total !== size) throw new InvalidFrame("bitmap container of another size");
    } else {
      let previous = -1;
      for (let n = 0; n < size; n++) {
        const low = reader.u16();
        if (low <= previous) throw new InvalidFrame("array out of order");
        emit(low);
        previous = low;
      }
    }
  }
  if (reader.left !== 0) throw new InvalidFrame("bytes after the set");
}
