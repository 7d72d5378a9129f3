-- unlock: the checkout was refused before anything was reserved; the hold goes on with the time it has left.
-- Order of checks: owned.lua's, hold_locked (by another order). An unlocked hold stays as it is.
-- ARGV[2]  hold id c16, order id c16.
-- Answers  done with the hold. The map does not change: nothing is published, seq stays.
if code == DONE and is_locked then
  if order ~= sub(body, 17, 32) then
    code, extra = HOLD_LOCKED, order
  else
    record_changes = true
    is_locked, hold_flags = false, hold_flags - LOCK
    call('SETRANGE', base .. 'n', number * 24, pack('<c16I6BB', me, expires, 1, 0))
    call('APPEND', base .. 'x' .. max(ceil(expires / BUCKET_MS), floor(now / BUCKET_MS) + 1), pack('<I4', number))
  end
end
