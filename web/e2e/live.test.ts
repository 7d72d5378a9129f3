//! What makes the map live: a lost connection that resumes, a seat that was just taken, languages, addresses.
import type { WebSocketRoute } from "playwright-core";
import { describe, expect, it } from "vitest";
import {
  AVAILABLE,
  BASE,
  DESKTOP,
  findSeats,
  HELD,
  MINE,
  mapReady,
  open,
  openMap,
  PHONE,
  tapSeat,
  useBrowser,
  waitForStyle,
} from "./browser";

const stage = useBrowser();

describe("a lost connection", () => {
  it("greys the map, keeps the seats, and resumes with what happened meanwhile", async () => {
    const { page, errors } = await open(stage.browser, DESKTOP);
    let server: WebSocketRoute | undefined;
    let refuse = false;
    await page.routeWebSocket(/\/v1\/socket$/, (client) => {
      if (refuse) return client.close({ code: 4001 });
      server = client;
      client.connectToServer();
    });
    await openMap(page, stage.small.id);
    const [seat] = await findSeats(page, 1);
    await tapSeat(page, seat);
    await waitForStyle(page, [seat], MINE);

    refuse = true;
    await server?.close({ code: 4001 });
    await page.waitForSelector(".map.stale");
    await page.getByText("Updating the map").waitFor();
    await page.getByText(/Connection lost/).waitFor();
    await waitForStyle(page, [seat], MINE);

    const other = await open(stage.browser, DESKTOP);
    await openMap(other.page, stage.small.id);
    const [taken] = await findSeats(other.page, 1);
    await tapSeat(other.page, taken);
    await waitForStyle(other.page, [taken], MINE);
    await waitForStyle(page, [taken], AVAILABLE);

    refuse = false;
    await mapReady(page);
    await waitForStyle(page, [taken], HELD);
    await waitForStyle(page, [seat], MINE);
    await page.getByText(/Connection lost/).waitFor({ state: "hidden" });
    expect(errors).toEqual([]);
  });
});

describe("a seat that just went", () => {
  it("is answered with seats close by, one tap each", async () => {
    const { page } = await open(stage.browser, PHONE);
    let frozen = false;
    await page.routeWebSocket(/\/v1\/socket$/, (client) => {
      const server = client.connectToServer();
      // Map frames are held back, so that this page still shows the seat as available.
      server.onMessage((message) => {
        if (!frozen || typeof message === "string") client.send(message);
      });
    });
    await openMap(page, stage.small.id);
    const [seat] = await findSeats(page, 4);
    frozen = true;

    const other = await open(stage.browser, DESKTOP);
    await openMap(other.page, stage.small.id);
    await tapSeat(other.page, seat);
    await waitForStyle(other.page, [seat], MINE);

    await tapSeat(page, seat);
    const notice = page.getByRole("alert");
    await notice.waitFor();
    expect(await notice.textContent()).toContain("That seat just went");
    frozen = false;
    await notice.locator(".choices button").first().click();
    await page.getByRole("heading", { name: "1 ticket" }).waitFor();
  });
});

describe("pages", () => {
  it("speak German when asked, and remember it", async () => {
    const { page } = await open(stage.browser, { ...DESKTOP, locale: "de-DE" });
    await page.goto(BASE);
    await page.getByRole("heading", { name: "Veranstaltungen" }).waitFor();
    expect(await page.locator("html").getAttribute("lang")).toBe("de");
    await page.getByRole("button", { name: "English" }).click();
    await page.getByRole("heading", { name: "Events" }).waitFor();
    await page.reload();
    await page.getByRole("heading", { name: "Events" }).waitFor();
  });

  it("live at their addresses: back, forward, unknown ones", async () => {
    const { page } = await open(stage.browser, DESKTOP);
    await page.goto(BASE);
    await page
      .getByRole("link", { name: new RegExp(stage.small.name) })
      .first()
      .click();
    await mapReady(page);
    await page.goBack();
    await page.getByRole("heading", { name: "Events" }).waitFor();
    await page.goForward();
    await mapReady(page);
    await page.goto(`${BASE}/events/evt_00000000000000000000000000`);
    await page.getByText("There is no event at this address.").waitFor();
    await page.goto(`${BASE}/orders/ord_00000000000000000000000000`);
    await page.getByText("This order was not found on this device.").waitFor();
  });

  it("find events by words", async () => {
    const { page } = await open(stage.browser, PHONE);
    await page.goto(BASE);
    await page.getByRole("searchbox").fill("zzzzqqqq");
    await page.getByText("No events found").waitFor();
    await page.getByRole("button", { name: "Clear search" }).click();
    await page.locator("a.card").first().waitFor();
  });
});
