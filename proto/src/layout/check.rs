//! What a layout must keep to beyond its types: dense indices, positions in range, sizes within limits, text that can be
//! drawn. Every reader of a layout comes through here; each refusal names the member by its JSON Pointer.

use super::{
    Layout, LayoutError, MAX_COORDINATE, MAX_LABEL_BYTES, MAX_POINTS, MAX_ROWS, MAX_SEATS, MAX_SECTIONS, Point, Row,
    Section, ShapeKind,
};

impl Layout {
    /// Checks what the types cannot: density of indices, positions in range, sizes within limits.
    ///
    /// # Errors
    /// [`LayoutError::Invalid`], naming the first offending member.
    pub fn validate(&self) -> Result<(), LayoutError> {
        check_text(&self.name, || "/name".into())?;
        if self.unit_mm == 0 {
            return Err(invalid("/unit_mm".into(), "must be at least 1"));
        }
        let [x0, y0, x1, y1] = self.bounds;
        if x0 > x1 || y0 > y1 {
            return Err(invalid("/bounds".into(), "must be x0, y0, x1, y1 with x0 <= x1 and y0 <= y1"));
        }
        check_points(&[[x0, y0], [x1, y1], self.focal], || "/bounds".into())?;
        check_count(self.sections.len(), MAX_SECTIONS, "/sections")?;
        check_count(self.areas.len(), MAX_SECTIONS, "/areas")?;
        check_count(self.sections.iter().map(|s| s.rows.len()).sum(), MAX_ROWS, "/sections")?;
        check_count(self.texts.len(), MAX_POINTS, "/texts")?;
        check_count(self.shapes.len(), MAX_POINTS, "/shapes")?;
        let mut next_seat = 0_u32;
        for (at, section) in self.sections.iter().enumerate() {
            section.validate(at, &mut next_seat)?;
        }
        if next_seat != self.seat_count {
            return Err(invalid("/seat_count".into(), "is not the number of seats in all rows"));
        }
        for (at, area) in self.areas.iter().enumerate() {
            if area.index.0 as usize != at {
                return Err(invalid(format!("/areas/{at}/index"), "must be its place in the list"));
            }
            check_text(&area.name, || format!("/areas/{at}/name"))?;
            check_points(&area.outline, || format!("/areas/{at}/outline"))?;
        }
        for (at, shape) in self.shapes.iter().enumerate() {
            check_points(&shape.points, || format!("/shapes/{at}/points"))?;
            if shape.kind == ShapeKind::Ellipse && shape.points.len() != 2 {
                return Err(invalid(format!("/shapes/{at}/points"), "an ellipse has a centre and two radii"));
            }
            check_optional(shape.label.as_deref(), || format!("/shapes/{at}/label"))?;
        }
        for (at, text) in self.texts.iter().enumerate() {
            check_text(&text.text, || format!("/texts/{at}/text"))?;
            check_points(&[text.at], || format!("/texts/{at}/at"))?;
        }
        Ok(())
    }
}

impl Section {
    fn validate(&self, at: usize, next_seat: &mut u32) -> Result<(), LayoutError> {
        if self.index.0 as usize != at {
            return Err(invalid(format!("/sections/{at}/index"), "must be its place in the list"));
        }
        check_text(&self.name, || format!("/sections/{at}/name"))?;
        check_optional(self.zone.as_deref(), || format!("/sections/{at}/zone"))?;
        check_optional(self.floor.as_deref(), || format!("/sections/{at}/floor"))?;
        check_optional(self.entrance.as_deref(), || format!("/sections/{at}/entrance"))?;
        check_points(&self.outline, || format!("/sections/{at}/outline"))?;
        if let Some(focal) = self.focal {
            check_points(&[focal], || format!("/sections/{at}/focal"))?;
        }
        for (row_at, row) in self.rows.iter().enumerate() {
            let path = |member: &str| format!("/sections/{at}/rows/{row_at}/{member}");
            if row.first.0 != *next_seat {
                return Err(invalid(path("first"), "must follow the last seat of the row before"));
            }
            *next_seat = u32::try_from(row.seats.len())
                .ok()
                .and_then(|seats| next_seat.checked_add(seats))
                .filter(|seats| *seats <= MAX_SEATS)
                .ok_or_else(|| invalid(path("seats"), "more seats than a layout may have"))?;
            row.validate(path)?;
        }
        Ok(())
    }
}

impl Row {
    fn validate(&self, path: impl Fn(&str) -> String) -> Result<(), LayoutError> {
        check_text(&self.label, || path("label"))?;
        let seats = self.seats.len();
        if seats == 0 {
            return Err(invalid(path("seats"), "a row has at least one seat"));
        }
        for label in &self.seats {
            check_text(label, || path("seats"))?;
        }
        for (member, values) in [("x", &self.x), ("y", &self.y)] {
            if values.len() != seats {
                return Err(invalid(path(member), "must have one number a seat"));
            }
            if values.iter().any(|value| value.unsigned_abs() > MAX_COORDINATE.unsigned_abs()) {
                return Err(invalid(path(member), "coordinate out of range"));
            }
        }
        // A gap comes after a seat that has a neighbour, hence not after the last one.
        let lists = [
            ("gaps", &self.gaps, seats - 1),
            ("accessible", &self.accessible, seats),
            ("companion", &self.companion, seats),
            ("restricted", &self.restricted, seats),
        ];
        for (member, positions, end) in lists {
            if positions.windows(2).any(|pair| pair[0] >= pair[1]) {
                return Err(invalid(path(member), "positions must increase"));
            }
            if positions.last().is_some_and(|last| *last as usize >= end) {
                return Err(invalid(path(member), "position out of range"));
            }
        }
        Ok(())
    }
}

fn invalid(at: String, why: &'static str) -> LayoutError {
    LayoutError::Invalid { at, why }
}

fn check_count(count: usize, max: usize, at: &str) -> Result<(), LayoutError> {
    if count > max { Err(invalid(at.into(), "too many")) } else { Ok(()) }
}

fn check_text(text: &str, at: impl Fn() -> String) -> Result<(), LayoutError> {
    if text.len() > MAX_LABEL_BYTES {
        return Err(invalid(at(), "longer than 200 bytes"));
    }
    if text.chars().any(char::is_control) {
        return Err(invalid(at(), "has a control character"));
    }
    Ok(())
}

fn check_optional(text: Option<&str>, at: impl Fn() -> String) -> Result<(), LayoutError> {
    text.map_or(Ok(()), |text| check_text(text, at))
}

fn check_points(points: &[Point], at: impl Fn() -> String) -> Result<(), LayoutError> {
    check_count(points.len(), MAX_POINTS, &at())?;
    if points.iter().flatten().any(|value| value.unsigned_abs() > MAX_COORDINATE.unsigned_abs()) {
        return Err(invalid(at(), "coordinate out of range"));
    }
    Ok(())
}
