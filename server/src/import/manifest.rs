//! Flat manifests: a header line, then one line a seat. Columns `section,row,seat,category,x,y` in any order;
//! `accessible`, `companion`, `restricted`, `zone`, `floor` and `entrance` are understood, others do not matter here.

use super::ImportError;
use super::draft::{Draft, DraftRow, DraftSeat, DraftSection, check_category_count, color};
use crate::store::layout::Category;
use std::collections::HashMap;

struct Columns {
    section: usize,
    row: usize,
    seat: usize,
    category: usize,
    x: usize,
    y: usize,
    accessible: Option<usize>,
    companion: Option<usize>,
    restricted: Option<usize>,
    zone: Option<usize>,
    floor: Option<usize>,
    entrance: Option<usize>,
}

pub(super) fn read(bytes: &[u8]) -> Result<Draft, ImportError> {
    if let Err(error) = std::str::from_utf8(bytes) {
        let line = 1 + bytes[..error.valid_up_to()].iter().filter(|byte| **byte == b'\n').count();
        return Err(ImportError::new(format!("line {line}"), "not UTF-8 text"));
    }
    let mut reader = csv::ReaderBuilder::new().trim(csv::Trim::All).from_reader(bytes);
    let columns = columns(reader.headers().map_err(|error| refuse(&error))?)?;
    let mut draft = Draft { name: "Manifest".to_owned(), ..Draft::default() };
    let mut sections: HashMap<String, usize> = HashMap::new();
    let mut rows: HashMap<(usize, String), usize> = HashMap::new();
    let mut categories: HashMap<String, u8> = HashMap::new();
    for record in reader.records() {
        let record = record.map_err(|error| refuse(&error))?;
        let at = format!("line {}", record.position().map_or(0, csv::Position::line));
        let text = |column: usize| record.get(column).unwrap_or_default();
        let need = |column: usize, name: &str| match text(column) {
            "" => Err(ImportError::new(&at, format!("{name} is empty"))),
            text => Ok(text.to_owned()),
        };
        let number = |column: usize, name: &str| {
            let found = text(column);
            found
                .parse::<f64>()
                .ok()
                .filter(|number| number.is_finite())
                .ok_or_else(|| ImportError::new(&at, format!("{name} is {found:?}, expected a number")))
        };
        let optional = |column: Option<usize>| column.map(text).filter(|text| !text.is_empty()).map(str::to_owned);
        let flag = |column: Option<usize>| {
            column
                .map(text)
                .is_some_and(|text| ["1", "true", "yes", "y", "x"].iter().any(|word| text.eq_ignore_ascii_case(word)))
        };
        let category = need(columns.category, "category")?;
        let category = match categories.get(&category) {
            Some(index) => *index,
            None => {
                check_category_count(draft.categories.len() + 1, &at)?;
                let index = draft.categories.len();
                draft.categories.push(Category { name: category.clone(), color: color(None, index) });
                categories.insert(category, index as u8);
                index as u8
            }
        };
        let seat = DraftSeat {
            label: need(columns.seat, "seat")?,
            position: (number(columns.x, "x")?, number(columns.y, "y")?),
            category,
            is_accessible: flag(columns.accessible),
            is_companion: flag(columns.companion),
            is_restricted: flag(columns.restricted),
            at: at.clone(),
        };
        let name = need(columns.section, "section")?;
        let section = *sections.entry(name.clone()).or_insert_with(|| {
            draft.sections.push(DraftSection {
                name,
                zone: optional(columns.zone),
                floor: optional(columns.floor),
                entrance: optional(columns.entrance),
                ..DraftSection::default()
            });
            draft.sections.len() - 1
        });
        let label = text(columns.row).to_owned();
        let section_rows = &mut draft.sections[section].rows;
        let row = *rows.entry((section, label.clone())).or_insert_with(|| {
            section_rows.push(DraftRow { label, at: at.clone(), ..DraftRow::default() });
            section_rows.len() - 1
        });
        section_rows[row].seats.push(seat);
    }
    Ok(draft)
}

fn refuse(error: &csv::Error) -> ImportError {
    let at = error.position().map_or_else(|| "line 1".to_owned(), |position| format!("line {}", position.line()));
    let why = match error.kind() {
        csv::ErrorKind::UnequalLengths { expected_len, len, .. } => {
            format!("{len} columns, the header has {expected_len}")
        }
        _ => "not a comma-separated line".to_owned(),
    };
    ImportError::new(at, why)
}

fn columns(header: &csv::StringRecord) -> Result<Columns, ImportError> {
    let find = |name: &str| header.iter().position(|column| column.eq_ignore_ascii_case(name));
    let need = |name: &str| {
        find(name).ok_or_else(|| {
            let expected = "a manifest begins with section,row,seat,category,x,y";
            ImportError::new("line 1", format!("column {name} is missing; {expected}"))
        })
    };
    Ok(Columns {
        section: need("section")?,
        row: need("row")?,
        seat: need("seat")?,
        category: need("category")?,
        x: need("x")?,
        y: need("y")?,
        accessible: find("accessible"),
        companion: find("companion"),
        restricted: find("restricted"),
        zone: find("zone"),
        floor: find("floor"),
        entrance: find("entrance"),
    })
}
