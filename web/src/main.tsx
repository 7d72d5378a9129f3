//! Entry of the buyer app: styles, then the root component into #app.
import { render } from "preact";
import "./ui/style.css";

const root = document.getElementById("app");
if (root) render(<main>Seatwire</main>, root);
