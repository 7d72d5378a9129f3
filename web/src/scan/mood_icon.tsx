//! The large sign of an answer: its shape says what its colour says.
import type { Mood } from "./desk";

const SHAPES: Record<Mood | "idle", string> = {
  good: "M14 34 27 47 51 19",
  bad: "M18 18 46 46 M46 18 18 46",
  care: "M32 14 V37 M32 48 V48.5",
  idle: "M14 24 V14 H24 M40 14 H50 V24 M50 40 V50 H40 M24 50 H14 V40",
};

export function MoodIcon({ mood }: { mood: Mood | "idle" }) {
  return (
    <svg class="mood" viewBox="0 0 64 64" fill="none" stroke="currentColor" stroke-width="7" aria-hidden="true">
      <path d={SHAPES[mood]} stroke-linecap="round" stroke-linejoin="round" />
    </svg>
  );
}
