//! Unit tests: pure rooms on plain node, no browser, no server.
import { defineConfig } from "vitest/config";

export default defineConfig({ test: { include: ["test/**/*.test.ts"], environment: "node" } });
