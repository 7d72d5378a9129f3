return { 'done', raw, seq, answer, hold, table.concat(revoked), go_on }
