//! The server's time as seen from here: monotonic local time plus an offset learned from ping.
//! Countdowns read it, so a wrong or changed clock on the buyer's device moves nothing.

/** How many of the latest measurements compete; the one with the shortest round trip wins. */
const KEPT_SAMPLES = 8;

export class ServerClock {
  #samples: { offsetMs: number; roundTripMs: number }[] = [];
  #offsetMs: number;
  readonly #localMs: () => number;

  /** `localMs` must never jump with the wall clock: `performance.timeOrigin + performance.now()` in a page. */
  constructor(localMs: () => number = () => performance.timeOrigin + performance.now()) {
    this.#localMs = localMs;
    this.#offsetMs = 0;
  }

  /** Local monotonic time, the t0 of a ping. */
  localMs(): number {
    return this.#localMs();
  }

  /** The server's time now, epoch milliseconds. */
  nowMs(): number {
    return this.#localMs() + this.#offsetMs;
  }

  /** A first guess from a reply that names the server's time; a ping is better and replaces it. */
  guess(serverMs: number): void {
    if (this.#samples.length === 0) this.#offsetMs = serverMs - this.#localMs();
  }

  /** One ping: sent at t0, received at t1 and answered at t2 by the server, answer here at t3. */
  learn(t0: number, t1: number, t2: number, t3: number): void {
    const sample = { offsetMs: (t1 - t0 + (t2 - t3)) / 2, roundTripMs: t3 - t0 - (t2 - t1) };
    this.#samples = [...this.#samples, sample].slice(-KEPT_SAMPLES);
    this.#offsetMs = this.#samples.reduce((best, s) => (s.roundTripMs < best.roundTripMs ? s : best)).offsetMs;
  }

  /** The machine slept or its clock jumped: earlier measurements are worth nothing. */
  forget(): void {
    this.#samples = [];
  }
}
