-- Of what is said of a dispute the newest by the provider's clock counts, not what comes last.
alter table disputes add column said_s bigint not null default 0;
-- The same for whether the money is off our account, which is said apart.
alter table disputes add column withdrawn_said_s bigint not null default -1;

-- Orders with such disputes are listed because of them, whatever else is noted at the order.
create index disputes_for_people on disputes (order_id) where final_ms is null or status = 'lost';
drop index orders_disputed;
update orders set concern = null where concern in ('disputed', 'dispute_lost');
