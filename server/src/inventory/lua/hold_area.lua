-- hold_area: adds places of one area to the caller's hold.
-- Order of checks: take.lua's, then area_full, limit_exceeded.
-- ARGV[2]  area I4, quantity I4, price group (15 bytes).
-- Answers  held with a byte 1; missed when more holds are over than one call ends. Publishes what is left of the area.
local area, quantity = unpack('<I4I4', body)
if code == DONE then
  local function left()
    local n = unpack('<i4', call('GETRANGE', base .. 'a', area * 4, area * 4 + 3))
    -- Places of the caller's own hold that is over are free again, unless somebody waits for them.
    for at = 1, keeps and 0 or #old_areas, 9 do
      local old_area, _, places = unpack('<I4BI4', old_areas, at)
      if old_area == area then n = n + places end
    end
    return n
  end
  local remaining, is_swept = left(), true
  if remaining < quantity and open > 0 then
    is_swept = expire_due(MAX_LAZY, true)
    remaining = left()
  end
  if remaining < quantity and not is_swept then
    code, is_remembered = MISSED, false
  elseif remaining < quantity then
    code, extra = AREA_FULL, pack('<I4', max(0, remaining))
  elseif used + quantity > m_limit then
    code, extra = LIMIT_EXCEEDED, pack('<I4I4', m_limit, used)
  else
    code, extra = HELD, '\1'
  end
end
