//! Nobody loses their place: when what has the focus goes away (a seat removed, a form that is done, a button that waits), the
//! focus goes to the heading of the part it stood in, or back to it once it can have it. Begun by `main.tsx` for all pages;
//! a part that knows a better place takes it itself, before this looks.

/** Parts of a page that have a heading of their own to begin from. */
const PARTS = "section, aside, article, dialog, main";

const isSeen = (element: Element) => element.isConnected && element.getClientRects().length > 0;

export function keepFocus(): void {
  let last: HTMLElement | null = null;
  let around: Element[] = [];
  let planned = false;
  /** what has just lost the focus though it could keep it, until it is known why */
  let left: HTMLElement | null = null;

  const look = () => {
    planned = false;
    const active = document.activeElement;
    if (!last || (active && active !== document.body && isSeen(active))) return;
    if (isSeen(last)) {
      if (!last.matches(":disabled")) last.focus({ preventScroll: true });
      return;
    }
    const part = around.find(isSeen)?.closest<HTMLElement>(PARTS);
    const place = part?.querySelector<HTMLElement>("h1, h2, h3") ?? part ?? document.getElementById("content");
    if (!place) return;
    if (!place.hasAttribute("tabindex")) place.tabIndex = -1;
    place.focus({ preventScroll: true });
  };

  document.addEventListener("focusin", ({ target }) => {
    if (!(target instanceof HTMLElement)) return;
    last = target;
    around = [];
    for (let parent = target.parentElement; parent; parent = parent.parentElement) around.push(parent);
  });
  // Whoever taps beside everything has let go of it.
  document.addEventListener("pointerdown", () => (last = null), true);
  const hear = (records: MutationRecord[]) => {
    if (left && records.some(({ removedNodes }) => [...removedNodes].some((node) => node.contains(left)))) left = null;
    if (planned || !last) return;
    planned = true;
    // Browsers take the focus away when they next draw.
    requestAnimationFrame(() => setTimeout(look));
  };
  const changes = new MutationObserver(hear);
  changes.observe(document.body, {
    subtree: true,
    childList: true,
    attributes: true,
    attributeFilter: ["class", "disabled", "hidden"],
  });

  // So has whoever closes the keyboard of a phone; a window that is left for another keeps its active element.
  document.addEventListener("focusout", ({ target, relatedTarget }) => {
    if (!last || target !== last || relatedTarget || document.activeElement === last) return;
    if (!isSeen(last) || last.matches(":disabled")) return;
    left = last;
    // Chromium says this of what is being removed too, before it is: the record of that comes within the same task.
    queueMicrotask(() => {
      const records = changes.takeRecords();
      if (records.length > 0) hear(records);
      if (left && left === last) last = null;
      left = null;
    });
  });
}
