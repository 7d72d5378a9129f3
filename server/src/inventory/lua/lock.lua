-- lock: a checkout has begun; the hold no longer ends by itself. Locking again for the same order moves the lock's end.
-- Order of checks: hold_not_found, hold_expired, hold_locked (by another order).
-- ARGV[2]  hold id c16, order id c16, end of the lock I8 (ms).
-- Answers  locked with the hold. The map does not change: nothing is published, seq stays.
local h, refusal = find_hold()
if refusal then return refusal end
local order, until_ms = unpack('<c16I8', ARGV[2], 17)
if h.is_locked and h.order ~= order then return refuse(HOLD_LOCKED, h.order) end
h.until_ms = math.max(h.until_ms or 0, until_ms)
if not h.is_locked then h.flags = h.flags + LOCK end
h.is_locked, h.order = true, order
who.hold = hold_bytes(h)
set_slot(who.number, me, until_ms, 2)
local answer = answer_with(LOCKED, '')
write_identity(who, answer)
note()
return done(answer)
