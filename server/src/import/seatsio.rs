//! seats.io charts: rows, sections with a nested sub-chart of their own, general-admission areas, zones with focal
//! points, floors. Coordinates of a section's sub-chart are local to its `topLeft`, one to one.

use super::ImportError;
use super::draft::{
    Draft, DraftArea, DraftRow, DraftSeat, DraftSection, DraftShape, DraftText, check_category_count, color,
};
use super::geometry::{Xy, add, ellipse, rectangle};
use super::json::Node;
use crate::store::layout::Category;
use seatwire_proto::layout::ShapeKind;
use serde_json::Value;
use std::collections::HashMap;

/// Sub-charts nest once by the format (chart, section); deeper is not a chart.
const MAX_DEPTH: usize = 3;
/// Height of letters when the file does not say.
const TEXT_SIZE: f64 = 16.0;
/// Floors are drawn one below the other, a tenth of their height apart.
const FLOOR_SPACING: f64 = 1.1;

struct Chart {
    categories: HashMap<String, u8>,
    zones: HashMap<String, (String, Option<Xy>)>,
    draft: Draft,
}

pub(super) fn read(root: &Value) -> Result<Draft, ImportError> {
    let root = Node::root(root);
    let name = root.text("name")?.unwrap_or_else(|| "Chart".to_owned());
    let mut chart =
        Chart { categories: HashMap::new(), zones: HashMap::new(), draft: Draft { name, ..Draft::default() } };
    chart.read_categories(&root)?;
    if let Some(zones) = root.get("zones") {
        for zone in zones.list("list")? {
            let key = zone.need_text("key", "a zone")?;
            let label = zone.text("label")?.unwrap_or_else(|| key.clone());
            let focal = zone.get("focalPoint").map(|node| node.point()).transpose()?;
            chart.zones.insert(key, (label, focal));
        }
    }
    let floors = root.list("subChartFloors")?;
    let mut origin = (0.0, 0.0);
    for floor in &floors {
        let name = floor.text("floorName")?.or(floor.text("name")?);
        let sub = floor.get("subChart").unwrap_or_else(|| floor.clone());
        chart.read_sub_chart(&sub, origin, name.as_deref())?;
        origin.1 += sub.number("height")?.unwrap_or(0.0) * FLOOR_SPACING;
    }
    if floors.is_empty() {
        chart.read_sub_chart(&root.need("subChart")?, origin, None)?;
    }
    if chart.draft.focal.is_none() {
        chart.draft.focal = chart.middle_of_zones();
    }
    Ok(chart.draft)
}

impl Chart {
    fn read_categories(&mut self, root: &Node<'_>) -> Result<(), ImportError> {
        let listed = root.need("categories")?.list("list")?;
        check_category_count(listed.len(), "/categories/list")?;
        for (position, node) in listed.iter().enumerate() {
            let key = node.need_text("key", "a category")?;
            let name = node.text("label")?.unwrap_or_else(|| key.clone());
            let color = color(node.text("color")?.as_deref(), position);
            self.draft.categories.push(Category { name, color });
            self.categories.insert(key, position as u8);
        }
        Ok(())
    }

    /// What looks at several zones looks between them.
    fn middle_of_zones(&self) -> Option<Xy> {
        let points: Vec<Xy> = self.zones.values().filter_map(|(_, focal)| *focal).collect();
        let count = points.len() as f64;
        let sum = points.iter().copied().reduce(add)?;
        Some((sum.0 / count, sum.1 / count))
    }

    fn read_sub_chart(&mut self, sub: &Node<'_>, origin: Xy, floor: Option<&str>) -> Result<(), ImportError> {
        if let Some(focal) = sub.get("focalPoint")
            && self.draft.focal.is_none()
        {
            self.draft.focal = Some(add(origin, focal.point()?));
        }
        // Rows that stand outside of any section are sections by the name they carry, or by that of the chart.
        let mut loose: Vec<DraftSection> = Vec::new();
        for row in sub.list("rows")?.into_iter().chain(sub.list("tables")?) {
            let name = row.text("sectionLabel")?.unwrap_or_else(|| self.draft.name.clone());
            let position = loose.iter().position(|section| section.name == name).unwrap_or_else(|| {
                let floor = floor.map(str::to_owned);
                loose.push(DraftSection { name, floor, ..DraftSection::default() });
                loose.len() - 1
            });
            loose[position].rows.push(self.read_row(&row, origin, None)?);
        }
        self.draft.sections.append(&mut loose);
        self.read_rest(sub, origin, None)?;
        for section in sub.list("sections")? {
            self.read_section(&section, origin, floor, 1)?;
        }
        Ok(())
    }

