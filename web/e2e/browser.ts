//! What every browser test needs: Chromium, pages of a size, seats found and tapped on the canvas, axe.
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { type Browser, type BrowserContextOptions, chromium, type Page } from "playwright-core";
import { afterAll, afterEach, beforeAll, expect } from "vitest";
import type { SeatMap } from "../src/seatmap/seat_map";

export const BASE = process.env.SEATWIRE_URL ?? "http://127.0.0.1:8080";

export const PHONE: BrowserContextOptions = {
  viewport: { width: 390, height: 844 },
  deviceScaleFactor: 2,
  hasTouch: true,
  isMobile: true,
  locale: "en-GB",
};
export const DESKTOP: BrowserContextOptions = { viewport: { width: 1280, height: 800 }, locale: "en-GB" };

/** Drawn styles, as in src/seatmap/palette.ts. */
export const AVAILABLE = 0;
export const HELD = 1;
export const SOLD = 2;
export const MINE = 4;

/** Longest wait for one thing on a page: what takes seconds on an idle machine takes ten times as long on a busy one. */
export const SLOWEST_MS = 90_000;

type Host = HTMLElement & { seatMap?: SeatMap };

/** What the tests of one file share; filled before the first of them. */
export interface Stage {
  browser: Browser;
  /** the event with the fewest seats */
  small: EventFacts;
  /** the event with the most */
  large: EventFacts;
}

/** One browser for the tests of a file; the pages of a test end with it. */
export function useBrowser(): Stage {
  const stage = {} as Stage;
  beforeAll(async () => {
    stage.browser = await launch();
    const all = await events();
    stage.small = all[0];
    stage.large = all[all.length - 1];
  });
  afterAll(() => stage.browser?.close());
  afterEach(async () => {
    for (const context of stage.browser.contexts()) await context.close();
  });
  return stage;
}

function launch(): Promise<Browser> {
  return chromium.launch({
    executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium",
    args: ["--no-sandbox", "--headless"],
  });
}

/** A page of its own guest. Errors of the page fail the test that asks `errors` at its end. */
export async function open(browser: Browser, size: BrowserContextOptions): Promise<{ page: Page; errors: string[] }> {
  const context = await browser.newContext(size);
  context.setDefaultTimeout(SLOWEST_MS);
  const page = await context.newPage();
  const errors: string[] = [];
  page.on("pageerror", (error) => errors.push(error.message));
  page.on("console", (message) => {
    if (message.type() === "error" && /policy|violat/i.test(message.text())) errors.push(message.text());
  });
  return { page, errors };
}

export interface EventFacts {
  id: string;
  name: string;
  seat_count: number;
}

/** Events on the first page, fewest seats first. */
async function events(): Promise<EventFacts[]> {
  const response = await fetch(`${BASE}/v1/events`);
  const { items } = (await response.json()) as { items: EventFacts[] };
  return items.sort((a, b) => a.seat_count - b.seat_count);
}

export async function openMap(page: Page, event: string): Promise<void> {
  await page.goto(`${BASE}/events/${event}`);
  await mapReady(page);
}

/** The map has its plan and fresh states. */
export async function mapReady(page: Page): Promise<void> {
  await page.waitForFunction(() => (document.querySelector(".map-host") as Host | null)?.seatMap !== undefined);
  await page.waitForSelector(".map:not(.stale)");
  await page.waitForFunction(() => {
    const map = (document.querySelector(".map-host") as Host).seatMap;
    return map !== undefined && map.seatPoint(0) !== null && !map.camera.flying;
  });
}

/** A run of `count` available neighbours, found from a random place on. */
export function findSeats(page: Page, count: number): Promise<number[]> {
  return page.evaluate((count) => {
    const map = (document.querySelector(".map-host") as Host).seatMap;
    if (!map) throw new Error("no map");
    const total = map.seatCount;
    const start = Math.floor(Math.random() * total);
    for (let n = 0; n < total; n++) {
      const first = (start + n) % total;
      const run = Array.from({ length: count }, (_, i) => first + i);
      const near = run.every((seat, i) => {
        if (seat >= total || map.styleOf(seat) !== 0) return false;
        const a = map.seatPoint(seat);
        const b = map.seatPoint(run[Math.max(0, i - 1)]);
        return a !== null && b !== null && Math.hypot(a.x - b.x, a.y - b.y) < map.camera.pitchPx * 1.5 + 0.001;
      });
      if (near) return run;
    }
    throw new Error("no free seats left");
  }, count);
}

