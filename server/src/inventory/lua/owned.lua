-- Shared by the verbs that name a hold: it must be the caller's, open and not over.
local id = sub(ARGV[2], 1, 16)

local function find_hold()
  local h = who.hold ~= '' and read_hold(who.hold)
  if h and h.id == id then
    if is_over(h) then return nil, refuse(HOLD_EXPIRED) end
    return h
  end
  if has_ended(who, id) then return nil, refuse(HOLD_EXPIRED) end
  return nil, refuse(HOLD_NOT_FOUND)
end
