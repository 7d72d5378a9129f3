//! Keeps the scanner's page, its scripts and the plans it read, so that a door that is reloaded without a network still opens.
//! Nothing with a key and no answer of the check-in goes through here.
export {};

interface Worker {
  addEventListener(
    kind: "install" | "activate",
    run: (event: { waitUntil(work: Promise<unknown>): void }) => void,
  ): void;
  addEventListener(
    kind: "fetch",
    run: (event: { request: Request; respondWith(answer: Promise<Response>): void }) => void,
  ): void;
  skipWaiting(): Promise<void>;
  clients: { claim(): Promise<void> };
}

const worker = globalThis as unknown as Worker;
const CACHE = "seatwire-scan-1";
const PAGE = "/scan/";
/** Kept answers; the oldest go. A build has about ten files. */
const MAX_KEPT = 60;

async function keep(request: Request | string, response: Response): Promise<void> {
  const cache = await caches.open(CACHE);
  await cache.put(request, response);
  const keys = await cache.keys();
  for (const old of keys.slice(0, Math.max(0, keys.length - MAX_KEPT))) await cache.delete(old);
}

/** The newest page while somebody answers, else the last one. */
async function page(): Promise<Response> {
  try {
    const response = await fetch(PAGE, { cache: "no-cache" });
    if (response.ok) await keep(PAGE, response.clone());
    return response;
  } catch (error) {
    const old = await caches.match(PAGE);
    if (old) return old;
    throw error;
  }
}

/** What has a hash in its name never changes. */
async function lasting(request: Request): Promise<Response> {
  const old = await caches.match(request);
  if (old) return old;
  const response = await fetch(request);
  if (response.ok) await keep(request, response.clone());
  return response;
}

worker.addEventListener("install", (event) => event.waitUntil(page().then(() => worker.skipWaiting())));
worker.addEventListener("activate", (event) => event.waitUntil(worker.clients.claim()));
worker.addEventListener("fetch", (event) => {
  const url = new URL(event.request.url);
  if (url.origin !== location.origin || event.request.method !== "GET") return;
  if (event.request.mode === "navigate") event.respondWith(page());
  else if (url.pathname.startsWith("/scan/assets/") || url.pathname.startsWith("/v1/layouts/")) {
    event.respondWith(lasting(event.request));
  }
});
