-- offer, written.
if code == HELD then
  record_changes = true
  local owner = pack('<I4', HELD_BY + number)
  for at = 1, #seats, 5 do
    local seat = unpack('<I4', seats, at)
    call('SETRANGE', base .. 's', seat * 4, owner)
    call('ZREM', base .. 'w', seat)
  end
  for at = 1, #areas, 9 do
    local area, _, quantity = unpack('<I4BI4', areas, at)
    local kept = unpack('<I4', call('GETRANGE', base .. 'v', area * 4, area * 4 + 3))
    call('SETRANGE', base .. 'v', area * 4, pack('<I4', kept - quantity))
  end
end
