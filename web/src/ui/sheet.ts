//! The bottom sheet of phones: whether there is one, and how much of the screen it covers while it is closed.
import { effect, signal } from "@preact/signals";

/** The basket stands beside the map (style/responsive.css asks the same question). */
const BESIDE = matchMedia("(min-width: 900px) or ((min-width: 600px) and (max-height: 500px))");

/** CSS pixels; the zoom buttons and the list end above it. */
export const sheetHeight = signal(84);

/** CSS pixels of the map that the sheet covers just now. */
export function coveredPx(): number {
  return BESIDE.matches ? 0 : sheetHeight.value;
}

effect(() => document.documentElement.style.setProperty("--sheet", `${sheetHeight.value}px`));
