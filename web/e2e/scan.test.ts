//! The doors' scanner against the real server: a camera that sees a real ticket's QR code, a hand-held scanner's typing, two doors
//! at once, doors without a network, and axe on every state. Needs SEATWIRE_DOOR_URL, SEATWIRE_ADMIN_URL and a key for doors and orders.
import { generateKeyPairSync, randomUUID, sign } from "node:crypto";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { chromium, type Page } from "playwright-core";
import encodeQR from "qr";
import { afterAll, describe, expect, it } from "vitest";
import { axe, BASE, DESKTOP, open, PHONE, useBrowser } from "./browser";

const ADMIN = process.env.SEATWIRE_ADMIN_URL ?? "http://127.0.0.1:8081";
const DOOR = process.env.SEATWIRE_DOOR_URL ?? "http://127.0.0.1:8082";
const KEY = process.env.SEATWIRE_ADMIN_KEY ?? "";

interface Ticket {
  id: string;
  code: string;
  qr: string;
  seat: number;
}
interface Order {
  id: string;
  tickets: Ticket[];
}

const stage = useBrowser();
const folder = mkdtempSync(join(tmpdir(), "seatwire-scan-"));

async function call(path: string, token: string | null, body: unknown): Promise<Record<string, never>> {
  const response = await fetch(`${BASE}${path}`, {
    method: "POST",
    headers: {
      "Content-Type": "application/json",
      "Idempotency-Key": randomUUID(),
      ...(token ? { Authorization: `Bearer ${token}` } : {}),
    },
    body: JSON.stringify(body),
  });
  return (await response.json()) as Record<string, never>;
}

/** Buys this many tickets, as a program would; the token is the buyer's. */
async function buy(event: string, quantity: number): Promise<{ order: Order; token: string }> {
  const { token } = await call("/v1/identities", null, {});
  const detail = (await (await fetch(`${BASE}/v1/events/${event}`)).json()) as { seat_count: number };
  for (let tries = 0; tries < 40; tries++) {
    const first = Math.floor(Math.random() * (detail.seat_count - quantity));
    const seats = Array.from({ length: quantity }, (_, n) => first + n);
    const { hold } = (await call(`/v1/events/${event}/holds`, token, { seats })) as {
      hold?: { id: string; total_minor: number };
    };
    if (!hold) continue;
    const { order } = (await call(`/v1/holds/${hold.id}/checkout`, token, {
      buyer: { name: "Ada Lovelace", email: "ada@example.org" },
      payment: { method: "pm_card_visa" },
      expect_total_minor: hold.total_minor,
    })) as unknown as { order?: Order };
    if (order?.tickets) return { order, token };
    throw new Error("not paid");
  }
  throw new Error("no seats left");
}

/** A film of one QR code, as a camera sees it: Y4M, 4:2:0, the code dark on light. */
function film(text: string): string {
  const [width, height, scale] = [640, 480, 7];
  const modules = encodeQR(text, "raw", { ecc: "medium", border: 4 }) as boolean[][];
  const side = modules.length * scale;
  const [left, top] = [(width - side) >> 1, (height - side) >> 1];
  const picture = Buffer.alloc((width * height * 3) / 2, 128);
  picture.fill(210, 0, width * height);
  for (let y = 0; y < side; y++) {
    for (let x = 0; x < side; x++) {
      if (modules[Math.floor(y / scale)][Math.floor(x / scale)]) picture[(top + y) * width + left + x] = 25;
    }
  }
  const path = join(folder, `${randomUUID()}.y4m`);
  const frame = Buffer.concat([Buffer.from("FRAME\n"), picture]);
  writeFileSync(
    path,
    Buffer.concat([Buffer.from(`YUV4MPEG2 W${width} H${height} F15:1 Ip A1:1 C420jpeg\n`), frame, frame]),
  );
  return path;
}

async function openDoor(page: Page, event: string, name = "North"): Promise<void> {
  await page.goto(`${DOOR}/scan/?event=${event}`);
  await page.getByLabel("Door key").fill(KEY);
  await page.getByLabel("Name of this door").fill(name);
  await page.getByRole("button", { name: "Continue" }).click();
  await page.locator(".answer[data-kind=ready]").waitFor();
}

/** A second later than what the camera shows now: some looks at the picture lie between. */
const seen = (page: Page) => page.evaluate(() => (document.querySelector("video")?.currentTime ?? 0) + 1);

/** What a hand-held scanner does: types and presses Enter. */
async function type(page: Page, text: string): Promise<string> {
  const before = await page.locator(".answer").getAttribute("data-n");
  await page.keyboard.type(text);
  await page.keyboard.press("Enter");
  await page.waitForFunction((n) => document.querySelector(".answer")?.getAttribute("data-n") !== n, before);
  return (await page.locator(".answer").getAttribute("data-kind")) ?? "";
}

afterAll(() => rmSync(folder, { recursive: true, force: true }));

