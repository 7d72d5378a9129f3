-- offer: kept seats and places become a hold of somebody who waited for them, for a while.
-- Order of checks: event state, an open hold (answered as it is: an offer made before, or a basket that is in the way),
-- seat_taken (not kept any more), area_full, limit_exceeded.
-- ARGV[2]  life in ms I4, counts: price groups B, seats I2, areas B; then the groups (15 bytes each), the seats (seat I4,
--          group B) and the areas (area I4, group B, quantity I4).
-- Answers  held with the hold, or done with the hold that is in the way. The map shows the seats as held before and after.
local life, groups_n, seats_n, areas_n = unpack('<I4BI2B', body)
local is_new, old_id, old_seats, old_areas = true, '', '', ''
local hold_flags, hold_id, expires = OFFER, new_id, now + life
local lines_at = 9 + GROUP * groups_n
local groups, seats = sub(body, 9, lines_at - 1), sub(body, lines_at, lines_at + 5 * seats_n - 1)
local areas = sub(body, lines_at + 5 * seats_n)
local wanted = seats_n
if m_state ~= 2 and m_state ~= 4 then
  code = m_state == 3 and PAUSED or NOT_ON_SALE
elseif hold == '' then
  local taken = {}
  for at = 1, #seats, 5 do
    local seat = unpack('<I4', seats, at)
    if unpack('<I4', call('GETRANGE', base .. 's', seat * 4, seat * 4 + 3)) ~= KEPT then
      taken[#taken + 1] = sub(seats, at, at + 3)
    end
  end
  if #taken > 0 then code, extra = SEAT_TAKEN, table.concat(taken) end
  for at = 1, #areas, 9 do
    local area, _, quantity = unpack('<I4BI4', areas, at)
    local kept = unpack('<I4', call('GETRANGE', base .. 'v', area * 4, area * 4 + 3) .. '\0\0\0\0')
    wanted = wanted + quantity
    if code == DONE and kept < quantity then code, extra = AREA_FULL, pack('<I4', kept) end
  end
  if code == DONE and bought + wanted > m_limit then
    code, extra = LIMIT_EXCEEDED, pack('<I4I4', m_limit, bought)
  elseif code == DONE then
    code, extra = HELD, '\1'
  end
end
