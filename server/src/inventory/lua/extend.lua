-- extend: adds time to a hold, once.
-- Order of checks: hold_not_found, hold_expired, hold_locked, extend_refused.
-- ARGV[2]  hold id c16, ms to add I4.
-- Answers  done with the hold. The map does not change: nothing is published, seq stays.
local h, refusal = find_hold()
if refusal then return refusal end
if h.is_locked then return refuse(HOLD_LOCKED, h.order) end
if h.flags % 2 == EXTENDED then return refuse(EXTEND_REFUSED) end
h.flags = h.flags + EXTENDED
h.expires = h.expires + unpack('<I4', ARGV[2], 17)
who.hold = hold_bytes(h)
set_slot(who.number, me, h.expires, 1)
list_expiry(who.number, h.expires)
local answer = answer_with(DONE, '')
write_identity(who, answer)
note()
return done(answer)
