-- hold_area: adds places of one area to the caller's hold.
-- Order of checks: take.lua's, then area_full, limit_exceeded.
-- ARGV[2]  area I4, quantity I4, price group (15 bytes).
-- Answers  held. Publishes what is left of the area.
local h, refusal = begin_taking()
if refusal then return refusal end
local area, quantity = unpack('<I4I4', ARGV[2])
local remaining = remaining_of(area)
local own = 0
if h.old then
  for pos = 1, #h.old.areas, 9 do
    local old_area, _, n = unpack('<I4BI4', h.old.areas, pos)
    if old_area == area then own = own + n end
  end
end
if remaining + own < quantity then
  expire_due(MAX_LAZY)
  remaining = remaining_of(area)
end
if remaining + own < quantity then
  return refuse(AREA_FULL, pack('<I4', remaining + own))
end
refusal = exceeds_limit(h, quantity)
if refusal then return refusal end

begin_writing(h)
set_remaining(area, remaining_of(area) - quantity)
local group = group_of(h, sub(ARGV[2], 9, 8 + GROUP))
local lines, is_merged = {}, false
for pos = 1, #h.areas, 9 do
  local held_area, held_group, n = unpack('<I4BI4', h.areas, pos)
  if held_area == area and held_group == group then
    n, is_merged = n + quantity, true
  end
  lines[#lines + 1] = pack('<I4BI4', held_area, held_group, n)
end
if not is_merged then lines[#lines + 1] = pack('<I4BI4', area, group, quantity) end
h.areas = concat(lines)
return finish_taking(h, '\1')
