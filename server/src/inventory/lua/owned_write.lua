-- The hold as it is now.
if record_changes and hold ~= '' then
  hold = pack('<Bc16I6BI2B', hold_flags, id, expires, #groups / GROUP, #seats / 5, #areas / 9)
    .. (is_locked and pack('<c16I6', order, until_ms) or '') .. groups .. seats .. areas
end
