-- hold_read: the caller's open hold. Nothing is written.
-- ARGV[2]  empty, or the id of a hold c16.
-- Answers  done with the hold, or with none; then 1 when the named hold was the caller's and ended a short while ago.
local is_over = 0
if hold ~= '' and floor(byte(hold) / LOCK) % 2 == 0 then
  local _, id, expires = unpack('<Bc16I6', hold)
  if expires <= now then
    if id == body then is_over = 1 end
    hold = ''
  end
end
for at = 1, #ended, 22 do
  local id, ended_ms = unpack('<c16I6', ended, at)
  if id == body and ended_ms + KEEP_MS > now then is_over = 1 end
end
return { 'done', raw, seq, now, '', hold, is_over }
