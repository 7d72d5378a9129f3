//! What is on sale: the demo, events made by hand, and how soon a change is noticed.

use crate::support::stage::Stage;
use seatwire::catalogue::Catalogue;
use seatwire::clock::Clock;
use seatwire::import::demo;
use seatwire::import::publish::{EventSpec, PublishError, TierSpec, create_event_in, store_layout};
use seatwire::import::stadium;
use seatwire::store::Store;
use seatwire::store::event::EventFilter;
use seatwire::store::venue::NewVenue;
use seatwire_proto::id::EventId;
use seatwire_proto::server::{EventState, OrphanRule, SalesMode};
use std::collections::HashMap;

const NOW_MS: u64 = 1_800_000_000_000;

fn page(limit: u32) -> EventFilter {
    EventFilter { limit, ..EventFilter::default() }
}

#[tokio::test]
async fn the_demo_fills_an_empty_catalogue_once() {
    let stage = Stage::new().await;
    let both = tokio::join!(demo::load_if_empty(&stage.store, NOW_MS), demo::load_if_empty(&stage.store, NOW_MS));
    let [first, second] = [both.0, both.1].map(|done| done.expect("loads"));
    assert_ne!(first, second, "one of two nodes fills it");
    assert!(!demo::load_if_empty(&stage.store, NOW_MS).await.expect("looks"));

    let catalogue = Catalogue::new(stage.store.clone(), Clock::manual(NOW_MS));
    let events = catalogue.list(&page(20)).await.expect("a list");
    let seats: Vec<u32> = events.iter().map(|event| event.seat_count).collect();
    assert_eq!(seats, [8_897, 70_000]);
    assert!(events.iter().all(|event| event.state == EventState::OnSale && !event.waiting_room));
    assert_eq!(events[1].available, 70_000 + 2 * stadium::TERRACE_PLACES);
    let facts = catalogue.event(events[1].id).await.expect("answers").expect("is there");
    assert_eq!((facts.sections.len(), facts.areas.len(), facts.price_tiers.len()), (200, 2, 6));
    assert_eq!((facts.rules.seats_per_identity, facts.rules.orphans), (10, OrphanRule::Off));
    let layout = catalogue.layout(&facts.layout).await.expect("answers").expect("is there");
    assert!(layout.json.starts_with(format!("{{\"hash\":\"{}\",", facts.layout).as_bytes()));
    let plan = seatwire_proto::layout::Layout::from_json(&layout.json).expect("valid");
    assert_eq!(plan.seat_count, 70_000);
    assert!(catalogue.layout("00000000000000000000000000000000").await.expect("answers").is_none());
    let by_number = catalogue.event_by_number(facts.number).await.expect("answers").map(|facts| facts.id);
    assert_eq!(by_number, Some(facts.id));
    assert!(catalogue.event(EventId::generate()).await.expect("answers").is_none());
}

async fn theatre(store: &Store) -> String {
    let bytes = include_bytes!("../../venues/small-theatre.chart.json");
    let (_, imported) = seatwire::import::read(bytes).expect("a chart");
    let venue = NewVenue {
        name: "Corner Theatre".to_owned(),
        city: "Kiel".to_owned(),
        country: "DE".to_owned(),
        lat: 54.3,
        lon: 10.1,
        time_zone: "Europe/Berlin".to_owned(),
    };
    let mut connection = store.pool().acquire().await.expect("a connection");
    let (_, hash) = store_layout(&mut connection, &venue, &imported, NOW_MS).await.expect("stores");
    let (_, again) = store_layout(&mut connection, &venue, &imported, NOW_MS).await.expect("stores again");
    assert_eq!(hash, again, "a plan is stored once");
    hash
}

fn tier(code: &str, category: Option<&str>, price_minor: i64) -> TierSpec {
    TierSpec { code: code.to_owned(), category: category.map(str::to_owned), price_minor, fee_minor: 50 }
}

fn evening(layout: &str, name: &str, starts_ms: u64, tiers: Vec<TierSpec>) -> EventSpec {
    EventSpec {
        layout: layout.to_owned(),
        name: name.to_owned(),
        description: String::new(),
        performers: vec!["The Corner Players".to_owned()],
        starts_ms,
        on_sale_ms: NOW_MS + 1_000,
        currency: "EUR".parse().expect("a currency"),
        tiers,
        capacities: HashMap::new(),
        seats_per_identity: 4,
        hold_ttl_ms: 60_000,
        orphans: OrphanRule::Strict,
        best_available: Vec::new(),
    }
}

#[tokio::test]
async fn an_event_needs_a_price_for_every_category_in_use() {
    let stage = Stage::new().await;
    let layout = theatre(&stage.store).await;
    let create = async |tiers: Vec<TierSpec>| {
        create_event_in(&stage.store, &evening(&layout, "Evening", NOW_MS, tiers), NOW_MS).await
    };
    let refused = async |tiers: Vec<TierSpec>| match create(tiers).await {
        Err(PublishError::Refused(line)) => line,
        other => panic!("{other:?}"),
    };
    assert!(refused(vec![]).await.contains("1 to 256 price tiers"));
    assert!(refused(vec![tier("A", Some("Cat1"), 100)]).await.contains("has no price tier"));
    assert!(refused(vec![tier("A", Some("Stalls"), 100)]).await.contains("there are Cat1, Cat2, Cat3"));
    assert!(refused(vec![tier("A", None, 100), tier("A", None, 100)]).await.contains("named twice"));
    assert!(refused(vec![tier("A B", None, 100)]).await.contains("a code is"));
    assert!(refused(vec![tier("A", None, -1)]).await.contains("not negative"));
    create(vec![tier("A", None, 100)]).await.expect("one price for everything");
    let id = create(vec![tier("X", Some("Cat2"), 100), tier("Y", Some("Cat1"), 200), tier("Z", Some("Cat3"), 300)])
        .await
        .expect("a price for each");
    let catalogue = Catalogue::new(stage.store.clone(), Clock::manual(NOW_MS));
    let page = catalogue.page(id).await.expect("answers").expect("is there");
    assert_eq!(page.body.areas.iter().map(|area| area.price_tier.as_str()).collect::<Vec<_>>(), ["Y", "X"]);
    assert_eq!(page.body.summary.performers[0].name, "The Corner Players");
    assert_eq!(page.facts.state, EventState::Scheduled);
    assert_eq!(page.facts.state_at(NOW_MS + 1_000), EventState::OnSale);
}

