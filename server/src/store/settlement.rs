//! A settlement file of the provider laid beside the books. Its lines lie in a scratch table for as long as a comparison
//! lasts, so that neither side has to fit into memory; each rule of the comparison is one statement whose rows are told as
//! they come. Amounts of the file are signed: charges positive, refunds and disputes negative.

use super::StoreError;
use futures_util::TryStreamExt;
use seatwire_proto::id::OrderId;
use sqlx::types::Uuid;
use sqlx::{PgConnection, PgPool, Postgres, Transaction};
use std::fmt;
use std::time::Duration;

/// What a run that died left behind is removed after this.
const FORGET_AFTER_MS: u64 = 86_400_000;
/// Longest one statement of a comparison may take: a year's books beside a month's file, and nobody waits behind it.
const STATEMENT_TIMEOUT: Duration = Duration::from_secs(1_800);

/// One comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RunId(Uuid);

/// A line of the file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SettlementRow {
    /// Where it stands.
    pub line_n: i64,
    /// `charge`, `refund`, `refund_failure`, `dispute`, `dispute_reversal`.
    pub kind: &'static str,
    /// The provider's name for the charge, refund or dispute.
    pub name: Option<String>,
    /// The intent.
    pub intent: Option<String>,
    /// How much, as the file signs it.
    pub amount_minor: i64,
    /// ISO 4217 in capitals.
    pub currency: String,
}

/// Which orders must be in the file: those paid from then on and until then; without a bound, all.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Window {
    /// Epoch milliseconds.
    pub from_ms: Option<i64>,
    /// Epoch milliseconds.
    pub to_ms: Option<i64>,
}

/// A disagreement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// The line of the file; `None`: it is not in the file.
    pub line_n: Option<i64>,
    /// Of which order.
    pub order: Option<OrderId>,
    /// What.
    pub what: String,
}

impl fmt::Display for Found {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(line_n) = self.line_n {
            write!(f, "line {line_n}: ")?;
        }
        if let Some(order) = self.order {
            write!(f, "{order}: ")?;
        }
        f.write_str(&self.what)
    }
}

/// Begins a comparison; what dead ones left behind is removed.
///
/// # Errors
/// When Postgres cannot answer.
pub async fn begin(pool: &PgPool) -> Result<RunId, StoreError> {
    let mut patient = patient(pool).await?;
    let run = Uuid::now_v7();
    // The first 48 bits are the time of a run.
    let age = u128::from(FORGET_AFTER_MS) << 80;
    let dead = Uuid::from_u128(run.as_u128().saturating_sub(age));
    sqlx::query!("delete from settlement_rows where run_id < $1", dead).execute(&mut *patient).await?;
    patient.commit().await?;
    Ok(RunId(run))
}

/// Ends it.
///
/// # Errors
/// When Postgres cannot answer.
pub async fn end(pool: &PgPool, run: RunId) -> Result<(), StoreError> {
    let mut patient = patient(pool).await?;
    sqlx::query!("delete from settlement_rows where run_id = $1", run.0).execute(&mut *patient).await?;
    patient.commit().await?;
    Ok(())
}

/// Lays lines of the file down.
///
/// # Errors
/// When Postgres cannot answer.
pub async fn insert(pool: &PgPool, run: RunId, rows: &[SettlementRow]) -> Result<(), StoreError> {
    let line_n: Vec<i64> = rows.iter().map(|row| row.line_n).collect();
    let kind: Vec<String> = rows.iter().map(|row| row.kind.to_owned()).collect();
    let name: Vec<Option<String>> = rows.iter().map(|row| row.name.clone()).collect();
    let intent: Vec<Option<String>> = rows.iter().map(|row| row.intent.clone()).collect();
    let amount_minor: Vec<i64> = rows.iter().map(|row| row.amount_minor).collect();
    let currency: Vec<String> = rows.iter().map(|row| row.currency.clone()).collect();
    sqlx::query!(
        "insert into settlement_rows (run_id, line_n, kind, name, intent, amount_minor, currency)
         select $1, line_n, kind, name, intent, amount_minor, currency
         from unnest($2::bigint[], $3::text[], $4::text[], $5::text[], $6::bigint[], $7::text[])
             as t(line_n, kind, name, intent, amount_minor, currency)",
        run.0,
        &line_n,
        &kind,
        &name as &[Option<String>],
        &intent as &[Option<String>],
        &amount_minor,
        &currency
    )
    .execute(pool)
    .await?;
    Ok(())
}

