-- hold_read: the caller's open hold. Nothing is written.
-- Answers  done with the hold, or with none.
if hold ~= '' and floor(byte(hold) / LOCK) % 2 == 0 then
  local _, _, expires = unpack('<Bc16I6', hold)
  if expires <= now then hold = '' end
end
return { 'done', raw, seq, '', hold }
