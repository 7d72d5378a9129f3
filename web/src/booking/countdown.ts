//! The time a buyer has left, and when to say so aloud. Pure; the clock is the server's.

/** The basket shows its end a little early, so that a tap at the last moment is not answered with "expired". */
export const EARLY_MS = 2_000;

/** Seconds left at which a screen reader is told. */
export const SPOKEN_AT_S = [300, 60, 30] as const;
export type SpokenAt = (typeof SPOKEN_AT_S)[number];

export function leftMs(expiresMs: number, serverNowMs: number): number {
  return Math.max(0, expiresMs - EARLY_MS - serverNowMs);
}

/** "9:58"; the minute turns when the last part of a second is over. */
export function clockText(left: number): string {
  const seconds = Math.ceil(left / 1000);
  return `${Math.floor(seconds / 60)}:${String(seconds % 60).padStart(2, "0")}`;
}

/** The announcement that fell due between two readings, if any; after a long gap only the latest. */
export function spokenBetween(beforeMs: number, nowMs: number): SpokenAt | null {
  const due = SPOKEN_AT_S.filter((at) => beforeMs > at * 1000 && nowMs <= at * 1000);
  return due.length > 0 && nowMs > 0 ? due[due.length - 1] : null;
}
