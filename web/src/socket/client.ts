//! The `seatwire.v1` client: one socket that comes back, commands that are kept until answered, live maps.
//! `app.ts` makes one for the page; booking sends commands, the event page subscribes. No framework in here.
import { closeClass } from "../proto/codes";
import type { Answer, HelloReply, Position, Push, Refusal, SubscribeReply } from "../proto/messages";
import { applyBytes, type EventMap, emptyMap, growMap, resyncAnswered } from "../state/event_map";
import { Backoff } from "./backoff";
import type { ServerClock } from "./server_clock";

export const SUBPROTOCOL = "seatwire.v1";

/** A connection that is not greeted by then will not come: mobile networks drop packets without a word. */
const CONNECT_TIMEOUT_MS = 5_000;
/** After waking up, a socket that does not answer a ping by then is taken for dead. */
const PROBE_TIMEOUT_MS = 3_000;
/** Used until hello tells the real one. */
const DEFAULT_HEARTBEAT_MS = 20_000;
/** Local and wall clock drifting apart by more than this means the machine slept. */
const SLEEP_JUMP_MS = 3_000;
/** Between two resyncs of a map, and before a refused subscribe or resync is tried again. */
const RESYNC_PAUSE_MS = 1_000;
/** Times a command is repeated by itself on a retryable refusal before its caller hears of it. */
const MAX_AUTOMATIC_RETRIES = 5;
/** A refusal that asks to wait longer than this goes to the caller: a person would rather know. */
const MAX_SILENT_WAIT_MS = 4_000;

export type SocketStatus = "connecting" | "open" | "waiting" | "stopped";

export interface ClientOptions {
  url: string;
  clock: ServerClock;
  /** The bearer token for hello, or null for an anonymous session. `renew`: the last one was refused as expired. */
  token: (renew: boolean) => Promise<string | null>;
  lang?: string;
  onStatus: (status: SocketStatus, closeCode?: number) => void;
  onHello: (hello: HelloReply) => void;
  onPush: (push: Push) => void;
  random?: () => number;
  webSocket?: typeof WebSocket;
}

export interface MapHandlers {
  /** The map moved. `seats` "all" after a snapshot. */
  onChange: (map: EventMap, seats: Uint32Array | "all") => void;
  /** False while the socket is away or a gap is being repaired: what is shown may be old. */
  onLive: (live: boolean) => void;
  onLayout: (layout: string) => void;
  onRefused: (refusal: Refusal) => void;
}

interface Pending {
  op: string;
  body: Record<string, unknown>;
  resolve: (answer: Answer<Record<string, unknown>>) => void;
  tries: number;
  /** belongs to one connection (hello, ping, subscribe, resync): never repeated on the next */
  once: boolean;
}

interface Subscription {
  event: string;
  handlers: MapHandlers;
  channel: number;
  map: EventMap | null;
  /** when the last resync was sent, so that a pair that never agrees does not storm */
  resyncedMs: number;
}

/** Made up here for commands without an answer from the server. */
const CLOSED: Refusal = { code: "closed", number: 0, retry: "now", message: "the connection is gone" };

export class SeatwireClient {
  readonly #options: ClientOptions;
  readonly #backoff: Backoff;
  #socket: WebSocket | null = null;
  #status: SocketStatus = "stopped";
  #greeted = false;
  #renewToken = false;
  #nextId = 1;
  #pending = new Map<number, Pending>();
  #subscriptions = new Map<string, Subscription>();
  #byChannel = new Map<number, Subscription>();
  #heartbeatMs = DEFAULT_HEARTBEAT_MS;
  #lastHeardMs = 0;
  #retryTimer: ReturnType<typeof setTimeout> | undefined;
  #connectTimer: ReturnType<typeof setTimeout> | undefined;
  #tickTimer: ReturnType<typeof setInterval> | undefined;
  #wallSkewMs = 0;

  constructor(options: ClientOptions) {
    this.#options = options;
    this.#backoff = new Backoff(options.random);
  }

  get status(): SocketStatus {
    return this.#status;
  }

