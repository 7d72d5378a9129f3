-- hold_scan: the last resort of hold_best: looks through stretches of seats itself, ends what is due first, and takes the
-- first block, or any seats, that are free.
-- Order of checks: take.lua's, then the seats; not_enough or sold_out; limit_exceeded.
-- ARGV[2]  seats wanted I2, 1 when any will do B, orphan rule B, 1 when these are the last ones B (0: there is more to look
--          at), longest free stretch seen before I4, price groups B, stretches I2, first seat I4 and number of seats I4 of the part of the map
--          they lie in; the groups (15 bytes each); the stretches: first seat I4, length I2, and the same of the run each
--          lies in; of each seat of the part its group B.
-- Answers  held with a byte (1: one block) and the words of the added seats; missed with the longest free stretch I4 when
--          nothing was found and there is more to look at; else not_enough with the longest one of all looks, or sold_out
--          when they saw no free seat. Publishes the seats as held, and what ended. At most 16,384 seats.
local seats_n, takes_any, rule, is_last, most, groups_n, stretches_n, part_first, part_n = unpack('<I2BBBI4BI2I4I4', body)
local groups_at, map = 21, base .. 's'
local added_n, lines, words, is_together = 0, '', '', 0
if code == DONE then
  local is_all_swept = open == 0 or expire_due(MAX_LAZY, true)
  local stretches_at = groups_at + GROUP * groups_n
  local tiers_at = stretches_at + 12 * stretches_n
  local bytes = part_n > 0 and call('GETRANGE', map, part_first * 4, (part_first + part_n) * 4 - 1) or ''
  local free, chosen = '\0\0\0\0', {}
  -- The longest stretch of free seats, when it is longer than `most`.
  local function see_longest(owners)
    local from = 1
    while true do
      local found = string.find(owners, string.rep(free, most + 1), from, true)
      if not found then return end
      if found % 4 ~= 1 then found = found + 4 - (found - 1) % 4 end
      from = found
      while sub(owners, from, from + 3) == free do from = from + 4 end
      most = max(most, (from - found) / 4)
      from = from + 4
    end
  end
  local wanted = takes_any == 1 and 1 or seats_n
  local block = string.rep(free, wanted)
  for i = 0, stretches_n - 1 do
    local first, n, run_first, run_n = unpack('<I4I2I4I2', body, stretches_at + 12 * i)
    local from = (first - part_first) * 4 + 1
    local begin, last = from, from + 4 * n - 1
    while #chosen < seats_n and from + 4 * wanted - 1 <= last do
      local owners = sub(bytes, from, last)
      local found = string.find(owners, block, 1, true)
      if not found then break end
      -- Bytes that look free may straddle two seats.
      if found % 4 ~= 1 then found = found + 4 - (found - 1) % 4 end
      from = from + found - 1
      if sub(bytes, from, from + 4 * wanted - 1) == block and from + 4 * wanted - 1 <= last then
        local seat = part_first + (from - 1) / 4
        -- One seat left beside the block is what a strict rule forbids, unless the run is nearly sold out. A lenient one
        -- allows it here: a block begins where its free seats begin.
        local is_orphan = false
        if rule == 2 and takes_any == 0 then
          local after = from + 4 * wanted
          is_orphan = after + 3 <= last and sub(bytes, after, after + 3) == free
              and (after + 3 == last or sub(bytes, after + 4, after + 7) ~= free)
            or from > begin and sub(bytes, from - 4, from - 1) == free
              and (from - 4 == begin or sub(bytes, from - 8, from - 5) ~= free)
          if is_orphan then
            local owners, left = call('GETRANGE', map, run_first * 4, (run_first + run_n) * 4 - 1), -wanted
            for k = 1, #owners, 4 do
              if sub(owners, k, k + 3) == free then left = left + 1 end
            end
            is_orphan = left > max(1, floor(run_n / 10))
          end
        end
        if not is_orphan then
          for k = 0, wanted - 1 do chosen[#chosen + 1] = seat + k end
        end
        from = from + (is_orphan and 4 or 4 * wanted)
      end
    end
    if #chosen == seats_n then break end
  end
  if #chosen == seats_n then
    local line, word = {}, {}
    is_together = 1
    for i = 1, seats_n do
      local seat = chosen[i]
      line[i] = pack('<I4B', seat, byte(body, tiers_at + seat - part_first))
      word[i] = pack('<I4', seat * 4 + 1)
      if takes_any == 1 and seats_n > 1 then is_together = 0 end
    end
    added_n, lines, words = seats_n, table.concat(line), table.concat(word)
    if used + added_n > m_limit then
      code, extra = LIMIT_EXCEEDED, pack('<I4I4', m_limit, used)
    else
      code, extra = HELD, string.char(is_together) .. words
    end
  else
    for i = 0, stretches_n - 1 do
      local first, n = unpack('<I4I2', body, stretches_at + 12 * i)
      local from = (first - part_first) * 4 + 1
      see_longest(sub(bytes, from, from + 4 * n - 1))
    end
    if is_last == 1 and is_all_swept and old_id == '' then
      code = most == 0 and SOLD_OUT or NOT_ENOUGH
      if code == NOT_ENOUGH then extra = pack('<I4', most) end
    else
      code, extra, is_remembered = MISSED, pack('<I4I4', opened, most), false
    end
  end
end
