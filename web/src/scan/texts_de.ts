//! The scanner's texts in German.
import type { ScanTexts } from "./texts_en";

export const de: ScanTexts = {
  name: "Einlass",
  signIn: {
    title: "Eingang öffnen",
    intro: "Mit diesem Gerät Tickets prüfen. Der Schlüssel wird vergessen, sobald dieser Tab geschlossen wird.",
    key: "Schlüssel für Eingänge",
    keyHint: "Sie bekommen ihn vom Veranstalter.",
    door: "Name dieses Eingangs",
    doorHint: "Zum Beispiel Nord 2. Andere sehen so, wo ein Ticket benutzt wurde.",
    go: "Weiter",
  },
  pick: { title: "Welche Veranstaltung?", none: "Es gibt keine Veranstaltung zu prüfen.", back: "Anderer Schlüssel" },
  errors: {
    key: "Dieser Schlüssel gilt nicht. Bitten Sie den Veranstalter um einen Schlüssel für Eingänge.",
    offline: "Der Ticketserver antwortet nicht. Prüfen Sie das Netz und versuchen Sie es erneut.",
    event: "Diese Veranstaltung gibt es nicht.",
    empty: "Bitte ausfüllen.",
  },
  online: "Verbunden",
  offline: "Ohne Netz",
  waiting: (n) => `${n} zu senden`,
  camera: {
    start: "Kamera starten",
    stop: "Kamera anhalten",
    lamp: "Licht",
    denied: "Die Kamera ist nicht erlaubt. Erlauben Sie sie im Browser, oder nutzen Sie Scanner oder Code.",
    none: "Hier ist keine Kamera nutzbar. Nutzen Sie einen Scanner oder tippen Sie den Code.",
    aim: "QR-Code in den Rahmen halten",
  },
  input: { label: "Scanner oder Code", hint: "28 Buchstaben und Ziffern unter dem QR-Code", check: "Prüfen" },
  checking: "Wird geprüft…",
  ready: { title: "Bereit", hint: "Ticket scannen" },
  said: {
    admitted: { title: "Einlassen", hint: "Gültig und mit diesem Scan benutzt." },
    used: { title: "Schon eingelassen", hint: "Mit diesem Ticket kam bereits jemand herein." },
    void: { title: "Ungültig", hint: "Dieses Ticket wurde erstattet. Kein Einlass." },
    transferred: { title: "Weitergegeben", hint: "Das Ticket hat jetzt jemand anderes, mit neuem Code." },
    wrong_event: { title: "Andere Veranstaltung", hint: "Ein echtes Ticket, aber nicht für diese Veranstaltung." },
    forged: { title: "Gefälscht", hint: "Nicht vom Ticketserver unterschrieben. Kein Einlass." },
    unknown: { title: "Unbekannt", hint: "Für diese Veranstaltung gibt es kein solches Ticket." },
    unreadable: { title: "Kein Ticket", hint: "Das ist weder der QR-Code noch der Code eines Tickets." },
    offline: {
      title: "Echt, nicht bestätigt",
      hint: "Kein Netz. Die Unterschrift stimmt, aber das Ticket kann schon benutzt oder erstattet sein. Es wird gesendet, sobald das Netz wieder da ist.",
    },
    offline_again: {
      title: "Hier schon gescannt",
      hint: "Dieses Gerät hat das Ticket schon gescannt. Ohne Netz lässt sich nicht noch einmal fragen.",
    },
    offline_unknown: { title: "Nicht prüfbar", hint: "Ohne Netz lassen sich nur QR-Codes prüfen." },
    key_refused: {
      title: "Schlüssel gilt nicht",
      hint: "Der Schlüssel dieses Eingangs wurde zurückgezogen. Nichts wurde geprüft.",
    },
    trouble: {
      title: "Nicht geprüft",
      hint: "Die Prüfung gelang nicht. Scannen Sie noch einmal, oder fragen Sie den Veranstalter.",
    },
  },
  unsettled: {
    key: "Scans lassen sich nicht senden: Der Schlüssel dieses Eingangs gilt nicht. Sie bleiben auf diesem Gerät.",
    trouble:
      "Einige Scans nahm der Ticketserver nicht an. Sie bleiben auf diesem Gerät; sagen Sie es dem Veranstalter.",
  },
  section: "Block",
  row: "Reihe",
  seat: "Platz",
  seatNumber: (n) => `Platz Nummer ${n}`,
  usedAt: (time, door) => `Um ${time}, Eingang ${door}`,
  usedHere: (time) => `Um ${time}, hier`,
  counts: { admitted: "Eingelassen", refused: "Abgewiesen", waiting: "Zu senden" },
  history: "Letzte Scans",
  historyNone: "Noch nichts gescannt.",
  late: (n) =>
    n === 1
      ? "1 ohne Netz eingelassenes Ticket wurde abgelehnt"
      : `${n} ohne Netz eingelassene Tickets wurden abgelehnt`,
  lateHint: "Die Antwort kam später. Diese Personen sind schon drinnen:",
  lateDone: "Zur Kenntnis genommen",
  confirmed: "später bestätigt",
  end: "Schicht beenden",
  endWithKept: (n) =>
    `${n === 1 ? "1 Scan ist" : `${n} Scans sind`} noch nicht gesendet. Sie bleiben auf diesem Gerät und werden gesendet, wenn diese Veranstaltung hier wieder geöffnet wird. Trotzdem beenden?`,
  changeEvent: "Andere Veranstaltung",
};
