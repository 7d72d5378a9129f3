//! The whole purchase in a browser, with a second browser that watches the same seats change.
import type { Browser, Page } from "playwright-core";
import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import {
  BASE,
  DESKTOP,
  type EventFacts,
  events,
  fillCheckout,
  findSeats,
  HELD,
  launch,
  MINE,
  mapReady,
  open,
  openMap,
  PHONE,
  SOLD,
  tapSeat,
  waitForOrder,
  waitForStyle,
} from "./browser";

let browser: Browser;
let small: EventFacts;
let large: EventFacts;

beforeAll(async () => {
  browser = await launch();
  const all = await events();
  small = all[0];
  large = all[all.length - 1];
});
afterAll(() => browser?.close());
afterEach(async () => {
  for (const context of browser.contexts()) await context.close();
});

async function holdTwo(page: Page, event: string): Promise<number[]> {
  await openMap(page, event);
  const seats = await findSeats(page, 2);
  for (const seat of seats) {
    await tapSeat(page, seat);
    await waitForStyle(page, [seat], MINE);
  }
  return seats;
}

describe.each([
  ["a phone", PHONE],
  ["a desktop", DESKTOP],
] as const)("on %s", (_, size) => {
  it("a buyer finds an event, taps seats, pays and has tickets, and a second browser sees it happen", async () => {
    const watcher = await open(browser, DESKTOP);
    await openMap(watcher.page, small.id);

    const { page, errors } = await open(browser, size);
    await page.goto(BASE);
    await page
      .getByRole("link", { name: new RegExp(small.name) })
      .first()
      .click();
    await mapReady(page);
    const seats = await findSeats(page, 2);
    for (const seat of seats) await tapSeat(page, seat);
    await waitForStyle(page, seats, MINE);
    await waitForStyle(watcher.page, seats, HELD);

    await page.getByRole("heading", { name: "2 tickets" }).waitFor();
    const left = await page.getByRole("timer").first().textContent();
    expect(left).toMatch(/^\d+:\d\d$/);
    await page.getByRole("button", { name: /^Check out/ }).click();
    await fillCheckout(page, "pm_card_visa");
    await page.getByRole("button", { name: /^Pay / }).click();
    await waitForOrder(page, "paid");
    await waitForStyle(watcher.page, seats, SOLD);

    await page.getByRole("heading", { name: "2 tickets" }).waitFor();
    expect(await page.locator(".ticket").count()).toBe(2);
    await page.locator(".ticket svg.qr").nth(1).waitFor();
    const codes = await page.locator(".ticket code").allInnerTexts();
    expect(new Set(codes).size).toBe(2);
    const address = page.url();

    await page.goto(`${BASE}/orders`);
    await page.locator(`a[href="${new URL(address).pathname}"]`).click();
    await waitForOrder(page, "paid");
    await page.reload();
    await waitForOrder(page, "paid");
    expect(await page.locator(".ticket code").allInnerTexts()).toEqual(codes);
    expect([...errors, ...watcher.errors]).toEqual([]);
  });

  it("a declined card is said plainly and another one pays", async () => {
    const { page, errors } = await open(browser, size);
    const seats = await holdTwo(page, small.id);
    await page.getByRole("button", { name: /^Check out/ }).click();
    await fillCheckout(page, "pm_card_visa_chargeDeclinedInsufficientFunds");
    await page.getByRole("button", { name: /^Pay / }).click();
    await waitForOrder(page, "payment_declined");
    await page.getByText("There is not enough money on this card.").waitFor();
    await page.getByText("Nothing was charged.").waitFor();

    await page.locator('input[value="pm_card_mastercard"]').check();
    await page.getByRole("button", { name: /^Try again/ }).click();
    await waitForOrder(page, "paid");
    expect(await page.locator(".ticket").count()).toBe(seats.length);
    expect(errors).toEqual([]);
  });
});

