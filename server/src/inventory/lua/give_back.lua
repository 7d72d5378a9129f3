-- Freeing places; only where the verb or an ended hold needs it.
-- While people wait for seats, what becomes free is theirs first and does not show as available.
local keeps = floor(m_flags / 2) % 2 == 1
-- A seat becomes available, or blocked where it is kept back, or kept for the waitlist.
local free_seat = gives_back and function(seat)
  local owner = 0
  if m_flags % 2 == 1 and byte(call('GETRANGE', base .. 'k', seat, seat)) ~= 0 then
    owner = 1
  elseif keeps then
    owner = KEPT
    call('ZADD', base .. 'w', format('%d', now), seat)
  end
  call('SETRANGE', base .. 's', seat * 4, pack('<I4', owner))
  if owner == 0 then available = available + 1 end
  seat_words = seat_words .. pack('<I4', seat * 4 + (owner == 0 and 0 or owner == 1 and 3 or 1))
  map_changes = true
end

local change_area = gives_back and function(area, by)
  -- A late success may take more than is left: below nothing, so that what comes back first makes that good.
  local left = unpack('<i4', call('GETRANGE', base .. 'a', area * 4, area * 4 + 3)) + by
  if by > 0 and keeps and left > 0 then
    local keep = math.min(by, left)
    local kept = unpack('<I4', call('GETRANGE', base .. 'v', area * 4, area * 4 + 3) .. '\0\0\0\0')
    call('SETRANGE', base .. 'v', area * 4, pack('<I4', kept + keep))
    if keep == by then return end
    left = left - keep
  end
  call('SETRANGE', base .. 'a', area * 4, pack('<i4', left))
  area_words = area_words .. pack('<I4I4', area, max(0, left))
  map_changes = true
end

-- Everything a hold has, as far as it is still this identity's: a seat of an ended hold may have been taken meanwhile.
local give_back = gives_back and function(of, seat_lines, area_lines)
  for at = 1, #seat_lines, 5 do
    local seat = unpack('<I4', seat_lines, at)
    if unpack('<I4', call('GETRANGE', base .. 's', seat * 4, seat * 4 + 3)) == HELD_BY + of then free_seat(seat) end
  end
  for at = 1, #area_lines, 9 do
    local area, _, quantity = unpack('<I4BI4', area_lines, at)
    change_area(area, quantity)
  end
  open = open - 1
end

-- The list of endings with one more; its owner hears hold_expired for a while, of the last four.
local note_ending = gives_back and function(endings, id)
  local kept = ''
  for at = max(1, #endings - 65), #endings, 22 do
    local _, ended_ms = unpack('<c16I6', endings, at)
    if ended_ms + KEEP_MS > now then kept = kept .. sub(endings, at, at + 21) end
  end
  return kept .. pack('<c16I6', id, now)
end
