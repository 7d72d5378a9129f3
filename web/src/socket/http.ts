//! The HTTP half of the contract, as far as the app needs it: identities, events, layouts, orders.
//! Pages call `Api`; refusals come back as values, a dead network as the refusal `offline`.
import type { Answer, EventDetail, EventSummary, HoldReply, Order, Refusal, WaitlistReply } from "../proto/messages";

/** A page that waits longer than this should say so instead. */
const REQUEST_TIMEOUT_MS = 10_000;
const TOKEN_ITEM = "seatwire.token";

const OFFLINE: Refusal = { code: "offline", number: 0, retry: "now", message: "no answer" };

/** Remembers the guest between visits; a private window without storage keeps it in memory. */
export class TokenBox {
  #memory: string | null = null;

  get(): string | null {
    try {
      return localStorage.getItem(TOKEN_ITEM) ?? this.#memory;
    } catch {
      return this.#memory;
    }
  }

  set(token: string | null): void {
    this.#memory = token;
    try {
      if (token === null) localStorage.removeItem(TOKEN_ITEM);
      else localStorage.setItem(TOKEN_ITEM, token);
    } catch {
      // Storage is refused in some private modes: the memory copy serves this page.
    }
  }
}

export class Api {
  readonly tokens: TokenBox;
  #making: Promise<string> | null = null;

  constructor(tokens: TokenBox) {
    this.tokens = tokens;
  }

  /** The guest's token; makes one when there is none. Several callers at once share one request. */
  token(renew = false): Promise<string> {
    const known = this.tokens.get();
    if (known !== null && !renew) return Promise.resolve(known);
    this.#making ??= this.#newToken().finally(() => {
      this.#making = null;
    });
    return this.#making;
  }

  async #newToken(): Promise<string> {
    const answer = await this.#call<{ token: string }>("/v1/identities", { method: "POST", body: "{}" });
    if (!answer.ok) throw new Error(answer.error.code);
    this.tokens.set(answer.token);
    return answer.token;
  }

  events(query: string): Promise<Answer<{ items: EventSummary[]; next_cursor?: string }>> {
    return this.#call(`/v1/events${query ? `?q=${encodeURIComponent(query)}` : ""}`);
  }

  /** `anew`: past what the browser may give again for some seconds. */
  event(event: string, anew = false): Promise<Answer<EventDetail>> {
    return this.#call(`/v1/events/${encodeURIComponent(event)}`, { cache: anew ? "no-cache" : "default" });
  }

  orders(): Promise<Answer<{ items: Order[] }>> {
    return this.#asGuest("/v1/orders?limit=100");
  }

  order(order: string): Promise<Answer<{ order: Order }>> {
    return this.#asGuest(`/v1/orders/${encodeURIComponent(order)}`);
  }

  /** Any device that holds the secret of an order's `pay_url` reads and pays this one order. */
  orderBySecret(order: string, secret: string): Promise<Answer<{ order: Order }>> {
    return this.#call(`/v1/orders/${encodeURIComponent(order)}`, { headers: { "Seatwire-Pay-Secret": secret } });
  }

  payBySecret(order: string, secret: string, method: string, key: string): Promise<Answer<{ order: Order }>> {
    return this.#call(`/v1/orders/${encodeURIComponent(order)}/pay`, {
      method: "POST",
      headers: { "Seatwire-Pay-Secret": secret, "Idempotency-Key": key },
      body: JSON.stringify({ payment: { method } }),
    });
  }

  waitlistPlace(event: string): Promise<Answer<WaitlistReply>> {
    return this.#asGuest(`/v1/events/${encodeURIComponent(event)}/waitlist`);
  }

  hold(hold: string): Promise<Answer<HoldReply>> {
    return this.#asGuest(`/v1/holds/${encodeURIComponent(hold)}`);
  }

  async #asGuest<T>(path: string): Promise<Answer<T>> {
    for (let renewed = false; ; renewed = true) {
      let token: string;
      try {
        token = await this.token(renewed);
      } catch {
        return { ok: false, error: OFFLINE };
      }
      const answer = await this.#call<T>(path, { headers: { Authorization: `Bearer ${token}` } });
      if (renewed || answer.ok || !["token_expired", "unauthorized"].includes(answer.error.code)) return answer;
    }
  }

  async #call<T>(path: string, init: RequestInit = {}): Promise<Answer<T>> {
    try {
      const response = await fetch(path, {
        ...init,
        headers: { ...(init.body ? { "Content-Type": "application/json" } : {}), ...init.headers },
        signal: AbortSignal.timeout(REQUEST_TIMEOUT_MS),
      });
      const body = await response.json();
      // A declined payment is 402, and the order is its answer.
      if (response.ok || body.order) return { ok: true, ...body };
      return { ok: false, error: body.error ?? OFFLINE };
    } catch {
      return { ok: false, error: OFFLINE };
    }
  }

  /** The layout's bytes are frozen under their hash, so the browser's cache answers every later visit. */
  async layout<T>(hash: string, accept: string, read: (response: Response) => Promise<T>): Promise<T | null> {
    try {
      const response = await fetch(`/v1/layouts/${encodeURIComponent(hash)}`, { headers: { Accept: accept } });
      return response.ok ? await read(response) : null;
    } catch {
      return null;
    }
  }
}
