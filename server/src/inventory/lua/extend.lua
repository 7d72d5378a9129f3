-- extend: adds time to a hold, once. An offer of the waitlist has its time and no more: others wait behind it.
-- Order of checks: owned.lua's, hold_locked, extend_refused.
-- ARGV[2]  hold id c16, ms to add I4.
-- Answers  done with the hold; extend_refused with 1 for an offer, 0 for a hold that was extended B. The map does not change: nothing is published, seq stays.
if code == DONE and is_locked then
  code, extra = HOLD_LOCKED, order
elseif code == DONE and (hold_flags % 2 == EXTENDED or floor(hold_flags / OFFER) % 2 == 1) then
  code, extra = EXTEND_REFUSED, string.char(floor(hold_flags / OFFER) % 2)
elseif code == DONE then
  record_changes = true
  hold_flags = hold_flags + EXTENDED
  expires = expires + unpack('<I4', body, 17)
  call('SETRANGE', base .. 'n', number * 24, pack('<c16I6BB', me, expires, 1, 0))
  call('APPEND', base .. 'x' .. ceil(expires / BUCKET_MS), pack('<I4', number))
end
