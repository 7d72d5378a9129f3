//! The JSON of the protocol as TypeScript sees it: commands, replies, pushes, and the objects in them.
//! Field names are the wire's. Unknown fields and pushes are ignored, so everything here is a floor.

export type EventId = string & { readonly __id?: "evt" };
export type HoldId = string & { readonly __id?: "hld" };
export type OrderId = string & { readonly __id?: "ord" };
export type TicketId = string & { readonly __id?: "tkt" };
export type IdentityId = string & { readonly __id?: "idn" };

export interface Refusal {
  code: string;
  number: number;
  retry: "never" | "now" | "after" | "refresh" | "ask";
  retry_after_ms?: number;
  message: string;
  data?: Record<string, unknown>;
}

export interface HoldLine {
  seat?: number;
  area?: number;
  quantity: number;
  price_tier: string;
  price_minor: number;
  fee_minor: number;
}

export interface Hold {
  id: HoldId;
  event: EventId;
  lines: HoldLine[];
  total_minor: number;
  currency: string;
  expires_ms: number;
  server_ms: number;
  extended: boolean;
  locked: boolean;
  offer?: boolean;
}

export type OrderState =
  | "payment_pending"
  | "action_required"
  | "payment_declined"
  | "payment_unknown"
  | "paid"
  | "cancelled"
  | "refund_due"
  | "partially_refunded"
  | "refunded";

export interface Ticket {
  id: TicketId;
  code: string;
  seat?: number;
  area?: number;
  state: "valid" | "used" | "transferred" | "void";
  /** what the QR code says: the ticket, signed */
  qr?: string;
}

export interface Order {
  id: OrderId;
  reference: string;
  event: EventId;
  state: OrderState;
  lines: HoldLine[];
  total_minor: number;
  refunded_minor: number;
  currency: string;
  tickets: Ticket[];
  action?: { type: "redirect"; url: string } | { type: "client_secret"; value: string };
  decline?: { reason: string };
  pay_url?: string;
  created_ms: number;
}

/** Why the server took back a hold. */
export type RevokeReason = "cancelled" | "sold" | "store_lost";

/** A place in the waiting list of a sold-out event. */
export interface WaitlistPlace {
  /** 1 is next */
  place: number;
  state: "waiting" | "offered";
  quantity: number;
  price_tiers: string[];
  hold?: HoldId;
}

export interface WaitlistReply {
  place: WaitlistPlace | null;
}

export interface UnlockReply {
  allocation: { id: string; name: string; until_ms: number };
  /** base64 of a roaring set */
  seats: string;
}

export type EventState = "scheduled" | "presale" | "on_sale" | "paused" | "sold_out" | "closed" | "cancelled";

export interface PriceTier {
  code: string;
  name: string;
  color?: string;
  price_minor: number;
  fee_minor: number;
}

export interface EventSummary {
  id: EventId;
  name: string;
  performers?: { id: string; name: string }[];
  venue: { id: string; name: string; city: string; country: string; time_zone: string };
  starts_ms: number;
  on_sale_ms?: number;
  state: EventState;
  currency: string;
  layout: string;
  seat_count: number;
  price_tiers: PriceTier[];
  available: number;
  waiting_room?: boolean;
  waitlist?: boolean;
}

export interface EventSection {
  index: number;
  name: string;
  sales_mode: "pick_seat" | "best_available";
  price_tiers: string[];
  available: number;
}

export interface EventArea {
  index: number;
  name: string;
  price_tier: string;
  capacity: number;
  remaining: number;
}

export interface EventDetail extends EventSummary {
  /** why it is in its state, in the organiser's words */
  reason?: string;
  description?: string;
  sections: EventSection[];
  areas: EventArea[];
  rules: { seats_per_identity: number; hold_ttl_ms: number; orphans: "off" | "lenient" | "strict" };
  /** base64: one byte a seat, index into price_tiers */
  seat_tiers: string;
}

export interface Position {
  epoch: number;
  seq: number;
}

export interface HelloReply {
  session: string;
  node: string;
  server_ms: number;
  identity: IdentityId | null;
  heartbeat_ms: number;
  max_command_bytes: number;
  holds: Hold[];
  orders: Order[];
}

export interface SubscribeReply extends Position {
  channel: number;
  event: EventId;
  layout: string;
  seat_count: number;
  area_count: number;
  recovered: boolean;
}

export interface HoldReply extends Position {
  hold: Hold | null;
  added?: number[];
  replayed?: boolean;
}

export interface OrderReply {
  order: Order;
  replayed?: boolean;
}

/** What the server says by itself. `push` names it; the other fields depend on it. */
export interface Push {
  push: string;
  [field: string]: unknown;
}

export type Answer<T> = ({ ok: true } & T) | { ok: false; error: Refusal };
