-- end_holds: the event was cancelled: open holds end, a few at a time. Locked ones go on: their order does. One that was
-- closed takes no new holds, and those that are open live out their time.
-- ARGV[2]  number to begin with I4, most holds to end I4.
-- Answers  done with the number to go on with, 0 when through, then the ended holds: identity c16, length I2, hold bytes.
--          Publishes what became available, as one change.
local MAX_LOOKED = 1000
-- Seats given back in one call, a hold more or less.
local MAX_FREED = 2000
local at, most = unpack('<I4I4', body)
at = max(1, at)
local last, revoked = at + MAX_LOOKED, {}
if m_state ~= 6 then at = numbers end
while at < numbers and at < last and #revoked < most and #seat_words < 4 * MAX_FREED do
  local slot = call('GETRANGE', base .. 'n', at * 24, at * 24 + 23)
  local identity, _, status = unpack('<c16I6B', slot)
  if status == 1 then
    local r = read_other(identity)
    local id, seat_lines, area_lines = parts_of(r.hold)
    revoked[#revoked + 1] = identity .. pack('<I2', #r.hold) .. r.hold
    give_back(at, seat_lines, area_lines)
    r.ended = note_ending(r.ended, id)
    r.hold = ''
    call('SETRANGE', base .. 'n', at * 24, pack('<c16I6BB', identity, 0, 0, 0))
    write_other(r)
  end
  at = at + 1
end
local go_on = at < numbers and at or 0
