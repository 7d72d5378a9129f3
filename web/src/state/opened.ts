//! The states of the map as they are for a buyer with a presale code: what the code opens is available to them, though
//! the map says blocked. Pure; `ui/live_event.ts` shows the result.

const AVAILABLE = 0;
const BLOCKED = 3;

/**
 * States for this buyer. Without a code they are the map's own array. With one they are a copy: `before` brought up to
 * date at the changed `seats`, or made anew.
 */
export function openedStates(
  states: Uint8Array,
  open: Uint8Array | null,
  before: Uint8Array,
  seats: Uint32Array | "all",
): Uint8Array {
  if (!open) return states;
  const shown = (seat: number) => (states[seat] === BLOCKED && open[seat] ? AVAILABLE : states[seat]);
  if (seats === "all" || before === states || before.length !== states.length) {
    return states.map((_, seat) => shown(seat));
  }
  for (const seat of seats) before[seat] = shown(seat);
  return before;
}
