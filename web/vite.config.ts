//! How the buyer app is built: one small first script, lazy parts beside it, hashed names under /assets/.
//! The server embeds web/dist; `npm run dev` proxies /v1 (HTTP and socket) to a running server.
import { defineConfig } from "vite";

/** Fetched when first needed; all else is one script, because many small ones compress worse and cost round trips. */
const LATE =
  /src\/ui\/(order_page|orders_page|tickets|ticket_actions|qr|texts_de|checkout_form|payment_choice|list_view|memo|area_picker|best_picker|waitlist|presale_code|stepper)\.|(layout_compact|seat_set)\./;

const server = process.env.SEATWIRE_URL ?? "http://127.0.0.1:8080";

export default defineConfig({
  build: {
    target: "es2022",
    // The policy allows no data: scripts or styles, and hashed files cache for a year.
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    reportCompressedSize: false,
    rolldownOptions: {
      output: {
        codeSplitting: { groups: [{ name: "app", test: (id: string) => !LATE.test(id) && !id.includes(".css") }] },
      },
    },
  },
  server: { proxy: { "/v1": { target: server, ws: true } } },
});
