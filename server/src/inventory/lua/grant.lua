-- grant: an allocation is unlocked for the caller; or the code opened nothing, which is remembered like any refusal.
-- Order of checks: too many wrong codes, code_invalid. An answer given again is no guess: head.lua gave it.
-- ARGV[2]  bit of the allocation I4, 0 for a code that opens nothing.
-- Answers  done with the bit, code_invalid, or guessed with the ms to wait I4, which is not remembered. The map does not
--          change: nothing is published, seq stays.
local CODE_INVALID, GUESSED = 37, 38
-- Wrong codes of an identity in this minute and the one before: enough for typing errors. Counted here, so that no node
-- can be asked past the others.
local MAX_WRONG, WINDOW_MS = 5, 60000
local granted = unpack('<I4', body)
local window = floor(now / WINDOW_MS)
local function wrong_in(n) return tonumber(call('HGET', base .. 'g' .. format('%d', n), me) or '0') end
local here, before = wrong_in(window), wrong_in(window - 1)
if here + before >= MAX_WRONG then
  -- What was guessed in this minute still counts in the next.
  local until_ms = (window + (here >= MAX_WRONG and 2 or 1)) * WINDOW_MS
  code, extra, is_remembered = GUESSED, pack('<I4', until_ms - now), false
elseif granted == 0 then
  code = CODE_INVALID
  local list = base .. 'g' .. format('%d', window)
  call('HINCRBY', list, me, 1)
  -- A convenience: what stays too long is a little memory. By the wall clock, so longer than it is asked for.
  call('PEXPIRE', list, 4 * WINDOW_MS)
else
  extra = pack('<I4', granted)
  if bit.band(unlocked, granted) == 0 then
    unlocked = unlocked + granted
    record_changes = true
  end
end
