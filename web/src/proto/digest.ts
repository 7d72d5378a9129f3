//! The digest every frame carries: an XOR over seats and areas, so that one change costs one mix.
//! Used by `state/event_map.ts`, which keeps the running value and compares it after each frame.

/** The 32-bit finaliser fixed by the protocol. */
export function mix(value: number): number {
  let x = value >>> 0;
  x ^= x >>> 16;
  x = Math.imul(x, 0x7feb352d);
  x ^= x >>> 15;
  x = Math.imul(x, 0x846ca68b);
  x ^= x >>> 16;
  return x >>> 0;
}

/** What one seat adds; an available seat (state 0) adds nothing. */
export function seatMix(seat: number, state: number): number {
  return state === 0 ? 0 : mix(seat * 4 + state);
}

/** What one area adds, also with nothing remaining. */
export function areaMix(area: number, remaining: number): number {
  return mix(mix(area + 0x80000000) + remaining);
}

/** The digest of a whole event: one state a seat index, one remaining count an area index. */
export function digestOf(states: ArrayLike<number>, areas: ArrayLike<number>): number {
  let digest = 0;
  for (let seat = 0; seat < states.length; seat++) digest ^= seatMix(seat, states[seat]);
  for (let area = 0; area < areas.length; area++) digest ^= areaMix(area, areas[area]);
  return digest >>> 0;
}