describe("a buyer", () => {
  it("may let a seat go, take more time, and cancel after a decline; the seats are free again", async () => {
    const watcher = await open(browser, DESKTOP);
    await openMap(watcher.page, small.id);
    const { page, errors } = await open(browser, DESKTOP);
    const [kept, dropped] = await holdTwo(page, small.id);
    await page
      .getByRole("button", { name: /^Remove / })
      .nth(1)
      .click();
    await page.getByRole("heading", { name: "1 ticket" }).waitFor();
    await waitForStyle(watcher.page, [dropped], 0);

    await page.getByRole("button", { name: "Extend by two minutes, once" }).click();
    await page.getByText("Two more minutes for you.").waitFor();
    await page.waitForFunction(
      () => Number(document.querySelector(".timer .digits")?.textContent?.split(":")[0]) >= 10,
    );

    await page.getByRole("button", { name: /^Check out/ }).click();
    await fillCheckout(page, "pm_card_visa_chargeDeclined");
    await page.getByRole("button", { name: /^Pay / }).click();
    await waitForOrder(page, "payment_declined");
    await waitForStyle(watcher.page, [kept], HELD);
    await page.getByRole("button", { name: "Cancel order" }).click();
    await page.getByRole("button", { name: "Cancel order" }).click();
    await waitForOrder(page, "cancelled");
    await waitForStyle(watcher.page, [kept], 0);
    expect([...errors, ...watcher.errors]).toEqual([]);
  });

  it("may have an order paid on another device, by its link", async () => {
    const { page, errors } = await open(browser, PHONE);
    await holdTwo(page, small.id);
    await page.getByRole("button", { name: /^Check out/ }).click();
    await fillCheckout(page, "pm_card_visa_chargeDeclined");
    await page.getByRole("button", { name: /^Pay / }).click();
    await waitForOrder(page, "payment_declined");
    const link = await page.evaluate(async () => {
      const headers = { Authorization: `Bearer ${localStorage.getItem("seatwire.token")}` };
      const read = await fetch(`/v1/orders/${location.pathname.split("/").pop()}`, { headers });
      return (await read.json()).order.pay_url as string;
    });

    const other = await open(browser, DESKTOP);
    const { pathname, hash } = new URL(link);
    await other.page.goto(`${BASE}${pathname}#x${hash.slice(2)}`);
    await other.page.getByRole("link", { name: "My tickets" }).last().waitFor();
    expect(await other.page.locator(".state-card").count()).toBe(0);
    await other.page.goto("about:blank");
    await other.page.goto(`${BASE}${pathname}${hash}`);
    await waitForOrder(other.page, "payment_declined");
    expect(await other.page.getByRole("button", { name: "Cancel order" }).count()).toBe(0);
    await other.page
      .locator('input[value="pm_card_chargeDeclinedInsufficientFunds"]')
      .or(other.page.locator('input[value="pm_card_visa_chargeDeclinedInsufficientFunds"]'))
      .first()
      .check();
    await other.page.getByRole("button", { name: /^Try again/ }).click();
    await other.page.getByText("There is not enough money on this card.").waitFor();
    await other.page.locator('input[value="pm_card_mastercard"]').check();
    await other.page.getByRole("button", { name: /^Try again/ }).click();
    await waitForOrder(other.page, "paid");
    await waitForOrder(page, "paid");
    expect([...errors, ...other.errors]).toEqual([]);
  });

  it("keeps the seats through a reload", async () => {
    const { page } = await open(browser, PHONE);
    const seats = await holdTwo(page, small.id);
    await page.reload();
    await mapReady(page);
    await waitForStyle(page, seats, MINE);
    await page.getByRole("heading", { name: "2 tickets" }).waitFor();
  });

  it("sees a slow payment as in progress, and its truth in the end", async () => {
    const { page } = await open(browser, DESKTOP);
    await holdTwo(page, small.id);
    await page.getByRole("button", { name: /^Check out/ }).click();
    await fillCheckout(page, "pm_sim_delay_5s");
    await page.getByRole("button", { name: /^Pay / }).click();
    await waitForOrder(page, "paid");
    expect(await page.locator(".ticket").count()).toBe(2);
  });

  it("is never asked to pay again while a payment is unknown, and hears when it is settled", async () => {
    const { page } = await open(browser, DESKTOP);
    await holdTwo(page, small.id);
    await page.getByRole("button", { name: /^Check out/ }).click();
    await fillCheckout(page, "pm_sim_timeout_charged");
    await page.getByRole("button", { name: /^Pay / }).click();
    await page.waitForURL(/\/orders\//, { timeout: 40_000 });
    await page.waitForSelector(".state-card");
    expect(await page.getByRole("button", { name: /pay/i }).count()).toBe(0);
    await waitForOrder(page, "paid");
  }, 120_000);

  it("confirms at the bank when it asks, and comes back to tickets", async () => {
    const { page, errors } = await open(browser, PHONE);
    await holdTwo(page, small.id);
    await page.getByRole("button", { name: /^Check out/ }).click();
    await fillCheckout(page, "pm_card_authenticationRequired");
    await page.getByRole("button", { name: /^Pay / }).click();
    await waitForOrder(page, "action_required");
    const order = page.url();
    await page.getByRole("link", { name: "Continue to your bank" }).click();
    await page.getByRole("button", { name: "Approve" }).click();
    await waitForOrder(page, "paid");
    expect(page.url()).toBe(order);
    expect(errors).toEqual([]);
  });

  it("chooses standing places by number", async () => {
    const { page, errors } = await open(browser, PHONE);
    await openMap(page, large.id);
    await page.getByRole("button", { name: "List" }).click();
    await page.locator(".section-list button").first().click();
    const picker = page.getByRole("dialog");
    await picker.getByRole("button", { name: "One more" }).click();
    await picker.getByRole("button", { name: /^Hold 2 places/ }).click();
    await picker.waitFor({ state: "hidden" });
    await page.getByRole("heading", { name: "2 tickets" }).waitFor();
    await page.getByRole("button", { name: /^Check out/ }).click();
    await fillCheckout(page, "pm_card_visa");
    await page.getByRole("button", { name: /^Pay / }).click();
    await waitForOrder(page, "paid");
    expect(await page.locator(".ticket").count()).toBe(2);
    expect(errors).toEqual([]);
  });
});
