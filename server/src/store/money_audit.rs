//! What must never exist, counted over all events: the rules that bind money, seats and tickets together. Each statement is
//! one snapshot.

use super::StoreError;
use sqlx::PgPool;

/// A rule's name, and how often it is broken.
pub type Violation = (&'static str, u64);

/// Every rule that is broken.
///
/// # Errors
/// When Postgres cannot answer.
pub async fn violations(pool: &PgPool) -> Result<Vec<Violation>, StoreError> {
    let row = sqlx::query!(
        r#"select
            (select count(*) from taken_seats t full join
                (select event_id, seat_index, order_id, ticket_id from tickets
                 where seat_index is not null and state in ('valid', 'used')) k
                on k.event_id = t.event_id and k.seat_index = t.seat_index and k.order_id = t.order_id
             where (t.state = 'sold') is distinct from (k.ticket_id is not null)) as "seat_without_ticket!",
            (select count(*) from taken_seats t where state = 'reserved' and not exists (
                select 1 from orders o where o.order_id = t.order_id and o.state in ('creating', 'payable', 'confirming',
                'action_required', 'processing', 'payment_unknown', 'cancelling'))) as "reserved_without_order!",
            (select count(*) from area_stock s where sold <> (select count(*) from tickets k
                where k.event_id = s.event_id and k.area_index = s.area_index and k.state in ('valid', 'used')))
                as "area_count!",
            (select count(*) from tickets k join orders o using (order_id)
             where k.state in ('valid', 'used') and o.captured_minor <> o.total_minor) as "ticket_unpaid!",
            (select count(*) from orders o where state = 'fulfilled' and total_minor > 0
                and refunded_minor = captured_minor) as "paid_without_money!",
            (select count(*) from orders o where captured_minor > 0 and state = 'cancelled') as "money_of_cancelled!",
            (select count(*) from orders o where o.state in ('fulfilled', 'partially_refunded')
                and o.captured_minor - o.refunded_minor > coalesce((select sum((o.lines->k.line_n->>'price_minor')::bigint
                    + (o.lines->k.line_n->>'fee_minor')::bigint) from tickets k where k.order_id = o.order_id
                    and k.event_id = o.event_id and k.state in ('valid', 'used')), 0)) as "money_of_void_tickets!",
            (select count(*) from orders o where refunded_minor <> coalesce((select sum(amount_minor) from refunds r
                where r.order_id = o.order_id and r.state = 'succeeded'), 0)
                and exists (select 1 from refunds r where r.order_id = o.order_id and r.state = 'succeeded')
                and refunded_minor < coalesce((select sum(amount_minor) from refunds r
                where r.order_id = o.order_id and r.state = 'succeeded'), 0)) as "refund_sum!""#
    )
    .fetch_one(pool)
    .await?;
    let counted = [
        ("a sold seat without a ticket, or a ticket without a seat", row.seat_without_ticket),
        ("a reserved seat without an open order", row.reserved_without_order),
        ("an area whose count is not its tickets", row.area_count),
        ("a live ticket of an order that was not paid", row.ticket_unpaid),
        ("a paid order whose money went back whole", row.paid_without_money),
        ("money of a cancelled order", row.money_of_cancelled),
        ("money kept for void tickets", row.money_of_void_tickets),
        ("refunds that are not in the order", row.refund_sum),
    ];
    Ok(counted.into_iter().filter(|(_, n)| *n > 0).map(|(rule, n)| (rule, n.cast_unsigned())).collect())
}
