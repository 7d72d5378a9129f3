//! The street: events as cards, with a search. Reads GET /v1/events.
import { useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { app } from "../app";
import type { EventSummary, Refusal } from "../proto/messages";
import { EventArt, HeroArt } from "./art";
import { count, money, time } from "./format";
import { PinIcon, SearchIcon } from "./icons";
import { Failed, usePageTitle } from "./page";
import { errorText, t } from "./texts";

/** Typing pauses this long before the server is asked. */
const SEARCH_PAUSE_MS = 250;
/** The list shows live counts: look again this often while it is on the screen. */
const REFRESH_MS = 15_000;
/** Below this share left, a card says so. */
const FEW_SHARE = 0.1;

export function HomePage() {
  usePageTitle(t.value.home);
  const query = useSignal("");
  const events = useSignal<EventSummary[] | null>(null);
  const failed = useSignal<Refusal | null>(null);

  const load = async (words: string) => {
    const answer = await app.api.events(words.trim());
    if (words !== query.value) return;
    failed.value = answer.ok ? null : answer.error;
    if (answer.ok) events.value = answer.items;
  };

  useEffect(() => {
    void load("");
    const timer = setInterval(() => document.visibilityState === "visible" && load(query.value), REFRESH_MS);
    return () => clearInterval(timer);
  }, []);

  useEffect(() => {
    const words = query.value;
    const timer = setTimeout(() => void load(words), words ? SEARCH_PAUSE_MS : 0);
    return () => clearTimeout(timer);
  }, [query.value]);

  return (
    <main id="content" class="home" tabIndex={-1}>
      <section class="hero">
        <HeroArt />
        <h1>{t.value.heroTitle}</h1>
        <p>{t.value.heroText}</p>
        <form class="search" role="search" onSubmit={(event) => event.preventDefault()}>
          <SearchIcon />
          <input
            type="search"
            aria-label={t.value.searchLabel}
            placeholder={t.value.searchPlaceholder}
            value={query.value}
            onInput={(event) => {
              query.value = event.currentTarget.value;
            }}
          />
        </form>
      </section>
      <section aria-labelledby="events-title" aria-busy={events.value === null}>
        <h2 id="events-title">{t.value.home}</h2>
        {failed.value && !events.value ? (
          <Failed within text={errorText(failed.value.code)} retry={() => void load(query.value)} />
        ) : (
          <EventCards events={events.value} clear={() => (query.value = "")} />
        )}
      </section>
    </main>
  );
}

function EventCards({ events, clear }: { events: EventSummary[] | null; clear: () => void }) {
  if (events === null) {
    return (
      <div class="cards">
        {[0, 1, 2].map((n) => (
          <div key={n} class="card skeleton" />
        ))}
      </div>
    );
  }
  if (events.length === 0) {
    return (
      <div class="nothing">
        <h3>{t.value.noEvents}</h3>
        <p>{t.value.noEventsHint}</p>
        <button type="button" class="button quiet" onClick={clear}>
          {t.value.clearSearch}
        </button>
      </div>
    );
  }
  return (
    <ul class="cards">
      {events.map((event) => (
        <li key={event.id}>
          <EventCard event={event} />
        </li>
      ))}
    </ul>
  );
}

function EventCard({ event }: { event: EventSummary }) {
  const zone = event.venue.time_zone;
  const capacity = Math.max(event.seat_count, event.available, 1);
  const share = event.available / capacity;
  const cheapest = Math.min(...event.price_tiers.map((tier) => tier.price_minor + tier.fee_minor));
  // What it would cost and how many seats are free says nothing where nothing is sold any more.
  const over = event.state === "closed" || event.state === "cancelled";
  const few = event.state === "on_sale" && share > 0 && share < FEW_SHARE;
  return (
    <a class="card" href={`/events/${event.id}`}>
      <EventArt id={event.id} share={share} />
      <span class={`badge ${few ? "few" : event.state}`}>
        {few ? t.value.fewLeft : t.value.eventState[event.state]}
      </span>
      <div class="card-body">
        <div class="date" aria-hidden="true">
          <span>{time(event.starts_ms, "month", zone)}</span>
          <strong>{time(event.starts_ms, "day", zone)}</strong>
          <span>{time(event.starts_ms, "weekday", zone)}</span>
        </div>
        <div class="card-text">
          <h3>{event.name}</h3>
          <p class="where">
            <PinIcon size={15} /> {event.venue.name}
            {event.venue.city ? `, ${event.venue.city}` : ""}
          </p>
          <p class="when">{time(event.starts_ms, "short", zone)}</p>
        </div>
      </div>
      <div class="card-foot">
        {!over && Number.isFinite(cheapest) && <strong>{t.value.from(money(cheapest, event.currency, true))}</strong>}
        {!over && <meter class="left" min={0} max={1} value={share} aria-hidden="true" />}
        <span class="muted">{over ? t.value.eventState[event.state] : t.value.seatsLeft(count(event.available))}</span>
      </div>
    </a>
  );
}
