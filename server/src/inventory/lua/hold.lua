-- hold: adds seats to the caller's hold, all or none; a seat of one's own is a no-op that succeeds.
-- Order of checks: take.lua's, then mode_not_allowed, seat_taken, limit_exceeded, companion_rule, orphan_seat.
-- ARGV[2]  1 when they are together B, counts of price groups B, seats I2, runs I2; then the groups (15 bytes each), the
--          lines (seat I4, group B), the feed's words of the held seats (I4), and the lengths (I2) of the runs of
--          neighbouring indices that cover the seats in the same order; with flag BREAKS_MODE the seats (I4) that their section does not
--          sell by index: only whoever has them already may name them.
-- ARGV[3..] of each run: its first and last byte in the map, as text (Redis would make text of a number, slowly).
-- ARGV[#]  the rules, when there are any: behind the mask the orphan rule B, groups of seats of which one must be the
--          caller's B (accessible seats beside companion seats), each its length B and seats I4; then what orphan.lua wants.
-- Answers  held with the first byte and the words of the added seats. Publishes the seats as held. At most 200 seats.
local is_together, groups_n, seats_n, runs_n = unpack('<BBI2I2', body)
local lines_at = 7 + GROUP * groups_n
local words_at = lines_at + 5 * seats_n
local runs_at = words_at + 4 * seats_n
local groups_at, map = 7, base .. 's'
if code == DONE and floor(flags / BREAKS_MODE) % 2 == 1 then
  for at = runs_at + 2 * runs_n, #body, 4 do
    local seat = unpack('<I4', body, at)
    local owner = unpack('<I4', call('GETRANGE', map, seat * 4, seat * 4 + 3))
    if is_new or owner ~= HELD_BY + number then code = MODE_NOT_ALLOWED end
  end
end
-- The common case: every seat is available, and whole runs are read and written at once.
local is_clean = true
if code == DONE then
  for i = 1, runs_n do
    local n = unpack('<I2', body, runs_at + 2 * i - 2)
    if call('GETRANGE', map, ARGV[1 + 2 * i], ARGV[2 + 2 * i]) ~= string.rep('\0\0\0\0', n) then
      is_clean = false
      break
    end
  end
end
local added_n, lines, words = seats_n, nil, nil
if code == DONE and is_clean then
  lines, words = sub(body, lines_at, words_at - 1), sub(body, words_at, runs_at - 1)
elseif code == DONE then
  local taken, added_lines, added_words = {}, {}, {}
  local mine = HELD_BY + number
  -- Whether a seat that nobody has is this caller's to take: not one of an allocation that is closed to them, also where the
  -- hold of somebody who had unlocked it has just ended.
  local function is_open(seat)
    local kind = m_flags % 2 == 1 and byte(call('GETRANGE', base .. 'k', seat, seat)) or 0
    return kind == 0 or kind > 1 and floor(opened / 2 ^ (kind - 2)) % 2 == 1
  end
  for i = 0, seats_n - 1 do
    local line_at = lines_at + 5 * i
    local seat = unpack('<I4', body, line_at)
    local owner = unpack('<I4', call('GETRANGE', map, seat * 4, seat * 4 + 3))
    local is_added, is_mine = owner == 0, number ~= 0 and owner == mine
    if is_mine then
      -- A seat of one's own hold that is over is free again, unless somebody waits for it.
      is_added, is_mine = is_new and not keeps and is_open(seat), not is_new
    elseif owner == 1 and opened ~= 0 then
      is_added = is_open(seat)
    elseif owner >= HELD_BY and owner < SOLD_TO and not keeps then
      -- Somebody else's hold that is over; the sweeper does the rest of it, and keeps the seat where people wait.
      local slot = (owner - HELD_BY) * 24
      local _, ends, status = unpack('<c16I6B', call('GETRANGE', base .. 'n', slot, slot + 23))
      is_added = status == 1 and ends <= now and is_open(seat)
    end
    if is_added then
      added_lines[#added_lines + 1] = sub(body, line_at, line_at + 4)
      added_words[#added_words + 1] = sub(body, words_at + 4 * i, words_at + 4 * i + 3)
    elseif not is_mine then
      taken[#taken + 1] = sub(body, line_at, line_at + 3)
    end
  end
  if #taken > 0 then code, extra = SEAT_TAKEN, table.concat(taken) end
  added_n, lines, words = #added_lines, table.concat(added_lines), table.concat(added_words)
end
if code == DONE and added_n > 0 and used + added_n > m_limit then
  code, extra = LIMIT_EXCEEDED, pack('<I4I4', m_limit, used)
elseif code == DONE and rules and added_n > 0 then
  local at = 7
  for _ = 1, byte(rules, 6) do
    local has_one = false
    for i = 0, byte(rules, at) - 1 do
      local seat = unpack('<I4', rules, at + 1 + 4 * i)
      local owner = unpack('<I4', call('GETRANGE', map, seat * 4, seat * 4 + 3))
      if number ~= 0 and not is_new and owner == HELD_BY + number then has_one = true end
    end
    if not has_one then code = COMPANION_RULE end
    at = at + 1 + 4 * byte(rules, at)
  end
  if code == DONE and at <= #rules then
    local found = find_orphans(byte(rules, 5), sub(rules, at), lines)
    if found ~= '' then code, extra = ORPHAN_SEAT, found end
  end
end
if code == DONE then code, extra = HELD, string.char(is_together) .. words end
