//! What a ticket's QR code says (`SW1.<body>.<signature>`, server/src/checkout/ticket/seal.rs) and whether the seller signed it.
//! Needs no network. `judge.ts` comes in; the platform's Ed25519 does the work, a small library where there is none.

export interface Claims {
  event: string;
  ticket: string;
  seat?: number;
  area?: number;
}

export type Read =
  | { form: "sealed"; claims: Claims; signed: Uint8Array<ArrayBuffer>; signature: Uint8Array<ArrayBuffer> }
  /** the letters below the QR code, typed in: only the server knows them */
  | { form: "code"; code: string }
  | { form: "nothing" };

/** `true` and `false` are certain; `null`: this device cannot tell. */
export type Verify = (signature: Uint8Array<ArrayBuffer>, signed: Uint8Array<ArrayBuffer>) => Promise<boolean | null>;

/** version, event, ticket, kind of place, index */
const HEAD_BYTES = 1 + 16 + 16 + 1 + 4;
const VERSION = 1;
/** the letters of codes, as the server draws them */
const CODE = /^[2-9A-HJKMNP-TV-Z]{28}$/;
/** ids are UUIDs in Crockford's base 32, most significant bits first */
const ID_LETTERS = "0123456789abcdefghjkmnpqrstvwxyz";

export function read(text: string): Read {
  const trimmed = text.trim();
  const parts = trimmed.split(".");
  if (parts.length === 3 && parts[0] === "SW1") {
    const body = fromBase64(parts[1]);
    const signature = fromBase64(parts[2]);
    const claims = body && claimsOf(body);
    if (!claims || !signature) return { form: "nothing" };
    return { form: "sealed", claims, signature, signed: new TextEncoder().encode(`SW1.${parts[1]}`) };
  }
  const code = trimmed.toUpperCase().replace(/[\s-]/g, "");
  return CODE.test(code) ? { form: "code", code } : { form: "nothing" };
}

function claimsOf(body: Uint8Array): Claims | null {
  if (body.length < HEAD_BYTES || body[0] !== VERSION) return null;
  const kind = body[HEAD_BYTES - 5];
  const index = new DataView(body.buffer, body.byteOffset).getUint32(HEAD_BYTES - 4);
  return {
    event: `evt_${idOf(body.subarray(1, 17))}`,
    ticket: `tkt_${idOf(body.subarray(17, 33))}`,
    ...(kind === 0 ? { seat: index } : kind === 1 ? { area: index } : {}),
  };
}

function idOf(uuid: Uint8Array): string {
  let bits = 0n;
  for (const byte of uuid) bits = (bits << 8n) | BigInt(byte);
  let text = "";
  for (let n = 0; n < 26; n++, bits >>= 5n) text = ID_LETTERS[Number(bits & 31n)] + text;
  return text;
}

export function fromBase64(text: string): Uint8Array<ArrayBuffer> | null {
  try {
    const plain = atob(text.replaceAll("-", "+").replaceAll("_", "/"));
    return Uint8Array.from(plain, (c) => c.charCodeAt(0));
  } catch {
    return null;
  }
}

/** A verifier for one public key (base64). */
export async function verifier(publicKey: string): Promise<Verify> {
  const raw = fromBase64(publicKey);
  const subtle = globalThis.crypto?.subtle;
  if (raw?.length !== 32 || !subtle) return async () => null;
  try {
    const key = await subtle.importKey("raw", raw, { name: "Ed25519" }, false, ["verify"]);
    return (signature, signed) => subtle.verify({ name: "Ed25519" }, key, signature, signed);
  } catch {
    // A browser without Ed25519.
  }
  try {
    return await portable(raw);
  } catch {
    return async () => null;
  }
}

/** For browsers whose platform does not know the curve; fetched only there. */
export async function portable(raw: Uint8Array<ArrayBuffer>): Promise<Verify> {
  const { verifyAsync } = await import("@noble/ed25519");
  return async (signature, signed) =>
    signature.length === 64 && (await verifyAsync(signature, signed, raw, { zip215: false }));
}
