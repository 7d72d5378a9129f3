//! Accessible for real: the whole purchase by keyboard through the list view, and axe on every page.
import type { Page } from "playwright-core";
import { describe, expect, it } from "vitest";
import {
  axe,
  BASE,
  DESKTOP,
  fillCheckout,
  findSeats,
  MINE,
  open,
  openMap,
  PHONE,
  SLOWEST_MS,
  tapSeat,
  useBrowser,
  waitForOrder,
  waitForStyle,
} from "./browser";

const stage = useBrowser();

/** Presses Tab until the focused element matches, as a person would; fails when it never does. */
async function tabTo(page: Page, matches: RegExp, most = 60): Promise<void> {
  for (let n = 0; n < most; n++) {
    await page.keyboard.press("Tab");
    const words = await page.evaluate(() => {
      const el = document.activeElement as HTMLElement | null;
      return `${el?.getAttribute("aria-label") ?? ""} ${el?.textContent ?? ""} ${(el as HTMLInputElement)?.name ?? ""}`;
    });
    if (matches.test(words)) return;
  }
  throw new Error(`no Tab stop matches ${matches}`);
}

const focused = (page: Page) => page.evaluate(() => document.activeElement?.getAttribute("aria-label") ?? "");

/** What has the focus, in its first words; "" when nothing has. */
const place = (page: Page) =>
  page.evaluate(() => {
    const el = document.activeElement;
    return el === document.body ? "" : (el?.getAttribute("aria-label") ?? el?.textContent ?? "").trim();
  });

it("nobody who uses the keyboard loses their place when what they were at goes away", async () => {
  const { page, errors } = await open(stage.browser, PHONE);
  const press = async (name: RegExp) => {
    await page.getByRole("button", { name }).first().focus();
    await page.keyboard.press("Enter");
  };
  await openMap(page, stage.small.id);
  for (const seat of await findSeats(page, 2)) {
    await tapSeat(page, seat);
    await waitForStyle(page, [seat], MINE);
  }
  await press(/^Show your seats/);
  await press(/^Remove /);
  await expect.poll(() => place(page), { timeout: SLOWEST_MS }).toMatch(/^1 ticket/);
  await press(/Extend by two minutes/);
  await page.getByText("Two more minutes for you.").waitFor();
  await expect.poll(() => place(page), { timeout: SLOWEST_MS }).toMatch(/^1 ticket/);
  await press(/^Check out/);
  await press(/^Back to your seats/);
  await expect.poll(() => place(page), { timeout: SLOWEST_MS }).toMatch(/^1 ticket/);
  await press(/^Check out/);
  await fillCheckout(page, "pm_card_visa_chargeDeclined");
  await press(/^Pay /);
  await waitForOrder(page, "payment_declined");
  await press(/^Cancel order/);
  await expect.poll(() => place(page), { timeout: SLOWEST_MS }).toBe("Keep it");
  await page.keyboard.press("Enter");
  await expect.poll(() => place(page), { timeout: SLOWEST_MS }).toBe("Cancel order");
  await page.locator('input[value="pm_card_visa"]').check();
  await press(/^Try again/);
  await waitForOrder(page, "paid");
  await press(/^Pass on/);
  await page.getByLabel("Their name").waitFor();
  await press(/^Keep it/);
  await expect.poll(() => place(page), { timeout: SLOWEST_MS }).toMatch(/^Pass on/);
  expect(errors).toEqual([]);
});

it("a field whose keyboard was closed is not taken again, and one that goes away still gives its place", async () => {
  const { page, errors } = await open(stage.browser, PHONE);
  await openMap(page, stage.small.id);
  await page.evaluate(() => {
    const part = document.createElement("section");
    part.innerHTML = "<h2>Field</h2><form><input aria-label='Word'></form>";
    document.getElementById("content")?.append(part);
  });
  const field = page.getByLabel("Word");
  /** After the page has changed and the change has been looked at. */
  const changed = () =>
    page.evaluate(async () => {
      document.body.classList.toggle("changed");
      for (let n = 0; n < 3; n++)
        await new Promise<void>((done) => requestAnimationFrame(() => setTimeout(() => done())));
    });
  await field.focus();
  await field.evaluate((el: HTMLElement) => el.blur());
  await changed();
  expect(await place(page)).toBe("");
  await field.focus();
  await field.evaluate((el) => el.closest("form")?.remove());
  await expect.poll(() => place(page), { timeout: SLOWEST_MS }).toBe("Field");
  expect(errors).toEqual([]);
});

