//! The page's rooms, built and wired once: clock, HTTP, socket, shop, notices. Pages import `app` and use it.
import { signal } from "@preact/signals";
import { type Notice, Shop } from "./booking/shop";
import type { EventId } from "./proto/messages";
import { SeatwireClient, type SocketStatus } from "./socket/client";
import { Api, TokenBox } from "./socket/http";
import { ServerClock } from "./socket/server_clock";
import { lang } from "./ui/texts";

/** A guest whose token the server no longer knows gets a new one, this many times a page. */
const MAX_NEW_GUESTS = 2;
const CLOSE_BAD_TOKEN = 4501;

export interface SocketView {
  status: SocketStatus;
  closeCode?: number;
  /** it was open at least once: a banner about losing it makes sense */
  was: boolean;
}

class App {
  readonly clock = new ServerClock();
  readonly api = new Api(new TokenBox());
  readonly socket = signal<SocketView>({ status: "stopped", was: false });
  /** pushes about events (state, price), for the page that shows the event */
  readonly eventPush = signal<{ push: string; event: EventId; [field: string]: unknown } | null>(null);
  readonly notices = signal<(Notice & { id: number })[]>([]);
  readonly client: SeatwireClient;
  readonly shop: Shop;
  #newGuests = 0;
  #noticeId = 0;

  constructor() {
    this.client = new SeatwireClient({
      url: `${location.protocol === "https:" ? "wss" : "ws"}://${location.host}/v1/socket`,
      clock: this.clock,
      token: (renew) => this.api.token(renew),
      lang: lang.value,
      onStatus: (status, closeCode) => this.#status(status, closeCode),
      onHello: (hello) => this.shop.greeted(hello),
      onPush: (push) => {
        this.shop.pushed(push);
        if (typeof push.event === "string") this.eventPush.value = push as typeof this.eventPush.value;
      },
    });
    this.shop = new Shop(
      this.client,
      (notice) => this.notify(notice),
      (hold) => this.api.hold(hold),
    );
  }

  start(): void {
    this.client.start();
    // Phones freeze pages and kill their sockets without a close event: look at once when the page is back.
    const wake = () => {
      if (document.visibilityState === "visible") this.client.wake();
    };
    document.addEventListener("visibilitychange", wake);
    addEventListener("pageshow", (event) => event.persisted && wake());
    addEventListener("online", wake);
  }

  notify(notice: Notice): void {
    const id = ++this.#noticeId;
    this.notices.value = [...this.notices.value.slice(-2), { ...notice, id }];
  }

  dismiss(id: number): void {
    this.notices.value = this.notices.value.filter((notice) => notice.id !== id);
  }

  #status(status: SocketStatus, closeCode?: number): void {
    this.socket.value = { status, closeCode, was: this.socket.value.was || status === "open" };
    if (status === "stopped" && closeCode === CLOSE_BAD_TOKEN && this.#newGuests++ < MAX_NEW_GUESTS) {
      this.api.tokens.set(null);
      this.client.start();
    }
  }
}

export const app = new App();
