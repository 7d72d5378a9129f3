-- expire: ends what is due, names the holds that will end soon, forgets identities nobody needs any more. Any node, often.
-- ARGV[2]  most holds to end I4.
-- Answers  {'swept', Redis' clock, seq, caught up 0/1, open holds, ended holds, holds with 60 s left, with 15 s left}: each
--          list is identity c16, length I2, hold bytes. Publishes what became available, as one change.
local most = unpack('<I4', ARGV[2])
local is_caught_up = expire_due(most)

-- Lists of holds that end at `ahead` ms from now, each looked at once.
local function soon(offset, ahead)
  local cursor, at = unpack('<I8I4', meta, offset + 1)
  local last, found, looked = floor((now + ahead) / BUCKET_MS), {}, 0
  while cursor < last and looked < MAX_BUCKETS and #found < most do
    looked = looked + 1
    local bytes = call('GETRANGE', base .. 'x' .. (cursor + 1), at * 4, at * 4 + LIST_BYTES - 1)
    for pos = 1, #bytes, 4 do
      local number = unpack('<I4', bytes, pos)
      local identity, expires, status =
        unpack('<c16I6B', call('GETRANGE', base .. 'n', number * 24, number * 24 + 23))
      if status == 1 and math.ceil(expires / BUCKET_MS) == cursor + 1 then
        local hold = read_identity(identity).hold
        found[#found + 1] = identity .. pack('<I2', #hold) .. hold
      end
    end
    if #bytes < LIST_BYTES then
      cursor, at = cursor + 1, 0
    else
      at = at + LIST_BYTES / 4
    end
  end
  call('SETRANGE', meta_key, offset, pack('<I8I4', cursor, at))
  return concat(found)
end

-- An identity is kept while it has a hold, a fresh answer or ending; a purchase or a permission outlives both.
local MAX_FORGOTTEN = 64
local function forget()
  local minute, at = unpack('<I8I4', meta, 72)
  local last = floor(now / 60000) - 1
  if minute >= last then return end
  local list = base .. 'f' .. (minute + 1)
  local bytes = call('GETRANGE', list, at * 16, (at + MAX_FORGOTTEN) * 16 - 1)
  for pos = 1, #bytes, 16 do
    local r = read_identity(sub(bytes, pos, pos + 15))
    local newest = 0
    for p = 1, #r.ended, 22 do
      local _, ended = unpack('<c16I6', r.ended, p)
      newest = math.max(newest, ended)
    end
    local p = 2
    for _ = 1, byte(r.answers) do
      local _, _, given, len = unpack('<c8c8I4I2', r.answers, p)
      newest = math.max(newest, given * 1000 + 1000)
      p = p + 22 + len
    end
    if r.hold == '' then
      if newest + KEEP_MS > now then
        r.listed = floor((newest + KEEP_MS) / 60000) + 1
        call('APPEND', base .. 'f' .. r.listed, r.identity)
        write_identity(r)
      elseif r.bought > 0 or r.admitted > now or r.unlocked ~= 0 then
        if r.ended ~= '' or r.answers ~= '\0' then
          r.ended, r.answers, r.spilled, r.listed = '', '\0', 0, floor(now / 60000) + 1
          write_identity(r)
        end
      else
        call('HDEL', base .. 'p', r.identity)
        journal[#journal + 1] = r.identity .. pack('<I2', 0)
      end
    end
  end
  if #bytes < MAX_FORGOTTEN * 16 then
    call('UNLINK', list)
    call('SETRANGE', meta_key, 71, pack('<I8I4', minute + 1, 0))
    call('UNLINK', base .. 'r' .. (floor(now / 300000) - 4))
  else
    call('SETRANGE', meta_key, 71, pack('<I8I4', minute, at + MAX_FORGOTTEN))
  end
end

local in_a_minute, in_a_moment = soon(83, 60000), soon(95, 15000)
forget()
if #seat_changes + #area_changes > 0 then
  seq = seq + 1
  publish()
elseif #journal > 0 then
  note()
else
  write_meta()
end
return { 'swept', raw, seq, is_caught_up and 1 or 0, open, concat(expired), in_a_minute, in_a_moment }
