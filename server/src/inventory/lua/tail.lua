-- Last part of every script that may change something: the answer, the caller's record, one change of the map as one seq,
-- one entry of the stream and one message.
if map_changes then seq = seq + 1 end
local answer = pack('<BI4I6I6I2', code, epoch, seq, now, code < 20 and CURRENT_HOLD or 0) .. extra
local remembers = key ~= NO_KEY and is_remembered
if remembers or record_changes then
  -- Answers that said "with the current hold" keep the hold they meant.
  if answers ~= '\0' and hold ~= hold_before then answers = settle_answers(answers, hold_before) end
  if remembers then
    local given = floor(now / 1000)
    if answers == '\0' then
      answers = pack('<Bc8c8I4I2', 1, key, print, given, #answer) .. answer
    else
      local count, at, kept = byte(answers), 2, {}
      for i = 1, count do
        local answer_key, answer_print, given_then, n = unpack('<c8c8I4I2', answers, at)
        local last = at + 21 + n
        if given_then * 1000 + KEEP_MS > now then
          if count - i + 1 < MAX_INLINE_ANSWERS then
            kept[#kept + 1] = sub(answers, at, last)
          else
            local settled = settle_answers('\1' .. sub(answers, at, last), hold)
            call('HSET', base .. 'r' .. floor(now / ANSWER_BUCKET_MS), me .. answer_key, answer_print .. sub(settled, 24))
            -- For the journal: identity and key, when it was given, fingerprint, answer.
            others = others or {}
            others[#others + 1], others[#others + 2] = me .. answer_key, pack('<I4', given_then) .. answer_print
              .. sub(settled, 24)
            spilled = 1
          end
        end
        at = last + 1
      end
      kept[#kept + 1] = pack('<c8c8I4I2', key, print, given, #answer) .. answer
      answers = string.char(#kept) .. table.concat(kept)
    end
  end
  -- Whoever has no hold is listed to be forgotten in time.
  if hold == '' then
    local minute = floor(now / 60000)
    if listed <= minute then
      listed = minute + KEEP_MS / 60000 + 1
      call('APPEND', base .. 'f' .. listed, me)
    end
  end
  record = pack('<I4I4I6I4I4BBI2', number, bought, admitted, unlocked, listed, spilled, #ended / 22, #hold)
    .. ended .. hold .. answers
  call('HSET', records, me, record)
  record_changes = true
end
local others_n = others and #others or 0
if map_changes or record_changes or others_n > 0 then
  call('SETRANGE', meta_key, '23', pack('<I8I8i8I4I4I4', seq, high, skew, open, numbers, available))
  local feed
  local changes, entry = base .. 'c', format('%d', seq)
  if map_changes then
    feed = pack('<I4I8I8I2I2', epoch, seq, now, #seat_words / 4, #area_words / 8) .. seat_words .. area_words
    if others_n > 0 then
      others[others_n + 1], others[others_n + 2] = 'f', feed
    elseif record_changes then
      call('XADD', changes, entry, 'f', feed, me, record)
    else
      call('XADD', changes, entry, 'f', feed)
    end
    call(PUBLISH, sub(base, 1, 33) .. 'feed', feed)
    if seq % CUT_EVERY == 0 then call('XTRIM', changes, 'MAXLEN', '~', MAX_CHANGES) end
  elseif others_n == 0 then
    -- A change that the map does not show: for the journal only.
    call('XADD', changes, 'MAXLEN', '~', MAX_CHANGES, entry .. '-*', me, record)
  end
  if others_n > 0 then
    if record_changes then others[#others + 1], others[#others + 2] = me, record end
    call('XADD', changes, 'MAXLEN', '~', MAX_CHANGES, entry .. (map_changes and '-0' or '-*'), spread(others))
  end
end
