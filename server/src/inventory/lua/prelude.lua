-- Shared head of every mutating script; the file of the verb follows it. Redis gives no rollback, so a verb looks at
-- everything first and writes last. README beside server/src lists the keys; inventory/record.rs is the same layout in Rust.
-- KEYS[1]  {event}:epoch:m, the event's meta. Every other key of this life shares its beginning.
-- ARGV[1]  the packed head of the call (script.rs), ARGV[2] the verb's own packed body.
-- Returns  {word, Redis' clock in ms, seq, ..}:
--   lost          no meta: this life of the event is not in this Redis
--   behind        seq is lower than one the caller has seen: an old copy of the data
--   late          the caller has given up
--   key_reused    same key, other body
--   replayed      answer, hold: the first answer under this key
--   done          answer, hold: the answer; a marked answer means "with this hold"
local call, pack, unpack, sub, byte, concat, floor =
  redis.call, struct.pack, struct.unpack, string.sub, string.byte, table.concat, math.floor

-- Numbers of the answers; answer.rs reads them.
local HELD, DONE, LOCKED = 1, 2, 3
local ADMISSION_REQUIRED, NOT_ON_SALE, PAUSED, SOLD_OUT = 20, 21, 22, 23
local HOLD_NOT_FOUND, HOLD_EXPIRED, EXTEND_REFUSED, HOLD_LOCKED = 24, 25, 26, 27
local MODE_NOT_ALLOWED, SEAT_TAKEN, NOT_ENOUGH, AREA_FULL, LIMIT_EXCEEDED = 28, 29, 30, 31, 32
local NOT_IN_HOLD = 35

-- Owner words of the seat map: 0 available, 1 blocked, else a kind plus the number of an identity.
local HELD_BY, SOLD_TO, RESERVED_BY = 0x40000000, 0x80000000, 0xC0000000
-- Flags of a hold.
local EXTENDED, LOCK = 1, 2
-- A jump of the clock above this, while holds are open and nobody swept, pauses expiry until the sweeper has judged it.
local JUMP_MS = 30000
-- Holds that end share buckets of this width.
local BUCKET_MS = 250
-- Answers and endings are kept this long.
local KEEP_MS = 600000
-- Answers kept in an identity's own record; older ones move to a shared bucket.
local MAX_INLINE_ANSWERS = 4
-- Changes kept for nodes that lost a message and for the journal.
local MAX_CHANGES = 4096
-- An answer: code B, epoch I4, seq I6, Redis' clock I6, length of the hold I2 (or this mark), hold, the verb's own.
local HEAD, CURRENT_HOLD = 17, 65535
-- Bytes of a price group: tier B, price I7, fee I7.
local GROUP = 15
local NO_KEY = '\0\0\0\0\0\0\0\0'

local deadline, epoch, seen, revision, state, flags, limit, ttl, me, key, print, new_id =
  unpack('<I8I4I8I8BBI4I4c16c8c8c16', ARGV[1])
local meta_key = KEYS[1]
local base = sub(meta_key, 1, -2)
local clock = call('TIME')
local raw = clock[1] * 1000 + floor(clock[2] / 1000)
local meta = call('GET', meta_key)
if not meta then return { 'lost', raw, 0 } end
local _, m_state, m_flags, m_epoch, m_revision, m_limit, m_ttl, seq, high, skew, open, numbers, available =
  unpack('<BBBI4I8I4I4I8I8i8I4I4I4', meta)
if m_epoch ~= epoch then return { 'lost', raw, seq } end
if seq < seen then return { 'behind', raw, seq } end
if raw > deadline then return { 'late', raw, seq } end
if revision > m_revision then
  m_state, m_revision, m_limit, m_ttl = state, revision, limit, ttl
  call('SETRANGE', meta_key, 0, pack('<BBBI4I8I4I4', 1, state, m_flags, epoch, revision, limit, ttl))
end

-- The event's time never goes back, and stands still over a jump.
local now = raw - skew
if now < high or (open > 0 and now - high > JUMP_MS) then now = high else high = now end

local function owner_of(seat)
  return unpack('<I4', call('GETRANGE', base .. 's', seat * 4, seat * 4 + 3))
end

local function set_owner(seat, owner)
  call('SETRANGE', base .. 's', seat * 4, pack('<I4', owner))
end

-- What a seat becomes when nobody has it: 0, or 1 where it is kept back.
local function owner_when_free(seat)
  if m_flags % 2 == 1 and byte(call('GETRANGE', base .. 'k', seat, seat)) ~= 0 then return 1 end
  return 0
end

local function remaining_of(area)
  return unpack('<I4', call('GETRANGE', base .. 'a', area * 4, area * 4 + 3))
end

-- Changes of this call, for the feed: seat * 4 + public state, and area with what is left.
local seat_changes, area_changes, journal = {}, {}, {}

local function set_remaining(area, remaining)
  call('SETRANGE', base .. 'a', area * 4, pack('<I4', remaining))
  area_changes[#area_changes + 1] = pack('<I4I4', area, remaining)
end

local function free_seat(seat)
  local owner = owner_when_free(seat)
  set_owner(seat, owner)
  if owner == 0 then available = available + 1 end
  seat_changes[#seat_changes + 1] = pack('<I4', seat * 4 + owner * 3)
end

local function set_slot(number, identity, expires, status)
  call('SETRANGE', base .. 'n', number * 24, pack('<c16I6BB', identity, expires, status, 0))
end

local function list_expiry(number, expires)
  local bucket = math.max(math.ceil(expires / BUCKET_MS), floor(now / BUCKET_MS) + 1)
  call('APPEND', base .. 'x' .. bucket, pack('<I4', number))
end

-- The record of one identity.
local function read_identity(identity)
  local r = { identity = identity, number = 0, bought = 0, admitted = 0, unlocked = 0, listed = 0, spilled = 0,
    ended = '', hold = '', was = '', answers = '\0' }
  local bytes = call('HGET', base .. 'p', identity)
  if bytes then
    local ended_n, hold_len
    r.number, r.bought, r.admitted, r.unlocked, r.listed, r.spilled, ended_n = unpack('<I4I4I6I4I4BB', bytes)
    local pos = 25 + 22 * ended_n
    r.ended = sub(bytes, 25, pos - 1)
    hold_len = unpack('<I2', bytes, pos)
    r.hold = sub(bytes, pos + 2, pos + 1 + hold_len)
    r.was = r.hold
    r.answers = sub(bytes, pos + 2 + hold_len)
  end
  return r
end

-- Answers that said "with the current hold" keep the hold they meant.
local function settle_answers(r)
  local out, pos = { sub(r.answers, 1, 1) }, 2
  for _ = 1, byte(r.answers) do
    local head, len = unpack('<c20I2', r.answers, pos)
    local body = sub(r.answers, pos + 22, pos + 21 + len)
    if unpack('<I2', body, HEAD + 1) == CURRENT_HOLD then
      body = sub(body, 1, HEAD) .. pack('<I2', #r.was) .. r.was .. sub(body, HEAD + 3)
    end
    out[#out + 1] = head .. pack('<I2', #body) .. body
    pos = pos + 22 + len
  end
  r.answers = concat(out)
end

-- Adds an answer under the caller's key. The oldest of too many moves to the bucket of these five minutes.
local function remember(r, answer)
  local count, pos, kept = byte(r.answers), 2, {}
  for i = 1, count do
    local answer_key, body_print, at, len = unpack('<c8c8I4I2', r.answers, pos)
    local last = pos + 21 + len
    if at * 1000 + KEEP_MS > now then
      if count - i + 1 >= MAX_INLINE_ANSWERS then
        local body = sub(r.answers, pos + 22, last)
        if unpack('<I2', body, HEAD + 1) == CURRENT_HOLD then
          body = sub(body, 1, HEAD) .. pack('<I2', #r.hold) .. r.hold .. sub(body, HEAD + 3)
        end
        call('HSET', base .. 'r' .. floor(now / 300000), r.identity .. answer_key, body_print .. body)
        r.spilled = 1
      else
        kept[#kept + 1] = sub(r.answers, pos, last)
      end
    end
    pos = last + 1
  end
  kept[#kept + 1] = pack('<c8c8I4I2', key, print, floor(now / 1000), #answer) .. answer
  r.answers = string.char(#kept) .. concat(kept)
end

-- Puts the record down and hands its bytes to the journal. Whoever has no hold is listed to be forgotten in time.
local function write_identity(r, answer)
  if r.hold ~= r.was and r.answers ~= '\0' then settle_answers(r) end
  if answer and key ~= NO_KEY then remember(r, answer) end
  if r.hold == '' then
    local minute = floor(now / 60000)
    if r.listed <= minute then
      r.listed = minute + KEEP_MS / 60000 + 1
      call('APPEND', base .. 'f' .. r.listed, r.identity)
    end
  end
  local bytes = pack('<I4I4I6I4I4BB', r.number, r.bought, r.admitted, r.unlocked, r.listed, r.spilled, #r.ended / 22)
    .. r.ended .. pack('<I2', #r.hold) .. r.hold .. r.answers
  r.was = r.hold
  call('HSET', base .. 'p', r.identity, bytes)
  journal[#journal + 1] = r.identity .. pack('<I2', #bytes) .. bytes
end

local function write_meta()
  call('SETRANGE', meta_key, 23, pack('<I8I8i8I4I4I4', seq, high, skew, open, numbers, available))
end

-- One change of the map: the next seq, one entry of the stream, one message.
local function publish()
  local feed = pack('<I4I8I8I2', epoch, seq, raw, #seat_changes) .. concat(seat_changes)
    .. pack('<I2', #area_changes) .. concat(area_changes)
  call('XADD', base .. 'c', 'MAXLEN', '~', MAX_CHANGES, seq .. '-0', 'f', feed, 'p', concat(journal))
  call('PUBLISH', sub(base, 1, 33) .. 'feed', feed)
  write_meta()
end

-- A change that the map does not show: for the journal only.
local function note()
  call('XADD', base .. 'c', 'MAXLEN', '~', MAX_CHANGES, seq .. '-*', 'p', concat(journal))
  write_meta()
end

local function answer_with(code, extra)
  return pack('<BI4I6I6I2', code, epoch, seq, raw, CURRENT_HOLD) .. extra
end

local function answer_without(code, extra)
  return pack('<BI4I6I6I2', code, epoch, seq, raw, 0) .. extra
end

local function read_hold(bytes)
  local h = {}
  local pos = 24
  h.flags, h.id, h.expires = unpack('<Bc16I6', bytes)
  h.is_locked = floor(h.flags / LOCK) % 2 == 1
  if h.is_locked then
    h.order, h.until_ms = unpack('<c16I6', bytes, 24)
    pos = 46
  end
  local n = byte(bytes, pos)
  h.groups = sub(bytes, pos + 1, pos + GROUP * n)
  pos = pos + 1 + GROUP * n
  n = unpack('<I2', bytes, pos)
  h.seats = sub(bytes, pos + 2, pos + 1 + 5 * n)
  pos = pos + 2 + 5 * n
  h.areas = sub(bytes, pos + 1)
  return h
end

local function hold_bytes(h)
  return pack('<Bc16I6', h.flags, h.id, h.expires) .. (h.is_locked and pack('<c16I6', h.order, h.until_ms) or '')
    .. string.char(#h.groups / GROUP) .. h.groups .. pack('<I2', #h.seats / 5) .. h.seats
    .. string.char(#h.areas / 9) .. h.areas
end

-- Places in a hold.
local function size_of(h)
  local n = #h.seats / 5
  for pos = 1, #h.areas, 9 do
    local _, _, quantity = unpack('<I4BI4', h.areas, pos)
    n = n + quantity
  end
  return n
end

local function is_over(h)
  return not h.is_locked and h.expires <= now
end

-- Gives back what is still this identity's: a seat of a hold that is over may have been taken meanwhile.
local function free_hold(r, h)
  for pos = 1, #h.seats, 5 do
    local seat = unpack('<I4', h.seats, pos)
    if owner_of(seat) == HELD_BY + r.number then free_seat(seat) end
  end
  for pos = 1, #h.areas, 9 do
    local area, _, quantity = unpack('<I4BI4', h.areas, pos)
    set_remaining(area, remaining_of(area) + quantity)
  end
  open = open - 1
  r.hold = ''
  set_slot(r.number, r.identity, 0, 0)
end

-- Its owner hears hold_expired for a while.
local function expire_hold(r, h)
  free_hold(r, h)
  local kept = {}
  for pos = math.max(1, #r.ended - 65), #r.ended, 22 do
    local _, at = unpack('<c16I6', r.ended, pos)
    if at + KEEP_MS > now then kept[#kept + 1] = sub(r.ended, pos, pos + 21) end
  end
  r.ended = concat(kept) .. pack('<c16I6', h.id, now)
end

local function has_ended(r, id)
  for pos = 1, #r.ended, 22 do
    local ended, at = unpack('<c16I6', r.ended, pos)
    if ended == id and at + KEEP_MS > now then return true end
  end
  return false
end

-- Everything that is refused in the same way whatever the verb.
local who = read_identity(me)

local function refuse(code, extra, is_forgotten)
  local has_changes = #seat_changes + #area_changes > 0
  if has_changes then seq = seq + 1 end
  local answer = answer_without(code, extra or '')
  if key ~= NO_KEY and not is_forgotten then write_identity(who, answer) end
  if has_changes then publish() elseif #journal > 0 then note() end
  return { 'done', raw, seq, answer, '' }
end

local function done(answer)
  return { 'done', raw, seq, answer, who.hold }
end

if key ~= NO_KEY then
  local body_print, answer
  local pos = 2
  for _ = 1, byte(who.answers) do
    local answer_key, found_print, _, len = unpack('<c8c8I4I2', who.answers, pos)
    if answer_key == key then
      body_print, answer = found_print, sub(who.answers, pos + 22, pos + 21 + len)
      break
    end
    pos = pos + 22 + len
  end
  if not answer and who.spilled == 1 then
    for back = 0, 2 do
      local found = call('HGET', base .. 'r' .. (floor(now / 300000) - back), me .. key)
      if found then
        body_print, answer = sub(found, 1, 8), sub(found, 9)
        break
      end
    end
  end
  if answer then
    if body_print ~= print then return { 'key_reused', raw, seq } end
    return { 'replayed', raw, seq, answer, who.hold }
  end
end
