-- stock: what is left of an event. Nothing is written.
-- Answers  {'done', Redis' clock, seq, the event's time, available seats, open holds, what is left of each area (I4 each), kept seats, kept
--          places of each area (I4 each)}.
return { 'done', raw, seq, now, available, open, call('GET', base .. 'a') or '', call('ZCARD', base .. 'w'),
  call('GET', base .. 'v') or '' }
