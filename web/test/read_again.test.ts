//! A page is read again behind word that it has changed: once for many words, after every old copy is stale.
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { ReadAgain, SPREAD_MS, STALE_MS } from "../src/ui/read_again";

describe("a page that is said to have changed", () => {
  beforeEach(() => void vi.useFakeTimers());
  afterEach(() => void vi.useRealTimers());

  it("is read once every old copy is stale, at the latest when all have read", async () => {
    const read = vi.fn(async () => true);
    new ReadAgain(read).soon();
    await vi.advanceTimersByTimeAsync(STALE_MS - 1);
    expect(read).not.toHaveBeenCalled();
    await vi.advanceTimersByTimeAsync(SPREAD_MS + 1);
    expect(read).toHaveBeenCalledTimes(1);
    await vi.advanceTimersByTimeAsync(60_000);
    expect(read).toHaveBeenCalledTimes(1);
  });

  it("is not read by everybody in one instant", async () => {
    const at = new Set<number>();
    const from = Date.now();
    for (let n = 0; n < 100; n++)
      new ReadAgain(async () => {
        at.add(Math.floor((Date.now() - from) / 1_000));
        return true;
      }).soon();
    await vi.advanceTimersByTimeAsync(STALE_MS + SPREAD_MS);
    expect(at.size).toBeGreaterThanOrEqual(4);
  });

  it("is read once more for all words that came meanwhile", async () => {
    const read = vi.fn(async () => true);
    const again = new ReadAgain(read);
    for (let n = 0; n < 50; n++) again.soon();
    await vi.advanceTimersByTimeAsync(60_000);
    expect(read).toHaveBeenCalledTimes(2);
  });

  it("is asked for again when it cannot be had, but not for ever", async () => {
    const read = vi.fn(async () => false);
    const again = new ReadAgain(read);
    again.soon();
    await vi.advanceTimersByTimeAsync(600_000);
    expect(read).toHaveBeenCalledTimes(4);
    again.soon();
    await vi.advanceTimersByTimeAsync(600_000);
    expect(read).toHaveBeenCalledTimes(8);
  });

  it("is left alone when nobody looks any more", async () => {
    const read = vi.fn(async () => true);
    const again = new ReadAgain(read);
    again.soon();
    again.end();
    await vi.advanceTimersByTimeAsync(60_000);
    expect(read).not.toHaveBeenCalled();
  });
});