#[tokio::test]
async fn sections_are_entered_as_best_available_by_their_names() {
    let stage = Stage::new().await;
    let layout = theatre(&stage.store).await;
    let enter = async |names: &[&str]| {
        let best_available = names.iter().map(|name| (*name).to_owned()).collect();
        let spec = evening(&layout, "Evening", NOW_MS, vec![tier("A", None, 100)]);
        create_event_in(&stage.store, &EventSpec { best_available, ..spec }, NOW_MS).await
    };
    let catalogue = Catalogue::new(stage.store.clone(), Clock::manual(NOW_MS));
    let modes = async |id| {
        let facts = catalogue.event(id).await.expect("answers").expect("is there");
        facts.sections.iter().map(|section| (section.name.clone(), section.sales_mode)).collect::<Vec<_>>()
    };
    let plain = modes(enter(&[]).await.expect("an event")).await;
    assert!(plain.iter().all(|(_, mode)| *mode == SalesMode::PickSeat), "{plain:?}");
    let (name, _) = &plain[0];
    let mixed = modes(enter(&[name]).await.expect("an event")).await;
    let expected = |(other, _): &(String, SalesMode)| {
        (other.clone(), if other == name { SalesMode::BestAvailable } else { SalesMode::PickSeat })
    };
    assert_eq!(mixed, plain.iter().map(expected).collect::<Vec<_>>());
    match enter(&["Nowhere"]).await {
        Err(PublishError::Refused(line)) => assert_eq!(line, "there is no section \"Nowhere\" in this layout"),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_list_pages_in_order_of_the_date_and_finds_words() {
    let stage = Stage::new().await;
    let layout = theatre(&stage.store).await;
    let mut made = Vec::new();
    for (i, name) in ["Hamlet", "Faust", "100% Comedy", "Faust"].into_iter().enumerate() {
        let spec = evening(&layout, name, NOW_MS + 1_000 * (i as u64 / 2), vec![tier("A", None, 100)]);
        made.push(create_event_in(&stage.store, &spec, NOW_MS).await.expect("an event"));
    }
    let catalogue = Catalogue::new(stage.store.clone(), Clock::manual(NOW_MS));
    let mut seen = Vec::new();
    let mut filter = page(1);
    while let Some(event) = catalogue.list(&filter).await.expect("a list").pop() {
        filter.after = Some((event.starts_ms, event.id));
        seen.push(event.id);
    }
    assert_eq!(seen, made);
    let found = async |words: &[&str]| {
        let words = words.iter().map(|word| (*word).to_owned()).collect();
        catalogue.list(&EventFilter { words, ..page(20) }).await.expect("a list").len()
    };
    assert_eq!(found(&["faust"]).await, 2);
    assert_eq!(found(&["FAUST", "kiel"]).await, 2);
    assert_eq!(found(&["corner players", "hamlet"]).await, 1);
    assert_eq!(found(&["%"]).await, 1, "a percent sign is a letter");
    assert_eq!(found(&["_"]).await, 0);
    let until = EventFilter { to_ms: Some(NOW_MS + 1_000), ..page(20) };
    assert_eq!(catalogue.list(&until).await.expect("a list").len(), 2);
    let since = EventFilter { from_ms: Some(NOW_MS + 1_000), ..page(20) };
    assert_eq!(catalogue.list(&since).await.expect("a list").len(), 2);
}

#[tokio::test]
async fn a_change_is_noticed_by_its_revision_and_old_facts_outlive_the_store() {
    let stage = Stage::new().await;
    let layout = theatre(&stage.store).await;
    let spec = evening(&layout, "Evening", NOW_MS, vec![tier("A", None, 100)]);
    let id = create_event_in(&stage.store, &spec, NOW_MS).await.expect("an event");
    let clock = Clock::manual(NOW_MS);
    let catalogue = Catalogue::new(stage.store.clone(), clock.clone());
    let price = async || {
        let facts = catalogue.event(id).await.expect("answers").expect("is there");
        (facts.price_tiers[0].price_minor, facts.state)
    };
    assert_eq!(price().await, (100, EventState::Scheduled));
    sqlx::query("update event_price_tiers set price_minor = 200 where event_id = $1")
        .bind(id.uuid())
        .execute(stage.store.pool())
        .await
        .expect("changes");
    assert_eq!(price().await.0, 100, "younger than a second: no look");
    clock.advance_ms(1_000);
    price().await;
    crate::support::eventually("the new price", || async { (price().await.0 == 200).then_some(()) }).await;
    clock.advance_ms(60_000);
    assert_eq!(price().await, (200, EventState::OnSale), "nobody asked for a minute: looked before it is given");
    stage.store.pool().close().await;
    clock.advance_ms(60_000);
    assert_eq!(price().await.0, 200, "without the store the last known facts stand");
    assert!(catalogue.event(EventId::generate()).await.is_err());
}
