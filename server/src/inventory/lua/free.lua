-- free: an order was cancelled or refunded in Postgres; these are all its seats and places that are free now, also those
-- named before. Twice is once: each seat of an order is freed once, and only from its own buyer.
-- Answers  done with the identity's hold. Publishes the seats as available or blocked.
local h = locked_hold()
if h then
  -- Cancelled before it was paid: the hold ends with it.
  free_hold(who, h)
  write_order(FREED)
  return finish()
end
if known == 0 then
  write_order(FREED)
  return done(answer_with(DONE, ''))
end
local was_freed, n, more = {}, 0, {}
for pos = 1, #freed_seats, 4 do was_freed[sub(freed_seats, pos, pos + 3)] = true end
for pos = 19, seats_end, 4 do
  local bytes = sub(ARGV[2], pos, pos + 3)
  if not was_freed[bytes] then
    local seat = unpack('<I4', bytes)
    local owner = owner_of(seat)
    if who.number ~= 0 and (owner == SOLD_TO + who.number or owner == RESERVED_BY + who.number) then free_seat(seat) end
    more[#more + 1] = bytes
    n = n + 1
  end
end
freed_seats = freed_seats .. concat(more)
local freed = {}
for pos = 1, #freed_areas, 8 do
  local area, quantity = unpack('<I4I4', freed_areas, pos)
  freed[area] = quantity
end
for pos = seats_end + 1, #ARGV[2], 8 do
  local area, quantity = unpack('<I4I4', ARGV[2], pos)
  local before = freed[area] or 0
  if quantity > before then
    set_remaining(area, remaining_of(area) + quantity - before)
    n = n + quantity - before
    freed[area] = quantity
  end
end
freed_areas = ''
for area, quantity in pairs(freed) do freed_areas = freed_areas .. pack('<I4I4', area, quantity) end
if n == 0 then return done(answer_with(DONE, '')) end
who.bought = math.max(0, who.bought - n)
write_order(known == RESERVED and FREED or SOLD)
return finish()
