-- sell: the order is paid in Postgres; its seats are sold here, whatever this Redis thought of them. Twice is once.
-- Answers  done with the identity's hold (none), then the holds of others that lost a seat: identity c16, length I2, hold
--          bytes, as they are now. Publishes the seats as sold.
if known == SOLD then return done(answer_with(DONE, '')) end
local h = locked_hold()
local revoked = {}

-- A late success took seats that had been given back: whoever holds one meanwhile loses it.
local function revoke(number, seat)
  local identity = unpack('<c16', call('GETRANGE', base .. 'n', number * 24, number * 24 + 15))
  local r = identity == me and who or read_identity(identity)
  if r.hold == '' then return end
  local other = read_hold(r.hold)
  local kept = {}
  for pos = 1, #other.seats, 5 do
    if unpack('<I4', other.seats, pos) ~= seat then kept[#kept + 1] = sub(other.seats, pos, pos + 4) end
  end
  other.seats = concat(kept)
  if other.seats == '' and other.areas == '' then free_hold(r, other) else r.hold = hold_bytes(other) end
  if r ~= who then
    write_identity(r)
    revoked[#revoked + 1] = identity .. pack('<I2', #r.hold) .. r.hold
  end
end

if who.number == 0 then
  who.number = numbers
  numbers = numbers + 1
  set_slot(who.number, me, 0, 0)
end
for pos = 19, seats_end, 4 do
  local seat = unpack('<I4', ARGV[2], pos)
  local owner = owner_of(seat)
  if owner < SOLD_TO or owner >= RESERVED_BY then
    if owner == 0 then available = available - 1 end
    if owner >= HELD_BY and owner < SOLD_TO and not (h and owner == HELD_BY + who.number) then
      revoke(owner - HELD_BY, seat)
    end
    set_owner(seat, SOLD_TO + who.number)
    seat_changes[#seat_changes + 1] = pack('<I4', seat * 4 + 2)
  end
end
if h then
  open = open - 1
  who.hold = ''
  set_slot(who.number, me, 0, 0)
elseif known ~= RESERVED then
  -- Nothing was kept for it: its places come off what is left.
  for pos = seats_end + 1, #ARGV[2], 8 do
    local area, quantity = unpack('<I4I4', ARGV[2], pos)
    set_remaining(area, math.max(0, remaining_of(area) - quantity))
  end
end
if known ~= RESERVED then who.bought = who.bought + places_of_order() end
freed_seats, freed_areas = '', ''
write_order(SOLD)
local reply = finish()
reply[6] = concat(revoked)
return reply
