-- configure: what the organiser changed reaches the shelf. head.lua takes state, limit and time to live of a newer revision;
-- here a plan that grew gets its new seats and areas, at the end and once.
-- ARGV[2]  seats of the plan I4, areas of it I4; then, from whoever keeps the event's row, the places each area has (I4 each).
-- Answers  done with how many seats there are now I4: fewer than wanted when there is more to do, because seats kept for the
--          waitlist come a few at a time. Publishes a change when there is something new: new seats are available, or kept for the waitlist.
local MAX_KEPT = 500
local wanted, wanted_areas = unpack('<I4I4', body)
local had = call('STRLEN', base .. 's') / 4
if keeps then wanted = math.min(wanted, had + MAX_KEPT) end
extra = pack('<I4', max(wanted, had))
if wanted > had then
  if m_flags % 2 == 1 then call('SETRANGE', base .. 'k', wanted - 1, '\0') end
  call('SETRANGE', base .. 's', wanted * 4 - 4, '\0\0\0\0')
  map_changes = true
  if keeps then
    for seat = had, wanted - 1 do free_seat(seat) end
  else
    available = available + wanted - had
  end
end
if wanted_areas * 4 > call('STRLEN', base .. 'a') then
  call('SETRANGE', base .. 'a', wanted_areas * 4 - 4, '\0\0\0\0')
  call('SETRANGE', capacities, wanted_areas * 4 - 4, '\0\0\0\0')
  map_changes = true
end
-- Whoever knows an older revision of the event changes nothing; within one revision time alone makes a difference.
if #body > 8 and floor(revision / 4) >= floor(m_revision / 4) then
  for area = 0, wanted_areas - 1 do set_capacity(area, (unpack('<I4', body, 9 + 4 * area))) end
end
