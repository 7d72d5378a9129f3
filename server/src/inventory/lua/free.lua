-- free: an order was cancelled or refunded in Postgres; these are all its seats and places that are free now, also those
-- named before. Twice is once: each seat of an order is freed once, and only from its own buyer.
-- Answers  done with the identity's hold. Publishes the seats as available or blocked.
if is_locked then
  -- Cancelled before it was paid: the hold ends with it.
  local _, seat_lines, area_lines = parts_of(hold)
  give_back(number, seat_lines, area_lines)
  hold = ''
  new_state = FREED
elseif known == 0 or known == FREED then
  new_state = FREED
else
  local was_freed, n = {}, 0
  for at = 1, #freed_seats, 4 do was_freed[sub(freed_seats, at, at + 3)] = true end
  for at = 19, seats_end, 4 do
    local bytes = sub(body, at, at + 3)
    if not was_freed[bytes] then
      local seat = unpack('<I4', bytes)
      local owner = unpack('<I4', call('GETRANGE', base .. 's', seat * 4, seat * 4 + 3))
      if number ~= 0 and (owner == SOLD_TO + number or owner == RESERVED_BY + number) then free_seat(seat) end
      freed_seats = freed_seats .. bytes
      n = n + 1
    end
  end
  local freed = {}
  for at = 1, #freed_areas, 8 do
    local area, quantity = unpack('<I4I4', freed_areas, at)
    freed[area] = quantity
  end
  for at = seats_end + 1, #body, 8 do
    local area, quantity = unpack('<I4I4', body, at)
    local before = freed[area] or 0
    if quantity > before then
      change_area(area, quantity - before)
      n = n + quantity - before
      freed[area] = quantity
    end
  end
  freed_areas = ''
  for area, quantity in pairs(freed) do freed_areas = freed_areas .. pack('<I4I4', area, quantity) end
  if n > 0 then
    bought = max(0, bought - n)
    new_state = known == RESERVED and FREED or known
  end
end
