-- What cancelled events have still unpaid, or paid and not given back, is asked for every second: 94 ms among a million
-- orders and 5,000 of one such event by its orders alone, 0.1 ms with their states. A state is part of other indexes
-- already, so a change of it costs no more than before.
create index orders_in_state on orders (event_id, state, order_id);
drop index orders_of_event;
