//! Entry of the doors' scanner, a page of its own on the doors' listener: state, then the page into #app, then the worker that
//! keeps the page for when there is no network.
import { render } from "preact";
import { start } from "./desk";
import { ScanPage } from "./scan_page";
import "./scan.css";

const root = document.getElementById("app");
if (root) render(<ScanPage />, root);
void start();
if ("serviceWorker" in navigator && import.meta.env.PROD) {
  navigator.serviceWorker.register("/scan/worker.js", { scope: "/scan/" }).catch(() => undefined);
}
