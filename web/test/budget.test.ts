//! The bundle budget: what a first visit must load before it can show a map, and what the protocol client weighs.
import { fileURLToPath } from "node:url";
import { gzipSync } from "node:zlib";
import { build } from "vite";
import { describe, expect, it } from "vitest";

const FIRST_LOAD_MAX_BYTES = 45 * 1024;
const CLIENT_MAX_BYTES = 6 * 1024;
const SCANNER_MAX_BYTES = 25 * 1024;

interface Chunk {
  type: string;
  fileName: string;
  code: string;
  imports: string[];
  moduleIds: string[];
}

interface Asset {
  type: string;
  fileName: string;
  source: string;
}

const root = fileURLToPath(new URL("..", import.meta.url));
const gzipped = (code: string) => gzipSync(code, { level: 9 }).length;

async function outputOf(options: object): Promise<(Chunk | Asset)[]> {
  const built = (await build({ root, logLevel: "error", ...options })) as { output: (Chunk | Asset)[] };
  return built.output;
}

const isChunk = (part: Chunk | Asset): part is Chunk => part.type === "chunk";

describe("bundle budget", () => {
  it("keeps the first load within 45 KB of gzipped script", async () => {
    const output = await outputOf({ build: { write: false } });
    const chunks = output.filter(isChunk);
    const page = output.find((part) => part.fileName === "index.html") as Asset;
    const first = new Set<Chunk>();
    const add = (name: string) => {
      const chunk = chunks.find((other) => other.fileName === name);
      if (!chunk || first.has(chunk)) return;
      first.add(chunk);
      chunk.imports.forEach(add);
    };
    for (const [, name] of page.source.matchAll(/(?:src|href)="\/([^"]+\.js)"/g)) add(name);
    const total = [...first].reduce((sum, chunk) => sum + gzipped(chunk.code), 0);
    expect(total).toBeGreaterThan(10_000);
    console.info(`first load: ${total} bytes of gzipped script`);
    expect(total).toBeLessThanOrEqual(FIRST_LOAD_MAX_BYTES);
    const modules = [...first].flatMap((chunk) => chunk.moduleIds);
    expect(modules.some((id) => id.endsWith("seat_map.ts"))).toBe(true);
    for (const late of [
      "qr.ts",
      "texts_de.ts",
      "order_page.tsx",
      "layout_compact.ts",
      "checkout_form.tsx",
      "list_view.tsx",
    ]) {
      expect(
        modules.some((id) => id.endsWith(late)),
        late,
      ).toBe(false);
    }
  });

  it("keeps the scanner apart: 25 KB, its decoders fetched only where they are needed", async () => {
    const output = await outputOf({
      configFile: fileURLToPath(new URL("../vite.scan.config.ts", import.meta.url)),
      build: { write: false },
    });
    const chunks = output.filter(isChunk);
    expect(chunks.some((chunk) => chunk.fileName === "worker.js")).toBe(true);
    const page = chunks.filter((chunk) => chunk.fileName.startsWith("assets/scan-"));
    expect(page.flatMap((chunk) => chunk.imports)).toEqual([]);
    expect(page.reduce((sum, chunk) => sum + gzipped(chunk.code), 0)).toBeLessThanOrEqual(SCANNER_MAX_BYTES);
    const modules = page.flatMap((chunk) => chunk.moduleIds);
    expect(modules.some((id) => /node_modules\/(qr|@noble)\//.test(id))).toBe(false);
  }, 60_000);

  it("keeps the protocol client within 6 KB", async () => {
    const output = await outputOf({
      configFile: false,
      build: {
        write: false,
        target: "es2022",
        rolldownOptions: { input: "src/socket/client.ts", preserveEntrySignatures: "strict" },
      },
    });
    const client = output.filter(isChunk);
    const modules = client.flatMap((chunk) => chunk.moduleIds);
    expect(modules.every((id) => !id.includes("node_modules") && !id.includes("/ui/"))).toBe(true);
    expect(client.reduce((sum, chunk) => sum + gzipped(chunk.code), 0)).toBeLessThanOrEqual(CLIENT_MAX_BYTES);
  }, 60_000);
});