describe("the camera", () => {
  it("admits the ticket it sees, once, and says where the person sits", async () => {
    const { order } = await buy(stage.small.id, 1);
    const seeing = await chromium.launch({
      executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium",
      args: [
        "--no-sandbox",
        "--headless",
        "--use-fake-ui-for-media-stream",
        "--use-fake-device-for-media-stream",
        `--use-file-for-fake-video-capture=${film(order.tickets[0].qr)}`,
      ],
    });
    try {
      const { page, errors } = await open(seeing, PHONE);
      await openDoor(page, stage.small.id);
      await page.getByRole("button", { name: "Start camera" }).click();
      await page.locator(".answer[data-kind=admitted]").waitFor();
      expect(await page.locator(".answer").textContent()).toMatch(/Admit[\s\S]*Seat[\s\S]*Ada Lovelace/);
      // It still lies before the camera: that is no second person.
      await page.waitForFunction(
        (since) => (document.querySelector("video")?.currentTime ?? 0) > since,
        await seen(page),
      );
      expect(await page.locator(".answer").getAttribute("data-n")).toBe("1");
      await page.getByRole("button", { name: "Stop camera" }).click();
      await page.getByRole("button", { name: "Start camera" }).click();
      await page.locator(".answer[data-kind=used]").waitFor();
      expect(await page.locator(".answer").textContent()).toMatch(/Already admitted[\s\S]*door North/);
      expect(await axe(page)).toEqual([]);
      expect(errors).toEqual([]);
    } finally {
      await seeing.close();
    }
  });
});

describe("a scanner that types", () => {
  it("gets each answer, by keyboard alone", async () => {
    const { order } = await buy(stage.small.id, 3);
    const elsewhere = await buy(stage.large.id, 1);
    const refund = await fetch(`${ADMIN}/v1/admin/orders/${order.id}/refunds`, {
      method: "POST",
      headers: { Authorization: `Bearer ${KEY}`, "Content-Type": "application/json", "Idempotency-Key": randomUUID() },
      body: JSON.stringify({ lines: [{ line: 2, quantity: 1 }], reason: "ill" }),
    });
    expect(refund.status).toBe(200);
    const { page, errors } = await open(stage.browser, DESKTOP);
    await page.goto(`${DOOR}/scan`);
    await page.getByLabel("Door key").fill("sk_not_a_key");
    await page.getByLabel("Name of this door").fill("North");
    await page.keyboard.press("Enter");
    await page.getByText("This key is not accepted.").waitFor();
    await page.getByLabel("Door key").fill(KEY);
    await page.keyboard.press("Enter");
    expect(await axe(page)).toEqual([]);
    await page.getByRole("button", { name: stage.small.name }).first().click();
    await page.locator(".answer[data-kind=ready]").waitFor();
    const body = order.tickets[1].qr.split(".")[1];
    const forger = generateKeyPairSync("ed25519").privateKey;
    const forged = `SW1.${body}.${sign(null, Buffer.from(`SW1.${body}`), forger).toString("base64url")}`;
    const found: Record<string, string[]> = {};
    for (const [text, kind] of [
      [order.tickets[0].qr, "admitted"],
      [order.tickets[0].qr, "used"],
      [order.tickets[1].code.toLowerCase(), "admitted"],
      [order.tickets[2].qr, "void"],
      [elsewhere.order.tickets[0].qr, "wrong_event"],
      [forged, "forged"],
      ["ABCDEFGH23456789ABCDEFGH2345", "unknown"],
      ["https://example.org", "unreadable"],
    ]) {
      expect(await type(page, text)).toBe(kind);
      const lines = await axe(page);
      if (lines.length > 0) found[kind] = lines;
    }
    expect(found).toEqual({});
    // The key is gone with the tab, not kept on the device.
    const kept = await page.evaluate(() => JSON.stringify({ ...localStorage }));
    expect(kept).not.toContain(KEY);
    expect(errors).toEqual([]);
  });

  it("speaks German where the browser does", async () => {
    const { page } = await open(stage.browser, { ...PHONE, locale: "de-DE" });
    await page.goto(`${DOOR}/scan/`);
    await page.getByRole("heading", { name: "Eingang öffnen" }).waitFor();
    expect(await page.evaluate(() => document.documentElement.lang)).toBe("de");
  });
});

describe("two tabs of one door", () => {
  it("admit one person when they scan one ticket together", async () => {
    const { order } = await buy(stage.small.id, 2);
    const { page: first } = await open(stage.browser, DESKTOP);
    await openDoor(first, stage.small.id);
    const second = await first.context().newPage();
    await openDoor(second, stage.small.id);
    const tabs = [first, second];
    const kinds = await Promise.all(tabs.map((page) => type(page, order.tickets[0].qr)));
    expect(kinds.sort()).toEqual(["admitted", "used"]);
    // Without a network one of them keeps it, and the other knows of it.
    await first.context().setOffline(true);
    expect(await type(first, order.tickets[1].qr)).toBe("offline");
    expect(await type(second, order.tickets[1].qr)).toBe("offline_again");
    await first.context().setOffline(false);
    for (const page of tabs) await page.locator(".net", { hasText: /^Online$/ }).waitFor();
    // It was told once: somebody asks again and it was that door.
    const { page: south } = await open(stage.browser, DESKTOP);
    await openDoor(south, stage.small.id, "South");
    expect(await type(south, order.tickets[1].qr)).toBe("used");
    expect(await south.locator(".answer").textContent()).toMatch(/door North/);
    for (const page of tabs) expect(await page.getByText("was refused").count()).toBe(0);
  });
});

