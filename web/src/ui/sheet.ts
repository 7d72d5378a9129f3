//! The bottom sheet of phones: how much of the screen it covers while it is closed.
import { effect, signal } from "@preact/signals";

/** The sheet is a side panel from this width on (style/responsive.css has the same number). */
export const SHEET_BELOW_PX = 900;

/** CSS pixels; the zoom buttons and the list end above it. */
export const sheetHeight = signal(84);

effect(() => document.documentElement.style.setProperty("--sheet", `${sheetHeight.value}px`));
