//! What becomes of a scan: read, verified here, then asked at the check-in; without a network kept and asked later, always under
//! the same name, so that nobody is counted twice. Knows neither camera nor page: `desk.ts` brings both together.
import { newKey } from "../booking/key";
import { type Claims, read, type Verify } from "./seal";

export interface Facts {
  id: string;
  name: string;
  starts_ms: number;
  time_zone: string;
  venue: string;
  city: string;
  layout: string;
  areas: string[];
  public_key: string;
}

export type Kind =
  | "admitted"
  | "used"
  | "void"
  | "transferred"
  | "wrong_event"
  | "forged"
  | "unknown"
  | "unreadable"
  /** signed by us, not asked about yet: kept, and sent when there is a network again */
  | "offline"
  /** no network, and this device has seen the ticket before */
  | "offline_again"
  /** without a network nothing can be said: a typed code, or a device that cannot verify */
  | "offline_unknown"
  /** the key of the door is not taken any more */
  | "key_refused"
  /** the check-in did not say yes or no, or this device could not ask */
  | "trouble";

export interface Verdict {
  kind: Kind;
  seat?: number;
  area?: number;
  holder?: string;
  /** when and where it was used before */
  used_ms?: number;
  used_door?: string;
}

/** A scan that waits for a network. */
export interface Kept {
  scan: string;
  /** what was read */
  text: string;
  /** which ticket, so that a second look at it is noticed */
  ticket: string;
  at_ms: number;
  /** the door's name then: the same scan of another door would be another one */
  door?: string;
}

/** What was last known of a ticket that this device asked about or kept. */
export interface Seen {
  kind: Kind;
  at_ms: number;
}

/** What the check-in says; `offline`: nobody answered; `key`: it does not know us; `trouble`: an answer that is none. */
export type Answer =
  | {
      admitted: boolean;
      reason?: string;
      ticket?: { id?: string; seat?: number; area?: number; holder: string; used_ms?: number; used_door?: string };
    }
  | "offline"
  | "key"
  | "trouble";

export type Ask = (text: string, scan: string, door?: string) => Promise<Answer>;

/** What stays on the device, shared by its tabs: each scan by itself, so that no tab overwrites another's. */
export interface Shelf {
  load(): Kept[];
  add(kept: Kept): void;
  remove(scan: string): void;
  /** what is known of a ticket, by any tab */
  seen(ticket: string): Seen | undefined;
  note(ticket: string, seen: Seen): void;
}

/** Why kept scans are still kept. */
export type Unsettled = Extract<Answer, string>;

/** What a ticket is, whoever asks: remembered for the time without a network. */
const REMEMBERED: Kind[] = ["admitted", "offline", "used", "void", "transferred"];

const REASONS: Partial<Record<string, Kind>> = {
  used: "used",
  void: "void",
  transferred: "transferred",
  wrong_event: "wrong_event",
  forged: "forged",
};

function verdictOf(answer: Exclude<Answer, string>): Verdict {
  const kind: Kind = answer.admitted ? "admitted" : (REASONS[answer.reason ?? ""] ?? "unknown");
  const { seat, area, holder, used_ms, used_door } = answer.ticket ?? {};
  return {
    kind,
    seat: seat ?? undefined,
    area: area ?? undefined,
    holder,
    used_ms: used_ms ?? undefined,
    used_door: used_door ?? undefined,
  };
}

export class Judge {
  kept: Kept[];
  private sending: Promise<Unsettled | null> | null = null;

  constructor(
    private readonly event: string,
    private readonly verify: Verify,
    private readonly ask: Ask,
    private readonly shelf: Shelf,
    private readonly now: () => number = Date.now,
    private readonly name: () => string = newKey,
  ) {
    this.kept = shelf.load();
  }

  async scan(text: string): Promise<Verdict> {
    const found = read(text);
    if (found.form === "nothing") return { kind: "unreadable" };
    const claims = found.form === "sealed" ? found.claims : null;
    const isOurs = found.form === "sealed" ? await this.verify(found.signature, found.signed) : null;
    if (isOurs === false) return { kind: "forged" };
    if (isOurs && claims && claims.event !== this.event) return { kind: "wrong_event" };
    if (claims && this.kept.some((kept) => kept.ticket === claims.ticket)) return again(this.kept, claims);
    const scan = this.name();
    const asked = found.form === "code" ? found.code : text.trim();
    const answer = await this.ask(asked, scan);
    if (answer === "key") return { kind: "key_refused" };
    if (answer === "trouble") return { kind: "trouble", seat: claims?.seat, area: claims?.area };
    if (answer !== "offline") {
      const verdict = verdictOf(answer);
      this.note(answer.ticket?.id ?? claims?.ticket, verdict.kind);
      return verdict;
    }
    if (!isOurs || !claims) return { kind: "offline_unknown" };
    const seen = this.shelf.seen(claims.ticket);
    if (seen) {
      const { seat, area } = claims;
      const isHere = seen.kind === "admitted" || seen.kind === "offline";
      return isHere ? { kind: "offline_again", seat, area, used_ms: seen.at_ms } : { kind: seen.kind, seat, area };
    }
    // Two looks at one ticket may both have waited for the same silent network.
    if (this.kept.some((kept) => kept.ticket === claims.ticket)) return again(this.kept, claims);
    const kept = { scan, text: asked, ticket: claims.ticket, at_ms: this.now() };
    this.kept = [...this.kept, kept];
    this.shelf.add(kept);
    this.note(claims.ticket, "offline");
    return { kind: "offline", seat: claims.seat, area: claims.area };
  }

  /**
   * Sends what was kept, oldest first, until all was asked about or nobody answers; each outcome goes to `told`. Only a yes or
   * a no settles a scan. What stopped it, or what at least one scan met; `null`: all is settled.
   */
  send(told: (kept: Kept, verdict: Verdict) => void): Promise<Unsettled | null> {
    this.sending ??= this.sendAll(told).finally(() => {
      this.sending = null;
    });
    return this.sending;
  }

  private async sendAll(told: (kept: Kept, verdict: Verdict) => void): Promise<Unsettled | null> {
    let met: Unsettled | null = null;
    for (const first of this.kept) {
      const answer = await this.ask(first.text, first.scan, first.door);
      if (answer === "offline" || answer === "key") return answer;
      if (answer === "trouble") {
        // It waits; those behind it need not.
        met = answer;
        continue;
      }
      const verdict = verdictOf(answer);
      this.kept = this.kept.filter((kept) => kept.scan !== first.scan);
      this.shelf.remove(first.scan);
      this.note(first.ticket, verdict.kind);
      told(first, verdict);
    }
    return met;
  }

  private note(ticket: string | undefined, kind: Kind): void {
    if (!ticket || !REMEMBERED.includes(kind)) return;
    // When somebody came in stays the first time.
    if (kind === "used" && this.shelf.seen(ticket)) return;
    this.shelf.note(ticket, { kind, at_ms: this.now() });
  }
}

function again(kept: Kept[], claims: Claims): Verdict {
  const first = kept.find((other) => other.ticket === claims.ticket);
  return { kind: "offline_again", seat: claims.seat, area: claims.area, used_ms: first?.at_ms };
}
