-- hold_best, written: the seats.
if code == HELD then
  local owner = pack('<I4', HELD_BY + number)
  for i = 0, runs_n - 1 do
    local first, n = unpack('<I4I2', body, runs_at + 6 * i)
    if not is_clean then
      for seat = first, first + n - 1 do
        if call('GETRANGE', map, seat * 4, seat * 4 + 3) == '\0\0\0\0' then available = available - 1 end
      end
    end
    call('SETRANGE', map, format('%d', first * 4), string.rep(owner, n))
  end
  if is_clean then available = available - seats_n end
end