/// Compares both sides, the books of one provider with its file; `tell` hears each disagreement.
///
/// # Errors
/// When Postgres cannot answer, or not within [`STATEMENT_TIMEOUT`].
pub async fn compare(
    pool: &PgPool,
    run: RunId,
    provider: &str,
    window: Window,
    tell: &mut (dyn FnMut(Found) + Send),
) -> Result<(), StoreError> {
    let mut patient = patient(pool).await?;
    // Rows that were laid down a moment ago are unknown to the planner, and it would go through them once for each order.
    sqlx::raw_sql("analyze settlement_rows").execute(&mut *patient).await?;
    repeated(&mut patient, run, tell).await?;
    charges(&mut patient, run, provider, tell).await?;
    refunds(&mut patient, run, provider, tell).await?;
    disputes(&mut patient, run, provider, tell).await?;
    missing_orders(&mut patient, run, provider, window, tell).await?;
    missing_refunds(&mut patient, run, provider, window, tell).await?;
    patient.commit().await?;
    Ok(())
}

/// A transaction whose statements may take long.
async fn patient(pool: &PgPool) -> Result<Transaction<'static, Postgres>, StoreError> {
    let mut transaction = super::begin(pool).await?;
    sqlx::query!(
        r#"select set_config('statement_timeout', $1, true) as "set!""#,
        STATEMENT_TIMEOUT.as_millis().to_string()
    )
    .fetch_one(&mut *transaction)
    .await?;
    Ok(transaction)
}

fn shown(amount_minor: i64, currency: &str) -> String {
    format!("{amount_minor} minor {currency}")
}

/// The same charge, refund or dispute twice, and an order charged by two charges.
async fn repeated(
    connection: &mut PgConnection,
    run: RunId,
    tell: &mut (dyn FnMut(Found) + Send),
) -> Result<(), StoreError> {
    let mut rows = sqlx::query!(
        r#"select line_n, kind, coalesce(name, intent) as "name!", first_n as "first_n!" from (
               select line_n, kind, name, intent,
                   min(line_n) over (partition by kind, coalesce(name, intent)) as first_n
               from settlement_rows where run_id = $1) r
           where line_n > first_n order by line_n"#,
        run.0
    )
    .fetch(&mut *connection);
    while let Some(row) = rows.try_next().await? {
        let what = format!("{} {} stands in line {} already", row.kind, row.name, row.first_n);
        tell(Found { line_n: Some(row.line_n), order: None, what });
    }
    drop(rows);
    let mut rows = sqlx::query!(
        r#"select line_n, name as "name!", intent as "intent!", first_name as "first_name!" from (
               select line_n, name, intent, first_value(name) over (partition by intent order by line_n) as first_name
               from settlement_rows
               where run_id = $1 and kind = 'charge' and intent is not null and name is not null) r
           where name <> first_name order by line_n"#,
        run.0
    )
    .fetch(&mut *connection);
    while let Some(row) = rows.try_next().await? {
        let what = format!("{} was charged by {} as well as by {}", row.intent, row.name, row.first_name);
        tell(Found { line_n: Some(row.line_n), order: None, what });
    }
    Ok(())
}

