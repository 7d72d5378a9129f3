-- How many places an area has, as the shelf knows it. A life from before areas had that here is ended and rebuilt.
local capacities = base .. 'z'
if call('STRLEN', capacities) ~= call('STRLEN', base .. 'a') then return { 'lost', raw, seq } end
-- What the area had, what is left for everyone (below nothing after a late success), and what is kept for the waitlist.
local function places_of(area)
  local from, to = area * 4, area * 4 + 3
  local had, left = unpack('<I4', call('GETRANGE', capacities, from, to)), unpack('<i4', call('GETRANGE', base .. 'a', from, to))
  return had, left, (unpack('<I4', call('GETRANGE', base .. 'v', from, to) .. '\0\0\0\0'))
end
-- New places are for those who wait, if anybody does. Places go from what is free, then from what is kept; beyond that the
-- area is below nothing until some come back.
local function set_capacity(area, wanted)
  local had, left, kept = places_of(area)
  if wanted == had then return end
  call('SETRANGE', capacities, area * 4, pack('<I4', wanted))
  local by = wanted - had
  if by < 0 then
    local of_kept = math.min(kept, max(0, -by - max(0, left)))
    if of_kept > 0 then
      call('SETRANGE', base .. 'v', area * 4, pack('<I4', kept - of_kept))
      by = by + of_kept
    end
  end
  if by ~= 0 then change_area(area, by) end
end
