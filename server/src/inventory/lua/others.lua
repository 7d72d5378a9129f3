-- Records of other identities, as tables.
local function read_other(identity)
  local r = { identity = identity, number = 0, bought = 0, admitted = 0, unlocked = 0, listed = 0, spilled = 0,
    ended = '', hold = '', before = '', answers = '\0' }
  local bytes = call('HGET', records, identity)
  if bytes then
    local ended_n, hold_n
    r.number, r.bought, r.admitted, r.unlocked, r.listed, r.spilled, ended_n, hold_n = unpack('<I4I4I6I4I4BBI2', bytes)
    local at = 27 + 22 * ended_n
    r.ended = sub(bytes, 27, at - 1)
    r.hold = sub(bytes, at, at + hold_n - 1)
    r.answers = sub(bytes, at + hold_n)
    r.before = r.hold
  end
  return r
end

-- `rests`: it has nothing left to be forgotten, and is listed again by whatever it does next.
local function write_other(r, rests)
  if r.answers ~= '\0' and r.hold ~= r.before then r.answers = settle_answers(r.answers, r.before) end
  if r.hold == '' and not rests then
    local minute = floor(now / 60000)
    if r.listed <= minute then
      r.listed = minute + KEEP_MS / 60000 + 1
      call('APPEND', base .. 'f' .. r.listed, r.identity)
    end
  end
  local bytes = pack('<I4I4I6I4I4BBI2', r.number, r.bought, r.admitted, r.unlocked, r.listed, r.spilled, #r.ended / 22,
    #r.hold) .. r.ended .. r.hold .. r.answers
  call('HSET', records, r.identity, bytes)
  others[#others + 1], others[#others + 2] = r.identity, bytes
end

-- Id, seats and areas of a hold, locked or not.
local function parts_of(bytes)
  local hold_flags, id, _, groups_n, seats_n = unpack('<Bc16I6BI2B', bytes)
  local at = 28 + (floor(hold_flags / LOCK) % 2) * 22 + GROUP * groups_n
  return id, sub(bytes, at, at + 5 * seats_n - 1), sub(bytes, at + 5 * seats_n)
end
