-- The lines of added seats, written. The verb leaves them in `lines` (seat I4, group B), their words for the feed in `words`,
-- and the price groups in the body at `groups_at`.
if code == HELD and added_n > 0 then
  record_changes = true
  seat_words = seat_words .. words
  if groups == '' then
    groups = sub(body, groups_at, groups_at + GROUP * groups_n - 1)
  else
    -- Prices are kept as they were when each line was added; equal ones share a group.
    local index_of = {}
    for i = 0, groups_n - 1 do
      local group = sub(body, groups_at + GROUP * i, groups_at + GROUP * (i + 1) - 1)
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
