-- hold, written: the seats.
if code == HELD and added_n > 0 then
  local owner = pack('<I4', HELD_BY + number)
  if is_clean then
    for i = 1, runs_n do
      local n = unpack('<I2', body, runs_at + 2 * i - 2)
      call('SETRANGE', map, ARGV[1 + 2 * i], string.rep(owner, n))
    end
    available = available - seats_n
  else
    for at = 1, #lines, 5 do
      local seat = unpack('<I4', lines, at)
      if call('GETRANGE', map, seat * 4, seat * 4 + 3) == '\0\0\0\0' then available = available - 1 end
      call('SETRANGE', map, seat * 4, owner)
    end
  end
end
