//! The socket client against a scripted socket: greeting, keys that survive reconnects, close codes, dead lines.
import { readFileSync } from "node:fs";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { CLOSE_STOP, closeClass } from "../src/proto/codes";
import { Backoff } from "../src/socket/backoff";
import { SeatwireClient, type SocketStatus } from "../src/socket/client";
import { ServerClock } from "../src/socket/server_clock";
import { FakeSocket } from "./fake_socket";
import { fromHex } from "./hex";

const HELLO = {
  session: "s",
  node: "n",
  server_ms: 5_000,
  identity: "idn_1",
  heartbeat_ms: 20_000,
  holds: [],
  orders: [],
};

interface Made {
  client: SeatwireClient;
  statuses: [SocketStatus, number?][];
  renewals: boolean[];
  clock: ServerClock;
}

let made: Made;

function make(random = () => 0.5): Made {
  const statuses: Made["statuses"] = [];
  const renewals: boolean[] = [];
  const clock = new ServerClock(() => performance.now());
  const client = new SeatwireClient({
    url: "ws://x/v1/socket",
    clock,
    token: async (renew) => {
      renewals.push(renew);
      return `token${renewals.length}`;
    },
    onStatus: (status, code) => statuses.push([status, code]),
    onHello: () => {},
    onPush: () => {},
    random,
    webSocket: FakeSocket as unknown as typeof WebSocket,
  });
  return { client, statuses, renewals, clock };
}

/** Lets promises run on, and timers for so long. */
const pass = (ms = 0) => vi.advanceTimersByTimeAsync(ms);

async function greet(): Promise<FakeSocket> {
  await pass();
  FakeSocket.last.open();
  await pass();
  FakeSocket.last.answer("hello", HELLO);
  await pass();
  return FakeSocket.last;
}

/** A good server answers pings. */
function answerPings(socket: FakeSocket): void {
  for (const ping of socket.ops("ping")) socket.say({ id: ping.id, ok: true, t0: ping.t0, t1: 0, t2: 0 });
}

beforeEach(() => {
  vi.useFakeTimers();
  FakeSocket.made = [];
  made = make();
  made.client.start();
});

afterEach(() => {
  made.client.stop();
  vi.useRealTimers();
});

describe("greeting", () => {
  it("asks for the subprotocol, says hello first and only then what waits", async () => {
    const answer = made.client.command("hold", { event: "evt_1", seats: [1], key: "k1" });
    await pass();
    const socket = FakeSocket.last;
    expect(socket.protocols).toBe("seatwire.v1");
    socket.open();
    await pass();
    expect(socket.sent.map((command) => command.op)).toEqual(["hello"]);
    expect(socket.sent[0].token).toBe("token1");
    socket.answer("hello", HELLO);
    await pass();
    expect(socket.ops("hold")).toHaveLength(1);
    socket.answer("hold", { hold: null });
    expect((await answer).ok).toBe(true);
  });

  it("gives up a connection that is not greeted within five seconds", async () => {
    await pass();
    FakeSocket.last.open();
    await pass(4_999);
    expect(made.client.status).toBe("connecting");
    await pass(2);
    expect(made.client.status).toBe("waiting");
  });

  it("fetches a new token when the old one is expired", async () => {
    await pass();
    FakeSocket.last.open();
    await pass();
    FakeSocket.last.refuse("hello", { code: "token_expired", retry: "refresh" });
    await pass(1_000);
    expect(made.renewals).toEqual([false, true]);
    expect(FakeSocket.made).toHaveLength(2);
  });
});

