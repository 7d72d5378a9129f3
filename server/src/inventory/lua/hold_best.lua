-- hold_best: adds the first of some blocks that is wholly free to the caller's hold, all of it or nothing.
-- Order of checks: take.lua's, then the blocks; not_enough or sold_out; limit_exceeded.
-- ARGV[2]  seq of the map the blocks were chosen from I8, allocations taken into account I4, refusal B (not_enough or
--          sold_out) for when there are no blocks, longest block I4, orphan rule B, price groups B, blocks B, seats of each
--          block I2; the groups (15 bytes each); then of each block: 1 when they are together B, its runs I2, orphan.lua's
--          checks I2, lines (seat I4, group B), the feed's words of the held seats (I4), runs (first seat I4, length I2),
--          checks (14 bytes each).
-- Answers  held with the byte and the words of the added seats; missed with the caller's allocations when no block is free.
--          A refusal only when the blocks were looked for in the map as it is now, and nothing in it is due.
-- Publishes the seats as held. At most 16 blocks and 200 seats a block.
-- A sweeper comes every 250 ms; after two seconds without one this look says nothing.
local MAX_UNSWEPT = 8
local looked_seq, looked_opened, refusal, most, rule, groups_n, blocks_n, seats_n = unpack('<I8I4BI4BBBI2', body)
local groups_at, map = 23, base .. 's'
local added_n, lines, words, is_clean, is_together, runs_n, runs_at = 0, '', '', true, 0, 0, 0
if code == DONE then
  local at = groups_at + GROUP * groups_n
  for _ = 1, blocks_n do
    local checks_n
    is_together, runs_n, checks_n = unpack('<BI2I2', body, at)
    runs_at = at + 5 + 9 * seats_n
    local is_free = true
    is_clean = true
    for i = 0, runs_n - 1 do
      local first, n = unpack('<I4I2', body, runs_at + 6 * i)
      if call('GETRANGE', map, format('%d', first * 4), format('%d', (first + n) * 4 - 1)) ~= string.rep('\0\0\0\0', n) then
        is_clean = false
        if opened == 0 then
          is_free = false
          break
        end
        for seat = first, first + n - 1 do
          local owner = unpack('<I4', call('GETRANGE', map, seat * 4, seat * 4 + 3))
          local kind = owner == 1 and byte(call('GETRANGE', base .. 'k', seat, seat)) or 0
          if owner > 1 or owner == 1 and (kind < 2 or floor(opened / 2 ^ (kind - 2)) % 2 == 0) then is_free = false end
        end
      end
    end
    lines = sub(body, at + 5, at + 4 + 5 * seats_n)
    local checks_at = runs_at + 6 * runs_n
    if is_free and checks_n > 0 then
      is_free = find_orphans(rule, sub(body, checks_at, checks_at + 14 * checks_n - 1), lines) == ''
    end
    if is_free then
      added_n, words = seats_n, sub(body, at + 5 + 5 * seats_n, runs_at - 1)
      break
    end
    at = checks_at + 14 * checks_n
  end
  if added_n > 0 then
    if used + added_n > m_limit then
      code, extra = LIMIT_EXCEEDED, pack('<I4I4', m_limit, used)
    else
      code, extra = HELD, string.char(is_together) .. words
    end
  else
    local is_so = refusal ~= 0 and looked_seq == seq and looked_opened == opened and old_id == ''
    if is_so and open > 0 then
      -- Holds that ended since the last sweep would be free: lists of such holds decide, a few at most.
      local swept, last = unpack('<I8', meta, 60), floor(now / BUCKET_MS)
      is_so = last - swept <= MAX_UNSWEPT
      for bucket = swept + 1, is_so and last or 0 do
        if call('EXISTS', base .. 'x' .. format('%d', bucket)) == 1 then is_so = false end
      end
    end
    if is_so then
      code = refusal
      if code == NOT_ENOUGH then extra = pack('<I4', most) end
    else
      code, extra, is_remembered = MISSED, pack('<I4', opened), false
    end
  end
end
