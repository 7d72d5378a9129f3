-- open: the last step of a rebuild. The meta makes the new life usable; a rebuild that was overtaken stays closed. Said twice
-- it opens once: buyers may have come in between.
-- KEYS[1]  the new life's meta, KEYS[2] the event's newest epoch.
-- ARGV     epoch, meta bytes (time and cursors are set here), the event's time when the values were made: what was over then
--          stands in the list behind it; how far Redis' clock was ahead of that time.
-- Publishes an empty change with seq 0, so that every node hears of the new life.
-- Returns  {'opened' or 'overtaken', Redis' clock in ms}.
-- A rebuild fills for eight seconds at most: when more has passed since the values were made, or less than nothing, Redis'
-- clock was moved meanwhile.
local MOST_MS = 10000
local clock = redis.call('TIME')
local raw = clock[1] * 1000 + math.floor(clock[2] / 1000)
local newest = tonumber(redis.call('GET', KEYS[2]) or '0')
if newest > tonumber(ARGV[1]) then return { 'overtaken', raw } end
if redis.call('EXISTS', KEYS[1]) == 1 then return { 'opened', raw } end
local pack, floor = struct.pack, math.floor
local made_ms, skew = tonumber(ARGV[3]), tonumber(ARGV[4])
local now = raw - skew
if now < made_ms or now > made_ms + MOST_MS then now, skew = made_ms, raw - made_ms end
local tick, made = floor(now / 250), floor(made_ms / 250)
redis.call('SET', KEYS[1], ARGV[2])
-- High-water mark and the clock's correction, then the cursors: ended, forgotten, told a minute before, told a moment before.
redis.call('SETRANGE', KEYS[1], 31, pack('<I8i8', now, skew))
redis.call('SETRANGE', KEYS[1], 59, pack('<I8I4I8I4I8I4I8I4', made, 0, floor(now / 60000) - 2, 0,
  tick + 240, 0, tick + 60, 0))
redis.call(PUBLISH, string.sub(KEYS[1], 1, 33) .. 'feed', pack('<I4I8I8I2I2', tonumber(ARGV[1]), 0, now, 0, 0))
return { 'opened', raw }
