-- resize: an area is to have fewer places. Only places nobody has can go: what is held, being paid or sold stays.
-- ARGV[2]  area I4, places it is to have I4.
-- Answers  done with the places somebody has I4: more than it is to have when nothing was changed. An area that has no more
--          than that already stays as it is. Publishes what is left of the area.
local area, wanted = unpack('<I4I4', body)
local had, left, kept = places_of(area)
local taken = had - left - kept
if wanted >= taken and wanted < had then set_capacity(area, wanted) end
extra = pack('<I4', max(0, taken))