describe("commands", () => {
  it("are sent again with the same key after a reconnect, and answered once", async () => {
    const first = await greet();
    const answer = made.client.command("hold", { event: "evt_1", seats: [1], key: "k1" });
    expect(first.ops("hold")[0].key).toBe("k1");
    first.drop(1006);
    await pass(1_000);
    const second = await greet();
    expect(second).not.toBe(first);
    expect(second.ops("hold")).toEqual([expect.objectContaining({ key: "k1", seats: [1] })]);
    second.answer("hold", { hold: { id: "hld_1" } });
    expect(await answer).toMatchObject({ ok: true, hold: { id: "hld_1" } });
  });

  it("are asked again with the same key when the outcome is unknown", async () => {
    const socket = await greet();
    const answer = made.client.command("checkout", { hold: "hld_1", key: "k9" });
    socket.refuse("checkout", { code: "timeout_unknown", retry: "ask", retry_after_ms: 500 });
    await pass(1_000);
    expect(socket.ops("checkout").map((command) => command.key)).toEqual(["k9", "k9"]);
    socket.answer("checkout", { order: { id: "ord_1" } });
    expect((await answer).ok).toBe(true);
  });

  it("give a business refusal to their caller at once", async () => {
    const socket = await greet();
    const answer = made.client.command("hold", { event: "evt_1", seats: [1], key: "k1" });
    socket.refuse("hold", { code: "seat_taken", number: 2001, retry: "never", data: { alternatives: [[2]] } });
    expect(await answer).toMatchObject({ ok: false, error: { code: "seat_taken" } });
  });

  it("are not repeated for ever", async () => {
    const socket = await greet();
    const answer = made.client.command("hold", { event: "evt_1", seats: [1], key: "k1" });
    for (let tries = 0; tries < 20; tries++) {
      if (made.client.status !== "open") break;
      const count = socket.ops("hold").length;
      if (count > tries) socket.refuse("hold", { code: "overloaded", retry: "after", retry_after_ms: 100 });
      await pass(200);
    }
    expect(socket.ops("hold").length).toBeLessThanOrEqual(6);
    expect(await answer).toMatchObject({ ok: false, error: { code: "overloaded" } });
  });
});

describe("close codes", () => {
  it("know the two classes", () => {
    for (const code of [1000, 1001, 1006, 1012, 4000, 4001, 4002, 4003, 4004, 4008, 4009, 4499]) {
      expect(closeClass(code), String(code)).toBe("reconnect");
    }
    for (const code of [1002, 1003, 1007, 1009, ...Object.values(CLOSE_STOP), 4999]) {
      expect(closeClass(code), String(code)).toBe("stop");
    }
  });

  it("of the stop class end it and answer what waits", async () => {
    const socket = await greet();
    const answer = made.client.command("hold", { event: "evt_1", seats: [1], key: "k1" });
    socket.drop(4513);
    expect(made.statuses.at(-1)).toEqual(["stopped", 4513]);
    expect(await answer).toMatchObject({ ok: false, error: { code: "closed" } });
    await pass(60_000);
    expect(FakeSocket.made).toHaveLength(1);
  });

  it("of the reconnect class come back with full jitter within what the server told", async () => {
    const socket = await greet();
    socket.say({ push: "server.drain", after_ms: 0, jitter_ms: 10_000 });
    socket.drop(4001);
    await pass(4_900);
    expect(FakeSocket.made).toHaveLength(1);
    await pass(200);
    expect(FakeSocket.made).toHaveLength(2);
  });
});

describe("backoff", () => {
  it("doubles its ceiling to thirty seconds and starts over after a good hello", () => {
    const backoff = new Backoff(() => 1);
    const delays = Array.from({ length: 9 }, () => backoff.nextMs());
    expect(delays.slice(0, 3)).toEqual([800, 1600, 3200]);
    expect(delays.at(-1)).toBe(30_000);
    backoff.reset();
    expect(backoff.nextMs()).toBe(800);
    expect(new Backoff(() => 0).nextMs()).toBe(0);
  });
});

