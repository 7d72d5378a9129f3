//! How the doors' scanner is built: a page of its own under /scan/ in web/dist/scan, which shares no file with the buyer app.
//! Run after the app's build, which empties web/dist.
import { defineConfig } from "vite";

export default defineConfig({
  base: "/scan/",
  build: {
    target: "es2022",
    outDir: "dist/scan",
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    reportCompressedSize: false,
    rolldownOptions: {
      input: { scan: "scan.html", worker: "src/scan/worker.ts" },
      // A worker's address is its identity.
      output: { entryFileNames: (part) => (part.name === "worker" ? "worker.js" : "assets/[name]-[hash].js") },
    },
  },
});
