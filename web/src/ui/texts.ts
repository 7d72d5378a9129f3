//! The language of the page: chosen by the browser, switched by the buyer, remembered. Texts are read as `t.value`.
import { signal } from "@preact/signals";
import { type ErrorCode, en, type Texts } from "./texts_en";

export const LANGUAGES = { en: "English", de: "Deutsch" } as const;
export type Language = keyof typeof LANGUAGES;

const LANGUAGE_ITEM = "seatwire.language";

function firstChoice(): Language {
  let kept: string | null = null;
  try {
    kept = localStorage.getItem(LANGUAGE_ITEM);
  } catch {
    // Without storage the browser's own order decides.
  }
  const wanted = [kept, ...(navigator.languages ?? [navigator.language])];
  for (const tag of wanted) {
    const language = tag?.slice(0, 2).toLowerCase();
    if (language && language in LANGUAGES) return language as Language;
  }
  return "en";
}

export const lang = signal<Language>("en");
export const t = signal<Texts>(en);

export async function setLanguage(language: Language, remember = true): Promise<void> {
  t.value = language === "de" ? (await import("./texts_de")).de : en;
  lang.value = language;
  document.documentElement.lang = language;
  if (!remember) return;
  try {
    localStorage.setItem(LANGUAGE_ITEM, language);
  } catch {
    // Kept for this page only.
  }
}

/** Before the first render, so that nobody sees the page change its language. */
export function startLanguage(): Promise<void> {
  return setLanguage(firstChoice(), false);
}

export function errorText(code: string): string {
  return t.value.errors[code as ErrorCode] ?? t.value.errors.internal;
}

/** What a refusal says, also where its code alone says too little. */
export function refusalText({ code, data }: { code: string; data?: Record<string, unknown> }): string {
  return code === "limit_exceeded" && data?.of === "card" ? t.value.cardLimit : errorText(code);
}