    /// Everything of a sub-chart but rows and sections.
    fn read_rest(
        &mut self,
        sub: &Node<'_>,
        origin: Xy,
        section: Option<(&str, Option<u8>)>,
    ) -> Result<(), ImportError> {
        if let Some(booth) = sub.list("booths")?.first() {
            return Err(booth.refuse("booths cannot be sold: they have neither seats nor places"));
        }
        for area in sub.list("generalAdmissionAreas")? {
            let own = area.need_text("label", "an area")?;
            let name = section.map_or_else(|| own.clone(), |(section, _)| format!("{section} {own}"));
            let category = self.category(&area, section.and_then(|(_, category)| category), "the area")?;
            let capacity = match area.number("capacity")? {
                None => None,
                Some(capacity) if capacity.fract() == 0.0 && (0.0..=1e9).contains(&capacity) => Some(capacity as u32),
                Some(_) => return Err(area.refuse("capacity is not a whole number")),
            };
            let outline = outline(&area, origin)?;
            self.draft.areas.push(DraftArea { name, outline, category, capacity });
        }
        for shape in sub.list("shapes")? {
            let points = outline(&shape, origin)?;
            let label = shape.text("label")?.filter(|label| !label.is_empty());
            if points.len() > 1 {
                let kind = if points.len() == 2 { ShapeKind::Polyline } else { ShapeKind::Polygon };
                self.draft.shapes.push(DraftShape { kind, points, label });
            }
        }
        for text in sub.list("texts")? {
            let at = match (text.get("center"), text.get("position")) {
                (Some(point), _) | (None, Some(point)) => point.point()?,
                (None, None) => text.point()?,
            };
            if let Some(lettering) = text.text("text")?.filter(|text| !text.is_empty()) {
                let size = match text.number("fontSize")? {
                    Some(size) => size,
                    None => text.number("labelSize")?.unwrap_or(TEXT_SIZE),
                };
                let angle_deg = text.number("rotationAngle")?.unwrap_or(0.0);
                self.draft.texts.push(DraftText { text: lettering, at: add(origin, at), size, angle_deg });
            }
        }
        Ok(())
    }

    fn read_section(
        &mut self,
        node: &Node<'_>,
        origin: Xy,
        floor: Option<&str>,
        depth: usize,
    ) -> Result<(), ImportError> {
        if depth > MAX_DEPTH {
            return Err(node.refuse("sections are nested too deeply"));
        }
        let name = node.need_text("label", "a section")?;
        let category = match node.get("categoryKey") {
            Some(_) => Some(self.category(node, None, "the section")?),
            None => None,
        };
        let zone = match node.text("zone")? {
            None => None,
            Some(key) => Some(
                self.zones
                    .get(&key)
                    .cloned()
                    .ok_or_else(|| node.refuse(format!("zone {key:?} is not in the list of zones")))?,
            ),
        };
        let points: Vec<Xy> = node.points("points")?.into_iter().map(|point| add(origin, point)).collect();
        let mut section = DraftSection {
            name: name.clone(),
            zone: zone.as_ref().map(|(label, _)| label.clone()),
            floor: floor.map(str::to_owned),
            outline: points,
            entrance: node.text("entrance")?.filter(|entrance| !entrance.is_empty()),
            focal: zone.and_then(|(_, focal)| focal).map(|focal| add(origin, focal)),
            rows: Vec::new(),
        };
        if let Some(sub) = node.get("subChart") {
            let inner = add(origin, node.point_or_zero("topLeft")?);
            for row in sub.list("rows")?.into_iter().chain(sub.list("tables")?) {
                section.rows.push(self.read_row(&row, inner, category)?);
            }
            self.read_rest(&sub, inner, Some((&name, category)))?;
            for nested in sub.list("sections")? {
                self.read_section(&nested, inner, floor, depth + 1)?;
            }
        }
        if section.rows.is_empty() {
            // A section without seats is a drawing.
            if section.outline.len() > 2 {
                let shape = DraftShape { kind: ShapeKind::Polygon, points: section.outline, label: Some(name) };
                self.draft.shapes.push(shape);
            }
        } else {
            self.draft.sections.push(section);
        }
        Ok(())
    }

    fn read_row(&self, node: &Node<'_>, origin: Xy, inherited: Option<u8>) -> Result<DraftRow, ImportError> {
        let label = node.need_text("label", "a row")?;
        let inherited = match node.get("categoryKey") {
            Some(_) => Some(self.category(node, None, "the row")?),
            None => inherited,
        };
        let mut seats = Vec::new();
        for seat in node.list("seats")? {
            let category = self.category(&seat, inherited, "the seat")?;
            seats.push(DraftSeat {
                label: seat.text("label")?.unwrap_or_default(),
                position: add(origin, seat.point()?),
                category,
                is_accessible: seat.flag("accessible"),
                is_companion: seat.flag("companionSeat"),
                is_restricted: seat.flag("restrictedView"),
                at: seat.at.clone(),
            });
        }
        Ok(DraftRow { label, seats, at: node.at.clone(), gaps: None })
    }

    fn category(&self, node: &Node<'_>, inherited: Option<u8>, what: &str) -> Result<u8, ImportError> {
        match node.text("categoryKey")? {
            None => {
                inherited.ok_or_else(|| node.refuse(format!("{what} has no category, and there is none to inherit")))
            }
            Some(key) => self
                .categories
                .get(&key)
                .copied()
                .ok_or_else(|| node.refuse(format!("category {key:?} is not in the list of categories"))),
        }
    }
}

/// The outline of an area or shape: corners, or what they are of a rectangle or an ellipse.
fn outline(node: &Node<'_>, origin: Xy) -> Result<Vec<Xy>, ImportError> {
    let points = node.points("points")?;
    if !points.is_empty() {
        return Ok(points.into_iter().map(|point| add(origin, point)).collect());
    }
    let Some(center) = node.get("center") else { return Ok(Vec::new()) };
    let center = add(origin, center.point()?);
    let degrees = node.number("rotationAngle")?.unwrap_or(0.0);
    let number = |key: &str| Ok::<f64, ImportError>(node.number(key)?.unwrap_or(0.0));
    Ok(match node.get("radius1") {
        Some(_) => ellipse(center, number("radius1")?, number("radius2")?, degrees),
        None => rectangle(center, number("width")?, number("height")?, degrees),
    })
}
