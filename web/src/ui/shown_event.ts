//! The event on the screen, if any: notices name seats by its plan.
import { signal } from "@preact/signals";
import type { LiveEvent } from "./live_event";

export const shownEvent = signal<LiveEvent | null>(null);
