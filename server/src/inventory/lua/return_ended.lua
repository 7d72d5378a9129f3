return { 'done', raw, seq, now, answer, hold, table.concat(revoked), go_on }
