-- What is known of the order now, and of its buyer.
if new_state then
  record_changes = true
  call('HSET', base .. 'o', order, pack('<BI2', new_state, #freed_seats / 4) .. freed_seats .. freed_areas)
  if number ~= 0 and hold == '' then call('SETRANGE', base .. 'n', number * 24, pack('<c16I6BB', me, 0, 0, 0)) end
end
