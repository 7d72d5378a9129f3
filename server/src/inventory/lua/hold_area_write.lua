-- hold_area, written.
if code == HELD then
  record_changes = true
  change_area(area, -quantity)
  local group, group_i = sub(body, 9, 8 + GROUP), nil
  for at = 1, #groups, GROUP do
    if sub(groups, at, at + GROUP - 1) == group then group_i = (at - 1) / GROUP end
  end
  if not group_i then
    group_i = #groups / GROUP
    groups = groups .. group
  end
  local lines, is_merged = {}, false
  for at = 1, #areas, 9 do
    local held_area, held_group, n = unpack('<I4BI4', areas, at)
    if held_area == area and held_group == group_i then
      n, is_merged = n + quantity, true
    end
    lines[#lines + 1] = pack('<I4BI4', held_area, held_group, n)
  end
  if not is_merged then lines[#lines + 1] = pack('<I4BI4', area, group_i, quantity) end
  areas = table.concat(lines)
end
