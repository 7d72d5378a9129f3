-- Shared by expire and hold_area: ends holds whose time has come, a few at a time, by the lists of holds that end together.
-- The cursor stands in the meta, so that any node may go on where another stopped.
local MAX_LAZY = 32
-- Seats and areas given back in one call.
local MAX_FREED = 400
-- Lists looked at in one call: an hour without a sweeper is caught up in fifteen calls.
local MAX_BUCKETS = 1000
local LIST_BYTES = 64 * 4
local swept, swept_at = unpack('<I8I4', meta, 60)
local expired = {}

local function expire_number(number)
  local identity, expires, status = unpack('<c16I6B', call('GETRANGE', base .. 'n', number * 24, number * 24 + 23))
  if status ~= 1 or expires > now then return end
  if number == who.number then
    list_expiry(number, now)
    return
  end
  local r = read_identity(identity)
  local h = read_hold(r.hold)
  expired[#expired + 1] = identity .. pack('<I2', #r.hold) .. r.hold
  expire_hold(r, h)
  write_identity(r)
end

-- Returns whether everything due is done.
local function expire_due(most)
  local last, looked = floor(now / BUCKET_MS), 0
  while swept < last do
    if looked >= MAX_BUCKETS or #expired >= most or #seat_changes + #area_changes >= MAX_FREED then break end
    looked = looked + 1
    local list = base .. 'x' .. (swept + 1)
    local bytes = call('GETRANGE', list, swept_at * 4, swept_at * 4 + LIST_BYTES - 1)
    if bytes == '' then
      if swept_at > 0 then call('UNLINK', list) end
      swept, swept_at = swept + 1, 0
    else
      for pos = 1, #bytes, 4 do
        swept_at = swept_at + 1
        expire_number(unpack('<I4', bytes, pos))
        if #expired >= most or #seat_changes + #area_changes >= MAX_FREED then break end
      end
    end
  end
  call('SETRANGE', meta_key, 59, pack('<I8I4', swept, swept_at))
  return swept >= last
end
