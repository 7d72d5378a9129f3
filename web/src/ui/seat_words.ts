//! Names of seats, areas and lines as people read them. Needs the plan; without it the bare index must do.
import type { SeatPlan } from "../proto/layout";
import { seatName } from "../proto/layout";
import type { EventDetail, HoldLine } from "../proto/messages";
import { t } from "./texts";

export function seatWords(plan: SeatPlan, seat: number): string {
  const name = seatName(plan, seat);
  return name.row
    ? t.value.seatShort(name.section, name.row, name.seat)
    : t.value.seatWithoutRow(name.section, name.seat);
}

/** "Floor standing", or a seat's section, row and number. */
export function lineWords(line: HoldLine, plan: SeatPlan | null, detail: EventDetail | null): string {
  if (line.area !== undefined) {
    return detail?.areas[line.area]?.name ?? plan?.layout.areas[line.area]?.name ?? t.value.standing;
  }
  if (line.seat !== undefined && plan && line.seat < plan.seatCount) return seatWords(plan, line.seat);
  return `${t.value.seat} ${line.seat ?? ""}`;
}
