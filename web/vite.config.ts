//! How the buyer app is built: one small first script, lazy parts beside it, hashed names under /assets/.
//! The server embeds web/dist; `npm run dev` proxies /v1 (HTTP and socket) to a running server.
import { defineConfig } from "vite";

const server = process.env.SEATWIRE_URL ?? "http://127.0.0.1:8080";

export default defineConfig({
  build: {
    target: "es2022",
    // The policy allows no data: scripts or styles, and hashed files cache for a year.
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    reportCompressedSize: false,
  },
  server: { proxy: { "/v1": { target: server, ws: true } } },
});
