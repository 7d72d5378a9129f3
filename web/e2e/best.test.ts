//! Best seats: asked for in a dialog, held in one step, shown on the map; by keyboard alone, and found sound by axe.
import { describe, expect, it } from "vitest";
import { axe, DESKTOP, open, openMap, useBrowser } from "./browser";

const stage = useBrowser();

describe("best seats", () => {
  it("are held from a dialog by keyboard alone", async () => {
    const { page, errors } = await open(stage.browser, DESKTOP);
    await openMap(page, stage.small.id);
    await page.getByRole("button", { name: "Best seats" }).focus();
    await page.keyboard.press("Enter");
    const dialog = page.getByRole("dialog", { name: "Best seats" });
    await dialog.waitFor();
    expect(await axe(page)).toEqual([]);
    await dialog.getByRole("button", { name: "One more" }).focus();
    await page.keyboard.press("Enter");
    await dialog.getByRole("status").filter({ hasText: /^3$/ }).waitFor();
    await dialog.getByRole("button", { name: "Hold the best 3 seats" }).focus();
    await page.keyboard.press("Enter");
    await dialog.waitFor({ state: "detached" });
    await page.getByRole("heading", { name: "3 tickets" }).waitFor();
    expect(errors).toEqual([]);
  });
});
