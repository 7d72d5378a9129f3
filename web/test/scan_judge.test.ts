//! The scanner's judgement on tickets made here: what it says offline and online, and that nothing kept is lost or told twice.
import { generateKeyPairSync, type KeyObject, sign } from "node:crypto";
import { beforeAll, describe, expect, it } from "vitest";
import { type Answer, Judge, type Kept, type Seen } from "../src/scan/judge";
import { portable, read, type Verify, verifier } from "../src/scan/seal";
import { de } from "../src/scan/texts_de";
import { en } from "../src/scan/texts_en";

const EVENT = new Uint8Array(16).fill(1);
const EVENT_ID = `evt_${idOf(EVENT)}`;

function idOf(uuid: Uint8Array): string {
  const bits = [...uuid].map((byte) => byte.toString(2).padStart(8, "0")).join("");
  const groups = `00${bits}`.match(/.{5}/g) ?? [];
  return groups.map((group) => "0123456789abcdefghjkmnpqrstvwxyz"[Number.parseInt(group, 2)]).join("");
}

function ticket(key: KeyObject, { event = EVENT, number = 7, seat = 3 } = {}): string {
  const body = Buffer.concat([
    Buffer.from([1]),
    event,
    Buffer.alloc(16, number),
    Buffer.from([0, 0, 0, 0, seat]),
    Buffer.from("ABCDEFGH23456789ABCDEFGH2345"),
  ]);
  const signed = `SW1.${body.toString("base64url")}`;
  return `${signed}.${sign(null, Buffer.from(signed), key).toString("base64url")}`;
}

const { publicKey, privateKey } = generateKeyPairSync("ed25519");
const raw = publicKey.export({ format: "der", type: "spki" }).subarray(-32);
let verify: Verify;
beforeAll(async () => {
  verify = await verifier(raw.toString("base64"));
});

function door(answers: (text: string, scan: string) => Answer, kept: Kept[] = [], check: Verify = verify) {
  const asked: [string, string][] = [];
  const known = new Map<string, Seen>();
  const shelf = {
    kept,
    load: () => kept,
    add(one: Kept) {
      shelf.kept = [...shelf.kept, one];
    },
    remove(scan: string) {
      shelf.kept = shelf.kept.filter((one) => one.scan !== scan);
    },
    seen: (ticket: string) => known.get(ticket),
    note: (ticket: string, seen: Seen) => void known.set(ticket, seen),
  };
  let n = 0;
  const ask = async (text: string, scan: string) => {
    asked.push([text, scan]);
    return answers(text, scan);
  };
  const judge = new Judge(
    EVENT_ID,
    check,
    ask,
    shelf,
    () => 1_000,
    () => `scan ${++n}`,
  );
  return { judge, asked, shelf };
}

describe("a ticket's text", () => {
  it("is read as the server writes it", () => {
    const found = read(` ${ticket(privateKey, { seat: 9 })}\n`);
    expect(found).toMatchObject({ form: "sealed", claims: { event: EVENT_ID, seat: 9 } });
    expect(read("abcd-efgh 2345 6789 abcd efgh 2345")).toEqual({ form: "code", code: "ABCDEFGH23456789ABCDEFGH2345" });
    for (const other of ["", "SW1", "SW1..", "SW2.AA.AA", "SW1.!.!", "https://example.org", "ABCDEFGH", "SW1.AQ.AA"]) {
      expect(read(other), other).toEqual({ form: "nothing" });
    }
  });

  it.each(["platform", "portable"])("is verified by the %s", async (which) => {
    const check = which === "platform" ? verify : await portable(new Uint8Array(raw));
    const good = read(ticket(privateKey));
    const forged = read(ticket(generateKeyPairSync("ed25519").privateKey));
    if (good.form !== "sealed" || forged.form !== "sealed") throw new Error("sealed");
    expect(await check(good.signature, good.signed)).toBe(true);
    expect(await check(forged.signature, forged.signed)).toBe(false);
    expect(await check(good.signature.slice(1), good.signed)).toBe(false);
    const edited = good.signed.slice();
    edited[40] ^= 1;
    expect(await check(good.signature, edited)).toBe(false);
  });

  it("cannot be verified with a key that is none", async () => {
    const found = read(ticket(privateKey));
    if (found.form !== "sealed") throw new Error("sealed");
    expect(await (await verifier("nonsense"))(found.signature, found.signed)).toBe(null);
  });
});

describe("online", () => {
  it("says what the check-in says", async () => {
    const { judge } = door(() => ({ admitted: true, ticket: { seat: 3, holder: "Ada" } }));
    expect(await judge.scan(ticket(privateKey))).toMatchObject({ kind: "admitted", seat: 3, holder: "Ada" });
    for (const [reason, kind] of [
      ["used", "used"],
      ["void", "void"],
      ["transferred", "transferred"],
      ["wrong_event", "wrong_event"],
      ["forged", "forged"],
      ["unknown", "unknown"],
      ["a later server's word", "unknown"],
    ]) {
      expect(await door(() => ({ admitted: false, reason })).judge.scan(ticket(privateKey))).toMatchObject({ kind });
    }
  });

  it("asks nobody about what it can tell itself", async () => {
    const { judge, asked } = door(() => ({ admitted: true }));
    const other = ticket(privateKey, { event: new Uint8Array(16).fill(2) });
    expect(await judge.scan(other)).toEqual({ kind: "wrong_event" });
    expect(await judge.scan(ticket(generateKeyPairSync("ed25519").privateKey))).toEqual({ kind: "forged" });
    expect(await judge.scan("hello")).toEqual({ kind: "unreadable" });
    expect(asked).toEqual([]);
  });

  it("lets nobody in when the key is not taken", async () => {
    const { judge, shelf } = door(() => "key");
    expect(await judge.scan(ticket(privateKey))).toEqual({ kind: "key_refused" });
    expect(shelf.kept).toEqual([]);
  });
});

