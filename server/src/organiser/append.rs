//! Seats appended to a plan that sells: a section behind the others, with the next seat indices. Nothing that was there
//! moves; what is taken away is blocked instead. The new plan has its own hash.

use super::{Operator, Organiser, OrganiserError};
use crate::catalogue::EventFacts;
use crate::store::event::SectionRow;
use crate::store::layout::{self, LayoutRow, NewLayout};
use crate::store::{StoreError, event_change};
use seatwire_proto::id::EventId;
use seatwire_proto::layout::{Layout, LayoutHash, Point, Row, Section};
use seatwire_proto::seat::{SeatIndex, SectionIndex};
use seatwire_proto::server::SalesMode;
use std::sync::Arc;

/// Most seats of one change.
const MAX_SEATS: usize = 10_000;
/// Longest name of a section, in characters.
const MAX_NAME_CHARS: usize = 200;
/// Most seats of a plan: 20 bits.
const MAX_PLAN_SEATS: usize = 1 << 20;

/// A section to be appended; its seats get the next indices, row after row.
#[derive(Debug, Clone, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NewSection {
    /// For people.
    pub name: String,
    /// Its border, in units of the plan.
    pub outline: Vec<Point>,
    /// What its seats look at; the nearer they are to it, the better they are as best seats. Absent: what the plan looks at.
    #[serde(default)]
    pub focal: Option<Point>,
    /// Its rows.
    pub rows: Vec<NewRow>,
    /// Code of the price tier its seats are sold at.
    pub price_tier: String,
    /// Whether buyers pick seats, as they do when it is absent.
    #[serde(default)]
    pub sales_mode: Option<SalesMode>,
}

/// A row of it.
#[derive(Debug, Clone, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NewRow {
    /// For people.
    pub label: String,
    /// Labels of its seats, in order.
    pub seats: Vec<String>,
    /// Where they stand.
    pub x: Vec<i32>,
    /// Where they stand.
    pub y: Vec<i32>,
    /// Positions after which an aisle comes.
    #[serde(default)]
    pub gaps: Vec<u32>,
    /// Positions of places for wheelchairs.
    #[serde(default)]
    pub accessible: Vec<u32>,
    /// Positions that go with those.
    #[serde(default)]
    pub companion: Vec<u32>,
    /// Positions with a restricted view.
    #[serde(default)]
    pub restricted: Vec<u32>,
}

/// A section that was appended.
#[derive(Debug, Clone)]
pub struct Appended {
    /// The event with it.
    pub facts: Arc<EventFacts>,
    /// Its first seat.
    pub first_seat: SeatIndex,
}

impl NewRow {
    fn is(&self, row: &Row) -> bool {
        let Self { label, seats, x, y, gaps, accessible, companion, restricted } = self;
        (label, seats, x, y) == (&row.label, &row.seats, &row.x, &row.y)
            && (gaps, accessible, companion, restricted)
                == (&row.gaps, &row.accessible, &row.companion, &row.restricted)
    }
}

impl Organiser {
    /// Appends a section to the plan of one event. Other events on the same plan keep theirs. One that is there, by its name
    /// and the same rows, is answered and not appended again.
    ///
    /// # Errors
    /// `Refused` where the section contradicts itself or its tier is unknown.
    pub async fn append_section(
        &self,
        by: Operator,
        event: EventId,
        section: NewSection,
    ) -> Result<Appended, OrganiserError> {
        let name = section.name.trim();
        if name.is_empty() || name.chars().count() > MAX_NAME_CHARS || name.chars().any(char::is_control) {
            return Err(OrganiserError::refused("/name", format!("expected 1 to {MAX_NAME_CHARS} characters")));
        }
        let organiser = self.clone();
        Self::whole(async move {
            let (mut transaction, locked) = organiser.begin(event).await?;
            let facts = organiser.catalogue.refresh(event).await?.ok_or(OrganiserError::EventUnknown)?;
            let tier = facts.price_tiers.iter().position(|tier| tier.code == section.price_tier);
            let Some(tier) = tier else {
                return Err(OrganiserError::refused("/price_tier", "no such price tier"));
            };
            let row = layout::layout(&mut *transaction, &locked.layout).await?;
            let row = row.ok_or_else(|| StoreError::Malformed(format!("{event} has no layout")))?;
            if let Some(first_seat) = there_already(&row, &section)? {
                drop(transaction);
                return Ok(Appended { facts: organiser.tell_now(event).await?, first_seat });
            }
            let first_seat = locked.seat_tiers.len();
            let sales_mode = section.sales_mode.unwrap_or(SalesMode::PickSeat);
            let (plan, end_seat) = longer(&row, first_seat, section)?;
            let mut seat_tiers = locked.seat_tiers;
            seat_tiers.resize(end_seat, tier as u8);
            let name = plan.sections.last().map(|section| section.name.clone()).unwrap_or_default();
            let hash = store(&mut transaction, row, &plan, tier as u8, organiser.clock.now_ms()).await?;
            let section = SectionRow {
                name,
                first_seat: first_seat as u32,
                end_seat: end_seat as u32,
                sales_mode,
            };
            event_change::append_section(&mut transaction, event, &hash, &seat_tiers, &section).await?;
            let detail = serde_json::json!({"section": section.name, "layout": hash, "first_seat": first_seat, "seat_count": end_seat});
            organiser.commit(transaction, &by, "seats.append", event, detail).await?;
            Ok(Appended { facts: organiser.tell_now(event).await?, first_seat: SeatIndex(first_seat as u32) })
        })
        .await
    }
}

