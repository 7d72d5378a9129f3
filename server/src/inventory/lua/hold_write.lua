-- hold, written.
if code == HELD and added_n > 0 then
  record_changes = true
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
  seat_words = seat_words .. words
  if groups == '' then
    groups = sub(body, 7, lines_at - 1)
  else
    -- Prices are kept as they were when each line was added; equal ones share a group.
    local index_of = {}
    for i = 0, groups_n - 1 do
      local group = sub(body, 7 + GROUP * i, 6 + GROUP * (i + 1))
      for at = 1, #groups, GROUP do
        if sub(groups, at, at + GROUP - 1) == group then index_of[i] = (at - 1) / GROUP end
      end
      if not index_of[i] then
        index_of[i] = #groups / GROUP
        groups = groups .. group
      end
    end
    local renumbered = {}
    for at = 1, #lines, 5 do
      renumbered[#renumbered + 1] = sub(lines, at, at + 3) .. string.char(index_of[byte(lines, at + 4)])
    end
    lines = table.concat(renumbered)
  end
  seats = seats .. lines
end