describe("two doors", () => {
  it("admit one person when they scan one ticket together", async () => {
    const { order } = await buy(stage.small.id, 1);
    const doors = await Promise.all(
      ["North", "South"].map(async (name) => {
        const { page } = await open(stage.browser, DESKTOP);
        await openDoor(page, stage.small.id, name);
        return page;
      }),
    );
    const kinds = await Promise.all(doors.map((page) => type(page, order.tickets[0].qr)));
    expect(kinds.sort()).toEqual(["admitted", "used"]);
  });

  it("tell the second of two that let one ticket in without a network, once both are back", async () => {
    const { order } = await buy(stage.small.id, 1);
    const [north, south] = await Promise.all(
      ["North", "South"].map(async (name) => {
        const { page } = await open(stage.browser, PHONE);
        await openDoor(page, stage.small.id, name);
        await page.context().setOffline(true);
        return page;
      }),
    );
    for (const page of [north, south]) expect(await type(page, order.tickets[0].qr)).toBe("offline");
    await north.context().setOffline(false);
    await north.locator(".net", { hasText: /^Online$/ }).waitFor();
    await north.locator(".last", { hasText: "confirmed" }).waitFor();
    await south.context().setOffline(false);
    await south.getByText("1 ticket let in offline was refused").waitFor();
    expect(await south.locator(".late").textContent()).toMatch(/Already admitted/);
    expect(await north.getByText("was refused").count()).toBe(0);
    expect(await axe(south)).toEqual([]);
  });

  it("refuse the old code of a ticket that was passed on, at once and both", async () => {
    const { order, token } = await buy(stage.small.id, 1);
    const doors = await Promise.all(
      ["North", "South"].map(async (name) => {
        const { page } = await open(stage.browser, DESKTOP);
        await openDoor(page, stage.small.id, name);
        return page;
      }),
    );
    const { page } = await open(stage.browser, PHONE);
    await page.addInitScript((token) => localStorage.setItem("seatwire.token", token), token);
    await page.goto(`${BASE}/orders/${order.id}`);
    await page.locator("svg.qr").waitFor();
    const download = page.waitForEvent("download");
    await page.getByRole("button", { name: "Tickets as PDF" }).click();
    expect((await download).suggestedFilename()).toMatch(/^tickets-[A-Z0-9]{8}\.pdf$/);
    await page.getByRole("button", { name: /^Pass on/ }).click();
    await page.getByRole("button", { name: "Pass on now" }).click();
    await page.getByText("Please enter their name.").waitFor();
    await page.getByLabel("Their name").fill("Bob");
    await page.getByLabel("Their email").fill("bob@example.org");
    expect(await axe(page)).toEqual([]);
    await page.getByRole("button", { name: "Pass on now" }).click();
    await page.getByText("Passed on:").waitFor();
    expect(await Promise.all(doors.map((page) => type(page, order.tickets[0].qr)))).toEqual([
      "transferred",
      "transferred",
    ]);
  });
});

describe("a door without a network", () => {
  it("says that nothing is confirmed yet, keeps the scan over a reload, and tells it later", async () => {
    const { order } = await buy(stage.small.id, 2);
    const { page, errors } = await open(stage.browser, PHONE);
    await openDoor(page, stage.small.id);
    await page.evaluate(() => navigator.serviceWorker.ready);
    // Everything the page needs was asked for once with the worker in place.
    await page.reload();
    await page.locator(".answer[data-kind=ready]").waitFor();
    await page.context().setOffline(true);
    expect(await type(page, order.tickets[0].qr)).toBe("offline");
    expect(await page.locator(".answer").textContent()).toMatch(/not confirmed[\s\S]*No network/);
    expect(await axe(page)).toEqual([]);
    expect(await type(page, order.tickets[0].qr)).toBe("offline_again");
    expect(await type(page, order.tickets[1].code)).toBe("offline_unknown");
    await page.reload();
    await page.getByText("1 to be sent").waitFor();
    expect(await type(page, order.tickets[1].qr)).toBe("offline");
    // Somebody else lets the second one in meanwhile.
    const { page: south } = await open(stage.browser, DESKTOP);
    await openDoor(south, stage.small.id, "South");
    expect(await type(south, order.tickets[1].qr)).toBe("admitted");
    await page.context().setOffline(false);
    await page.getByText("1 ticket let in offline was refused").waitFor();
    await page.locator(".net", { hasText: "Online" }).waitFor();
    expect(await page.locator(".net").textContent()).toBe("Online");
    expect(await axe(page)).toEqual([]);
    expect(await type(south, order.tickets[0].qr)).toBe("used");
    expect(errors).toEqual([]);
  });
});
