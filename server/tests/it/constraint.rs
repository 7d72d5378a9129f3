//! Every rule of the schema is known by name: either its breach is an answer (`store/constraint.rs`), or only a defect can
//! break it and it stands in the list here, with its reason.

use crate::support::stage::Stage;
use seatwire::store::constraint::by_name;
use std::collections::BTreeSet;

/// Checks of values that are parsed or computed before they are written, states of our own enums, and keys that are written by
/// one who has a lock or says `on conflict`: broken by a defect only.
const ONLY_BY_A_DEFECT: &[&str] = &[
    "admin_keys_name",
    "admin_keys_scopes",
    "admin_keys_secret",
    "disputes_amount",
    "event_allocations_code_hash_check",
    "event_allocations_code_key",
    "event_allocations_from_ms_check",
    "event_allocations_id_key",
    "event_allocations_name_check",
    "event_allocations_slot_check",
    "event_allocations_window",
    "event_areas_area_index_check",
    "event_areas_capacity_check",
    "event_areas_price_tier_check",
    "event_epochs_positive",
    "event_log_floor_one",
    "event_openings_kind",
    "event_performers_position_check",
    "event_price_tiers_code_check",
    "event_price_tiers_code_key",
    "event_price_tiers_color_check",
    "event_price_tiers_fee_minor_check",
    "event_price_tiers_position_check",
    "event_price_tiers_price_minor_check",
    "event_sections_check",
    "event_sections_first_seat_check",
    "event_sections_sales_mode_check",
    "event_sections_section_index_check",
    "events_check",
    "events_currency_check",
    "events_hold_ttl_ms_check",
    "events_name_check",
    "events_number_check",
    "events_number_key",
    "events_on_sale_ms_check",
    "events_orphans_check",
    "events_presale_ms_check",
    "events_seat_count_check",
    "events_seats_per_identity_check",
    "events_seats_per_instrument",
    "events_starts_ms_check",
    "events_state_check",
    "layouts_area_count_check",
    "layouts_check",
    "layouts_check1",
    "layouts_hash_check",
    "layouts_seat_count_check",
    "mails_kind",
    "orders_state",
    "orders_total",
    "outbox_kind",
    "payment_attempts_final",
    "payment_attempts_state",
    "performers_name_check",
    "performers_name_key",
    "refunds_amount",
    "refunds_state",
    "server_keys_purpose_check",
    "server_keys_secret_check",
    "server_keys_version_check",
    "settlement_rows_kind",
    "taken_seats_seat",
    "taken_seats_state",
    "tickets_place",
    "tickets_state",
    "venues_country_check",
    "venues_lat_check",
    "venues_lon_check",
    "venues_name_check",
    "venues_name_city_key",
    "waitlist_places_offer",
    "waitlist_places_quantity",
    "waitlist_places_state",
];

#[tokio::test]
async fn every_rule_of_the_schema_is_an_answer_or_known_to_be_broken_by_a_defect_only() {
    let stage = Stage::new().await;
    let rules: Vec<String> = sqlx::query_scalar(
        "select conname::text from pg_constraint c join pg_class r on r.oid = c.conrelid
         where c.connamespace = 'public'::regnamespace and c.contype in ('c', 'u', 'x') and not r.relispartition
             and r.relname <> '_sqlx_migrations'
         union
         select i.relname::text from pg_index x join pg_class i on i.oid = x.indexrelid join pg_class r on r.oid = x.indrelid
         where x.indisunique and not r.relispartition and r.relnamespace = 'public'::regnamespace
             and not exists (select 1 from pg_constraint c where c.conindid = i.oid)",
    )
    .fetch_all(stage.store.pool())
    .await
    .expect("the catalogue answers");
    assert!(rules.len() > 50, "{rules:?}");
    let by_a_defect: BTreeSet<&str> = ONLY_BY_A_DEFECT.iter().copied().collect();
    for rule in &rules {
        let is_answer = by_name(rule).is_some();
        assert!(is_answer != by_a_defect.contains(rule.as_str()), "{rule}: an answer, or in the list, and not both");
    }
    for listed in by_a_defect {
        assert!(rules.iter().any(|rule| rule == listed), "{listed} is no rule of the schema any more");
    }
}
