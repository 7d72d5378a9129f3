-- expire: ends what is due, names the holds that will end soon, forgets identities nobody needs any more. Any node, often.
-- ARGV[2]  most holds to end I4, ms that have passed since the last sweep I8. Flag BELIEVE_CLOCK: the clock is right,
--          time has passed; CORRECT_CLOCK: it was moved, correct for all but what has passed.
-- Answers  {'swept', Redis' clock, seq, the event's time, caught up 0/1, open holds, ended holds, holds with 60 s left, with
--          15 s left, jump of the clock in ms}: each list is identity c16, length I2, hold bytes. Publishes what became available, as one
--          change.
local most, passed = unpack('<I4I8', body)
-- Another node may have corrected it meanwhile.
local MOVED_MS = 10000
if floor(flags / CORRECT_CLOCK) % 2 == 1 and (jump > MOVED_MS or jump < -MOVED_MS) then
  skew, jump, now = skew + jump - passed, 0, now + passed
  high = now
end
local is_caught_up = expire_due(most)

-- Lists of holds that end at `ahead` ms from now, each looked at once.
local function soon(offset, ahead)
  local cursor, cursor_at = unpack('<I8I4', meta, offset + 1)
  local last, found, looked = floor((now + ahead) / BUCKET_MS), {}, 0
  while cursor < last and looked < MAX_LISTS and #found < most do
    looked = looked + 1
    local bytes = call('GETRANGE', base .. 'x' .. (cursor + 1), cursor_at * 4, cursor_at * 4 + LIST_BYTES - 1)
    for at = 1, #bytes, 4 do
      local n = unpack('<I4', bytes, at)
      local identity, ends, status = unpack('<c16I6B', call('GETRANGE', base .. 'n', n * 24, n * 24 + 23))
      if status == 1 and ceil(ends / BUCKET_MS) == cursor + 1 then
        local other = read_other(identity).hold
        found[#found + 1] = identity .. pack('<I2', #other) .. other
      end
    end
    if #bytes < LIST_BYTES then
      cursor, cursor_at = cursor + 1, 0
    else
      cursor_at = cursor_at + LIST_BYTES / 4
    end
  end
  call('SETRANGE', meta_key, offset, pack('<I8I4', cursor, cursor_at))
  return table.concat(found)
end

-- An identity is kept while it has a hold, a fresh answer or ending; a purchase or a permission outlives both.
local MAX_FORGOTTEN = 64
local function forget()
  local minute, minute_at = unpack('<I8I4', meta, 72)
  local this_minute = floor(now / 60000)
  if minute >= this_minute - 1 then return end
  local list = base .. 'f' .. (minute + 1)
  local bytes = call('GETRANGE', list, minute_at * 16, (minute_at + MAX_FORGOTTEN) * 16 - 1)
  for at = 1, #bytes, 16 do
    local r = read_other(sub(bytes, at, at + 15))
    local newest = 0
    for i = 1, #r.ended, 22 do
      local _, ended_ms = unpack('<c16I6', r.ended, i)
      newest = max(newest, ended_ms)
    end
    local i = 2
    for _ = 1, byte(r.answers) do
      local _, _, given, n = unpack('<c8c8I4I2', r.answers, i)
      newest = max(newest, given * 1000 + 1000)
      i = i + 22 + n
    end
    if r.hold ~= '' then
      newest = 0
    elseif newest + KEEP_MS > now then
      r.listed = floor((newest + KEEP_MS) / 60000) + 1
      call('APPEND', base .. 'f' .. r.listed, r.identity)
      write_other(r)
    elseif r.bought == 0 and r.admitted <= now and r.unlocked == 0 then
      call('HDEL', base .. 'p', r.identity)
      others[#others + 1], others[#others + 2] = r.identity, ''
    elseif r.ended ~= '' or r.answers ~= '\0' then
      r.ended, r.answers, r.spilled, r.listed = '', '\0', 0, 0
      write_other(r, true)
    end
  end
  if #bytes < MAX_FORGOTTEN * 16 then
    call('UNLINK', list, base .. 'r' .. (floor(now / ANSWER_BUCKET_MS) - 4))
    call('SETRANGE', meta_key, 71, pack('<I8I4', minute + 1, 0))
  else
    call('SETRANGE', meta_key, 71, pack('<I8I4', minute, minute_at + MAX_FORGOTTEN))
  end
end

local in_a_minute, in_a_moment = soon(83, 60000), soon(95, 15000)
forget()
-- The clock's mark and correction move on even when nothing happens.
call('SETRANGE', meta_key, 31, pack('<I8i8', high, skew))
