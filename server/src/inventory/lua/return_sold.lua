return { 'done', raw, seq, now, answer, hold, revoked }
