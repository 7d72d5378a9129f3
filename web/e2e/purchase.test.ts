//! The whole purchase in a browser, with a second browser that watches the same seats change.
import type { Page } from "playwright-core";
import { describe, expect, it } from "vitest";
import {
  BASE,
  DESKTOP,
  fillCheckout,
  findSeats,
  HELD,
  MINE,
  mapReady,
  open,
  openMap,
  PHONE,
  SLOWEST_MS,
  SOLD,
  tapSeat,
  useBrowser,
  waitForOrder,
  waitForStyle,
  waitForTickets,
} from "./browser";

const stage = useBrowser();

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
    const watcher = await open(stage.browser, DESKTOP);
    await openMap(watcher.page, stage.small.id);

    const { page, errors } = await open(stage.browser, size);
    await page.goto(BASE);
    await page
      .getByRole("link", { name: new RegExp(stage.small.name) })
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
    await waitForTickets(page, 2);
    await page.locator(".ticket svg.qr").nth(1).waitFor();
    const codes = await page.locator(".ticket code").allInnerTexts();
    expect(new Set(codes).size).toBe(2);
    const address = page.url();

    await page.goto(`${BASE}/orders`);
    await page.locator(`a[href="${new URL(address).pathname}"]`).click();
    await waitForOrder(page, "paid");
    await page.reload();
    await waitForOrder(page, "paid");
    const again = () => page.locator(".ticket code").allInnerTexts();
    await expect.poll(again, { timeout: SLOWEST_MS }).toEqual(codes);
    expect([...errors, ...watcher.errors]).toEqual([]);
  });

  it("a declined card is said plainly and another one pays", async () => {
    const { page, errors } = await open(stage.browser, size);
    const seats = await holdTwo(page, stage.small.id);
    await page.getByRole("button", { name: /^Check out/ }).click();
    await fillCheckout(page, "pm_card_visa_chargeDeclinedInsufficientFunds");
    await page.getByRole("button", { name: /^Pay / }).click();
    await waitForOrder(page, "payment_declined");
    await page.getByText("There is not enough money on this card.").waitFor();
    await page.getByText("Nothing was charged.").waitFor();

    await page.locator('input[value="pm_card_mastercard"]').check();
    await page.getByRole("button", { name: /^Try again/ }).click();
    await waitForOrder(page, "paid");
    await waitForTickets(page, seats.length);
    expect(errors).toEqual([]);
  });
});

