//! Every language is complete: each key, each code of the protocol, each function with the same parameters.
import { readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { CODES } from "../src/proto/codes";
import { refusalText, t } from "../src/ui/texts";
import { de } from "../src/ui/texts_de";
import { en, type Texts } from "../src/ui/texts_en";

const languages: Record<string, Texts> = { en, de };

/** Paths of all leaves with what kind of leaf they are. */
function leaves(value: unknown, path = ""): string[] {
  if (typeof value === "function") return [`${path}(${value.length})`];
  if (typeof value === "object" && value !== null) {
    return Object.entries(value).flatMap(([key, inner]) => leaves(inner, `${path}.${key}`));
  }
  return [path];
}

describe.each(Object.entries(languages))("texts in %s", (_, texts) => {
  it("have the same shape as English", () => expect(leaves(texts).sort()).toEqual(leaves(en).sort()));

  it("have a text for every code", () => {
    for (const code of Object.keys(CODES)) {
      expect(texts.errors[code as keyof typeof CODES], code).toMatch(/\S{3,}/);
    }
  });

  it("leave nothing empty", () => {
    const empty = (value: unknown): boolean =>
      typeof value === "string"
        ? value.trim() === ""
        : typeof value === "object" && Object.values(value ?? {}).some(empty);
    expect(empty(texts)).toBe(false);
  });
});

it("German is not English left standing", () => {
  const same = Object.keys(en.errors).filter((code) => de.errors[code as "internal"] === en.errors[code as "internal"]);
  expect(same).toEqual([]);
});

it("codes and numbers are those of the protocol's vectors", () => {
  const { replies } = JSON.parse(readFileSync(new URL("../../proto/vectors/messages.json", import.meta.url), "utf8"));
  const told = replies
    .filter((reply: { type: string }) => reply.type === "error")
    .map((reply: { text: string }) => JSON.parse(reply.text).error)
    .map(({ code, number }: { code: string; number: number }) => [code, number]);
  expect(Object.fromEntries(told)).toEqual(CODES);
});

it.each([en, de])("a limit is said to be the card's where it is", (texts) => {
  t.value = texts;
  expect(refusalText({ code: "limit_exceeded", data: { limit: 2, used: 2, of: "card" } })).toBe(texts.cardLimit);
  expect(refusalText({ code: "limit_exceeded", data: { limit: 2, used: 2 } })).toBe(texts.errors.limit_exceeded);
  expect(refusalText({ code: "sold_out" })).toBe(texts.errors.sold_out);
});