describe("a line", () => {
  it("that is quiet is pinged, and given up after two heartbeats", async () => {
    const socket = await greet();
    answerPings(socket);
    const before = socket.ops("ping").length;
    await pass(22_000);
    expect(socket.ops("ping").length).toBe(before + 1);
    expect(made.client.status).toBe("open");
    await pass(20_000);
    expect(made.statuses.at(-1)?.[0]).not.toBe("open");
  });

  it("that hears something lives on", async () => {
    const socket = await greet();
    for (let n = 0; n < 10; n++) {
      await pass(15_000);
      socket.say({ push: "unknown.push" });
    }
    expect(made.client.status).toBe("open");
    expect(FakeSocket.made).toHaveLength(1);
  });

  it("that died in the pocket is noticed when the page wakes", async () => {
    const socket = await greet();
    answerPings(socket);
    made.client.wake();
    await pass(2_900);
    expect(made.client.status).toBe("open");
    await pass(200);
    expect(made.client.status).not.toBe("open");
  });
});

describe("maps", () => {
  const { steps } = JSON.parse(
    readFileSync(new URL("../../proto/vectors/frames.json", import.meta.url), "utf8"),
  ).cases.find((one: { name: string }) => one.name === "gap");
  const frames = steps
    .filter((step: { frame?: string }) => step.frame)
    .map((step: { frame: string }) => fromHex(step.frame));
  const channel = new DataView(frames[0].buffer).getUint32(8, true);
  const SUBSCRIBED = {
    channel,
    event: "evt_1",
    layout: "l",
    seat_count: 12,
    area_count: 0,
    epoch: 3,
    seq: 10,
    recovered: false,
  };

  function follow() {
    const seen = { changes: 0, live: [] as boolean[], seq: 0 };
    const stop = made.client.subscribe("evt_1", {
      onChange: (map) => {
        seen.changes++;
        seen.seq = map.seq;
      },
      onLive: (live) => seen.live.push(live),
      onLayout: () => {},
      onRefused: () => {},
    });
    return { seen, stop };
  }

  it("are followed, a gap asks for a resync once, and all goes on", async () => {
    const socket = await greet();
    const { seen } = follow();
    expect(socket.ops("subscribe")[0].from).toBe("snapshot");
    socket.answer("subscribe", SUBSCRIBED);
    socket.frame(frames[0]);
    expect(seen.live.at(-1)).toBe(true);
    socket.frame(frames[1]);
    socket.frame(frames[1]);
    expect(socket.ops("resync")).toEqual([expect.objectContaining({ channel, epoch: 3, seq: 10 })]);
    expect(seen.live.at(-1)).toBe(false);
    socket.answer("resync", {});
    await pass();
    for (const frame of frames.slice(2)) socket.frame(frame);
    expect(seen.live.at(-1)).toBe(true);
    expect(seen.seq).toBeGreaterThan(10);
  });

  it("go on from where they were after a reconnect, and ignore frames of a channel they left", async () => {
    const socket = await greet();
    const { seen, stop } = follow();
    socket.answer("subscribe", SUBSCRIBED);
    socket.frame(frames[0]);
    socket.drop(1006);
    expect(seen.live.at(-1)).toBe(false);
    await pass(1_000);
    const second = await greet();
    expect(second.ops("subscribe")[0].from).toEqual({ epoch: 3, seq: 10 });
    second.answer("subscribe", { ...SUBSCRIBED, recovered: true });
    expect(seen.live.at(-1)).toBe(true);
    stop();
    expect(second.ops("unsubscribe")[0].channel).toBe(channel);
    const before = seen.changes;
    second.frame(frames[2]);
    expect(seen.changes).toBe(before);
  });
});

describe("server clock", () => {
  it("prefers the measurement with the shortest round trip", () => {
    const clock = new ServerClock(() => 1_000);
    clock.guess(5_000);
    expect(clock.nowMs()).toBe(5_000);
    clock.learn(1_000, 6_300, 6_300, 1_400);
    expect(clock.nowMs()).toBe(1_000 + 5_100);
    clock.learn(1_000, 6_005, 6_005, 1_010);
    expect(clock.nowMs()).toBe(6_000);
    clock.learn(1_000, 9_000, 9_000, 3_000);
    expect(clock.nowMs()).toBe(6_000);
  });
});
