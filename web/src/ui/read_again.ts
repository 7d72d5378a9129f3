//! When a page is read anew after word that it has changed: soon, but not by everybody in the same instant, and not before
//! every copy from before the word has gone stale. Used by `live_event.ts`; knows only time.

/**
 * Longest time that a page from before the word may still come: the server gives one again for a second, caches on the way
 * for one more and one in which they ask anew (its `max-age` and `stale-while-revalidate`); the rest is for the way itself.
 * Nobody reads twice, so it has to cover all of them.
 */
export const STALE_MS = 3_500;
/** Everybody who looks hears the word in one instant; their reads come over this time. */
export const SPREAD_MS = 4_000;
/** So often a page that cannot be had is asked for; the next word begins anew. */
const MAX_TRIES = 4;

export class ReadAgain {
  /** false when it could not be read */
  readonly #read: () => Promise<boolean>;
  #timer: ReturnType<typeof setTimeout> | null = null;
  #due = false;
  #tries = 0;
  #ended = false;

  constructor(read: () => Promise<boolean>) {
    this.#read = read;
  }

  /** There was word. What comes while a read is planned or under way has one more read behind it, however much it is. */
  soon(): void {
    this.#tries = 0;
    this.#due = true;
    this.#plan();
  }

  end(): void {
    this.#ended = true;
    if (this.#timer !== null) clearTimeout(this.#timer);
  }

  #plan(): void {
    if (this.#timer !== null || this.#ended) return;
    this.#due = false;
    this.#timer = setTimeout(() => void this.#now(), STALE_MS + Math.random() * SPREAD_MS);
  }

  async #now(): Promise<void> {
    this.#tries++;
    const read = await this.#read();
    this.#timer = null;
    if (this.#due || (!read && this.#tries < MAX_TRIES)) this.#plan();
  }
}
