//! How long to wait before connecting again: full jitter, doubling, capped.
//! `client.ts` asks after each lost connection and resets after a good hello.

/** Protocol: doubling to 30 s. */
const MAX_DELAY_MS = 30_000;
/** Spread of the first try when the server has told none. */
const FIRST_SPREAD_MS = 800;

export class Backoff {
  #tries = 0;
  #firstMs = FIRST_SPREAD_MS;
  readonly #random: () => number;

  constructor(random: () => number = Math.random) {
    this.#random = random;
  }

  /** The server told how wide the first reconnects should be spread. */
  spread(jitterMs: number): void {
    this.#firstMs = Math.min(Math.max(jitterMs, 1), MAX_DELAY_MS);
  }

  nextMs(): number {
    const ceiling = Math.min(this.#firstMs * 2 ** this.#tries, MAX_DELAY_MS);
    this.#tries++;
    return this.#random() * ceiling;
  }

  reset(): void {
    this.#tries = 0;
    this.#firstMs = FIRST_SPREAD_MS;
  }
}
