//! What an event's page says in each of its states, and what it offers to do there, on a phone as on a desktop. The states
//! are put into the answer of the real server, which has events on sale only.
import type { Page } from "playwright-core";
import { describe, expect, it } from "vitest";
import { STALE_MS } from "../src/ui/read_again";
import {
  axe,
  BASE,
  DESKTOP,
  findSeats,
  MINE,
  mapReady,
  open,
  PHONE,
  tapSeat,
  useBrowser,
  waitForStyle,
} from "./browser";

const stage = useBrowser();

/** The event's page, with these facts changed. */
async function openAs(page: Page, facts: object): Promise<void> {
  await page.route(new RegExp(`/v1/events/${stage.small.id}$`), async (route) => {
    const answer = await route.fetch();
    await route.fulfill({ response: answer, json: { ...(await answer.json()), ...facts } });
  });
  await page.goto(`${BASE}/events/${stage.small.id}`);
  await mapReady(page);
}

const STATES = [
  ["scheduled", "Not on sale yet", "this page opens by itself"],
  ["presale", "Presale", "With a presale code"],
  ["on_sale", "No seats yet", ""],
  ["paused", "Sale paused", "goes on by itself"],
  ["sold_out", "Sold out", "somebody lets go"],
  ["closed", "Sale ended", "Tickets you bought"],
  ["cancelled", "Cancelled", "refunded"],
] as const;

describe.each([
  ["phone", PHONE],
  ["desktop", DESKTOP],
])("an event on a %s", (_, size) => {
  it.each(STATES)("that is %s says what can be done now", async (state, title, hint) => {
    const { page, errors } = await open(stage.browser, size);
    await openAs(page, { state, waitlist: false });
    const panel = page.getByRole("complementary", { name: "Your seats" });
    await panel.getByRole("heading", { name: title }).waitFor();
    if (hint) await panel.getByText(hint).filter({ visible: true }).waitFor();
    const sells = state === "on_sale" || state === "presale";
    expect(await page.getByRole("button", { name: "Best seats" }).count()).toBe(sells ? 1 : 0);
    expect(await axe(page)).toEqual([]);
    expect(errors).toEqual([]);
  });

  it("lets people join the waiting list of a sold-out event", async () => {
    const { page } = await open(stage.browser, size);
    await openAs(page, { state: "sold_out", waitlist: true });
    if (size === PHONE) await page.getByRole("button", { name: "Waiting list" }).click();
    // The real event is on sale and has no list: what it answers is told in words.
    await page.getByRole("button", { name: "Join the waiting list" }).click();
    await page.getByText("The waiting list is closed.").waitFor();
  });

  it("says when a presale code opens nothing", async () => {
    const { page, errors } = await open(stage.browser, size);
    await openAs(page, { state: "presale" });
    if (size === PHONE) await page.getByRole("button", { name: "Presale code" }).click();
    await page.getByLabel("Presale code").fill("nonsense");
    await page.getByRole("button", { name: "Use the code" }).click();
    await page.getByRole("alert").getByText("That code opens nothing here.").waitFor();
    const isFocused = () => page.getByLabel("Presale code").evaluate((input) => input === document.activeElement);
    await expect.poll(isFocused).toBe(true);
    expect(await axe(page)).toEqual([]);
    expect(errors).toEqual([]);
  });
});

it("a presale code opens seats on the map, and does so again after a reload", async () => {
  const { page, errors } = await open(stage.browser, PHONE);
  await page.routeWebSocket(/\/v1\/socket$/, (client) => {
    const server = client.connectToServer();
    client.onMessage((message) => {
      const command = typeof message === "string" ? JSON.parse(message) : {};
      if (command.op !== "unlock") return server.send(message);
      const allocation = { id: "alc_01h455vb4pex5vsknk084sn02q", name: "Fan club", until_ms: 1_900_000_000_000 };
      client.send(JSON.stringify({ id: command.id, ok: true, allocation, seats: "OzAAAAEAACMAAQAAACMA" }));
    });
  });
  await openAs(page, { state: "presale" });
  await page.getByRole("button", { name: "Presale code" }).click();
  await page.getByLabel("Presale code").fill(" KESTREL ");
  await page.getByRole("button", { name: "Use the code" }).click();
  await page.getByText("Fan club: open to you until").waitFor();
  await page.getByRole("heading", { name: "No seats yet" }).waitFor();
  await page.reload();
  await page.getByText("Fan club: open to you until").waitFor();
  expect(errors).toEqual([]);
});

it("prices that change are told, and the chips follow", async () => {
  const { page } = await open(stage.browser, DESKTOP);
  let tell = (_: string) => {};
  await page.routeWebSocket(/\/v1\/socket$/, (client) => {
    client.connectToServer().onMessage((message) => client.send(message));
    tell = (push) => client.send(push);
  });
  await page.goto(`${BASE}/events/${stage.small.id}`);
  await mapReady(page);
  const event = await (await fetch(`${BASE}/v1/events/${stage.small.id}`)).json();
  const tiers = event.price_tiers.map((tier: object) => ({ ...tier, price_minor: 12_300, fee_minor: 0 }));
  tell(JSON.stringify({ push: "price.change", event: stage.small.id, price_tiers: tiers }));
  await page.getByText("Prices have changed.").waitFor();
  await page.locator(".chips").getByText("€123").first().waitFor();
});