/// Charges that belong to no order, or to one whose books say otherwise.
async fn charges(
    connection: &mut PgConnection,
    run: RunId,
    provider: &str,
    tell: &mut (dyn FnMut(Found) + Send),
) -> Result<(), StoreError> {
    let mut rows = sqlx::query!(
        r#"select s.line_n, coalesce(s.name, s.intent) as "name!", s.amount_minor, s.currency, o.order_id as "order_id?",
               o.state as "state?", o.captured_minor as "captured_minor?", o.currency as "order_currency?"
           from settlement_rows s
           left join orders i on i.provider = $2 and i.intent_id = s.intent
           left join payment_attempts a on a.provider = $2 and a.charge_id = s.name
           left join orders o on o.order_id = coalesce(i.order_id, a.order_id)
           where s.run_id = $1 and s.kind = 'charge'
               and (o.order_id is null or o.captured_minor <> s.amount_minor or o.currency <> s.currency)
           order by s.line_n"#,
        run.0,
        provider
    )
    .fetch(&mut *connection);
    while let Some(row) = rows.try_next().await? {
        let theirs = shown(row.amount_minor, &row.currency);
        let what = match (row.state, row.captured_minor, row.order_currency) {
            (Some(state), Some(0), _) => format!("{} charged {theirs}, and the order ({state}) has no money", row.name),
            (Some(_), Some(captured_minor), Some(currency)) => {
                format!("{} charged {theirs}, and the order has {}", row.name, shown(captured_minor, &currency))
            }
            _ => format!("{} charged {theirs} for no order of ours", row.name),
        };
        tell(Found { line_n: Some(row.line_n), order: row.order_id.map(OrderId::from_uuid), what });
    }
    Ok(())
}

/// Refunds nobody knows of, or whose row says otherwise. One made on the provider's own pages has no row: its amount is
/// what the order has given back beyond its rows.
async fn refunds(
    connection: &mut PgConnection,
    run: RunId,
    provider: &str,
    tell: &mut (dyn FnMut(Found) + Send),
) -> Result<(), StoreError> {
    let mut rows = sqlx::query!(
        r#"select s.line_n, s.kind, coalesce(s.name, s.intent) as "name!", s.amount_minor, s.currency,
               r.state as "state?", r.amount_minor as "refund_minor?", coalesce(r.order_id, o.order_id) as "order_id?",
               coalesce(p.currency, o.currency) as "order_currency?"
           from settlement_rows s
           left join refunds r on r.provider = $2 and r.provider_refund_id = s.name
           left join orders p on p.order_id = r.order_id
           left join orders o on o.provider = $2 and o.intent_id = s.intent
           where s.run_id = $1 and s.kind in ('refund', 'refund_failure')
               and case when r.refund_id is null then
                   s.kind = 'refund_failure' or o.order_id is null or o.currency <> s.currency
                   or o.refunded_minor - coalesce((select sum(r2.amount_minor) from refunds r2
                           where r2.order_id = o.order_id and r2.state = 'succeeded'), 0)
                       <> (select coalesce(sum(-s2.amount_minor), 0) from settlement_rows s2
                           where s2.run_id = s.run_id and s2.kind = 'refund' and s2.intent = s.intent
                               and not exists (select from refunds r3
                                   where r3.provider = $2 and r3.provider_refund_id = s2.name)
                               and not exists (select from settlement_rows f where f.run_id = s.run_id
                                   and f.kind = 'refund_failure' and f.name = s2.name))
               else
                   abs(s.amount_minor) <> r.amount_minor or p.currency <> s.currency
                   or r.state <> case when s.kind = 'refund_failure' or exists (
                           select from settlement_rows f where f.run_id = s.run_id and f.kind = 'refund_failure'
                               and f.name = s.name) then 'failed' else 'succeeded' end
               end
           order by s.line_n"#,
        run.0,
        provider
    )
    .fetch(&mut *connection);
    while let Some(row) = rows.try_next().await? {
        let theirs = shown(row.amount_minor, &row.currency);
        let what = match (row.state, row.refund_minor, row.order_currency) {
            (Some(state), Some(minor), Some(currency)) => {
                format!(
                    "{} {} of {theirs}, and our refund of {} is {state}",
                    row.kind,
                    row.name,
                    shown(minor, &currency)
                )
            }
            _ => format!("{} {} of {theirs} is not known", row.kind, row.name),
        };
        tell(Found { line_n: Some(row.line_n), order: row.order_id.map(OrderId::from_uuid), what });
    }
    Ok(())
}

