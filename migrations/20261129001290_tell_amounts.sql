-- A mail says what stood when it was owed, and buyers hear what they asked for and what became of it.

alter table mails
    -- The amount its cause moved, minor units; null: it is about no amount.
    add column amount_minor bigint,
    drop constraint mails_kind,
    add constraint mails_kind check (kind in ('order_paid', 'order_cancelled', 'order_given_up', 'order_refunded',
        'refund_returned', 'ticket_passed_on', 'ticket_void'));

-- When its buyer cancelled it; null: nobody did, whatever became of it.
alter table orders add column given_up_ms bigint;
