//! The same seats without the picture: sections, then one section's rows as an ARIA grid with one tab stop.
//! For keyboards, screen readers and anyone who prefers it; the same taps, the same live states.
import { type Signal, useSignal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import { app } from "../app";
import { mySeats, pendingSeats } from "../booking/basket";
import { FLAG_ACCESSIBLE, FLAG_COMPANION, FLAG_RESTRICTED, type LayoutRow, type SeatPlan } from "../proto/layout";
import { count, money } from "./format";
import { BackIcon, ForwardIcon } from "./icons";
import type { LiveEvent } from "./live_event";
import { memo } from "./memo";
import { t } from "./texts";

/** Live changes are gathered this long before the list is drawn again. */
const REDRAW_MS = 250;
/** A screen reader hears of a section's changes at most this often. */
const SPEAK_EVERY_MS = 5_000;

interface Props {
  event: LiveEvent;
  tiers: Signal<ReadonlySet<string>>;
  section: Signal<number | null>;
  onSeat: (seat: number) => void;
  onArea: (area: number) => void;
}

export function ListView({ event, tiers, section, onSeat, onArea }: Props) {
  const version = useSignal(0);
  const plan = event.plan.value;

  useEffect(() => {
    let timer: ReturnType<typeof setTimeout> | undefined;
    const stop = event.onMap(() => {
      timer ??= setTimeout(() => {
        timer = undefined;
        version.value++;
      }, REDRAW_MS);
    });
    version.value++;
    return () => {
      clearTimeout(timer);
      stop();
    };
  }, [event, plan]);

  if (!plan || !event.detail.value) return <div class="list loading-text">{t.value.loading}</div>;
  return (
    <div class={`list ${event.live.value ? "" : "stale"}`} data-version={version.value}>
      {section.value === null ? (
        <SectionList event={event} plan={plan} tiers={tiers} open={(at) => (section.value = at)} onArea={onArea} />
      ) : (
        <SectionGrid
          key={section.value}
          event={event}
          plan={plan}
          section={section.value}
          tiers={tiers}
          close={() => (section.value = null)}
          onSeat={onSeat}
          version={version.value}
        />
      )}
    </div>
  );
}

interface SectionListProps {
  event: LiveEvent;
  plan: SeatPlan;
  tiers: Signal<ReadonlySet<string>>;
  open: (section: number) => void;
  onArea: (area: number) => void;
}

function SectionList({ event, plan, tiers, open, onArea }: SectionListProps) {
  const detail = event.detail.value;
  const map = event.map;
  if (!detail) return null;
  const left = new Uint32Array(plan.layout.sections.length);
  const wanted = tiers.value;
  for (let seat = 0; seat < plan.seatCount; seat++) {
    if (event.states[seat]) continue;
    if (wanted.size > 0 && !wanted.has(event.tierOf(seat)?.code ?? "")) continue;
    left[plan.section[seat]]++;
  }
  return (
    <>
      <h2 class="list-title">{t.value.sections}</h2>
      <ul class="section-list">
        {detail.areas.map((area) => (
          <li key={`area ${area.index}`}>
            <button type="button" onClick={() => onArea(area.index)}>
              <span class="name">{area.name}</span>
              <span class="muted">
                {t.value.sectionLeft(
                  map?.areas[area.index] ?? area.remaining,
                  count(map?.areas[area.index] ?? area.remaining),
                )}
              </span>
              <ForwardIcon size={18} />
            </button>
          </li>
        ))}
        {plan.layout.sections.map((section, at) => (
          <li key={section.index}>
            <button type="button" onClick={() => open(at)} class={left[at] === 0 ? "gone" : ""}>
              <span class="name">{section.name}</span>
              <span class="muted">{t.value.sectionLeft(left[at], count(left[at]))}</span>
              <ForwardIcon size={18} />
            </button>
          </li>
        ))}
      </ul>
    </>
  );
}

interface SectionGridProps {
  event: LiveEvent;
  plan: SeatPlan;
  section: number;
  tiers: Signal<ReadonlySet<string>>;
  close: () => void;
  onSeat: (seat: number) => void;
  version: number;
}

function SectionGrid({ event, plan, section, tiers, close, onSeat }: SectionGridProps) {
  const { rows, name } = plan.layout.sections[section];
  const focus = useSignal<[row: number, position: number]>([0, 0]);
  const grid = useRef<HTMLDivElement>(null);
  const heading = useRef<HTMLHeadingElement>(null);
  const spoken = useSignal("");
  const spokenAt = useRef(0);
  const left = useRef(-1);
  const basket = app.shop.basket(event.id).value;
  const mine = mySeats(basket);
  const pending = pendingSeats(basket);
  const { states } = event;

  useEffect(() => heading.current?.focus(), []);

  let available = 0;
  for (const row of rows) {
    for (let p = 0; p < row.seats.length; p++) if (!states[row.first + p]) available++;
  }
  useEffect(() => {
    if (left.current === -1) left.current = available;
    if (available === left.current) return;
    const wait = Math.max(0, spokenAt.current + SPEAK_EVERY_MS - Date.now());
    const timer = setTimeout(() => {
      left.current = available;
      spokenAt.current = Date.now();
      spoken.value = t.value.sectionChanged(name, available);
    }, wait);
    return () => clearTimeout(timer);
  }, [available]);

  const moveTo = (rowAt: number, position: number) => {
    const row = rows[Math.min(Math.max(rowAt, 0), rows.length - 1)];
    const at = Math.min(Math.max(position, 0), row.seats.length - 1);
    focus.value = [rows.indexOf(row), at];
    grid.current?.querySelector<HTMLElement>(`[data-seat="${row.first + at}"]`)?.focus();
  };

  const onKeyDown = (event: KeyboardEvent) => {
    const [row, position] = focus.value;
    const last = rows[row].seats.length - 1;
    const end = rows.length - 1;
    const page = 5;
    const moves: Record<string, [number, number]> = {
      ArrowRight: [row, position + 1],
      ArrowLeft: [row, position - 1],
      ArrowDown: [row + 1, position],
      ArrowUp: [row - 1, position],
      Home: event.ctrlKey ? [0, 0] : [row, 0],
      End: event.ctrlKey ? [end, rows[end].seats.length - 1] : [row, last],
      PageDown: [row + page, position],
      PageUp: [row - page, position],
    };
    const to = moves[event.key];
    if (!to) return;
    event.preventDefault();
    moveTo(...to);
  };

  return (
    <>
      <div class="grid-head">
        <button type="button" class="button quiet small" onClick={close}>
          <BackIcon size={16} /> {t.value.backToSections}
        </button>
        <h2 ref={heading} tabIndex={-1} class="list-title">
          {name} <span class="muted">{t.value.sectionLeft(available, count(available))}</span>
        </h2>
      </div>
      <p id="grid-help" class="muted small-text">
        {t.value.gridHelp}
      </p>
      <p class="visually-hidden" aria-live="polite">
        {spoken.value}
      </p>
      <div
        ref={grid}
        class="seat-grid"
        role="grid"
        tabIndex={-1}
        aria-label={name}
        aria-describedby="grid-help"
        aria-rowcount={rows.length}
        onKeyDown={onKeyDown}
        onFocusIn={(event) => {
          const seat = Number((event.target as HTMLElement).dataset.seat ?? Number.NaN);
          const row = rows.findIndex(
            (candidate) => seat >= candidate.first && seat < candidate.first + candidate.seats.length,
          );
          if (row >= 0) focus.value = [row, seat - rows[row].first];
        }}
        onClick={(event) => {
          const cell = (event.target as HTMLElement).closest<HTMLElement>("[data-seat]");
          if (cell && cell.getAttribute("aria-disabled") !== "true") onSeat(Number(cell.dataset.seat));
        }}
      >
        {rows.map((row, at) => {
          let looks = "";
          for (let p = 0; p < row.seats.length; p++) {
            const seat = row.first + p;
            const code = event.tierOf(seat)?.code ?? "";
            if (mine.has(seat)) looks += pending.has(seat) ? "r" : "m";
            else if (pending.has(seat)) looks += "p";
            else if (states[seat]) looks += "0hsb"[states[seat]];
            else looks += tiers.value.size > 0 && !tiers.value.has(code) ? "d" : "a";
          }
          return (
            <SeatRow
              key={row.first}
              row={row}
              at={at}
              looks={looks}
              tabStop={focus.value[0] === at ? focus.value[1] : -1}
              event={event}
              plan={plan}
              detail={event.detail.value}
              language={t.value}
            />
          );
        })}
      </div>
    </>
  );
}

interface RowProps {
  row: LayoutRow;
  at: number;
  /** one letter a seat: a available, d outside the filter, h held, s sold, b blocked, m mine, p r on their way */
  looks: string;
  tabStop: number;
  event: LiveEvent;
  plan: SeatPlan;
  detail: unknown;
  language: unknown;
}

const LOOK_CLASS: Record<string, string> = {
  a: "available",
  d: "available dimmed",
  h: "held",
  s: "sold",
  b: "blocked",
  m: "mine",
  p: "pending",
  r: "mine pending",
};

/** Drawn again only when one of its seats, or its tab stop, changed: a section can have thousands of seats. */
const SeatRow = memo(
  function SeatRow({ row, at, looks, tabStop, event, plan }: RowProps) {
    const detail = event.detail.value;
    const gaps = new Set(row.gaps ?? []);
    return (
      <div role="row" aria-rowindex={at + 1} class="seat-row">
        <span role="rowheader" class="row-label">
          <span class="visually-hidden">{t.value.row} </span>
          {row.label}
        </span>
        {row.seats.map((label, p) => {
          const seat = row.first + p;
          const look = looks[p];
          const tier = event.tierOf(seat);
          const price = tier && detail ? money(tier.price_minor + tier.fee_minor, detail.currency) : "";
          const flags = plan.flags[seat];
          const { seatState } = t.value;
          const state = {
            a: seatState.available,
            d: seatState.available,
            h: seatState.held,
            s: seatState.sold,
            b: seatState.blocked,
            m: seatState.mine,
            p: t.value.pendingState,
            r: seatState.mine,
          }[look] as string;
          const notes = [
            state,
            flags & FLAG_ACCESSIBLE ? t.value.accessible : "",
            flags & FLAG_COMPANION ? t.value.companion : "",
            flags & FLAG_RESTRICTED ? t.value.restricted : "",
          ];
          const words = t.value.cell(row.label, label, price, notes.filter(Boolean).join(", "));
          return (
            <button
              key={seat}
              type="button"
              role="gridcell"
              class={`cell ${LOOK_CLASS[look]}${gaps.has(p) ? " gap" : ""}`}
              data-seat={seat}
              aria-label={words}
              aria-disabled={"hsb".includes(look)}
              aria-selected={"mr".includes(look)}
              tabIndex={tabStop === p ? 0 : -1}
            >
              {label}
            </button>
          );
        })}
      </div>
    );
  },
  ["looks", "tabStop", "row", "detail", "language"],
);
