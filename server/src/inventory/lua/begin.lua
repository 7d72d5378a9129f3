-- begin: the first step of a rebuild. From here on no older rebuild can open, and the life before is gone.
-- KEYS[1]  meta of the life before, KEYS[2] the event's newest epoch.
-- ARGV     epoch, the event's time in ms.
-- Returns  {'begun' or 'overtaken', Redis' clock in ms}.
local call, floor = redis.call, math.floor
local now = tonumber(ARGV[2])
local clock = call('TIME')
local raw = clock[1] * 1000 + floor(clock[2] / 1000)
local newest = tonumber(call('GET', KEYS[2]) or '0')
if newest > tonumber(ARGV[1]) then return { 'overtaken', raw } end
call('SET', KEYS[2], ARGV[1])
local base = string.sub(KEYS[1], 1, -2)
for name in string.gmatch('m s a k p n o c w v z', '%a') do call('UNLINK', base .. name) end
-- Lists of what would have ended within the hour, been forgotten or remembered.
for bucket = floor(now / 250) - 40, floor(now / 250) + 14400 do call('UNLINK', base .. 'x' .. bucket) end
for minute = floor(now / 60000) - 5, floor(now / 60000) + 15 do call('UNLINK', base .. 'f' .. minute) end
for bucket = floor(now / 300000) - 5, floor(now / 300000) do call('UNLINK', base .. 'r' .. bucket) end
return { 'begun', raw }
