//! The frame around every page: header, connection banner, notices, and the page the address asks for.
import { useEffect, useRef } from "preact/hooks";
import { app } from "../app";
import { EventPage } from "./event_page";
import { HomePage } from "./home_page";
import { TicketIcon } from "./icons";
import { lazy, pageFrame } from "./lazy";
import { Notices } from "./notices";
import { NotFound } from "./page";
import { path, paySecret, routeOf } from "./router";
import { LANGUAGES, type Language, lang, setLanguage, t } from "./texts";

const OrderPage = lazy(() => import("./order_page").then((room) => room.OrderPage), pageFrame);
const OrdersPage = lazy(() => import("./orders_page").then((room) => room.OrdersPage), pageFrame);

const CLOSE_REPLACED = 4513;

export function AppView() {
  const route = routeOf(path.value);
  const first = useRef(true);
  // A new page begins at its content for keyboards and screen readers, as after a full load.
  useEffect(() => {
    if (!first.current) document.getElementById("content")?.focus({ preventScroll: true });
    first.current = false;
  }, [path.value]);
  return (
    <>
      <a class="skip" href="#content">
        {t.value.skipToContent}
      </a>
      <header class="top">
        <a class="brand" href="/">
          <Mark />
          <span>seatwire</span>
        </a>
        <nav aria-label={t.value.appName}>
          <a class="top-link" href="/orders">
            <TicketIcon size={18} /> <span>{t.value.myOrders}</span>
          </a>
        </nav>
        <div class="languages" role="group" aria-label={t.value.language}>
          {(Object.keys(LANGUAGES) as Language[]).map((language) => (
            <button
              key={language}
              type="button"
              lang={language}
              title={LANGUAGES[language]}
              aria-label={`${language.toUpperCase()} ${LANGUAGES[language]}`}
              aria-pressed={lang.value === language}
              onClick={() => void setLanguage(language)}
            >
              {language.toUpperCase()}
            </button>
          ))}
        </div>
      </header>
      <ConnectionBanner />
      {route.page === "home" && <HomePage />}
      {route.page === "event" && <EventPage key={route.id} id={route.id} />}
      {route.page === "orders" && <OrdersPage />}
      {route.page === "order" && <OrderPage key={route.id} id={route.id} secret={paySecret(route.id)} />}
      {route.page === "unknown" && <NotFound />}
      <Notices />
    </>
  );
}

function Mark() {
  return (
    <svg viewBox="0 0 32 32" width="28" height="28" aria-hidden="true">
      <rect width="32" height="32" rx="9" fill="var(--accent)" />
      <g fill="#fff">
        <circle cx="9" cy="10.5" r="2.6" />
        <circle cx="16" cy="9" r="2.6" />
        <circle cx="23" cy="10.5" r="2.6" />
        <circle cx="9" cy="17.5" r="2.6" />
        <circle cx="16" cy="16" r="2.6" fill="#ffc145" />
        <circle cx="23" cy="17.5" r="2.6" />
      </g>
      <path d="M7 24q9-3 18 0" stroke="#fff" stroke-width="2.4" fill="none" stroke-linecap="round" />
    </svg>
  );
}

function ConnectionBanner() {
  const { status, was, closeCode } = app.socket.value;
  if (status === "open" || !was) return null;
  if (status !== "stopped") {
    return (
      <div class="banner" role="status">
        <span class="spinner" aria-hidden="true" /> {t.value.reconnecting}
      </div>
    );
  }
  return (
    <div class="banner" role="alert">
      {closeCode === CLOSE_REPLACED ? t.value.replaced : t.value.stopped}
      <button type="button" class="button small" onClick={() => app.client.start()}>
        {t.value.reload}
      </button>
    </div>
  );
}
