-- Ends holds whose time has come, a few at a time, by the lists of holds that end together. The cursor stands in the meta,
-- so that any node may go on where another stopped.
local MAX_LAZY = 32
-- Seats and areas given back in one call.
local MAX_FREED = 400
-- Lists looked at in one call: an hour without a sweeper is caught up in fifteen calls.
local MAX_LISTS = 1000
local LIST_BYTES = 64 * 4
local swept, swept_at = unpack('<I8I4', meta, 60)
local expired_n, expired = 0, {}

local function expire_number(n)
  local identity, expires, status = unpack('<c16I6B', call('GETRANGE', base .. 'n', n * 24, n * 24 + 23))
  if status ~= 1 or expires > now then return end
  if n == number then
    -- The caller's own: the verb deals with it, and if it does not, the next sweep.
    call('APPEND', base .. 'x' .. (floor(now / BUCKET_MS) + 1), pack('<I4', n))
    return
  end
  local r = read_other(identity)
  local id, seat_lines, area_lines = parts_of(r.hold)
  expired_n = expired_n + 1
  expired[expired_n] = identity .. pack('<I2', #r.hold) .. r.hold
  give_back(n, seat_lines, area_lines)
  r.ended = note_ending(r.ended, id)
  r.hold = ''
  call('SETRANGE', base .. 'n', n * 24, pack('<c16I6BB', identity, 0, 0, 0))
  write_other(r)
end

-- Returns whether everything due is done; `is_exact`: also of the list whose time is not over yet, as far as that is short.
local MAX_LOOKED = 1024
local function expire_due(most, is_exact)
  local last, looked = floor(now / BUCKET_MS), 0
  while swept < last do
    if looked >= MAX_LISTS or expired_n >= most or #seat_words > 4 * MAX_FREED then break end
    looked = looked + 1
    local list = base .. 'x' .. (swept + 1)
    local bytes = call('GETRANGE', list, swept_at * 4, swept_at * 4 + LIST_BYTES - 1)
    if bytes == '' then
      if swept_at > 0 then call('UNLINK', list) end
      swept, swept_at = swept + 1, 0
    else
      for at = 1, #bytes, 4 do
        swept_at = swept_at + 1
        expire_number(unpack('<I4', bytes, at))
        if expired_n >= most or #seat_words > 4 * MAX_FREED then break end
      end
    end
  end
  call('SETRANGE', meta_key, 59, pack('<I8I4', swept, swept_at))
  local is_done, list, at = swept >= last, base .. 'x' .. (last + 1), 0
  while is_done and is_exact do
    local bytes = call('GETRANGE', list, at * 4, at * 4 + LIST_BYTES - 1)
    for i = 1, #bytes, 4 do
      local n = unpack('<I4', bytes, i)
      -- Who ends here is passed over when the list's time comes; the caller's own stays for then.
      if n ~= number then expire_number(n) end
      is_done = is_done and expired_n < most and #seat_words <= 4 * MAX_FREED
    end
    at = at + LIST_BYTES / 4
    if #bytes < LIST_BYTES then break end
    is_done = is_done and at < MAX_LOOKED
  end
  return is_done
end
