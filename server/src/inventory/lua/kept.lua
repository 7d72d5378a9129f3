-- kept: the seats and places kept for the waitlist, longest kept first, at most 500 seats. Nothing is written.
-- Answers  {'done', Redis' clock, seq, the event's time, seats (seat I4, since I8 each), kept places of each area (I4 each)}.
local MAX_SEATS = 500
local seats, found = call('ZRANGE', base .. 'w', 0, MAX_SEATS - 1, 'WITHSCORES'), {}
for i = 1, #seats, 2 do
  local seat = tonumber(seats[i])
  if unpack('<I4', call('GETRANGE', base .. 's', seat * 4, seat * 4 + 3)) == KEPT then
    found[#found + 1] = pack('<I4I8', seat, tonumber(seats[i + 1]))
  end
end
return { 'done', raw, seq, now, table.concat(found), call('GET', base .. 'v') or '' }