  start(): void {
    if (this.#status !== "stopped") return;
    this.#wallSkewMs = Date.now() - this.#options.clock.localMs();
    this.#tickTimer = setInterval(() => this.#tick(), 1_000);
    void this.#connect();
  }

  stop(): void {
    this.#end("stopped");
  }

  /**
   * Sends a command and keeps it until it is answered, over as many connections as that takes. A command with a
   * `key` is safe to repeat: the server gives the first answer again. Never rejects.
   */
  command<T = Record<string, unknown>>(op: string, body: Record<string, unknown>): Promise<Answer<T>> {
    return new Promise((resolve) => {
      const pending: Pending = { op, body, resolve: resolve as Pending["resolve"], tries: 0, once: false };
      this.#send(this.#keep(pending), pending);
    });
  }

  /** Follows the map of an event until the returned function is called. One follower an event. */
  subscribe(event: string, handlers: MapHandlers): () => void {
    const subscription: Subscription = { event, handlers, channel: 0, map: null, resyncedMs: Number.NEGATIVE_INFINITY };
    this.#subscriptions.set(event, subscription);
    if (this.#greeted) this.#sendSubscribe(subscription);
    return () => {
      if (this.#subscriptions.get(event) !== subscription) return;
      this.#subscriptions.delete(event);
      this.#byChannel.delete(subscription.channel);
      if (this.#greeted && subscription.channel) void this.#once("unsubscribe", { channel: subscription.channel });
    };
  }

  /** The page came back (shown, online, thawed): find out at once whether the socket lived through it. */
  wake(): void {
    if (this.#status === "stopped") return;
    this.#options.clock.forget();
    if (this.#status === "waiting") {
      this.#backoff.reset();
      void this.#connect();
    } else if (this.#greeted) {
      const before = this.#lastHeardMs;
      const socket = this.#socket;
      void this.#ping();
      setTimeout(() => {
        if (socket === this.#socket && this.#lastHeardMs === before) this.#lost(1006);
      }, PROBE_TIMEOUT_MS);
    }
  }

  async #connect(): Promise<void> {
    clearTimeout(this.#retryTimer);
    this.#setStatus("connecting");
    const token = await this.#options.token(this.#renewToken).catch(() => undefined);
    if (this.#status !== "connecting") return;
    if (token === undefined) return this.#lost(1006);
    this.#renewToken = false;

    const WebSocketClass = this.#options.webSocket ?? WebSocket;
    const socket = new WebSocketClass(this.#options.url, SUBPROTOCOL);
    socket.binaryType = "arraybuffer";
    this.#socket = socket;
    this.#connectTimer = setTimeout(() => this.#lost(1006), CONNECT_TIMEOUT_MS);
    socket.onopen = () => void this.#hello(socket, token);
    socket.onmessage = (message) => {
      if (socket === this.#socket) this.#received(message.data);
    };
    socket.onclose = (close) => {
      if (socket === this.#socket) this.#lost(close.code);
    };
  }

  async #hello(socket: WebSocket, token: string | null): Promise<void> {
    if (socket !== this.#socket) return;
    const answer = await this.#once<HelloReply & Record<string, unknown>>("hello", {
      ...(token === null ? {} : { token }),
      client: { name: "seatwire-web", version: "1" },
      accepts: ["packed2"],
      lang: this.#options.lang,
    });
    if (socket !== this.#socket) return;
    if (!answer.ok) {
      this.#renewToken = answer.error.retry === "refresh";
      this.#lost(answer.error.code === "unauthorized" ? 4501 : 1006);
      return;
    }
    clearTimeout(this.#connectTimer);
    this.#greeted = true;
    this.#backoff.reset();
    this.#heartbeatMs = answer.heartbeat_ms || DEFAULT_HEARTBEAT_MS;
    this.#options.clock.guess(answer.server_ms);
    this.#setStatus("open");
    this.#options.onHello(answer);
    void this.#ping();
    for (const subscription of this.#subscriptions.values()) this.#sendSubscribe(subscription);
    for (const [id, pending] of [...this.#pending]) {
      if (!pending.once) this.#send(id, pending);
    }
  }

  #sendSubscribe(subscription: Subscription): void {
    const map = subscription.map;
    const from = map?.whole ? { epoch: map.epoch, seq: map.seq } : "snapshot";
    subscription.channel = 0;
    if (map) resyncAnswered(map);
    void this.#once<SubscribeReply & Record<string, unknown>>("subscribe", {
      event: subscription.event,
      from,
      accepts: ["packed2"],
    });
  }

  /** Runs inside the message handler, so the channel is known before the first frame behind the reply. */
  #subscribed(subscription: Subscription, reply: SubscribeReply): void {
    subscription.channel = reply.channel;
    this.#byChannel.set(reply.channel, subscription);
    const map = subscription.map;
    const kept = map !== null && map.seatCount === reply.seat_count && map.areaCount === reply.area_count;
    if (!kept) subscription.map = emptyMap(reply.seat_count, reply.area_count);
    subscription.handlers.onLayout(reply.layout);
    // Recovered: what was missed follows as deltas, or nothing was. Without a map that fits, ask for a whole one.
    if (reply.recovered && kept) subscription.handlers.onLive(true);
    else if (reply.recovered) this.#resync(subscription, { epoch: 0, seq: 0 });
  }

  #received(data: unknown): void {
    this.#lastHeardMs = this.#options.clock.localMs();
    if (data instanceof ArrayBuffer) return this.#frame(new Uint8Array(data));
    let message: Record<string, unknown>;
    try {
      message = JSON.parse(String(data));
    } catch {
      return;
    }
    if (typeof message.push === "string") {
      if (message.push === "server.drain") this.#backoff.spread(Number(message.jitter_ms) || 1);
      if (message.push === "layout.change") this.#layoutChanged(message);
      this.#options.onPush(message as Push);
      return;
    }
    const id = Number(message.id);
    const pending = this.#pending.get(id);
    if (!pending) return;
    const answer = message as unknown as Answer<Record<string, unknown>>;
    if (!answer.ok && !pending.once && this.#repeats(id, pending, answer.error)) return;
    this.#pending.delete(id);
    if (pending.op === "subscribe") {
      const subscription = this.#subscriptions.get(String(pending.body.event));
      if (!subscription) {
        if (answer.ok) void this.#once("unsubscribe", { channel: answer.channel });
      } else if (answer.ok) this.#subscribed(subscription, answer as unknown as SubscribeReply);
      else this.#subscribeRefused(subscription, answer.error);
    }
    pending.resolve(answer);
  }

  /** Comes before the first frame that names a new seat, so the map grows before it must hold one. */
  #layoutChanged(push: Record<string, unknown>): void {
    const subscription = this.#subscriptions.get(String(push.event));
    if (!subscription) return;
    if (subscription.map) growMap(subscription.map, Number(push.seat_count) || 0);
    subscription.handlers.onLayout(String(push.layout));
  }

  #subscribeRefused(subscription: Subscription, error: Refusal): void {
    if (error.retry === "never") return subscription.handlers.onRefused(error);
    const socket = this.#socket;
    setTimeout(() => {
      if (socket === this.#socket && this.#subscriptions.get(subscription.event) === subscription)
        this.#sendSubscribe(subscription);
    }, error.retry_after_ms ?? RESYNC_PAUSE_MS);
  }

  /** True when the refusal is one to be tried again without asking anybody, with the same key. */
  #repeats(id: number, pending: Pending, error: Refusal): boolean {
    if (error.retry === "refresh") {
      this.#renewToken = true;
      this.#lost(4000);
      return true;
    }
    const waits = error.retry_after_ms ?? 250 * 2 ** pending.tries;
    const asks = error.retry === "ask" || error.retry === "now";
    const busy = error.retry === "after" && "key" in pending.body;
    if (!(asks || busy) || waits > MAX_SILENT_WAIT_MS || pending.tries >= MAX_AUTOMATIC_RETRIES) return false;
    pending.tries++;
    const random = this.#options.random ?? Math.random;
    setTimeout(() => this.#send(id, pending), waits * (0.75 + random() / 2));
    return true;
  }

  #frame(bytes: Uint8Array): void {
    if (bytes.length < 12) return;
    const channel = new DataView(bytes.buffer, bytes.byteOffset).getUint32(8, true);
    const subscription = this.#byChannel.get(channel);
    if (!subscription?.map) return;
    const { map, handlers } = subscription;
    const applied = applyBytes(map, bytes);
    if (applied.outcome === "applied") handlers.onChange(map, applied.seats);
    if (applied.outcome === "resync") {
      if (applied.moved) handlers.onChange(map, "all");
      this.#resync(subscription, applied.from);
    } else if (applied.outcome !== "dropped" && !map.resyncing) handlers.onLive(true);
  }

  /** Sends what the map asked for; the map itself sees to it that at most one is outstanding. */
  #resync(subscription: Subscription, from: Position): void {
    const { channel, map } = subscription;
    subscription.handlers.onLive(false);
    const nowMs = this.#options.clock.localMs();
    const waitMs = subscription.resyncedMs + RESYNC_PAUSE_MS - nowMs;
    if (waitMs > 0) {
      setTimeout(() => {
        if (this.#byChannel.get(channel) === subscription) this.#resync(subscription, from);
      }, waitMs);
      return;
    }
    subscription.resyncedMs = nowMs;
    void this.#once("resync", { channel, epoch: from.epoch, seq: from.seq }).then((answer) => {
      if (!map || this.#byChannel.get(channel) !== subscription) return;
      if (answer.ok) {
        resyncAnswered(map);
        if (map.whole) subscription.handlers.onLive(true);
        return;
      }
      setTimeout(() => {
        if (this.#byChannel.get(channel) === subscription) this.#resync(subscription, from);
      }, answer.error.retry_after_ms ?? RESYNC_PAUSE_MS);
    });
  }

  async #ping(): Promise<void> {
    const { clock } = this.#options;
    const socket = this.#socket;
    const t0 = clock.localMs();
    const answer = await this.#once<{ t1: number; t2: number }>("ping", { t0: Math.round(t0) });
    if (answer.ok && socket === this.#socket) clock.learn(t0, answer.t1, answer.t2, clock.localMs());
  }

  /** Once a second: notice sleep, keep a quiet line alive, give up a dead one. */
  #tick(): void {
    const { clock } = this.#options;
    const skew = Date.now() - clock.localMs();
    if (Math.abs(skew - this.#wallSkewMs) > SLEEP_JUMP_MS) {
      this.#wallSkewMs = skew;
      this.wake();
    }
    if (!this.#greeted) return;
    const silentMs = clock.localMs() - this.#lastHeardMs;
    if (silentMs > 2 * this.#heartbeatMs) this.#lost(1006);
    else if (silentMs > this.#heartbeatMs && ![...this.#pending.values()].some((p) => p.op === "ping"))
      void this.#ping();
  }

  #keep(pending: Pending): number {
    const id = this.#nextId++;
    this.#pending.set(id, pending);
    return id;
  }

  /** A command of this connection only. */
  #once<T>(op: string, body: Record<string, unknown>): Promise<Answer<T>> {
    return new Promise((resolve) => {
      const pending: Pending = { op, body, resolve: resolve as Pending["resolve"], tries: 0, once: true };
      this.#send(this.#keep(pending), pending);
    });
  }

  #send(id: number, pending: Pending): void {
    if (this.#pending.get(id) !== pending) return;
    if (!this.#greeted && pending.op !== "hello") return;
    if (this.#socket?.readyState !== 1) return;
    this.#socket.send(JSON.stringify({ id, op: pending.op, ...pending.body }));
  }

  #lost(code: number): void {
    this.#end(closeClass(code) === "stop" ? "stopped" : "waiting", code);
    if (this.#status === "waiting") {
      this.#retryTimer = setTimeout(() => void this.#connect(), this.#backoff.nextMs());
    }
  }

  #end(status: "stopped" | "waiting", code?: number): void {
    clearTimeout(this.#connectTimer);
    clearTimeout(this.#retryTimer);
    if (status === "stopped") clearInterval(this.#tickTimer);
    const socket = this.#socket;
    this.#socket = null;
    this.#greeted = false;
    socket?.close();
    this.#byChannel.clear();
    for (const [id, pending] of [...this.#pending]) {
      if (pending.once || status === "stopped") {
        this.#pending.delete(id);
        pending.resolve({ ok: false, error: CLOSED });
      }
    }
    for (const subscription of this.#subscriptions.values()) subscription.handlers.onLive(false);
    this.#setStatus(status, code);
  }

  #setStatus(status: SocketStatus, code?: number): void {
    this.#status = status;
    this.#options.onStatus(status, code);
  }
}
