-- First part of every script that names an event; the verb's own part and tail.lua follow. Parts are plain blocks, not
-- functions: a closure costs as much as half a command of Redis. Redis gives no rollback, so a verb looks at everything
-- first and writes last. key.rs lists the keys, record.rs is the layout of the records in Rust.
-- KEYS[1]  {event}:epoch:m, the event's meta. Every other key of this life shares its beginning.
-- ARGV[1]  the packed head of the call (call.rs), ARGV[2] the verb's own packed body.
-- Returns  {word, Redis' clock in ms, seq, the event's time in ms, ..}; without that time where it ends before it is known:
--   lost          no meta: this life of the event is not in this Redis
--   behind        seq is lower than one the caller has seen: an old copy of the data
--   late          the caller has given up
--   stale         the caller does not know the newest prices and limits (only to callers that ask for it)
--   key_reused    same key, other body
--   replayed      answer, hold: the first answer under this key
--   done          answer, hold: the answer; a marked answer means "with this hold"
local spread = unpack
local call, pack, unpack, sub, byte, format, floor, ceil, max =
  redis.call, struct.pack, struct.unpack, string.sub, string.byte, string.format, math.floor, math.ceil, math.max

-- Numbers of the answers; answer.rs reads them.
local HELD, DONE, LOCKED = 1, 2, 3
local ADMISSION_REQUIRED, NOT_ON_SALE, PAUSED, SOLD_OUT = 20, 21, 22, 23
local HOLD_NOT_FOUND, HOLD_EXPIRED, EXTEND_REFUSED, HOLD_LOCKED = 24, 25, 26, 27
local MODE_NOT_ALLOWED, SEAT_TAKEN, NOT_ENOUGH, AREA_FULL, LIMIT_EXCEEDED = 28, 29, 30, 31, 32
local NOT_IN_HOLD = 35
-- Owner words of the seat map: 0 available, 1 blocked, 2 kept for the waitlist, else a kind plus the number of an identity.
local KEPT = 2
local HELD_BY, SOLD_TO, RESERVED_BY = 0x40000000, 0x80000000, 0xC0000000
-- Flags of a hold.
local EXTENDED, LOCK, OFFER = 1, 2, 4
-- A jump of the clock above this, while holds are open and nobody swept, pauses expiry until the sweeper has judged it.
local JUMP_MS = 30000
-- Holds that end share lists of this width.
local BUCKET_MS = 250
-- Answers and endings are kept this long.
local KEEP_MS = 600000
-- Answers kept in an identity's own record; older ones move to a shared bucket of five minutes.
local MAX_INLINE_ANSWERS, ANSWER_BUCKET_MS = 4, 300000
-- Changes kept for nodes that lost a message and for the journal; cut once in so many changes.
local MAX_CHANGES, CUT_EVERY = '4096', 64
-- An answer: code B, epoch I4, seq I6, the event's time I6, length of the hold I2 (or this mark), hold, the verb's own.
local HEAD, CURRENT_HOLD = 17, 65535
-- Bytes of a price group: tier B, price I7, fee I7.
local GROUP = 15
local NO_KEY = '\0\0\0\0\0\0\0\0'

local body, meta_key = ARGV[2], KEYS[1]
local deadline, epoch, seen, revision, state, flags, limit, ttl, me, key, print, new_id =
  unpack('<I8I4I8I8BBI4I4c16c8c8c16', ARGV[1])
local clock = call('TIME')
local raw = clock[1] * 1000 + floor(clock[2] / 1000)
local meta = call('GET', meta_key)
if not meta then return { 'lost', raw, 0 } end
local base = sub(meta_key, 1, -2)
local m_state, m_flags, m_epoch, m_revision, m_limit, m_ttl, seq, high, skew, open, numbers, available =
  unpack('<BBI4I8I4I4I8I8i8I4I4I4', meta, 2)
if m_epoch ~= epoch then return { 'lost', raw, seq } end
if seq < seen then return { 'behind', raw, seq } end
if raw > deadline then return { 'late', raw, seq } end
if revision > m_revision then
  m_state, m_limit, m_ttl = state, limit, ttl
  call('SETRANGE', meta_key, 0, pack('<BBBI4I8I4I4', 1, state, m_flags, epoch, revision, limit, ttl))
end

-- The event's time never goes back, and stands still over a jump until the sweeper has judged it. It
-- is what holds end by and what buyers are told; Redis' own clock only says that it passes.
local now, jump = raw - skew, 0
if now < high or (open > 0 and now - high > JUMP_MS and floor(flags / BELIEVE_CLOCK) % 2 == 0) then
  now, jump = high, now - high
else
  high = now
end

-- The caller's record.
local number, bought, admitted, unlocked, listed, spilled = 0, 0, 0, 0, 0, 0
local ended, hold, answers = '', '', '\0'
local records = base .. 'p'
local record = call('HGET', records, me)
if record then
  local ended_n, hold_n
  number, bought, admitted, unlocked, listed, spilled, ended_n, hold_n = unpack('<I4I4I6I4I4BBI2', record)
  local at = 27 + 22 * ended_n
  ended = sub(record, 27, at - 1)
  hold = sub(record, at, at + hold_n - 1)
  answers = sub(record, at + hold_n)
end
local hold_before = hold

-- The first answer under this key, again.
if key ~= NO_KEY and record then
  local found_print, found
  local at = 2
  for _ = 1, byte(answers) do
    local answer_key, answer_print, _, n = unpack('<c8c8I4I2', answers, at)
    if answer_key == key then
      found_print, found = answer_print, sub(answers, at + 22, at + 21 + n)
      break
    end
    at = at + 22 + n
  end
  if not found and spilled == 1 then
    for back = 0, 2 do
      local bytes = call('HGET', base .. 'r' .. (floor(now / ANSWER_BUCKET_MS) - back), me .. key)
      if bytes then
        found_print, found = sub(bytes, 1, 8), sub(bytes, 9)
        break
      end
    end
  end
  if found then
    if found_print ~= print then return { 'key_reused', raw, seq, now } end
    return { 'replayed', raw, seq, now, found, hold }
  end
end

-- What the verb's part says to tail.lua. A code from 20 is a refusal.
local code, extra, is_remembered = DONE, '', true
-- Whether the map or the caller's record changes; words for the feed: seat * 4 + state (4 bytes each), area and what is
-- left (8 bytes each).
local map_changes, record_changes = false, false
local seat_words, area_words = '', ''
-- Whether parts that free places are needed, and records of other identities that were written (identity, record, ..) for
-- the journal. Verbs that want them say so before those parts.
local gives_back, others = false, nil
