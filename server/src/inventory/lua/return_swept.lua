return { 'swept', raw, seq, now, is_caught_up and 1 or 0, open, table.concat(expired), in_a_minute, in_a_moment, jump }
