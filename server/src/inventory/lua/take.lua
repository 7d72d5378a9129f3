-- Shared by the verbs that add to a hold: what comes before the places are looked at.
-- Order of refusals: admission_required, event state, hold_locked (then the verb's own, and the limit).
-- Flags of the call: NEEDS_ADMISSION, HAS_RULES the last argument is the rules: mask of the allocations that are open now I4, and
-- what the verb says of them, WANTS_FRESH the caller wants to know when its prices are old ones.
if floor(flags / WANTS_FRESH) % 2 == 1 and revision < m_revision then return { 'stale', raw, seq } end
-- Sold out is a fact and no gate: what is available again is sold at once, unless somebody waits for it.
if m_state == 4 and available > 0 and floor(m_flags / 2) % 2 == 0 then m_state = 2 end
local rules = floor(flags / HAS_RULES) % 2 == 1 and ARGV[#ARGV]
-- Allocations whose seats the caller may take: those unlocked and still open.
local opened = unlocked ~= 0 and rules and bit.band(unlocked, (unpack('<I4', rules))) or 0
local COMPANION_RULE, ORPHAN_SEAT, MISSED = 33, 34, 36
local is_new, old_id, old_seats, old_areas = true, '', '', ''
local hold_flags, hold_id, expires = 0, new_id, now + m_ttl
local groups, seats, areas, used = '', '', '', bought
if floor(flags / NEEDS_ADMISSION) % 2 == 1 and admitted <= now then
  code, is_remembered = ADMISSION_REQUIRED, false
elseif m_state ~= 2 and not (m_state == 1 and opened ~= 0) then
  code = m_state == 3 and PAUSED or m_state == 4 and SOLD_OUT or NOT_ON_SALE
elseif hold ~= '' then
  local found_flags, found_id, found_expires, groups_n, seats_n = unpack('<Bc16I6BI2B', hold)
  local seats_at = 28 + GROUP * groups_n
  local areas_at = seats_at + 5 * seats_n
  if floor(found_flags / LOCK) % 2 == 1 then
    code, extra = HOLD_LOCKED, sub(hold, 28, 43)
  elseif found_expires <= now then
    -- It is over and counts for nothing; it ends when the new one is written.
    old_id, old_seats, old_areas = found_id, sub(hold, seats_at, areas_at - 1), sub(hold, areas_at)
    gives_back = true
  else
    is_new, hold_flags, hold_id, expires = false, found_flags, found_id, found_expires
    groups, seats, areas = sub(hold, 28, seats_at - 1), sub(hold, seats_at, areas_at - 1), sub(hold, areas_at)
    used = used + seats_n
    for at = 1, #areas, 9 do
      local _, _, quantity = unpack('<I4BI4', areas, at)
      used = used + quantity
    end
  end
end
