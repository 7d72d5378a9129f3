-- Shared by the verbs that name a hold: it must be the caller's, open and not over.
-- Order of refusals: hold_not_found, hold_expired.
local id = sub(body, 1, 16)
local hold_flags, expires, order, until_ms = 0, 0, '', 0
local groups, seats, areas, is_locked = '', '', '', false
if hold ~= '' and sub(hold, 2, 17) == id then
  local _, groups_n, seats_n, at
  hold_flags, _, expires, groups_n, seats_n = unpack('<Bc16I6BI2B', hold)
  at = 28
  if floor(hold_flags / LOCK) % 2 == 1 then
    is_locked = true
    order, until_ms = unpack('<c16I6', hold, 28)
    at = 50
  end
  groups = sub(hold, at, at + GROUP * groups_n - 1)
  at = at + GROUP * groups_n
  seats = sub(hold, at, at + 5 * seats_n - 1)
  areas = sub(hold, at + 5 * seats_n)
  if not is_locked and expires <= now then code = HOLD_EXPIRED end
else
  code = HOLD_NOT_FOUND
  for at = 1, #ended, 22 do
    local ended_id, ended_ms = unpack('<c16I6', ended, at)
    if ended_id == id and ended_ms + KEEP_MS > now then code = HOLD_EXPIRED end
  end
end