describe("a buyer", () => {
  it("is not told of an empty basket while the answer to the payment is on its way", async () => {
    const watcher = await open(stage.browser, DESKTOP);
    await openMap(watcher.page, stage.small.id);
    const { page, errors } = await open(stage.browser, DESKTOP);
    const late: (() => void)[] = [];
    await page.routeWebSocket(/\/v1\/socket/, (socket) => {
      const server = socket.connectToServer();
      server.onMessage((message) => {
        const isReply = typeof message === "string" && /"ok":true/.test(message) && /"order":\{/.test(message);
        if (isReply) late.push(() => socket.send(message));
        else socket.send(message);
      });
    });
    const seats = await holdTwo(page, stage.small.id);
    await page.getByRole("button", { name: /^Check out/ }).click();
    await fillCheckout(page, "pm_card_visa");
    await page.getByRole("button", { name: /^Pay / }).click();
    await waitForStyle(page, seats, SOLD);
    await waitForStyle(watcher.page, seats, SOLD);
    await expect.poll(() => late.length, { timeout: SLOWEST_MS }).toBe(1);
    expect(await page.locator(".checkout button[type=submit]").isDisabled()).toBe(true);
    expect(await page.getByRole("heading", { name: "No seats yet" }).count()).toBe(0);
    late[0]();
    await waitForOrder(page, "paid");
    expect([...errors, ...watcher.errors]).toEqual([]);
  });

  it("may let a seat go, take more time, and cancel after a decline; the seats are free again", async () => {
    const watcher = await open(stage.browser, DESKTOP);
    await openMap(watcher.page, stage.small.id);
    const { page, errors } = await open(stage.browser, DESKTOP);
    const [kept, dropped] = await holdTwo(page, stage.small.id);
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
    // The button that does it has the same name as the one that asks.
    await page.getByRole("button", { name: "Keep it" }).waitFor();
    await page.getByRole("button", { name: "Cancel order" }).click();
    await waitForOrder(page, "cancelled");
    await waitForStyle(watcher.page, [kept], 0);
    expect([...errors, ...watcher.errors]).toEqual([]);
  });

  it("may have an order paid on another device, by its link", async () => {
    const { page, errors } = await open(stage.browser, PHONE);
    await holdTwo(page, stage.small.id);
    await page.getByRole("button", { name: /^Check out/ }).click();
    await fillCheckout(page, "pm_card_visa_chargeDeclined");
    await page.getByRole("button", { name: /^Pay / }).click();
    await waitForOrder(page, "payment_declined");
    const link = await page.evaluate(async () => {
      const headers = { Authorization: `Bearer ${localStorage.getItem("seatwire.token")}` };
      const read = await fetch(`/v1/orders/${location.pathname.split("/").pop()}`, { headers });
      return (await read.json()).order.pay_url as string;
    });

    const other = await open(stage.browser, DESKTOP);
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
    const { page } = await open(stage.browser, PHONE);
    const seats = await holdTwo(page, stage.small.id);
    await page.reload();
    await mapReady(page);
    await waitForStyle(page, seats, MINE);
    await page.getByRole("heading", { name: "2 tickets" }).waitFor();
  });

  it("sees a slow payment as in progress, and its truth in the end", async () => {
    const { page } = await open(stage.browser, DESKTOP);
    await holdTwo(page, stage.small.id);
    await page.getByRole("button", { name: /^Check out/ }).click();
    await fillCheckout(page, "pm_sim_delay_5s");
    await page.getByRole("button", { name: /^Pay / }).click();
    await waitForOrder(page, "paid");
    await waitForTickets(page, 2);
  });

  it("is never asked to pay again while a payment is unknown, and the seats stay theirs", async () => {
    const watcher = await open(stage.browser, DESKTOP);
    await openMap(watcher.page, stage.small.id);
    const { page, errors } = await open(stage.browser, PHONE);
    const seats = await holdTwo(page, stage.small.id);
    await page.getByRole("button", { name: /^Check out/ }).click();
    await fillCheckout(page, "pm_sim_timeout_not_charged");
    await page.getByRole("button", { name: /^Pay / }).click();
    await waitForOrder(page, "payment_unknown");
    await page.getByText("Do not pay again").waitFor();
    expect(await page.getByRole("button", { name: /pay|try again|cancel/i }).count()).toBe(0);
    await waitForStyle(watcher.page, seats, HELD);
    // A way back to the map leads to the order again, not to another payment.
    await page.getByRole("link", { name: "Back to the seat map" }).click();
    await page.getByRole("heading", { name: "Payment in progress" }).waitFor();
    expect(await page.getByRole("button", { name: /^Check out/ }).count()).toBe(0);
    await page.getByRole("link", { name: "Go to the order" }).click();
    await waitForOrder(page, "payment_unknown");
    expect(errors).toEqual([]);
  });

  it.each([
    ["by a push", true],
    ["without one, by asking", false],
  ])("hears how an unknown payment ended, %s", async (_, pushes) => {
    const { page, errors } = await open(stage.browser, DESKTOP);
    // To this page the server knows nothing yet, until it may.
    let known = false;
    const veiled = (text: string) => {
      const message = JSON.parse(text);
      if (message.order) message.order = { ...message.order, state: "payment_unknown", tickets: undefined };
      return JSON.stringify(message);
    };
    let tell = () => {};
    await page.routeWebSocket(/\/v1\/socket$/, (client) => {
      client.connectToServer().onMessage((message) => {
        if (typeof message !== "string" || known) return client.send(message);
        if (message.includes('"push":"order.update"')) tell = () => client.send(message);
        client.send(veiled(message));
      });
    });
    await page.route(/\/v1\/orders\/ord_/, async (route) => {
      const answer = await route.fetch();
      if (known) return route.fulfill({ response: answer });
      await route.fulfill({ response: answer, body: veiled(await answer.text()) });
    });
    await holdTwo(page, stage.small.id);
    await page.getByRole("button", { name: /^Check out/ }).click();
    await fillCheckout(page, "pm_card_visa");
    await page.getByRole("button", { name: /^Pay / }).click();
    await waitForOrder(page, "payment_unknown");
    await page.getByText("Do not pay again").waitFor();
    if (pushes) await page.unrouteAll({ behavior: "ignoreErrors" });
    if (pushes) await page.route(/\/v1\/orders\/ord_/, (route) => route.abort());
    known = true;
    if (pushes) tell();
    await waitForOrder(page, "paid");
    await waitForTickets(page, 2);
    expect(errors).toEqual([]);
  });

  it("sees a charge whose answer and word are lost end as paid by itself", async () => {
    // The bank's page is the simulator's; there its words can be lost, so that nothing but the server's own questions tells.
    const bank = await open(stage.browser, DESKTOP);
    await holdTwo(bank.page, stage.small.id);
    await bank.page.getByRole("button", { name: /^Check out/ }).click();
    await fillCheckout(bank.page, "pm_card_authenticationRequired");
    await bank.page.getByRole("button", { name: /^Pay / }).click();
    await waitForOrder(bank.page, "action_required");
    const approval = await bank.page.getByRole("link", { name: "Continue to your bank" }).getAttribute("href");
    const lose = (percent: number) =>
      fetch(new URL("/_sim/webhooks", approval ?? ""), {
        method: "POST",
        body: new URLSearchParams({ drop_percent: String(percent) }),
      });
    expect((await lose(100)).ok).toBe(true);
    try {
      const { page, errors } = await open(stage.browser, PHONE);
      await holdTwo(page, stage.small.id);
      await page.getByRole("button", { name: /^Check out/ }).click();
      await fillCheckout(page, "pm_sim_timeout_charged");
      await page.getByRole("button", { name: /^Pay / }).click();
      // Unknown once the server has waited long enough, unless it read the provider's list before.
      await page.waitForSelector('.state-card:is([data-state="payment_pending"], [data-state="payment_unknown"])', {
        timeout: SLOWEST_MS,
      });
      expect(await page.getByRole("button", { name: /pay|try again|cancel/i }).count()).toBe(0);
      await waitForOrder(page, "paid");
      await waitForTickets(page, 2);
      expect(errors).toEqual([]);
    } finally {
      await lose(0);
    }
  });

  it("confirms at the bank when it asks, and comes back to tickets", async () => {
    const { page, errors } = await open(stage.browser, PHONE);
    await holdTwo(page, stage.small.id);
    await page.getByRole("button", { name: /^Check out/ }).click();
    await fillCheckout(page, "pm_card_authenticationRequired");
    await page.getByRole("button", { name: /^Pay / }).click();
    await waitForOrder(page, "action_required");
    const order = page.url();
    await page.getByRole("link", { name: "Continue to your bank" }).click();
    await page.getByRole("button", { name: "Approve" }).click();
    await waitForOrder(page, "paid");
    await expect.poll(() => page.url(), { timeout: SLOWEST_MS }).toBe(order);
    expect(errors).toEqual([]);
  });

  it("may refuse at the bank, and is told so with another way to pay", async () => {
    const { page, errors } = await open(stage.browser, DESKTOP);
    await holdTwo(page, stage.small.id);
    await page.getByRole("button", { name: /^Check out/ }).click();
    await fillCheckout(page, "pm_card_authenticationRequired");
    await page.getByRole("button", { name: /^Pay / }).click();
    await waitForOrder(page, "action_required");
    await page.getByRole("link", { name: "Continue to your bank" }).click();
    await page.getByRole("button", { name: "Fail" }).click();
    await waitForOrder(page, "payment_declined");
    await page.getByText("Nothing was charged.").waitFor();
    await page.locator('input[value="pm_card_visa"]').check();
    await page.getByRole("button", { name: /^Try again/ }).click();
    await waitForOrder(page, "paid");
    expect(errors).toEqual([]);
  });

  it("chooses standing places by number", async () => {
    const { page, errors } = await open(stage.browser, PHONE);
    await openMap(page, stage.large.id);
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
    await waitForTickets(page, 2);
    expect(errors).toEqual([]);
  });
});
