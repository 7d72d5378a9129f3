//! The scanner's texts in English; `texts_de.ts` has the same shape.
import type { Kind } from "./judge";

interface Said {
  title: string;
  hint: string;
}

export interface ScanTexts {
  name: string;
  signIn: { title: string; intro: string; key: string; keyHint: string; door: string; doorHint: string; go: string };
  pick: { title: string; none: string; back: string };
  errors: { key: string; offline: string; event: string; empty: string };
  online: string;
  offline: string;
  waiting: (n: number) => string;
  camera: { start: string; stop: string; lamp: string; denied: string; none: string; aim: string };
  input: { label: string; hint: string; check: string };
  checking: string;
  ready: Said;
  said: Record<Kind, Said>;
  unsettled: { key: string; trouble: string };
  section: string;
  row: string;
  seat: string;
  seatNumber: (n: number) => string;
  usedAt: (time: string, door: string) => string;
  usedHere: (time: string) => string;
  counts: { admitted: string; refused: string; waiting: string };
  history: string;
  historyNone: string;
  late: (n: number) => string;
  lateHint: string;
  lateDone: string;
  confirmed: string;
  end: string;
  endWithKept: (n: number) => string;
  changeEvent: string;
}

export const en: ScanTexts = {
  name: "Door check",
  signIn: {
    title: "Open a door",
    intro: "Scan tickets with this device. The key is forgotten when this tab is closed.",
    key: "Door key",
    keyHint: "You get it from the organiser.",
    door: "Name of this door",
    doorHint: "For example North 2. Colleagues see where a ticket was used.",
    go: "Continue",
  },
  pick: { title: "Which event?", none: "There is no event to check tickets for.", back: "Another key" },
  errors: {
    key: "This key is not accepted. Ask the organiser for a key for doors.",
    offline: "The box office does not answer. Check the network and try again.",
    event: "This event is not there.",
    empty: "Please fill this in.",
  },
  online: "Online",
  offline: "Offline",
  waiting: (n) => (n === 1 ? "1 to be sent" : `${n} to be sent`),
  camera: {
    start: "Start camera",
    stop: "Stop camera",
    lamp: "Lamp",
    denied: "The camera is not allowed. Allow it in the browser's settings, or use a scanner or the code.",
    none: "No camera can be used here. Use a scanner or type the code.",
    aim: "Hold the QR code into the frame",
  },
  input: { label: "Scanner or code", hint: "28 letters and digits below the QR code", check: "Check" },
  checking: "Checking…",
  ready: { title: "Ready", hint: "Scan a ticket" },
  said: {
    admitted: { title: "Admit", hint: "Valid, used up with this scan." },
    used: { title: "Already admitted", hint: "Somebody came in with this ticket." },
    void: { title: "Void", hint: "This ticket was refunded. No entry." },
    transferred: { title: "Passed on", hint: "Somebody else has this ticket now, with a new code." },
    wrong_event: { title: "Other event", hint: "A real ticket, but not for this event." },
    forged: { title: "Forged", hint: "This was not signed by the box office. No entry." },
    unknown: { title: "Unknown", hint: "The box office knows no such ticket for this event." },
    unreadable: { title: "Not a ticket", hint: "This is neither a ticket's QR code nor its code." },
    offline: {
      title: "Genuine, not confirmed",
      hint: "No network. The signature is right, but the ticket may have been used or refunded. It is sent as soon as the network is back.",
    },
    offline_again: {
      title: "Already scanned here",
      hint: "This device has already scanned this ticket. No network to ask again.",
    },
    offline_unknown: { title: "Cannot be checked", hint: "Without a network only QR codes can be checked." },
    key_refused: { title: "Key not accepted", hint: "The key of this door was withdrawn. Nothing was checked." },
    trouble: { title: "Not checked", hint: "The check did not work. Scan again, or ask the box office." },
  },
  unsettled: {
    key: "Scans cannot be sent: the key of this door is not accepted. They stay on this device.",
    trouble: "The box office did not accept some scans. They stay on this device; tell the organiser.",
  },
  section: "Section",
  row: "Row",
  seat: "Seat",
  seatNumber: (n) => `Seat number ${n}`,
  usedAt: (time, door) => `At ${time}, door ${door}`,
  usedHere: (time) => `At ${time}, here`,
  counts: { admitted: "Admitted", refused: "Refused", waiting: "To be sent" },
  history: "Last scans",
  historyNone: "Nothing scanned yet.",
  late: (n) => (n === 1 ? "1 ticket let in offline was refused" : `${n} tickets let in offline were refused`),
  lateHint: "The box office answered later. These people are inside:",
  lateDone: "Noted",
  confirmed: "confirmed later",
  end: "End shift",
  endWithKept: (n) =>
    `${n === 1 ? "1 scan is" : `${n} scans are`} not sent yet. They stay on this device and are sent when this event is opened here again. End anyway?`,
  changeEvent: "Another event",
};
