//! End-to-end tests: Chromium against the real server at SEATWIRE_URL. One file at a time: they share its seats.
import { defineConfig } from "vitest/config";

export default defineConfig({
  test: {
    include: ["e2e/**/*.test.ts"],
    environment: "node",
    testTimeout: 300_000,
    hookTimeout: 120_000,
    // A machine that has much else to do draws late.
    expect: { poll: { timeout: 20_000 } },
    fileParallelism: false,
    // scripts/test.sh names those that needed it.
    retry: 1,
  },
});
