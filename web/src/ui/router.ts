//! The address bar as a signal. Plain links work: one listener turns clicks on them into page changes.
import { signal } from "@preact/signals";

export const path = signal(location.pathname);

export type Route =
  | { page: "home" }
  | { page: "event"; id: string }
  | { page: "orders" }
  | { page: "order"; id: string }
  | { page: "unknown" };

export function routeOf(pathname: string): Route {
  const [first, id, rest] = pathname.split("/").filter(Boolean).map(decodeURIComponent);
  if (first === undefined) return { page: "home" };
  if (rest !== undefined) return { page: "unknown" };
  if (first === "events") return id ? { page: "event", id } : { page: "home" };
  if (first === "orders") return id ? { page: "order", id } : { page: "orders" };
  // A payment page sends its buyer back here; the order tells the rest.
  if (first === "pay" && id) return { page: "order", id };
  return { page: "unknown" };
}

/** The secret of an order's `pay_url` on a device that came by it: from the address, or, back from the bank, remembered. */
export function paySecret(order: string): string | undefined {
  const item = `seatwire.pay.${order}`;
  const given = location.pathname.startsWith("/pay/") ? location.hash.slice(1) : "";
  try {
    if (given) sessionStorage.setItem(item, given);
    return given || (sessionStorage.getItem(item) ?? undefined);
  } catch {
    // Storage is refused in some private modes: the address has to do.
    return given || undefined;
  }
}

export function go(to: string, replace = false): void {
  if (replace) history.replaceState(null, "", to);
  else history.pushState(null, "", to);
  path.value = location.pathname;
  scrollTo(0, 0);
}

export function startRouter(): void {
  // The bank's page sends its buyer back with words of its own behind the question mark; the order knows better.
  if (location.search && routeOf(location.pathname).page === "order") {
    history.replaceState(null, "", location.pathname + location.hash);
  }
  addEventListener("popstate", () => {
    path.value = location.pathname;
  });
  document.addEventListener("click", (event) => {
    if (event.defaultPrevented || event.button !== 0 || event.metaKey || event.ctrlKey || event.shiftKey) return;
    const link = (event.target as Element | null)?.closest?.("a");
    if (!link || link.target || link.origin !== location.origin || link.hash || link.hasAttribute("download")) return;
    if (!["/", "/events", "/orders", "/pay"].some((known) => routeMatches(link.pathname, known))) return;
    event.preventDefault();
    go(link.pathname + link.search);
  });
}

function routeMatches(pathname: string, known: string): boolean {
  return pathname === known || (known !== "/" && pathname.startsWith(`${known}/`));
}
