return { 'done', raw, seq, answer, hold, revoked }
