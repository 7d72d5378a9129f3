-- hold_scan, written: the seats.
if code == HELD then
  local owner = pack('<I4', HELD_BY + number)
  for at = 1, #lines, 5 do call('SETRANGE', map, unpack('<I4', lines, at) * 4, owner) end
  available = available - seats_n
end
