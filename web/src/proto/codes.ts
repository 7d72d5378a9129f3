//! The codes of protocol.md section 3: refusals by name, and what a close code asks of a client.
//! The texts room has one text a code; the socket room asks `closeClass`.

/** Every code the server may answer with, by its public name. */
export const CODES = {
  bad_json: 1001,
  bad_field: 1002,
  unknown_op: 1003,
  too_large: 1004,
  not_ready: 1005,
  duplicate_id: 1007,
  unauthorized: 1101,
  token_expired: 1102,
  forbidden: 1103,
  admission_required: 1104,
  admission_invalid: 1105,
  challenge_required: 1107,
  challenge_failed: 1108,
  rate_limited: 1201,
  overloaded: 1202,
  draining: 1203,
  timeout_unknown: 1204,
  unavailable: 1205,
  seat_taken: 2001,
  seat_unknown: 2002,
  not_enough: 2004,
  limit_exceeded: 2005,
  orphan_seat: 2006,
  area_full: 2007,
  not_on_sale: 2008,
  paused: 2009,
  sold_out: 2010,
  event_unknown: 2011,
  code_invalid: 2012,
  companion_rule: 2013,
  mode_not_allowed: 2014,
  hold_not_found: 2101,
  hold_expired: 2102,
  extend_refused: 2104,
  hold_locked: 2106,
  price_changed: 3001,
  order_not_found: 3004,
  refund_refused: 3005,
  already_paid: 3006,
  key_reused: 3007,
  key_in_use: 3008,
  cancel_refused: 3009,
  payment_open: 3010,
  pay_refused: 3011,
  waitlist_closed: 4101,
  room_closed: 4102,
  place_unknown: 4103,
  not_your_turn: 4104,
  already_registered: 4105,
  internal: 9000,
} as const;

export type CodeName = keyof typeof CODES;

/** Close codes that end the connection for good, by name. */
export const CLOSE_STOP = {
  protocol_error: 4500,
  bad_token: 4501,
  close_forbidden: 4503,
  hello_timeout: 4504,
  version_unsupported: 4506,
  event_closed: 4511,
  connection_limit: 4512,
  replaced: 4513,
} as const;

/** `reconnect` with full jitter, or `stop` until the person or the program does something about it. */
export function closeClass(code: number): "reconnect" | "stop" {
  if (code === 1002 || code === 1003 || code === 1007 || code === 1009) return "stop";
  return code >= 4500 && code <= 4999 ? "stop" : "reconnect";
}