/// The first seat of the section of the plan that is this one: two of one name never have the same rows in the same places.
fn there_already(row: &LayoutRow, section: &NewSection) -> Result<Option<SeatIndex>, OrganiserError> {
    let plan = Layout::from_json(&row.stored_json).map_err(|error| StoreError::Malformed(error.to_string()))?;
    let same = plan.sections.iter().find(|there| {
        there.name == section.name
            && there.rows.len() == section.rows.len()
            && section.rows.iter().zip(&there.rows).all(|(new, row)| new.is(row))
    });
    Ok(same.and_then(|there| there.rows.first()).map(|row| row.first))
}

/// The plan with the section behind the others, and its number of seats.
fn longer(row: &LayoutRow, first_seat: usize, section: NewSection) -> Result<(Layout, usize), OrganiserError> {
    let mut plan = Layout::from_json(&row.stored_json).map_err(|error| StoreError::Malformed(error.to_string()))?;
    let added: usize = section.rows.iter().map(|row| row.seats.len()).sum();
    let end_seat = first_seat + added;
    if added == 0 || added > MAX_SEATS || end_seat > MAX_PLAN_SEATS {
        return Err(OrganiserError::refused("/rows", format!("expected 1 to {MAX_SEATS} seats")));
    }
    let at = plan.sections.len();
    let mut first = first_seat as u32;
    let mut rows = Vec::with_capacity(section.rows.len());
    for row in section.rows {
        let NewRow { label, seats, x, y, gaps, accessible, companion, restricted } = row;
        let next = first + seats.len() as u32;
        rows.push(Row { label, first: SeatIndex(first), seats, x, y, gaps, accessible, companion, restricted });
        first = next;
    }
    for [x, y] in
        rows.iter().flat_map(|row| row.x.iter().zip(&row.y)).map(|(x, y)| [*x, *y]).chain(section.outline.clone())
    {
        let [x0, y0, x1, y1] = plan.bounds;
        plan.bounds = [x0.min(x), y0.min(y), x1.max(x), y1.max(y)];
    }
    plan.sections.push(Section {
        index: SectionIndex(at as u32),
        name: section.name,
        zone: None,
        floor: None,
        outline: section.outline,
        entrance: None,
        focal: section.focal,
        rows,
    });
    plan.seat_count = first;
    plan.validate().map_err(|error| match error {
        seatwire_proto::layout::LayoutError::Invalid { at: path, why } => {
            let inside = path.strip_prefix(&format!("/sections/{at}")).unwrap_or(&path);
            OrganiserError::refused(inside, why)
        }
        other => OrganiserError::refused("", other.to_string()),
    })?;
    Ok((plan, end_seat))
}

/// Stores the plan under its hash; its new seats count as the category that is priced so in the event.
async fn store(
    transaction: &mut sqlx::PgConnection,
    row: LayoutRow,
    plan: &Layout,
    tier: u8,
    now_ms: u64,
) -> Result<String, OrganiserError> {
    let stored_json = plan.stored_json();
    let hash = LayoutHash::of(&stored_json).to_string();
    let mut proposal = row.proposal;
    let category = tier.min(proposal.categories.len().saturating_sub(1) as u8);
    proposal.seat_categories.resize(plan.seat_count as usize, category);
    let new = NewLayout {
        venue: row.venue,
        hash: &hash,
        name: &plan.name,
        seat_count: plan.seat_count,
        stored_json: &stored_json,
        proposal: &proposal,
    };
    layout::insert_layout(transaction, new, now_ms).await?;
    Ok(hash)
}
