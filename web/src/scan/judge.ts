//! What becomes of a scan: read, verified here, then asked at the check-in; without a network kept and asked later, always under
//! the same name, so that nobody is counted twice. Knows neither camera nor page: `desk.ts` brings both together.
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
  /** this door let it in already while it had no network */
  | "offline_again"
  /** without a network nothing can be said: a typed code, or a device that cannot verify */
  | "offline_unknown"
  /** the key of the door is not taken any more */
  | "key_refused";

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
}

/** What the check-in says; `offline`: nobody answered; `key`: it does not know us. */
export type Answer =
  | {
      admitted: boolean;
      reason?: string;
      ticket?: { seat?: number; area?: number; holder: string; used_ms?: number; used_door?: string };
    }
  | "offline"
  | "key";

export type Ask = (text: string, scan: string) => Promise<Answer>;

export interface Shelf {
  load(): Kept[];
  store(kept: Kept[]): void;
}

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
  private sending: Promise<void> | null = null;

  constructor(
    private readonly event: string,
    private readonly verify: Verify,
    private readonly ask: Ask,
    private readonly shelf: Shelf,
    private readonly now: () => number = Date.now,
    private readonly name: () => string = () => crypto.randomUUID(),
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
    if (answer !== "offline") return verdictOf(answer);
    if (!isOurs || !claims) return { kind: "offline_unknown" };
    // Two looks at one ticket may both have waited for the same silent network.
    if (this.kept.some((kept) => kept.ticket === claims.ticket)) return again(this.kept, claims);
    this.set([...this.kept, { scan, text: asked, ticket: claims.ticket, at_ms: this.now() }]);
    return { kind: "offline", seat: claims.seat, area: claims.area };
  }

  /** Sends what was kept, oldest first, until all is told or nobody answers; each outcome goes to `told`. */
  send(told: (kept: Kept, verdict: Verdict) => void): Promise<void> {
    this.sending ??= this.sendAll(told).finally(() => {
      this.sending = null;
    });
    return this.sending;
  }

  private async sendAll(told: (kept: Kept, verdict: Verdict) => void): Promise<void> {
    while (this.kept.length > 0) {
      const first = this.kept[0];
      const answer = await this.ask(first.text, first.scan);
      if (typeof answer === "string") return;
      this.set(this.kept.filter((kept) => kept.scan !== first.scan));
      told(first, verdictOf(answer));
    }
  }

  private set(kept: Kept[]): void {
    this.kept = kept;
    this.shelf.store(kept);
  }
}

function again(kept: Kept[], claims: Claims): Verdict {
  const first = kept.find((other) => other.ticket === claims.ticket);
  return { kind: "offline_again", seat: claims.seat, area: claims.area, used_ms: first?.at_ms };
}
