//! pretix seating plans: zones of rows of seats, coordinates nested zone + row + seat. Older files put an area's size
//! on the area itself and leave positions out. Areas are drawings there, not places.

use super::ImportError;
use super::draft::{
    Draft, DraftRow, DraftSeat, DraftSection, DraftShape, DraftText, MAX_NAMED, check_category_count, color,
};
use super::geometry::{Xy, add, rectangle, turn};
use super::json::Node;
use crate::store::layout::Category;
use seatwire_proto::layout::ShapeKind;
use serde_json::Value;
use std::collections::HashMap;
use std::collections::hash_map::Entry;

/// Height of letters when the file does not say.
const TEXT_SIZE: f64 = 16.0;

pub(super) fn read(root: &Value) -> Result<Draft, ImportError> {
    let root = Node::root(root);
    let mut draft = Draft { name: root.text("name")?.unwrap_or_else(|| "Seating plan".to_owned()), ..Draft::default() };
    let mut categories: HashMap<String, u8> = HashMap::new();
    let listed = root.need("categories").and(root.list("categories"))?;
    check_category_count(listed.len(), "/categories")?;
    for (position, node) in listed.iter().enumerate() {
        let name = node.need_text("name", "a category")?;
        let color = color(node.text("color")?.as_deref(), position);
        categories.insert(name.clone(), position as u8);
        draft.categories.push(Category { name, color });
    }
    let mut guids = Guids::default();
    for zone in root.list("zones")? {
        let origin = zone.point_or_zero("position")?;
        let mut section = DraftSection { name: zone.text("name")?.unwrap_or_default(), ..DraftSection::default() };
        if section.name.is_empty() {
            section.name = zone.text("zone_id")?.unwrap_or_else(|| format!("Zone {}", draft.sections.len() + 1));
        }
        for row in zone.list("rows")? {
            section.rows.push(read_row(&row, origin, &categories, &mut guids)?);
        }
        for area in zone.list("areas")? {
            read_area(&area, origin, &mut draft)?;
        }
        if !section.rows.is_empty() {
            draft.sections.push(section);
        }
    }
    guids.check()?;
    Ok(draft)
}

fn read_row(
    row: &Node<'_>,
    origin: Xy,
    categories: &HashMap<String, u8>,
    guids: &mut Guids,
) -> Result<DraftRow, ImportError> {
    let origin = add(origin, row.point_or_zero("position")?);
    let label = match row.text("row_label")? {
        Some(label) if !label.is_empty() => label,
        _ => row.text("row_number")?.unwrap_or_default(),
    };
    let mut seats = Vec::new();
    for seat in row.list("seats")? {
        guids.take(seat.need_text("seat_guid", "a seat")?, &seat.at);
        let category = seat.need_text("category", "a seat")?;
        let category = *categories
            .get(&category)
            .ok_or_else(|| seat.refuse(format!("category {category:?} is not in the list of categories")))?;
        seats.push(DraftSeat {
            label: seat.text("seat_number")?.unwrap_or_default(),
            position: add(origin, seat.point_or_zero("position")?),
            category,
            is_accessible: false,
            is_companion: false,
            is_restricted: false,
            at: seat.at.clone(),
        });
    }
    Ok(DraftRow { label, seats, at: row.at.clone(), gaps: None })
}

/// Every seat has a guid of its own, or orders of two people would name one seat.
#[derive(Default)]
struct Guids {
    seen: HashMap<String, String>,
    repeats: Vec<(String, String)>,
}

impl Guids {
    fn take(&mut self, guid: String, at: &str) {
        match self.seen.entry(guid) {
            Entry::Occupied(known) => self.repeats.push((known.key().clone(), at.to_owned())),
            Entry::Vacant(free) => {
                free.insert(at.to_owned());
            }
        }
    }

    fn check(&self) -> Result<(), ImportError> {
        let Some((_, at)) = self.repeats.first() else { return Ok(()) };
        let seats = self.seen.len() + self.repeats.len();
        let named: Vec<String> = self
            .repeats
            .iter()
            .take(MAX_NAMED)
            .map(|(guid, _)| format!("{guid:?} is at {} already", self.seen[guid]))
            .collect();
        let why = format!(
            "seat_guid repeats: {seats} seats have only {} distinct ones; {}",
            self.seen.len(),
            named.join("; ")
        );
        Err(ImportError::new(at, why))
    }
}

fn read_area(area: &Node<'_>, origin: Xy, draft: &mut Draft) -> Result<(), ImportError> {
    let center = add(origin, area.point_or_zero("position")?);
    let degrees = area.number("rotation")?.unwrap_or(0.0);
    let kind = area.text("shape")?.unwrap_or_default();
    // The object named like the shape, or the area itself in older files.
    let own = area.get(&kind).filter(|node| node.value.is_object()).unwrap_or_else(|| area.clone());
    let lettering = area.get("text");
    let label = match &lettering {
        Some(node) if node.value.is_object() => node.text("text")?,
        Some(_) => area.text("text")?,
        None => None,
    }
    .filter(|text| !text.is_empty());
    match kind.as_str() {
        "polygon" => {
            let points = own.points("points")?.into_iter().map(|point| add(center, turn(point, degrees))).collect();
            draft.shapes.push(DraftShape { kind: ShapeKind::Polygon, points, label: label.clone() });
        }
        "rectangle" => {
            let (width, height) = (own.number("width")?.unwrap_or(0.0), own.number("height")?.unwrap_or(0.0));
            let middle = add(center, turn((width / 2.0, height / 2.0), degrees));
            let points = rectangle(middle, width, height, degrees);
            draft.shapes.push(DraftShape { kind: ShapeKind::Polygon, points, label: label.clone() });
        }
        "circle" | "ellipse" => {
            let radii = match own.get("radius") {
                Some(radius) if radius.value.is_object() => radius.point()?,
                Some(_) => own.number("radius")?.map_or((0.0, 0.0), |radius| (radius, radius)),
                None => (own.number("width")?.unwrap_or(0.0) / 2.0, own.number("height")?.unwrap_or(0.0) / 2.0),
            };
            draft.shapes.push(DraftShape {
                kind: ShapeKind::Ellipse,
                points: vec![center, radii],
                label: label.clone(),
            });
        }
        "text" => {
            if let Some(text) = label {
                let size = own.number("size")?.unwrap_or(TEXT_SIZE);
                let at = add(center, turn(own.point_or_zero("position")?, degrees));
                draft.texts.push(DraftText { text, at, size, angle_deg: degrees });
            }
        }
        other => return Err(area.refuse(format!("shape {other:?} is not known"))),
    }
    Ok(())
}
