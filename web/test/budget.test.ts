//! The bundle budget: what a first visit must load before it can show a map, and what the protocol client weighs.
import { fileURLToPath } from "node:url";
import { gzipSync } from "node:zlib";
import { build } from "vite";
import { beforeAll, describe, expect, it } from "vitest";

const FIRST_LOAD_MAX_BYTES = 45 * 1024;
const CLIENT_MAX_BYTES = 6 * 1024;

interface Chunk {
  type: string;
  fileName: string;
  code: string;
  isEntry: boolean;
  imports: string[];
  moduleIds: string[];
}

const root = fileURLToPath(new URL("..", import.meta.url));
const gzipped = (code: string) => gzipSync(code, { level: 9 }).length;

async function chunksOf(options: object): Promise<Chunk[]> {
  const built = (await build({ root, logLevel: "error", ...options })) as { output: Chunk[] } | { output: Chunk[] }[];
  return (Array.isArray(built) ? built[0] : built).output.filter((part) => part.type === "chunk");
}

describe("bundle budget", () => {
  let chunks: Chunk[] = [];
  beforeAll(async () => {
    chunks = await chunksOf({ build: { write: false } });
  }, 60_000);

  it("keeps the first load within 45 KB of gzipped script", () => {
    const first = new Set<Chunk>();
    const add = (chunk: Chunk | undefined) => {
      if (!chunk || first.has(chunk)) return;
      first.add(chunk);
      for (const name of chunk.imports) add(chunks.find((other) => other.fileName === name));
    };
    add(chunks.find((chunk) => chunk.isEntry));
    const total = [...first].reduce((sum, chunk) => sum + gzipped(chunk.code), 0);
    expect(total).toBeGreaterThan(10_000);
    expect(total).toBeLessThanOrEqual(FIRST_LOAD_MAX_BYTES);
    const modules = [...first].flatMap((chunk) => chunk.moduleIds);
    expect(modules.some((id) => id.endsWith("seat_map.ts"))).toBe(true);
    for (const late of ["qr.ts", "texts_de.ts", "order_page.tsx", "layout_compact.ts"]) {
      expect(
        modules.some((id) => id.endsWith(late)),
        late,
      ).toBe(false);
    }
  });

  it("keeps the protocol client within 6 KB", async () => {
    const client = await chunksOf({
      configFile: false,
      build: {
        write: false,
        target: "es2022",
        rolldownOptions: { input: "src/socket/client.ts", preserveEntrySignatures: "strict" },
      },
    });
    const modules = client.flatMap((chunk) => chunk.moduleIds);
    expect(modules.every((id) => !id.includes("node_modules") && !id.includes("/ui/"))).toBe(true);
    expect(client.reduce((sum, chunk) => sum + gzipped(chunk.code), 0)).toBeLessThanOrEqual(CLIENT_MAX_BYTES);
  }, 60_000);
});