/// Disputes nobody knows of, of another amount, or that end otherwise.
async fn disputes(
    connection: &mut PgConnection,
    run: RunId,
    provider: &str,
    tell: &mut (dyn FnMut(Found) + Send),
) -> Result<(), StoreError> {
    let mut rows = sqlx::query!(
        r#"select s.line_n, s.kind, coalesce(s.name, s.intent) as "name!", s.amount_minor, s.currency,
               d.order_id as "order_id?", d.status as "status?", d.amount_minor as "dispute_minor?",
               d.currency as "dispute_currency?"
           from settlement_rows s left join disputes d on d.provider = $2 and d.dispute_id = s.name
           where s.run_id = $1 and s.kind in ('dispute', 'dispute_reversal')
               and (d.dispute_id is null or d.amount_minor <> abs(s.amount_minor) or d.currency <> s.currency
                   or (s.kind = 'dispute_reversal' and d.status <> 'won'))
           order by s.line_n"#,
        run.0,
        provider
    )
    .fetch(&mut *connection);
    while let Some(row) = rows.try_next().await? {
        let theirs = shown(row.amount_minor, &row.currency);
        let what = match (row.status, row.dispute_minor, row.dispute_currency) {
            (Some(status), Some(minor), Some(currency)) => {
                format!("{} {} of {theirs}, and ours of {} is {status}", row.kind, row.name, shown(minor, &currency))
            }
            _ => format!("{} {} of {theirs} is not known", row.kind, row.name),
        };
        tell(Found { line_n: Some(row.line_n), order: row.order_id.map(OrderId::from_uuid), what });
    }
    Ok(())
}

/// Orders that have money of which the file says nothing.
async fn missing_orders(
    connection: &mut PgConnection,
    run: RunId,
    provider: &str,
    window: Window,
    tell: &mut (dyn FnMut(Found) + Send),
) -> Result<(), StoreError> {
    let mut rows = sqlx::query!(
        r#"select o.order_id, o.reference, o.state, o.captured_minor, o.currency, o.intent_id
           from orders o
           left join payment_attempts a on a.order_id = o.order_id and a.state = 'succeeded'
           where o.captured_minor > 0 and o.provider = $4
               and ($2::bigint is null or coalesce(a.final_ms, o.created_ms) >= $2)
               and ($3::bigint is null or coalesce(a.final_ms, o.created_ms) <= $3)
               and not exists (select from settlement_rows s
                   where s.run_id = $1 and s.kind = 'charge' and s.intent = o.intent_id)
               and not exists (select from settlement_rows s
                   where s.run_id = $1 and s.kind = 'charge' and s.name = a.charge_id)
           order by o.order_id"#,
        run.0,
        window.from_ms,
        window.to_ms,
        provider
    )
    .fetch(&mut *connection);
    while let Some(row) = rows.try_next().await? {
        let what = format!(
            "{} ({}) has {} by {}, which is not in the file",
            row.reference,
            row.state,
            shown(row.captured_minor, &row.currency),
            row.intent_id.as_deref().unwrap_or("no intent")
        );
        tell(Found { line_n: None, order: Some(OrderId::from_uuid(row.order_id)), what });
    }
    Ok(())
}

/// Refunds that are back by our books and of which the file says nothing.
async fn missing_refunds(
    connection: &mut PgConnection,
    run: RunId,
    provider: &str,
    window: Window,
    tell: &mut (dyn FnMut(Found) + Send),
) -> Result<(), StoreError> {
    let mut rows = sqlx::query!(
        r#"select r.order_id, r.provider_refund_id, r.amount_minor, o.currency
           from refunds r join orders o on o.order_id = r.order_id
           where r.state = 'succeeded' and r.provider = $4
               and ($2::bigint is null or r.created_ms >= $2) and ($3::bigint is null or r.final_ms <= $3)
               and not exists (select from settlement_rows s
                   where s.run_id = $1 and s.kind = 'refund' and s.name = r.provider_refund_id)
           order by r.order_id, r.refund_id"#,
        run.0,
        window.from_ms,
        window.to_ms,
        provider
    )
    .fetch(&mut *connection);
    while let Some(row) = rows.try_next().await? {
        let name = row.provider_refund_id.as_deref().unwrap_or("without a name");
        let what = format!("refund {name} of {} is not in the file", shown(row.amount_minor, &row.currency));
        tell(Found { line_n: None, order: Some(OrderId::from_uuid(row.order_id)), what });
    }
    Ok(())
}
