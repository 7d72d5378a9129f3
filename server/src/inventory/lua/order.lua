-- Shared by sell and free: an order's lines, and what this life of the event knows of the order.
-- ARGV[2]  order id c16, count of seats I2, seats I4 each, areas: (area I4, quantity I4) each.
-- Key o, field order id: state B (1 reserved before this life began, 2 sold, 3 freed), then what was freed of it so far:
-- count of seats I2, seats I4 each, (area I4, quantity I4) each.
local RESERVED, SOLD, FREED = 1, 2, 3
local order, seats_n = unpack('<c16I2', ARGV[2])
local seats_end = 18 + 4 * seats_n
local known, freed_seats, freed_areas = 0, '', ''
do
  local bytes = call('HGET', base .. 'o', order)
  if bytes then
    local n
    known, n = unpack('<BI2', bytes)
    freed_seats, freed_areas = sub(bytes, 4, 3 + 4 * n), sub(bytes, 4 + 4 * n)
  end
end

local function write_order(order_state)
  call('HSET', base .. 'o', order, pack('<BI2', order_state, #freed_seats / 4) .. freed_seats .. freed_areas)
end

-- The caller's hold when it is locked for this order.
local function locked_hold()
  local h = who.hold ~= '' and read_hold(who.hold)
  if h and h.is_locked and h.order == order then return h end
end

local function places_of_order()
  local n = seats_n
  for pos = seats_end + 1, #ARGV[2], 8 do
    local _, quantity = unpack('<I4I4', ARGV[2], pos)
    n = n + quantity
  end
  return n
end

local function finish()
  local answer = answer_with(DONE, '')
  if #seat_changes + #area_changes > 0 then
    seq = seq + 1
    answer = answer_with(DONE, '')
    write_identity(who)
    publish()
  else
    write_identity(who)
    note()
  end
  return done(answer)
end
