-- Shared by the verbs that add to a hold: what comes before the places are looked at, and what is written when they fit.
-- Order of refusals: admission_required, event state, hold_locked, mode_not_allowed (then the verb's own, and the limit).

-- Flags of the call.
local NEEDS_ADMISSION, BREAKS_MODE = 1, 2

-- The open hold of the caller, or a new one; a hold that is over counts for nothing and is ended by `take`.
local function begin_taking()
  if flags % 2 == NEEDS_ADMISSION and who.admitted <= now then return nil, refuse(ADMISSION_REQUIRED, '', true) end
  if m_state == 3 then return nil, refuse(PAUSED) end
  if m_state == 4 then return nil, refuse(SOLD_OUT) end
  if m_state ~= 2 and not (m_state == 1 and who.unlocked ~= 0) then return nil, refuse(NOT_ON_SALE) end
  local h = who.hold ~= '' and read_hold(who.hold)
  local old
  if h and is_over(h) then h, old = nil, h end
  if h and h.is_locked then return nil, refuse(HOLD_LOCKED, h.order) end
  if floor(flags / BREAKS_MODE) % 2 == 1 then return nil, refuse(MODE_NOT_ALLOWED) end
  if not h then
    h = { is_new = true, flags = 0, id = new_id, expires = now + m_ttl, groups = '', seats = '', areas = '' }
  end
  h.old = old
  return h
end

-- Nothing when `added` more places fit the identity's limit.
local function exceeds_limit(h, added)
  local used = who.bought + size_of(h)
  if used + added > m_limit then return refuse(LIMIT_EXCEEDED, pack('<I4I4', m_limit, used)) end
end

-- Whether the caller may have a seat with this owner word now.
local function may_take(owner, seat)
  if owner == 0 then return true end
  if owner == 1 then
    if who.unlocked == 0 then return false end
    local kind = byte(call('GETRANGE', base .. 'k', seat, seat))
    return kind > 1 and floor(who.unlocked / 2 ^ (kind - 2)) % 2 == 1
  end
  if owner < HELD_BY or owner >= SOLD_TO then return false end
  local _, expires, status = unpack('<c16I6B', call('GETRANGE', base .. 'n', (owner - HELD_BY) * 24, (owner - HELD_BY) * 24 + 23))
  return status == 1 and expires <= now
end

-- Position of a price group in the hold, added when it is new. A group is tier, price and fee as they are now.
local function group_of(h, group)
  for pos = 1, #h.groups, GROUP do
    if sub(h.groups, pos, pos + GROUP - 1) == group then return (pos - 1) / GROUP end
  end
  h.groups = h.groups .. group
  return #h.groups / GROUP - 1
end

-- Ends what is over and gives the caller a number; from here on everything is written.
local function begin_writing(h)
  if h.old then expire_hold(who, h.old) end
  if who.number == 0 then
    who.number = numbers
    numbers = numbers + 1
  end
end

-- Writes the hold and everything that follows from it.
local function finish_taking(h, extra)
  who.hold = hold_bytes(h)
  if h.is_new then
    open = open + 1
    set_slot(who.number, me, h.expires, 1)
    list_expiry(who.number, h.expires)
  end
  seq = seq + 1
  local answer = answer_with(HELD, extra)
  write_identity(who, answer)
  publish()
  return done(answer)
end
