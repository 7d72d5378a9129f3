//! Entry of the buyer app: language, router, socket, then the root component into #app.
import { render } from "preact";
import { app } from "./app";
import { AppView } from "./ui/app_view";
import { keepFocus } from "./ui/kept_focus";
import { startRouter } from "./ui/router";
import { startLanguage } from "./ui/texts";
import "./ui/style.css";

async function start(): Promise<void> {
  await startLanguage();
  startRouter();
  keepFocus();
  app.start();
  const root = document.getElementById("app");
  if (root) render(<AppView />, root);
}

void start();
