-- allocate: seats are kept for an allocation, or no longer. Absolute: twice is once. What is held or sold stays so and is
-- kept once it becomes free; what waited for somebody of the waitlist is the allocation's.
-- ARGV[2]  kind of the allocation B (2 and up), 1 keep, 0 give up B, then seats I4 each, at most 1,000.
-- Answers  done. Publishes what became blocked or available.
local kind, is_kept = byte(body, 1), byte(body, 2) == 1
local map, kinds = base .. 's', base .. 'k'
local seats_n = call('STRLEN', map) / 4
if is_kept and m_flags % 2 == 0 then
  m_flags = m_flags + 1
  call('SETRANGE', meta_key, 2, string.char(m_flags))
end
if m_flags % 2 == 1 then
  if call('STRLEN', kinds) < seats_n then call('SETRANGE', kinds, seats_n - 1, '\0') end
  for at = 3, #body, 4 do
    local seat = unpack('<I4', body, at)
    local known = seat < seats_n and byte(call('GETRANGE', kinds, seat, seat)) or 255
    if is_kept and known < 2 then
      call('SETRANGE', kinds, seat, string.char(kind))
      local owner = unpack('<I4', call('GETRANGE', map, seat * 4, seat * 4 + 3))
      if owner == 0 or owner == KEPT then
        call('SETRANGE', map, seat * 4, '\1\0\0\0')
        if owner == 0 then available = available - 1 else call('ZREM', base .. 'w', seat) end
        seat_words = seat_words .. pack('<I4', seat * 4 + 3)
        map_changes = true
      end
    elseif not is_kept and known == kind then
      call('SETRANGE', kinds, seat, '\0')
      if call('GETRANGE', map, seat * 4, seat * 4 + 3) == '\1\0\0\0' then free_seat(seat) end
    end
  end
end
