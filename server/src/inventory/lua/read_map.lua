-- read_map: the whole map and its position, as one moment.
-- Answers  {'map', Redis' clock, seq, the event's time, owner words (I4 a seat), what is left of each area (I4 each)}.
return { 'map', raw, seq, now, call('GET', base .. 's') or '', call('GET', base .. 'a') or '' }
