-- release: gives back all of a hold, or some seats and places of it.
-- Order of checks: hold_not_found, hold_expired, hold_locked, not_in_hold.
-- ARGV[2]  hold id c16, all B; then count of seats I2, seats I4 each, areas: (area I4, quantity I4) each.
-- Answers  done with what is left of the hold. Publishes what became available.
local h, refusal = find_hold()
if refusal then return refusal end
if h.is_locked then return refuse(HOLD_LOCKED, h.order) end
local body = ARGV[2]
if byte(body, 17) == 1 then
  free_hold(who, h)
else
  local seats_n = unpack('<I2', body, 18)
  local is_held, is_leaving = {}, {}
  for pos = 1, #h.seats, 5 do is_held[sub(h.seats, pos, pos + 3)] = true end
  for i = 1, seats_n do
    local seat = sub(body, 16 + 4 * i, 19 + 4 * i)
    if not is_held[seat] then return refuse(NOT_IN_HOLD, pack('<BI2', 0, i - 1), true) end
    is_leaving[seat] = true
  end
  -- Places of one area may have been added at several prices: the latest go first.
  local areas, given_back = {}, {}
  for pos = 1, #h.areas, 9 do
    local area, group, n = unpack('<I4BI4', h.areas, pos)
    areas[#areas + 1] = { area, group, n }
  end
  local area_i = 0
  for pos = 20 + 4 * seats_n, #body, 8 do
    local area, quantity = unpack('<I4I4', body, pos)
    local left = quantity
    for i = #areas, 1, -1 do
      if areas[i][1] == area and left > 0 then
        local n = math.min(left, areas[i][3])
        areas[i][3], left = areas[i][3] - n, left - n
      end
    end
    if left > 0 then return refuse(NOT_IN_HOLD, pack('<BI2', 1, area_i), true) end
    area_i = area_i + 1
    given_back[area_i] = { area, quantity }
  end

  local kept = {}
  for pos = 1, #h.seats, 5 do
    local seat = sub(h.seats, pos, pos + 3)
    if is_leaving[seat] then
      local index = unpack('<I4', seat)
      if owner_of(index) == HELD_BY + who.number then free_seat(index) end
    else
      kept[#kept + 1] = sub(h.seats, pos, pos + 4)
    end
  end
  h.seats = concat(kept)
  kept = {}
  for i = 1, #areas do
    if areas[i][3] > 0 then kept[#kept + 1] = pack('<I4BI4', areas[i][1], areas[i][2], areas[i][3]) end
  end
  h.areas = concat(kept)
  for i = 1, #given_back do
    set_remaining(given_back[i][1], remaining_of(given_back[i][1]) + given_back[i][2])
  end
  if h.seats == '' and h.areas == '' then free_hold(who, h) else who.hold = hold_bytes(h) end
end
seq = seq + 1
local answer = answer_with(DONE, '')
write_identity(who, answer)
publish()
return done(answer)