describe("without a network", () => {
  it("keeps a genuine ticket, once, and sends it under the same name until somebody answers", async () => {
    let isOnline = false;
    const { judge, asked, shelf } = door(() => (isOnline ? { admitted: true } : "offline"));
    const text = ticket(privateKey);
    expect(await judge.scan(text)).toEqual({ kind: "offline", seat: 3, area: undefined });
    expect(await judge.scan(text)).toMatchObject({ kind: "offline_again", used_ms: 1_000 });
    expect(await judge.scan(ticket(privateKey, { number: 8 }))).toMatchObject({ kind: "offline" });
    const told: string[] = [];
    await judge.send((kept, verdict) => told.push(`${kept.scan} ${verdict.kind}`));
    expect([told, shelf.kept.length]).toEqual([[], 2]);
    isOnline = true;
    await Promise.all([1, 2].map(() => judge.send((kept, verdict) => told.push(`${kept.scan} ${verdict.kind}`))));
    expect([told, shelf.kept]).toEqual([["scan 1 admitted", "scan 2 admitted"], []]);
    expect(asked.filter(([asked]) => asked === text).every(([, scan]) => scan === "scan 1")).toBe(true);
  });

  it("goes on after a reload, and tells what was refused later", async () => {
    const kept: Kept[] = [{ scan: "old", text: ticket(privateKey), ticket: "tkt_x", at_ms: 5 }];
    const { judge } = door(() => ({ admitted: false, reason: "used", ticket: { holder: "Ada" } }), kept);
    const told: unknown[] = [];
    await judge.send((kept, verdict) => told.push([kept.scan, verdict.kind]));
    expect(told).toEqual([["old", "used"]]);
  });

  it("knows what it was told of a ticket while there was one", async () => {
    let answer: Answer = { admitted: true };
    const { judge, shelf } = door(() => answer);
    await judge.scan(ticket(privateKey));
    answer = { admitted: false, reason: "void" };
    await judge.scan(ticket(privateKey, { number: 8 }));
    answer = "offline";
    expect(await judge.scan(ticket(privateKey))).toMatchObject({ kind: "offline_again", seat: 3, used_ms: 1_000 });
    expect(await judge.scan(ticket(privateKey, { number: 8 }))).toMatchObject({ kind: "void" });
    expect(shelf.kept).toEqual([]);
  });

  it("knows a ticket again that was kept and sent", async () => {
    let answer: Answer = "offline";
    const { judge } = door(() => answer);
    await judge.scan(ticket(privateKey));
    answer = { admitted: true };
    expect(await judge.send(() => undefined)).toBe(null);
    answer = "offline";
    expect(await judge.scan(ticket(privateKey))).toMatchObject({ kind: "offline_again" });
  });

  it("settles a kept scan by a yes or a no alone", async () => {
    const kept = [1, 2].map((n) => ({ scan: `s${n}`, text: `t${n}`, ticket: `tkt_${n}`, at_ms: n }));
    const { judge, shelf } = door((text) => (text === "t1" ? "trouble" : { admitted: true }), kept);
    const told: string[] = [];
    expect(await judge.send((one) => told.push(one.scan))).toBe("trouble");
    expect([told, shelf.kept.map((one) => one.scan)]).toEqual([["s2"], ["s1"]]);
    const refused = door(() => "key", kept);
    expect(await refused.judge.send(() => told.push("x"))).toBe("key");
    expect([told, refused.shelf.kept.length]).toEqual([["s2"], 2]);
    const odd = door(() => "trouble");
    expect(await odd.judge.scan(ticket(privateKey))).toMatchObject({ kind: "trouble" });
  });

  it("says of a typed code, or where nothing verifies, that it cannot tell", async () => {
    const { judge, shelf } = door(() => "offline");
    expect(await judge.scan("ABCDEFGH23456789ABCDEFGH2345")).toEqual({ kind: "offline_unknown" });
    const blind = door(
      () => "offline",
      [],
      async () => null,
    );
    expect(await blind.judge.scan(ticket(privateKey))).toEqual({ kind: "offline_unknown" });
    expect([...shelf.kept, ...blind.shelf.kept]).toEqual([]);
  });
});

it("speaks German as whole as English", () => {
  const leaves = (value: unknown, path = ""): string[] =>
    typeof value === "object" && value !== null
      ? Object.entries(value).flatMap(([key, inner]) => leaves(inner, `${path}.${key}`))
      : [`${path}${typeof value === "function" ? `(${value.length})` : ""}`];
  expect(leaves(de)).toEqual(leaves(en));
  const same = leaves(en).filter((path) => {
    const at = (texts: object) =>
      path
        .split(".")
        .slice(1)
        .reduce<unknown>((value, key) => (value as Record<string, unknown>)[key], texts);
    return typeof at(en) === "string" && at(en) === at(de);
  });
  expect(same).toEqual([]);
});
