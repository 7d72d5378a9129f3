//! Money and time as people write them, through Intl, in the page's language and the venue's time zone.
import { lang } from "./texts";

/** The reader's own kind of the page's language: dates in en-GB are not those of en-US. */
function locale(): string {
  return globalThis.navigator?.languages?.find((tag) => tag.slice(0, 2).toLowerCase() === lang.value) ?? lang.value;
}

const cache = new Map<string, Intl.NumberFormat | Intl.DateTimeFormat>();

function cached<T extends Intl.NumberFormat | Intl.DateTimeFormat>(key: string, make: () => T): T {
  let format = cache.get(key) as T | undefined;
  if (!format) {
    format = make();
    cache.set(key, format);
  }
  return format;
}

const NO_DECIMALS = "BIF CLP DJF GNF ISK JPY KMF KRW MGA PYG RWF UGX UYI VND VUV XAF XOF XPF";
const THREE_DECIMALS = "BHD IQD JOD KWD LYD OMR TND";

/**
 * Decimals of a currency's minor unit, as the server counts them. Intl is not asked: how many it shows is a custom that changes
 * with the browser's data (forints are often shown without), and an amount divided by it would be wrong a hundredfold.
 */
function decimals(currency: string): number {
  return NO_DECIMALS.includes(currency) ? 0 : THREE_DECIMALS.includes(currency) ? 3 : 2;
}

/** Minor units to text, with as many decimals as the currency has; whole amounts lose theirs when `short`. */
export function money(minor: number, currency: string, short = false): string {
  const amount = minor / 10 ** decimals(currency);
  const digits = short && Number.isInteger(amount) ? 0 : decimals(currency);
  return cached(`money ${lang.value} ${currency} ${digits}`, () => {
    const options = { minimumFractionDigits: digits, maximumFractionDigits: digits };
    return new Intl.NumberFormat(locale(), { style: "currency", currency, ...options });
  }).format(amount);
}

export function count(n: number): string {
  return cached(`count ${lang.value}`, () => new Intl.NumberFormat(locale())).format(n);
}

export type TimeStyle = "long" | "short" | "day" | "month" | "weekday" | "time";

const STYLES: Record<TimeStyle, Intl.DateTimeFormatOptions> = {
  long: { weekday: "long", day: "numeric", month: "long", year: "numeric", hour: "numeric", minute: "2-digit" },
  short: { weekday: "short", day: "numeric", month: "short", hour: "numeric", minute: "2-digit" },
  day: { day: "numeric" },
  month: { month: "short" },
  weekday: { weekday: "short" },
  time: { hour: "numeric", minute: "2-digit" },
};

/** Epoch milliseconds to text. An unknown time zone falls back to the reader's. */
export function time(ms: number, style: TimeStyle, timeZone?: string): string {
  const make = (zone?: string) => new Intl.DateTimeFormat(locale(), { ...STYLES[style], timeZone: zone });
  return cached(`time ${lang.value} ${style} ${timeZone}`, () => {
    try {
      return make(timeZone);
    } catch {
      return make();
    }
  }).format(ms);
}
