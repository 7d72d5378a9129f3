-- keep: whether what becomes free is kept for the waitlist, and kept places that go on the map after all.
-- ARGV[2]  1 keep from now on, 0 stop and put up to 500 kept seats and all kept places on the map, 2 put these seats on the
--          map: B, then seats I4 each; 3 put the kept places of these areas on the map: B, then areas I4 each.
-- Answers  done with the number of seats still kept I4. Publishes what became available.
local what = byte(body)
local MAX_SEATS = 500
local function show_seat(seat)
  if call('ZREM', base .. 'w', seat) == 0 then return end
  if unpack('<I4', call('GETRANGE', base .. 's', seat * 4, seat * 4 + 3)) == KEPT then free_seat(seat) end
end
local function show_area(area)
  local kept = unpack('<I4', call('GETRANGE', base .. 'v', area * 4, area * 4 + 3) .. '\0\0\0\0')
  if kept > 0 then
    call('SETRANGE', base .. 'v', area * 4, '\0\0\0\0')
    change_area(area, kept)
  end
end
if what == 1 then
  if not keeps then call('SETRANGE', meta_key, 2, string.char(m_flags + 2)) end
else
  if what == 0 and keeps then
    m_flags = m_flags - 2
    call('SETRANGE', meta_key, 2, string.char(m_flags))
  end
  -- What is shown here is not kept again.
  keeps = false
  if what == 0 then
    for _, seat in ipairs(call('ZRANGE', base .. 'w', 0, MAX_SEATS - 1)) do show_seat(tonumber(seat)) end
    for area = 0, call('STRLEN', base .. 'v') / 4 - 1 do show_area(area) end
  else
    for at = 2, #body, 4 do
      local index = unpack('<I4', body, at)
      if what == 2 then show_seat(index) else show_area(index) end
    end
  end
end
extra = pack('<I4', call('ZCARD', base .. 'w'))