export async function tapSeat(page: Page, seat: number): Promise<void> {
  const at = await seatOnScreen(page, seat);
  if (await page.evaluate(() => matchMedia("(pointer: coarse)").matches)) await page.touchscreen.tap(at.x, at.y);
  else await page.mouse.click(at.x, at.y);
}

/** Brings a seat to the middle, waits until the map and all around it stand still, and says where it is. */
export async function seatOnScreen(page: Page, seat: number): Promise<{ x: number; y: number }> {
  await page.evaluate((seat) => (document.querySelector(".map-host") as Host).seatMap?.showSeat(seat), seat);
  await settled(page);
  const began = Date.now();
  for (;;) {
    const found = await page.evaluate(standing, seat);
    if (found) return found;
    if (Date.now() - began > SLOWEST_MS) throw new Error(`seat ${seat} never stands still under the pointer`);
  }
}

/** Where a seat is, if it stands still and nothing lies above it. Runs in the page. */
async function standing(seat: number): Promise<{ x: number; y: number } | null> {
  const place = () => {
    const map = (document.querySelector(".map-host") as Host).seatMap;
    const point = map?.seatPoint(seat);
    if (!map || !point || map.camera.flying) return null;
    const box = map.canvas.getBoundingClientRect();
    return { canvas: map.canvas, x: box.left + point.x, y: box.top + point.y };
  };
  // A basket that comes up makes the map smaller: what is tapped must be the canvas, and where it was a moment ago.
  const before = place();
  for (let n = 0; n < 3; n++) await new Promise(requestAnimationFrame);
  const now = place();
  if (!before || !now || now.x !== before.x || now.y !== before.y) return null;
  return document.elementFromPoint(now.x, now.y) === now.canvas ? { x: now.x, y: now.y } : null;
}

/** Waits until nothing moves or fades any more, but for what never ends. */
export async function settled(page: Page): Promise<void> {
  await page.waitForFunction(() => {
    const ends = (one: Animation) => one.effect?.getComputedTiming().endTime !== Number.POSITIVE_INFINITY;
    return document.getAnimations().every((one) => one.playState !== "running" || !ends(one));
  });
}

/** Waits until all these seats are drawn in a style. */
export async function waitForStyle(page: Page, seats: number[], style: number): Promise<void> {
  await page.waitForFunction(
    ([seats, style]) => {
      const map = (document.querySelector(".map-host") as Host).seatMap;
      return (seats as number[]).every((seat) => map?.styleOf(seat) === style);
    },
    [seats, style] as const,
  );
}

export async function fillCheckout(page: Page, method: string): Promise<void> {
  await page.getByLabel("Name").fill("Ada Lovelace");
  await page.getByLabel("Email").fill("ada@example.com");
  await page.locator(`input[value="${method}"]`).check();
}

/** Waits until so many tickets are shown. */
export async function waitForTickets(page: Page, count: number): Promise<void> {
  await expect.poll(() => page.locator(".ticket").count(), { timeout: SLOWEST_MS }).toBe(count);
}

export async function waitForOrder(page: Page, state: string): Promise<void> {
  await page.waitForSelector(`.state-card[data-state="${state}"]`, { timeout: 2 * SLOWEST_MS });
}

const axeSource = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");

/** Violations of WCAG 2.2 AA that axe can see, as readable lines. */
export async function axe(page: Page): Promise<string[]> {
  // Half faded in, a text has less contrast than it will have.
  await settled(page);
  await page.evaluate(axeSource);
  return page.evaluate(async () => {
    const { axe } = globalThis as unknown as {
      axe: {
        run: (
          root: Document,
          options: object,
        ) => Promise<{ violations: { id: string; nodes: { target: string[]; failureSummary: string }[] }[] }>;
      };
    };
    const tags = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"];
    const { violations } = await axe.run(document, { runOnly: { type: "tag", values: tags } });
    return violations.flatMap(({ id, nodes }) =>
      nodes.map((node) => `${id}: ${node.target.join(" ")}: ${node.failureSummary}`),
    );
  });
}
