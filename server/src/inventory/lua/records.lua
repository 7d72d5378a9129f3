-- records: some records of identities, or some of their older answers, for a journal that is not whole. Nothing is written.
-- ARGV[2]  cursor, as text; ARGV[3] about how many; ARGV[4] 'p' for records, '0' to '2' for the bucket of answers of now
--          and those before.
-- Answers  {'read', Redis' clock, seq, the event's time, the next cursor ('0': that was all), the id of the newest change ('0-0' for none),
--          field, value, .. , the second at which the answers of the bucket were given at the latest}.
local bucket = floor(now / ANSWER_BUCKET_MS) - (tonumber(ARGV[4]) or 0)
local found = call('HSCAN', base .. (ARGV[4] == 'p' and 'p' or 'r' .. bucket), body, 'COUNT', ARGV[3])
local newest = call('XREVRANGE', base .. 'c', '+', '-', 'COUNT', '1')
return { 'read', raw, seq, now, found[1], newest[1] and newest[1][1] or '0-0', found[2],
  (bucket + 1) * ANSWER_BUCKET_MS / 1000 }
