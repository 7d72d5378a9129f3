//! A base64 seat set, as the reply to `unlock` carries it: one byte a seat. Fetched with the first code.
import { ByteReader } from "./reader";
import { readRoaring } from "./roaring";

/** 1 where the seat is in the set. Throws InvalidFrame for what is no such set. */
export function readSeatSet(base64: string, seatCount: number): Uint8Array {
  const bytes = Uint8Array.from(atob(base64), (char) => char.charCodeAt(0));
  const seats = new Uint8Array(seatCount);
  readRoaring(new ByteReader(bytes), seatCount, (seat) => {
    seats[seat] = 1;
  });
  return seats;
}
