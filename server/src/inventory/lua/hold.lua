-- hold: adds seats to the caller's hold, all or none; a seat of one's own is a no-op that succeeds.
-- Order of checks: take.lua's, then seat_taken, limit_exceeded.
-- ARGV[2]  flags B (1: together), price groups (count B, 15 bytes each), seats: (index I4, group B) each.
-- Answers  held with flags B and the added seats (I4 each). Publishes the seats as held. Bounded by 200 seats a call.
local h, refusal = begin_taking()
if refusal then return refusal end
local body = ARGV[2]
local first = 3 + GROUP * byte(body, 2)
local mine = HELD_BY + who.number
local is_mine_live = who.number ~= 0 and not h.is_new
local added, taken, owners = {}, {}, {}
for pos = first, #body, 5 do
  local seat = unpack('<I4', body, pos)
  local owner = owner_of(seat)
  if owner == mine and who.number ~= 0 then
    if not is_mine_live then added[#added + 1] = pos end
  elseif may_take(owner, seat) then
    added[#added + 1] = pos
  else
    taken[#taken + 1] = sub(body, pos, pos + 3)
  end
end
if #taken > 0 then return refuse(SEAT_TAKEN, concat(taken)) end
refusal = exceeds_limit(h, #added)
if refusal then return refusal end
if #added == 0 then
  local answer = answer_with(HELD, sub(body, 1, 1))
  if key ~= NO_KEY then
    write_identity(who, answer)
    note()
  end
  return done(answer)
end

begin_writing(h)
mine = HELD_BY + who.number
local lines, indices = {}, {}
for i = 1, #added do
  local pos = added[i]
  local seat, group = unpack('<I4B', body, pos)
  if owner_of(seat) == 0 then available = available - 1 end
  set_owner(seat, mine)
  seat_changes[#seat_changes + 1] = pack('<I4', seat * 4 + 1)
  indices[i] = sub(body, pos, pos + 3)
  lines[i] = indices[i] .. string.char(group_of(h, sub(body, 3 + GROUP * group, 2 + GROUP * (group + 1))))
end
h.seats = h.seats .. concat(lines)
return finish_taking(h, sub(body, 1, 1) .. concat(indices))
