-- hold_read: the caller's open hold. Nothing is written.
-- Answers  done with the hold, or with none.
local h = who.hold ~= '' and read_hold(who.hold)
if h and is_over(h) then return { 'done', raw, seq, answer_without(DONE, ''), '' } end
return done(answer_with(DONE, ''))
