-- changes: entries of the stream from a position on, for the journal. A script rather than a plain read, because it does
-- not exist in a Redis whose data may be older. Nothing is written.
-- ARGV[2]  first entry, as text of 24 bytes at most (it is answered too, when it is still there); ARGV[3] most entries.
-- Answers  {'read', Redis' clock, seq, the event's time, the entries as XRANGE gives them}.
return { 'read', raw, seq, now, call('XRANGE', base .. 'c', body, '+', 'COUNT', ARGV[3]) }
