-- block: seats are taken out of the sale, or put back. Absolute: twice is once.
-- ARGV[2]  1 block, 0 unblock B, then seats I4 each, at most 500.
-- Answers  done with the seats left alone: seat * 4 + state (I4 each). Blocking leaves alone what is held, sold or kept for
--          an allocation; unblocking leaves alone what is kept for an allocation. Publishes what changed.
local blocks = byte(body) == 1
local map, kinds = base .. 's', base .. 'k'
local seats_n = call('STRLEN', map) / 4
local refused = {}
if blocks and m_flags % 2 == 0 then
  m_flags = m_flags + 1
  call('SETRANGE', meta_key, 2, string.char(m_flags))
end
if m_flags % 2 == 1 and call('STRLEN', kinds) < seats_n then call('SETRANGE', kinds, seats_n - 1, '\0') end
for at = 2, #body, 4 do
  local seat = unpack('<I4', body, at)
  local owner, kind = 0, 0
  if seat < seats_n then
    owner = unpack('<I4', call('GETRANGE', map, seat * 4, seat * 4 + 3))
    if m_flags % 2 == 1 then kind = byte(call('GETRANGE', kinds, seat, seat)) end
  end
  if seat >= seats_n or kind > 1 then
    refused[#refused + 1] = pack('<I4', seat * 4 + 3)
  elseif blocks and (owner == 0 or owner == KEPT) then
    call('SETRANGE', kinds, seat, '\1')
    call('SETRANGE', map, seat * 4, pack('<I4', 1))
    if owner == 0 then available = available - 1 else call('ZREM', base .. 'w', seat) end
    seat_words = seat_words .. pack('<I4', seat * 4 + 3)
    map_changes = true
  elseif blocks and owner ~= 1 then
    refused[#refused + 1] = pack('<I4', seat * 4 + (owner >= SOLD_TO and owner < RESERVED_BY and 2 or 1))
  elseif not blocks and kind == 1 then
    call('SETRANGE', kinds, seat, '\0')
    if owner == 1 then free_seat(seat) end
  end
end
extra = table.concat(refused)
