-- Single seats that would be left, where the rule does not allow them. Only where an event has such a rule.
-- checks: of each seat that could be left: itself I4, the seat beyond it I4 (ffffffff: none, or one that is taken with this
-- call), first seat I4 and length I2 of its run. lines: the seats to be taken, 5 bytes each.
-- leaving (or nothing): seats of one's own that are given up with this call, by their bytes; they count as free.
-- Strict allows one where the run is nearly sold out; lenient where the free seats around it are one more than those taken.
local NOBODY = 0xffffffff
local find_orphans = rules and function(rule, checks, lines, leaving)
  local is_taken, found = {}, {}
  for at = 1, #lines, 5 do is_taken[unpack('<I4', lines, at)] = true end
  for at = 1, #checks, 14 do
    local seat, beyond, first, n = unpack('<I4I4I4I2', checks, at)
    local last = first + n - 1
    local owners = call('GETRANGE', base .. 's', first * 4, last * 4 + 3)
    local function is_free(i)
      return sub(owners, (i - first) * 4 + 1, (i - first) * 4 + 4) == '\0\0\0\0' or leaving and leaving[pack('<I4', i)]
    end
    -- Seats of one's own that are named again take nothing.
    local is_beside = seat > first and is_taken[seat - 1] or seat < last and is_taken[seat + 1]
    if is_beside and is_free(seat) and not is_taken[seat] and (beyond == NOBODY or is_taken[beyond] or not is_free(beyond)) then
      local is_allowed
      if rule == 2 then
        local left = 0
        for i = first, last do
          if is_free(i) and not is_taken[i] then left = left + 1 end
        end
        is_allowed = left <= max(1, floor(n / 10))
      else
        local left, from, to = 0, seat, seat
        while from > first and (is_free(from - 1) or is_taken[from - 1]) do from = from - 1 end
        while to < last and (is_free(to + 1) or is_taken[to + 1]) do to = to + 1 end
        for i = from, to do
          if not is_taken[i] then left = left + 1 end
        end
        is_allowed = left == 1
      end
      if not is_allowed then found[#found + 1] = sub(checks, at, at + 3) end
    end
  end
  return table.concat(found)
end
