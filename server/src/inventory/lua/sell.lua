-- sell: the order is paid in Postgres; its seats are sold here, whatever this Redis thought of them. Twice is once.
-- Answers  done with the identity's hold (none), then the open holds that lost seats: identity c16, length I2, hold bytes
--          as they were, length I2, hold bytes as they are now. Publishes the seats as sold.
local revoked = ''
-- By the holder's number: identity, hold as it was, hold as it is.
local losers, lost = {}, {}

-- A late success took a seat that had been given back: whoever holds it meanwhile loses it.
local function without_seat(bytes, seat)
  local other_flags, other_id, other_expires, groups_n = unpack('<Bc16I6BI2B', bytes)
  local _, seat_lines, area_lines = parts_of(bytes)
  local kept = ''
  for at = 1, #seat_lines, 5 do
    if unpack('<I4', seat_lines, at) ~= seat then kept = kept .. sub(seat_lines, at, at + 4) end
  end
  if kept == '' and area_lines == '' then return '' end
  local groups_at = 28 + (floor(other_flags / LOCK) % 2) * 22
  return pack('<Bc16I6BI2B', other_flags, other_id, other_expires, groups_n, #kept / 5, #area_lines / 9)
    .. sub(bytes, 28, groups_at + GROUP * groups_n - 1) .. kept .. area_lines
end

local function note_loss(n, identity, was, is)
  if not lost[n] then
    losers[#losers + 1] = n
    lost[n] = { identity, was, is }
  end
  lost[n][3] = is
end

local function revoke(n, seat)
  if n == number then
    if hold == '' then return end
    local was = hold
    hold = without_seat(was, seat)
    if hold == '' then open = open - 1 end
    note_loss(n, me, was, hold)
    return
  end
  local identity = unpack('<c16', call('GETRANGE', base .. 'n', n * 24, n * 24 + 15))
  local r = read_other(identity)
  if r.hold == '' then return end
  local was = r.hold
  r.hold = without_seat(r.hold, seat)
  if r.hold == '' then
    open = open - 1
    call('SETRANGE', base .. 'n', n * 24, pack('<c16I6BB', identity, 0, 0, 0))
  end
  write_other(r)
  note_loss(n, identity, was, r.hold)
end

if known ~= SOLD then
  new_state = SOLD
  if number == 0 then
    number = numbers
    numbers = numbers + 1
  end
  local places = seats_n
  for at = 19, seats_end, 4 do
    local seat = unpack('<I4', body, at)
    local owner = unpack('<I4', call('GETRANGE', base .. 's', seat * 4, seat * 4 + 3))
    if owner < SOLD_TO or owner >= RESERVED_BY then
      if owner == 0 then available = available - 1 end
      if owner == KEPT then call('ZREM', base .. 'w', seat) end
      if owner >= HELD_BY and owner < SOLD_TO and not (is_locked and owner == HELD_BY + number) then
        revoke(owner - HELD_BY, seat)
      end
      call('SETRANGE', base .. 's', seat * 4, pack('<I4', SOLD_TO + number))
      seat_words = seat_words .. pack('<I4', seat * 4 + 2)
      map_changes = true
    end
  end
  for at = seats_end + 1, #body, 8 do
    local area, quantity = unpack('<I4I4', body, at)
    places = places + quantity
    -- Nothing was kept for a late success: its places come off what is left.
    if not is_locked and known ~= RESERVED then change_area(area, -quantity) end
  end
  if known ~= RESERVED then bought = bought + places end
  if is_locked then
    hold, open = '', open - 1
  end
  freed_seats, freed_areas = '', ''
end
for i = 1, #losers do
  local loss = lost[losers[i]]
  revoked = revoked .. loss[1] .. pack('<I2', #loss[2]) .. loss[2] .. pack('<I2', #loss[3]) .. loss[3]
end
