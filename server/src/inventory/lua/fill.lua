-- fill: a part of a new life's values. A rebuild says it again when an answer does not come, so one that Redis reads late must
-- not undo what buyers have done since: once the life is open it does nothing.
-- KEYS[1]  the new life's meta, whose tag all keys written share.
-- ARGV     the command that writes, then its arguments.
-- Returns  1 when it was written, 0 when the life is open.
if redis.call('EXISTS', KEYS[1]) == 1 then return 0 end
redis.call(unpack(ARGV))
return 1