it("limits, times and words that change are read again by the page that shows them", async () => {
  const { page, errors } = await open(stage.browser, DESKTOP);
  let change = {};
  await page.route(new RegExp(`/v1/events/${stage.small.id}$`), async (route) => {
    const answer = await route.fetch();
    const facts = await answer.json();
    await route.fulfill({ response: answer, json: { ...facts, ...change, rules: { ...facts.rules, ...change } } });
  });
  let say = (_: string) => {};
  await page.routeWebSocket(/\/v1\/socket$/, (client) => {
    client.connectToServer().onMessage((message) => client.send(message));
    say = (text) => client.send(text);
  });
  await page.goto(`${BASE}/events/${stage.small.id}`);
  await mapReady(page);
  await page.getByText("Up to 10 per person").waitFor();
  change = { name: "An hour later", seats_per_identity: 3 };
  say(JSON.stringify({ push: "event.state", event: stage.small.id, state: "on_sale" }));
  await page.getByText("Up to 3 per person").waitFor();
  await page.getByRole("heading", { name: "An hour later" }).waitFor();
  expect(errors).toEqual([]);
});

it("what caches may still give is older than nothing that is read again", async () => {
  const says = (await fetch(`${BASE}/v1/events/${stage.small.id}`)).headers.get("Cache-Control") ?? "";
  const seconds = (name: string) => Number(new RegExp(`${name}=(\\d+)`).exec(says)?.[1] ?? Number.NaN);
  // The body itself may be as old as its max-age when it leaves the server.
  expect(1_000 * (2 * seconds("max-age") + seconds("stale-while-revalidate"))).toBeLessThan(STALE_MS);
});

it("an order says when its event is cancelled, and why", async () => {
  const { page, errors } = await open(stage.browser, PHONE);
  const id = "ord_01h455vb4pex5vsknk084sn02q";
  const line = { seat: 0, quantity: 1, price_tier: "A", price_minor: 4_800, fee_minor: 0 };
  const sums = { lines: [line], total_minor: 4_800, refunded_minor: 4_800, currency: "EUR", tickets: [] };
  const order = { id, reference: "KESTREL7", event: stage.small.id, state: "refunded", ...sums, created_ms: 0 };
  await page.route(/\/v1\/orders\/ord_/, (route) => route.fulfill({ json: { order } }));
  await page.route(new RegExp(`/v1/events/${stage.small.id}$`), async (route) => {
    const answer = await route.fetch();
    const facts = { ...(await answer.json()), state: "cancelled", reason: "The singer is ill." };
    await route.fulfill({ response: answer, json: facts });
  });
  await page.goto(`${BASE}/orders/${id}`);
  await page.getByRole("heading", { name: "Refunded" }).waitFor();
  await page.getByText("This event is cancelled.").getByText("The singer is ill.").waitFor();
  expect(await axe(page)).toEqual([]);
  expect(errors).toEqual([]);
});

it("seats that the server lost are its own fault, and said to be", async () => {
  const { page, errors } = await open(stage.browser, DESKTOP);
  let lose = () => {};
  await page.routeWebSocket(/\/v1\/socket$/, (client) => {
    client.connectToServer().onMessage((message) => {
      client.send(message);
      const { hold } = typeof message === "string" ? JSON.parse(message) : {};
      if (hold) lose = () => client.send(JSON.stringify({ push: "hold.revoked", hold, reason: "store_lost" }));
    });
  });
  await page.goto(`${BASE}/events/${stage.small.id}`);
  await mapReady(page);
  const seats = await findSeats(page, 1);
  await tapSeat(page, seats[0]);
  await waitForStyle(page, seats, MINE);
  lose();
  await page.getByRole("alert").getByText("A fault on our side lost your seats.").waitFor();
  await page.getByRole("heading", { name: "No seats yet" }).waitFor();
  expect(errors).toEqual([]);
});

it("nothing is wider than a small phone, in the longer language too", async () => {
  const { page } = await open(stage.browser, { ...PHONE, viewport: { width: 320, height: 568 }, locale: "de-DE" });
  const overflow = () => page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
  await page.goto(BASE);
  await page.waitForSelector(".card h3");
  expect(await overflow(), "events").toBeLessThanOrEqual(0);
  await openAs(page, { name: "Rheinische Kammerphilharmonie: Neujahrskonzertvorstellung", state: "presale" });
  expect(await overflow(), "event").toBeLessThanOrEqual(0);
  const chips = await page.locator(".chips").boundingBox();
  expect(chips?.width, "prices are readable beside the switch").toBeGreaterThan(150);
});

it("an address that leads nowhere says so", async () => {
  const { page } = await open(stage.browser, PHONE);
  const answer = await page.goto(`${BASE}/nowhere`);
  expect(answer?.status()).toBe(404);
  await page.getByRole("heading", { name: "There is nothing here" }).waitFor();
});
