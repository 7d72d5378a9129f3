//! One event while it is looked at: its facts, its plan and its live map, brought together for the event page.
//! Made by `event_page.tsx`, fed by HTTP and the socket, closed when the page goes.
import { signal } from "@preact/signals";
import { app } from "../app";
import { type LayoutJson, type SeatPlan, unpackLayout } from "../proto/layout";
import type { EventDetail, PriceTier, Refusal } from "../proto/messages";
import { factsAfter } from "../state/event_facts";
import type { EventMap } from "../state/event_map";
import { openedStates } from "../state/opened";
import { ReadAgain } from "./read_again";

type MapListener = (map: EventMap, seats: Uint32Array | "all") => void;

export class LiveEvent {
  readonly id: string;
  readonly detail = signal<EventDetail | null>(null);
  readonly plan = signal<SeatPlan | null>(null);
  /** false while the shown states may be old */
  readonly live = signal(false);
  readonly refused = signal<Refusal | null>(null);
  /** the allocation that a presale code has opened for this buyer */
  readonly opened = signal<{ name: string; until_ms: number } | null>(null);
  map: EventMap | null = null;
  /** states by seat index as they are for this buyer: what a code has opened is available, though the map says blocked */
  states: Uint8Array = new Uint8Array(0);
  /** index into price_tiers by seat index */
  seatTiers: Uint8Array = new Uint8Array(0);
  /** 1 by seat index where a code has opened it */
  #openSeats: Uint8Array | null = null;
  #listeners = new Set<MapListener>();
  #unsubscribe: () => void;
  #layout = "";
  #closed = false;
  #unwatch: () => void;
  #unwatchSocket: () => void;
  readonly #again = new ReadAgain(() => this.#readAgain());

  constructor(id: string) {
    this.id = id;
    this.#unsubscribe = app.client.subscribe(id, {
      onChange: (map, seats) => {
        this.map = map;
        this.#tell(seats);
      },
      onLive: (live) => {
        this.live.value = live;
      },
      onLayout: (layout) => void this.#useLayout(layout),
      onRefused: (refusal) => {
        this.refused.value = refusal;
      },
    });
    this.#unwatch = app.eventPush.subscribe((push) => {
      if (push?.event === id) this.#pushed(push);
    });
    // What was said while the connection was away is not said again.
    let away = false;
    this.#unwatchSocket = app.socket.subscribe(({ status, was }) => {
      if (status === "open" && away) this.#again.soon();
      away = was && status !== "open";
    });
    void this.load();
  }

  close(): void {
    this.#closed = true;
    this.#unsubscribe();
    this.#unwatch();
    this.#unwatchSocket();
    this.#again.end();
  }

  async load(): Promise<void> {
    this.refused.value = null;
    const answer = await app.api.event(this.id);
    if (this.#closed) return;
    if (!answer.ok) {
      this.refused.value = answer.error;
      return;
    }
    await this.#use(answer);
  }

  async #use(detail: EventDetail): Promise<void> {
    this.seatTiers = Uint8Array.from(atob(detail.seat_tiers ?? ""), (char) => char.charCodeAt(0));
    this.detail.value = detail;
    const code = knownCode(this.id);
    if (code && !this.opened.value && (detail.state === "presale" || detail.state === "on_sale"))
      void this.unlock(code);
    await this.#useLayout(detail.layout);
  }

  /** Reads the page behind what it shows: a failure changes nothing on the screen. */
  async #readAgain(): Promise<boolean> {
    const answer = await app.api.event(this.id, true);
    if (this.#closed || !answer.ok) return this.#closed;
    await this.#use(answer);
    return true;
  }

  /** Opens what a presale code opens, and remembers the code for the next visit. The refusal, or null. */
  async unlock(code: string): Promise<Refusal | null> {
    const answer = await app.shop.unlock(this.id, code);
    if (this.#closed) return null;
    if (!answer.ok) {
      if (answer.error.code === "code_invalid") rememberCode(this.id, null);
      return answer.error;
    }
    rememberCode(this.id, code);
    const { readSeatSet } = await import("../proto/seat_set");
    this.#openSeats = readSeatSet(answer.seats, this.detail.value?.seat_count ?? 0);
    this.opened.value = answer.allocation;
    if (this.map?.whole) this.#tell("all");
    return null;
  }

  #tell(seats: Uint32Array | "all"): void {
    const { map } = this;
    if (!map) return;
    this.states = openedStates(map.states, this.#openSeats, this.states, seats);
    for (const listener of this.#listeners) listener(map, seats);
  }

  /** Hears of every change of the map, at once of its present state, until the returned function is called. */
  onMap(listener: MapListener): () => void {
    this.#listeners.add(listener);
    if (this.map?.whole) listener(this.map, "all");
    return () => this.#listeners.delete(listener);
  }

  tierOf(seat: number): PriceTier | undefined {
    return this.detail.value?.price_tiers[this.seatTiers[seat]];
  }

  async #useLayout(hash: string): Promise<void> {
    if (hash === this.#layout) return;
    this.#layout = hash;
    const layout = await fetchLayout(hash);
    if (this.#closed || this.#layout !== hash) return;
    if (!layout) {
      this.#layout = "";
      if (!this.plan.value) this.refused.value = { code: "offline", number: 0, retry: "now", message: "no layout" };
      return;
    }
    const grown = this.plan.value !== null;
    this.plan.value = unpackLayout(layout);
    if (!grown) return;
    void this.load();
    this.#again.soon();
  }

  #pushed(push: { push: string; [field: string]: unknown }): void {
    const detail = this.detail.value;
    if (!detail) return;
    this.detail.value = factsAfter(detail, push);
    // Limits, times and words have no push of their own: the state is said again, or for the first time with them.
    if (push.push === "event.state") this.#again.soon();
    if (push.push === "price.change") app.notify({ kind: "prices" });
  }
}

const CODE_ITEM = "seatwire.code.";

function knownCode(event: string): string | null {
  try {
    return localStorage.getItem(CODE_ITEM + event);
  } catch {
    return null;
  }
}

function rememberCode(event: string, code: string | null): void {
  try {
    if (code) localStorage.setItem(CODE_ITEM + event, code);
    else localStorage.removeItem(CODE_ITEM + event);
  } catch {
    // It is typed in again next time.
  }
}

const layouts = new Map<string, Promise<LayoutJson | null>>();

/**
 * The layout of a hash, in its compact form where the server has it. Layouts are frozen under their hash; the page
 * keeps each it has read. Null when it cannot be had.
 */
export function fetchLayout(hash: string): Promise<LayoutJson | null> {
  let layout = layouts.get(hash);
  if (!layout) {
    const decoder = import("../proto/layout_compact");
    layout = app.api
      .layout(hash, "application/vnd.seatwire.layout, application/json;q=0.5", async (response) => {
        const { COMPACT_LAYOUT, decodeLayout } = await decoder;
        if (!response.headers.get("Content-Type")?.startsWith(COMPACT_LAYOUT))
          return (await response.json()) as LayoutJson;
        return decodeLayout(new Uint8Array(await response.arrayBuffer()), hash);
      })
      .catch(() => null);
    layouts.set(hash, layout);
    void layout.then((read) => {
      if (!read) layouts.delete(hash);
    });
  }
  return layout;
}
