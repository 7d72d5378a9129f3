//! Whoever lets go of a field is left alone; whose element goes away, or waits, keeps their place. On a page of a few parts
//! made here: what a real browser says, and when, is seen by the browser tests.
import { afterEach, beforeEach, expect, it, vi } from "vitest";
import { keepFocus } from "../src/ui/kept_focus";

class FakeElement {
  parentElement: FakeElement | null = null;
  tabIndex = 0;
  isDisabled = false;
  readonly #tag: string;
  constructor(tag: string, parent: FakeElement | null = null) {
    this.#tag = tag;
    this.parentElement = parent;
  }
  get isConnected(): boolean {
    return this === body || (this.parentElement?.isConnected ?? false);
  }
  contains(other: FakeElement | null): boolean {
    return other !== null && (other === this || this.contains(other.parentElement));
  }
  getClientRects(): { length: number } {
    return { length: this.isConnected ? 1 : 0 };
  }
  matches(): boolean {
    return this.isDisabled;
  }
  closest(): FakeElement | null {
    return this.#tag === "section" ? this : (this.parentElement?.closest() ?? null);
  }
  querySelector(): FakeElement {
    return heading;
  }
  hasAttribute(): boolean {
    return false;
  }
  focus(): void {
    leave(this);
    active = this;
    tell("focusin", { target: this });
  }
}

let body: FakeElement;
let heading: FakeElement;
let field: FakeElement;
let form: FakeElement;
let active: FakeElement;
let pending: object[];
let hear: (records: object[]) => void;
let heard: Map<string, (event: object) => void>;

const tell = (name: string, event: object) => heard.get(name)?.(event);

function leave(relatedTarget: FakeElement | null): void {
  const target = active;
  if (target === body) return;
  active = body;
  tell("focusout", { target, relatedTarget });
}

/** A class somewhere changes, or a child goes; then all that follows from it has happened. */
async function change(removedNodes: FakeElement[] = []): Promise<void> {
  pending.push({ removedNodes });
  await Promise.resolve();
  hear(pending.splice(0));
  await new Promise((done) => setTimeout(done));
  await new Promise((done) => setTimeout(done));
}

beforeEach(() => {
  body = new FakeElement("body");
  const section = new FakeElement("section", body);
  heading = new FakeElement("h2", section);
  form = new FakeElement("form", section);
  field = new FakeElement("input", form);
  active = body;
  pending = [];
  heard = new Map();
  vi.stubGlobal("HTMLElement", FakeElement);
  vi.stubGlobal("requestAnimationFrame", (then: () => void) => setTimeout(then));
  vi.stubGlobal(
    "MutationObserver",
    class {
      constructor(then: typeof hear) {
        hear = then;
      }
      observe(): void {}
      takeRecords(): object[] {
        return pending.splice(0);
      }
    },
  );
  vi.stubGlobal("document", {
    body,
    get activeElement() {
      return active;
    },
    addEventListener: (name: string, then: (event: object) => void) => heard.set(name, then),
  });
  keepFocus();
  field.focus();
});
afterEach(() => void vi.unstubAllGlobals());

it("a field that was let go of is not taken again", async () => {
  leave(null);
  await change();
  expect(active).toBe(body);
});

it("a button that waits has the focus back when it can have it", async () => {
  field.isDisabled = true;
  leave(null);
  await change();
  expect(active).toBe(body);
  field.isDisabled = false;
  await change();
  expect(active).toBe(field);
});

it("a field that is taken away, and says first that it is left, gives its place to the heading", async () => {
  leave(null);
  form.parentElement = null;
  await change([form]);
  expect(active).toBe(heading);
});

it("a field that is moved has the focus again", async () => {
  leave(null);
  await change([field]);
  expect(active).toBe(field);
});

it("a window that is left for another has its field remembered", async () => {
  tell("focusout", { target: field, relatedTarget: null });
  await change();
  active = body;
  form.parentElement = null;
  await change([form]);
  expect(active).toBe(heading);
});
