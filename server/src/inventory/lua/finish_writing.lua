-- The hold as it is now, and when it ends.
if code == HELD and record_changes then
  map_changes = true
  hold = pack('<Bc16I6BI2B', hold_flags, hold_id, expires, #groups / GROUP, #seats / 5, #areas / 9) .. groups .. seats .. areas
  if is_new then
    open = open + 1
    call('SETRANGE', base .. 'n', number * 24, pack('<c16I6BB', me, expires, 1, 0))
    call('APPEND', base .. 'x' .. ceil(expires / BUCKET_MS), pack('<I4', number))
  end
end
