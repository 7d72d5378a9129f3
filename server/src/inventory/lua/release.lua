-- release: gives back all of a hold, or some seats and places of it.
-- Order of checks: owned.lua's, hold_locked, not_in_hold (which is not remembered), companion_rule, orphan_seat: what
-- remains must be what could have been held, as far as giving some of it up makes a difference. All may always go.
-- ARGV[2]  hold id c16, all B; then count of seats I2, seats I4 each, areas: (area I4, quantity I4) each.
-- ARGV[#]  the rules, when there are any: orphan rule B, groups B, each: accessible seats B, seats I4, the companion seats
--          beside them B, seats I4; then of each seat that leaves and must not be left alone: seat I4, its run's first seat
--          I4 and length I2.
-- Answers  done with what is left of the hold. Publishes what became available.
local COMPANION_RULE, ORPHAN_SEAT = 33, 34
if code == DONE and is_locked then
  code, extra = HOLD_LOCKED, order
elseif code == DONE and byte(body, 17) == 1 then
  give_back(number, seats, areas)
  hold = ''
elseif code == DONE then
  local seats_n = unpack('<I2', body, 18)
  local is_held, is_leaving = {}, {}
  for at = 1, #seats, 5 do is_held[sub(seats, at, at + 3)] = true end
  for i = 1, seats_n do
    local seat = sub(body, 16 + 4 * i, 19 + 4 * i)
    is_leaving[seat] = true
    if code == DONE and not is_held[seat] then
      code, extra, is_remembered = NOT_IN_HOLD, pack('<BI2', 0, i - 1), false
    end
  end
  -- Places of one area may have been added at several prices: the latest go first.
  local lines, leaving_n = {}, 0
  for at = 1, #areas, 9 do
    local area, group, n = unpack('<I4BI4', areas, at)
    lines[#lines + 1] = { area, group, n }
  end
  for at = 20 + 4 * seats_n, #body, 8 do
    local area, quantity = unpack('<I4I4', body, at)
    for i = #lines, 1, -1 do
      if lines[i][1] == area then
        local n = math.min(quantity, lines[i][3])
        lines[i][3], quantity = lines[i][3] - n, quantity - n
      end
    end
    if code == DONE and quantity > 0 then
      code, extra, is_remembered = NOT_IN_HOLD, pack('<BI2', 1, leaving_n), false
    end
    leaving_n = leaving_n + 1
  end
  if code == DONE and rules then
    local at = 3
    local function has_kept()
      local has_one = false
      for _ = 1, byte(rules, at) do
        local seat = sub(rules, at + 1, at + 4)
        if is_held[seat] and not is_leaving[seat] then has_one = true end
        at = at + 4
      end
      at = at + 1
      return has_one
    end
    for _ = 1, byte(rules, 2) do
      local has_accessible, has_companion = has_kept(), has_kept()
      if has_companion and not has_accessible then code = COMPANION_RULE end
    end
    local checks, kept_lines = {}, {}
    for i = 1, #seats, 5 do
      if not is_leaving[sub(seats, i, i + 3)] then kept_lines[#kept_lines + 1] = sub(seats, i, i + 4) end
    end
    for i = at, code == DONE and #rules or 0, 10 do
      local seat, first, n = unpack('<I4I4I2', rules, i)
      local function is_closed(other)
        if other < first or other >= first + n then return true end
        local owner = call('GETRANGE', base .. 's', other * 4, other * 4 + 3)
        return owner ~= '\0\0\0\0' and not is_leaving[pack('<I4', other)]
      end
      -- What is kept for an allocation is for nobody, so it is not left alone.
      local kind = m_flags % 2 == 1 and byte(call('GETRANGE', base .. 'k', seat, seat)) or 0
      if kind == 0 and is_closed(seat - 1) and is_closed(seat + 1) then
        checks[#checks + 1] = pack('<I4I4I4I2', seat, NOBODY, first, n)
      end
    end
    if #checks > 0 then
      local found = find_orphans(byte(rules, 1), table.concat(checks), table.concat(kept_lines), is_leaving)
      if found ~= '' then code, extra = ORPHAN_SEAT, found end
    end
  end
  if code == DONE then
    local kept_seats, kept_areas = {}, {}
    for at = 1, #seats, 5 do
      local seat = sub(seats, at, at + 3)
      if is_leaving[seat] then
        local index = unpack('<I4', seat)
        local owner = unpack('<I4', call('GETRANGE', base .. 's', index * 4, index * 4 + 3))
        if owner == HELD_BY + number then free_seat(index) end
      else
        kept_seats[#kept_seats + 1] = sub(seats, at, at + 4)
      end
    end
    for at = 20 + 4 * seats_n, #body, 8 do
      local area, quantity = unpack('<I4I4', body, at)
      change_area(area, quantity)
    end
    for i = 1, #lines do
      if lines[i][3] > 0 then
        kept_areas[#kept_areas + 1] = pack('<I4BI4', lines[i][1], lines[i][2], lines[i][3])
      end
    end
    if #kept_seats + #kept_areas == 0 then
      hold, open = '', open - 1
    else
      seats, areas = table.concat(kept_seats), table.concat(kept_areas)
    end
  end
end
if code == DONE then
  record_changes = true
  map_changes = true
  if hold == '' then call('SETRANGE', base .. 'n', number * 24, pack('<c16I6BB', me, 0, 0, 0)) end
end
