//! Idempotency keys: one for each thing a person meant, repeated with every try at it.

/** 32 hexadecimal digits from the platform's random source. */
export function newKey(): string {
  return Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, "0")).join("");
}
