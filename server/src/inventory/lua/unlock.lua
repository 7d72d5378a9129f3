-- unlock: the checkout was refused before anything was reserved; the hold goes on with the time it has left.
-- Order of checks: hold_not_found, hold_locked (by another order). An unlocked hold stays as it is.
-- ARGV[2]  hold id c16, order id c16.
-- Answers  done with the hold. The map does not change: nothing is published, seq stays.
local h, refusal = find_hold()
if refusal then return refusal end
local order = sub(ARGV[2], 17, 32)
if h.is_locked and h.order ~= order then return refuse(HOLD_LOCKED, h.order) end
local answer = answer_with(DONE, '')
if h.is_locked then
  h.is_locked, h.flags = false, h.flags - LOCK
  who.hold = hold_bytes(h)
  set_slot(who.number, me, h.expires, 1)
  list_expiry(who.number, h.expires)
  write_identity(who, answer)
  note()
end
return done(answer)
