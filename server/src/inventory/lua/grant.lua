-- grant: an allocation is unlocked for the caller; or the code opened nothing, which is remembered like any refusal.
-- ARGV[2]  bit of the allocation I4, 0 for a code that opens nothing.
-- Answers  done with the bit, or code_invalid. The map does not change: nothing is published, seq stays.
local CODE_INVALID = 37
local granted = unpack('<I4', body)
if granted == 0 then
  code = CODE_INVALID
else
  extra = pack('<I4', granted)
  if bit.band(unlocked, granted) == 0 then
    unlocked = unlocked + granted
    record_changes = true
  end
end
