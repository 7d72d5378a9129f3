-- From here on everything is written: the caller's hold that is over ends, and the caller has a number.
local is_new_number = false
if code == HELD then
  if old_id ~= '' then
    give_back(number, old_seats, old_areas)
    ended = note_ending(ended, old_id)
  end
  if number == 0 then
    is_new_number = true
    number = numbers
    numbers = numbers + 1
  end
end
