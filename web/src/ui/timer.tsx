//! The countdown of a hold: a ring and the minutes, on the server's clock, spoken at five, one and half a minute.
import { useSignal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import { app } from "../app";
import { clockText, leftMs, type SpokenAt, spokenBetween } from "../booking/countdown";
import type { Hold } from "../proto/messages";
import { t } from "./texts";

const TICK_MS = 250;
/** From here on the clock asks for attention. */
const SOON_MS = 60_000;

/** Milliseconds left of a hold, by the server's clock, drawn again as they pass. */
export function useLeft(hold: Hold | null): number {
  const now = useSignal(app.clock.nowMs());
  useEffect(() => {
    if (!hold) return;
    now.value = app.clock.nowMs();
    const timer = setInterval(() => {
      now.value = app.clock.nowMs();
    }, TICK_MS);
    return () => clearInterval(timer);
  }, [hold?.id, hold?.expires_ms]);
  return hold ? leftMs(hold.expires_ms, now.value) : 0;
}

export function Timer({ left, totalMs }: { left: number; totalMs: number }) {
  const share = Math.min(1, left / Math.max(totalMs, 1));
  return (
    <span
      class={`timer ${left <= SOON_MS ? "soon" : ""}`}
      role="timer"
      aria-label={t.value.timeLeftLong(clockText(left))}
    >
      <svg viewBox="0 0 36 36" width="22" height="22" aria-hidden="true">
        <circle cx="18" cy="18" r="15" class="track" />
        <circle cx="18" cy="18" r="15" class="rest" pathLength="100" stroke-dasharray={`${share * 100} 100`} />
      </svg>
      <span class="digits">{clockText(left)}</span>
    </span>
  );
}

/** Once on the page, outside of what opens and closes: says the milestones and nothing else. */
export function SpokenCountdown({ left }: { left: number }) {
  const before = useRef(left);
  const spoken = useSignal<SpokenAt | null>(null);
  useEffect(() => {
    const due = spokenBetween(before.current, left);
    if (due !== null) spoken.value = due;
    else if (left > before.current) spoken.value = null;
    before.current = left;
  }, [left]);
  return (
    <p class="visually-hidden" aria-live="polite">
      {spoken.value === null ? "" : t.value.spokenLeft[spoken.value]}
    </p>
  );
}
