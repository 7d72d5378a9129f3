//! Files of venues become layouts, or are refused with one line that says where.

use seatwire::import::{self, Format, Imported};
use seatwire_proto::layout::Layout;
use std::path::Path;

fn file(name: &str) -> Vec<u8> {
    std::fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join("venues").join(name)).expect("a file of the repository")
}

fn read(name: &str) -> (Format, Imported) {
    import::read(&file(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

fn refusal(text: &str) -> String {
    let error = import::read(text.as_bytes()).expect_err("should be refused").to_string();
    assert!(!error.contains('\n'), "one line: {error}");
    error
}

fn row_lengths(layout: &Layout) -> Vec<usize> {
    layout.rows().map(|(_, row)| row.seats.len()).collect()
}

#[test]
fn the_race_track_is_the_same_in_all_three_formats() {
    let (format, chart) = read("race-track.chart.json");
    assert_eq!(format, Format::SeatsIo);
    let layout = &chart.layout;
    assert_eq!(layout.name, "Race Track");
    assert_eq!(layout.seat_count, 8_897);
    assert_eq!(layout.sections.len(), 4);
    let lengths = row_lengths(layout);
    assert_eq!(lengths.len(), 131);
    assert_eq!((lengths.iter().min(), lengths.iter().max()), (Some(&19), Some(&139)));
    let zones: std::collections::BTreeSet<_> = layout.sections.iter().filter_map(|s| s.zone.clone()).collect();
    assert_eq!(zones.into_iter().collect::<Vec<_>>(), ["Finish Line", "Mid Track"]);
    assert!(layout.sections.iter().all(|section| section.focal.is_some() && section.outline.len() >= 4));
    for (other, expected) in [("race-track.pretix.json", Format::Pretix), ("race-track.manifest.csv", Format::Manifest)]
    {
        let (format, imported) = read(other);
        assert_eq!(format, expected);
        assert_eq!(imported.layout.seat_count, 8_897, "{other}");
        assert_eq!(row_lengths(&imported.layout), lengths, "{other}");
        assert_eq!(imported.proposal.seat_categories, chart.proposal.seat_categories, "{other}");
        let labels = |layout: &Layout| -> Vec<_> {
            layout.rows().map(|(s, row)| (s, row.label.clone(), row.seats.clone(), row.gaps.clone())).collect()
        };
        assert_eq!(labels(&imported.layout), labels(layout), "{other}");
    }
    let names: Vec<_> = chart.proposal.categories.iter().map(|c| (c.name.as_str(), c.color.as_str())).collect();
    assert_eq!(names, [("Goal Stands", "#4176a5"), ("Mid Track Stand", "#fca700")]);
}

#[test]
fn neighbours_in_a_row_are_half_a_metre_apart() {
    let (_, race) = read("race-track.chart.json");
    let mut steps = Vec::new();
    for (_, row) in race.layout.rows() {
        for i in 1..row.seats.len() {
            if !row.gaps.contains(&(i as u32 - 1)) {
                let [dx, dy] = [row.x[i] - row.x[i - 1], row.y[i] - row.y[i - 1]].map(f64::from);
                steps.push(dx.hypot(dy) * f64::from(race.layout.unit_mm));
            }
        }
    }
    steps.sort_by(f64::total_cmp);
    assert!((490.0..510.0).contains(&steps[steps.len() / 2]), "median {}", steps[steps.len() / 2]);
    assert!(steps[steps.len() - 1] < 850.0, "an aisle went unnoticed: {}", steps[steps.len() - 1]);
}

#[test]
fn a_small_theatre_keeps_its_areas_capacities_and_accessible_seat() {
    let (_, theatre) = read("small-theatre.chart.json");
    let layout = &theatre.layout;
    assert_eq!(layout.seat_count, 32);
    assert_eq!(layout.areas.iter().map(|area| area.name.as_str()).collect::<Vec<_>>(), ["GA1", "GA2"]);
    assert!(layout.areas.iter().all(|area| area.outline.len() > 20));
    assert_eq!(theatre.proposal.areas.iter().filter_map(|area| area.capacity).sum::<u32>(), 200);
    assert_eq!(layout.rows().map(|(_, row)| row.accessible.len()).sum::<usize>(), 1);
    assert_eq!(layout.shapes.len(), 1);
    assert_eq!(layout.shapes[0].label.as_deref(), Some("Stage"));
    assert_eq!(theatre.proposal.categories.len(), 3);
}

#[test]
fn sections_keep_entrances_and_seats_inherit_their_category() {
    let (_, sections) = read("two-sections.chart.json");
    let layout = &sections.layout;
    assert_eq!((layout.seat_count, layout.rows().count()), (71, 13));
    assert_eq!(
        layout.sections.iter().filter_map(|s| s.entrance.as_deref()).collect::<Vec<_>>(),
        ["Entrance 1", "Entrance 2"]
    );
    assert_eq!(sections.proposal.seat_categories.iter().filter(|category| **category == 0).count(), 36);
    // The nested charts are local to their section: every seat lies inside its section's outline.
    for section in &layout.sections {
        let [x0, x1] = [section.outline.iter().map(|p| p[0]).min(), section.outline.iter().map(|p| p[0]).max()];
        assert!(section.rows.iter().flat_map(|row| &row.x).all(|x| Some(*x) >= x0 && Some(*x) <= x1));
    }
}

#[test]
fn a_plan_with_repeated_guids_is_refused_and_says_which() {
    let error = import::read(&file("stadium-duplicate-guids.pretix.json")).expect_err("guids repeat").to_string();
    assert!(error.starts_with("/zones/0/rows/"), "{error}");
    assert!(error.contains("738 seats have only 318 distinct ones"), "{error}");
    assert!(error.contains("is at /zones/0/rows/"), "{error}");
    assert!(!error.contains('\n') && error.len() < 400, "{error}");
}

#[test]
fn broken_files_are_refused_with_the_place() {
    assert_eq!(refusal(""), "file: empty");
    assert_eq!(refusal("{\"zones\": [}"), "line 1 column 12: not JSON: expected value");
    assert!(refusal("{\n\n  \"zones\": [1,,2]}").starts_with("line 3 column 15: not JSON"));
    assert!(refusal("{\"a\":1}").starts_with("/: neither a seats.io chart"));
    assert!(refusal("section,row,seat,x,y\nA,1,1,0,0\n").starts_with("line 1: column category is missing"));
    let header = "section,row,seat,category,x,y\n";
    assert_eq!(refusal(header), "/: there is nothing to sell: no seat and no area");
    assert_eq!(refusal(&format!("{header}A,1,1,c,0,0\nA,1,2,c,1\n")), "line 3: 5 columns, the header has 6");
    assert_eq!(refusal(&format!("{header}A,1,1,c,0,zero\n")), "line 2: y is \"zero\", expected a number");
    assert_eq!(refusal(&format!("{header}A,1,,c,0,0\n")), "line 2: seat is empty");
    assert!(refusal(&format!("{header}A,1,1,c,0,0\nA,1,1,c,9,0\n")).starts_with("line 3: 1 of 2 seats repeat a label"));
    assert!(refusal(&format!("{header}A,1,1,c,0,0\nA,1,2,c,0,0\n")).starts_with("line 3: seat 2 stands where seat 1"));
}

#[test]
fn broken_charts_are_refused_with_a_pointer() {
    let chart = |rows: &str| {
        format!(
            r##"{{"name":"x","categories":{{"list":[{{"key":1,"label":"c","color":"#fff"}}]}},"subChart":{{"rows":[{rows}]}}}}"##
        )
    };
    assert_eq!(refusal(&chart(r#"{"label":"A","seats":[]}"#)), "/subChart/rows/0: row \"A\" has no seats");
    assert_eq!(refusal(&chart(r#"{"seats":[]}"#)), "/subChart/rows/0: a row has no label");
    assert_eq!(
        refusal(&chart(r#"{"label":"A","seats":[{"x":0,"y":0,"categoryKey":1}]}"#)),
        "/subChart/rows/0/seats/0: a seat of row \"A\" has no label"
    );
    assert_eq!(
        refusal(&chart(r#"{"label":"A","seats":[{"label":"1","x":0,"y":0,"categoryKey":7}]}"#)),
        "/subChart/rows/0/seats/0: category \"7\" is not in the list of categories"
    );
    assert!(refusal(&chart(r#"{"label":"A","seats":[{"label":"1","x":0,"y":0}]}"#)).contains("has no category"));
    assert_eq!(
        refusal(&chart(r#"{"label":"A","seats":[{"label":"1","x":"far","y":0,"categoryKey":1}]}"#)),
        "/subChart/rows/0/seats/0/x: expected a number"
    );
    let plan = r#"{"name":"p","categories":[{"name":"a"}],"zones":[{"name":"z","rows":[{"row_number":"1","seats":[
        {"seat_guid":"g","seat_number":"1","category":"b"}]}]}]}"#;
    assert_eq!(refusal(plan), "/zones/0/rows/0/seats/0: category \"b\" is not in the list of categories");
}

#[test]
fn a_missing_seat_in_a_row_leaves_an_aisle() {
    let mut csv = "section,row,seat,category,x,y,accessible\n".to_owned();
    for (seat, x) in [("3", 40), ("1", 0), ("2", 20), ("4", 100), ("5", 120), ("6", 140)] {
        csv.push_str(&format!("A,1,{seat},c,{x},0,{}\n", if seat == "4" { "yes" } else { "" }));
    }
    let (_, imported) = import::read(csv.as_bytes()).expect("a manifest");
    let (_, row) = imported.layout.rows().next().expect("one row");
    assert_eq!((row.seats.join(""), &row.gaps[..], &row.accessible[..]), ("123456".to_owned(), &[2][..], &[3][..]));
}

#[test]
fn older_plans_without_positions_and_with_sizes_on_the_area_are_read() {
    let plan = r##"{"name":"old","categories":[{"name":"a","color":"#AABBCC"}],"zones":[{"name":"z","position":{"x":10,"y":10},
        "rows":[{"row_number":"1","row_number_position":"left","seats":[
            {"seat_guid":"g1","seat_number":1,"category":"a","position":{"x":0,"y":0}},
            {"seat_guid":"g2","seat_number":2,"category":"a","position":{"x":25,"y":0}}]}],
        "areas":[{"shape":"rectangle","width":100,"height":20,"color":"#eee","position":{"x":0,"y":-60},"rotation":0,"text":"Stage"},
                 {"shape":"text","text":{"text":"Bar","color":"#000"},"position":{"x":0,"y":50}},
                 {"shape":"circle","circle":{"radius":5},"position":{"x":50,"y":50}}]}]}"##;
    let (format, imported) = import::read(plan.as_bytes()).expect("a plan");
    assert_eq!(format, Format::Pretix);
    assert_eq!(imported.proposal.categories[0].color, "#aabbcc");
    let layout = imported.layout;
    assert_eq!((layout.seat_count, layout.shapes.len(), layout.texts.len()), (2, 2, 1));
    assert_eq!(layout.shapes[0].label.as_deref(), Some("Stage"));
    assert_eq!(layout.rows().next().map(|(_, row)| row.seats.clone()), Some(vec!["1".to_owned(), "2".to_owned()]));
}

#[test]
fn the_generated_stadium_is_what_it_says() {
    use seatwire::import::stadium;
    let stadium = stadium::generate().expect("its numbers fit together");
    assert_eq!(stadium, stadium::generate().expect("again"), "the same every time");
    let layout = &stadium.layout;
    assert_eq!((layout.seat_count, layout.sections.len(), layout.areas.len()), (70_000, 200, 2));
    let zones: std::collections::BTreeSet<_> = layout.sections.iter().filter_map(|s| s.zone.as_deref()).collect();
    assert_eq!(zones.len(), 8);
    assert!(layout.sections.iter().all(|section| !section.rows.is_empty() && section.entrance.is_some()));
    let count =
        |list: fn(&seatwire_proto::layout::Row) -> usize| layout.rows().map(|(_, row)| list(row)).sum::<usize>();
    let [accessible, companion, restricted, gaps] = [
        count(|r| r.accessible.len()),
        count(|r| r.companion.len()),
        count(|r| r.restricted.len()),
        count(|r| r.gaps.len()),
    ];
    assert!(accessible >= 90 && companion == accessible, "{accessible} accessible, {companion} companion");
    assert!(restricted > 300 && gaps > 300, "{restricted} restricted, {gaps} gaps");
    let mut per_category = [0; 6];
    stadium.proposal.seat_categories.iter().for_each(|category| per_category[usize::from(*category)] += 1);
    assert!(per_category[..5].iter().all(|seats| *seats > 3_000) && per_category[5] == 0, "{per_category:?}");
    assert!(stadium.proposal.areas.iter().all(|area| area.capacity == Some(stadium::TERRACE_PLACES)));
    // Neighbours without an aisle between them sit side by side; no two seats anywhere overlap.
    let mut seats = Vec::new();
    for (_, row) in layout.rows() {
        for i in 0..row.seats.len() {
            seats.push((row.x[i], row.y[i]));
            if i > 0 && !row.gaps.contains(&(i as u32 - 1)) {
                let step = f64::from(row.x[i] - row.x[i - 1]).hypot(f64::from(row.y[i] - row.y[i - 1]));
                assert!((48.0..52.0).contains(&step), "row {} steps {step} cm", row.label);
            }
        }
    }
    seats.sort_unstable();
    for (i, a) in seats.iter().enumerate() {
        for b in seats[i + 1..].iter().take_while(|b| b.0 - a.0 < 40) {
            assert!(f64::from(b.0 - a.0).hypot(f64::from(b.1 - a.1)) > 40.0, "{a:?} and {b:?} overlap");
        }
    }
}