describe("the list view", () => {
  it("sells a ticket to someone who has only a keyboard", async () => {
    const { page, errors } = await open(stage.browser, DESKTOP);
    await page.goto(BASE);
    await page.locator("a.card").first().waitFor();
    await tabTo(page, new RegExp(stage.small.name));
    await page.keyboard.press("Enter");
    await page.waitForSelector(".map:not(.stale)");
    await tabTo(page, /List/);
    await page.keyboard.press("Enter");
    await page.locator(".section-list button").first().waitFor();
    await tabTo(page, /[1-9]\d* available/);
    await page.keyboard.press("Enter");
    await page.getByRole("grid").waitFor();
    await page.waitForSelector(".list:not(.stale)");
    await tabTo(page, /^Row .* seat /);

    const first = await focused(page);
    await page.keyboard.press("ArrowRight");
    await expect.poll(() => focused(page)).not.toBe(first);
    await page.keyboard.press("Home");
    await expect.poll(() => focused(page)).toBe(first);
    await page.keyboard.press("Control+End");
    await expect.poll(() => focused(page)).not.toBe(first);
    await page.keyboard.press("Control+Home");
    await expect.poll(() => focused(page)).toBe(first);

    for (let n = 0; !/, available$/.test(await focused(page)); n++) {
      if (n > 200) throw new Error("no available seat in the first row");
      await page.keyboard.press(n % 30 === 29 ? "ArrowDown" : "ArrowRight");
    }
    const label = await focused(page);
    expect(label).toMatch(/^Row .+ seat .+, .*\d.*, available$/);
    await page.keyboard.press("Enter");
    await page.waitForFunction(() => document.activeElement?.getAttribute("aria-label")?.endsWith("yours"));
    expect(await page.evaluate(() => document.activeElement?.getAttribute("aria-selected"))).toBe("true");

    await tabTo(page, /^Check out|Check out/);
    await page.keyboard.press("Enter");
    await tabTo(page, /name$/);
    await page.keyboard.type("Ada Lovelace");
    await tabTo(page, /email$/);
    await page.keyboard.type("ada@example.com");
    await tabTo(page, /^Pay |Pay /);
    await page.keyboard.press("Enter");
    await waitForOrder(page, "paid");
    await page.waitForFunction(() => document.activeElement?.tagName === "H1");
    expect(errors).toEqual([]);
  });

  it("has one Tab stop a grid and says a wrong form field beside it", async () => {
    const { page } = await open(stage.browser, DESKTOP);
    await openMap(page, stage.small.id);
    const [seat] = await findSeats(page, 1);
    await tapSeat(page, seat);
    await waitForStyle(page, [seat], MINE);
    await page.getByRole("button", { name: "List" }).click();
    await page.locator(".section-list button").first().click();
    await page.getByRole("grid").waitFor();
    expect(await page.locator('[role="gridcell"][tabindex="0"]').count()).toBe(1);

    await page.getByRole("button", { name: /^Check out/ }).click();
    await page.getByRole("button", { name: /^Pay / }).click();
    const name = page.getByLabel("Name");
    await expect.poll(() => name.getAttribute("aria-invalid")).toBe("true");
    await expect.poll(() => name.evaluate((el) => el === document.activeElement)).toBe(true);
    await page.getByText("Please enter your name.").waitFor();
  });
});

describe.each([
  ["light phone", { ...PHONE, colorScheme: "light" as const }],
  ["dark desktop", { ...DESKTOP, colorScheme: "dark" as const }],
])("axe finds nothing on a %s", (_, size) => {
  it("from the list of events to the tickets", async () => {
    const { page } = await open(stage.browser, size);
    const found: Record<string, string[]> = {};
    const check = async (name: string) => {
      const lines = await axe(page);
      if (lines.length > 0) found[name] = lines;
    };
    await page.goto(BASE);
    await page.locator("a.card").first().waitFor();
    await check("events");
    await openMap(page, stage.small.id);
    await check("map");
    await page.getByRole("button", { name: "List" }).click();
    await page.locator(".section-list button").first().waitFor();
    await check("sections");
    await page.locator(".section-list button").first().click();
    await page.getByRole("grid").waitFor();
    await check("grid");
    await page.getByRole("button", { name: "Map" }).click();
    await openMap(page, stage.small.id);
    const [seat] = await findSeats(page, 1);
    await tapSeat(page, seat);
    await waitForStyle(page, [seat], MINE);
    await check("basket");
    await page.getByRole("button", { name: /^Check out/ }).click();
    await check("checkout");
    await fillCheckout(page, "pm_card_visa_chargeDeclined");
    await page.getByRole("button", { name: /^Pay / }).click();
    await waitForOrder(page, "payment_declined");
    await check("declined");
    await page.getByRole("button", { name: /^Try again/ }).click();
    await waitForOrder(page, "paid");
    await page.locator("svg.qr").first().waitFor();
    await check("tickets");
    await page.goto(`${BASE}/orders`);
    await page.locator(".order-row").first().waitFor();
    await check("orders");
    await page.goto(`${BASE}/orders/ord_00000000000000000000000000`);
    await page.getByRole("alert").waitFor();
    await check("not found");
    expect(found).toEqual({});
  });
});
