-- lock: a checkout has begun; the hold no longer ends by itself. Locking again for the same order moves the lock's end.
-- Order of checks: owned.lua's, hold_locked (by another order).
-- ARGV[2]  hold id c16, order id c16, end of the lock I8 (ms).
-- Answers  locked with the hold. The map does not change: nothing is published, seq stays.
if code == DONE then
  local asking, asked_until_ms = unpack('<c16I8', body, 17)
  if is_locked and order ~= asking then
    code, extra = HOLD_LOCKED, order
  else
    code = LOCKED
    if not is_locked or asked_until_ms > until_ms then
      record_changes = true
      if not is_locked then hold_flags = hold_flags + LOCK end
      is_locked, order, until_ms = true, asking, max(until_ms, asked_until_ms)
      call('SETRANGE', base .. 'n', number * 24, pack('<c16I6BB', me, until_ms, 2, 0))
    end
  end
end
