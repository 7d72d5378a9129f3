-- Shared by sell and free: an order's lines, and what this life of the event knows of the order.
-- ARGV[2]  order id c16, count of seats I2, seats I4 each, areas: (area I4, quantity I4) each.
-- Key o, field order id: state B (1 reserved before this life began, 2 sold, 3 freed), then what was freed of it so far:
-- count of seats I2, seats I4 each, (area I4, quantity I4) each.
local RESERVED, SOLD, FREED = 1, 2, 3
local order, seats_n = unpack('<c16I2', body)
local seats_end = 18 + 4 * seats_n
local known, freed_seats, freed_areas = 0, '', ''
local order_bytes = call('HGET', base .. 'o', order)
if order_bytes then
  local n
  known, n = unpack('<BI2', order_bytes)
  freed_seats, freed_areas = sub(order_bytes, 4, 3 + 4 * n), sub(order_bytes, 4 + 4 * n)
end
-- The caller's hold, when it is locked for this order.
local is_locked = hold ~= '' and floor(byte(hold) / LOCK) % 2 == 1 and sub(hold, 28, 43) == order
local new_state
