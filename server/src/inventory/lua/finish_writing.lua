-- The hold as it is now, and when it ends.
if code == HELD and record_changes then
  map_changes = true
  hold = pack('<Bc16I6BI2B', hold_flags, hold_id, expires, #groups / GROUP, #seats / 5, #areas / 9) .. groups .. seats .. areas
  if is_new then
    open = open + 1
    local slot = pack('<c16I6BB', me, expires, 1, 0)
    if is_new_number then
      call('APPEND', base .. 'n', slot)
    else
      call('SETRANGE', base .. 'n', number * 24, slot)
    end
    call('APPEND', base .. 'x' .. format('%d', ceil(expires / BUCKET_MS)), pack('<I4', number))
  end
end
