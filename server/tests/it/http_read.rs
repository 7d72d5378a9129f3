//! What is read over HTTP: events, lists, plans, snapshots; their caching; and what every refusal looks like.

use crate::support::client::Guest;
use crate::support::stage::{Draft, Stage, enter_event};
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};
use std::collections::HashSet;

/// A client that shows what is on the wire: it unpacks nothing.
async fn ask(method: Method, url: &str, headers: &[(&str, &str)]) -> reqwest::Response {
    let mut request = reqwest::Client::new().request(method, url);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    request.send().await.expect("answers")
}

async fn get(url: &str, headers: &[(&str, &str)]) -> reqwest::Response {
    ask(Method::GET, url, headers).await
}

fn header<'a>(response: &'a reqwest::Response, name: &str) -> &'a str {
    response.headers().get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
}

async fn error_of(response: reqwest::Response) -> Value {
    assert!(header(&response, "content-type").starts_with("application/json"), "{response:?}");
    assert_eq!(header(&response, "cache-control"), "no-store");
    let body: Value = response.json().await.expect("JSON");
    let error = body["error"].clone();
    assert!(error["number"].is_u64() && error["retry"].is_string() && error["message"].is_string(), "{body}");
    error
}

#[tokio::test]
async fn an_event_says_everything_a_buyer_needs_and_counts_what_is_left() {
    let (stage, event) = Stage::with_event(&Draft { blocked: vec![3, 4], ..Draft::default() }).await;
    let node = stage.node().await;
    let url = format!("{}/v1/events/{event}", node.url);
    let response = get(&url, &[]).await;
    assert_eq!(header(&response, "cache-control"), "max-age=1, stale-while-revalidate=1");
    let etag = header(&response, "etag").to_owned();
    let body: Value = response.json().await.expect("JSON");
    assert_eq!((&body["id"], &body["state"], &body["currency"]), (&json!(event), &json!("on_sale"), &json!("EUR")));
    assert_eq!((&body["seat_count"], &body["available"]), (&json!(160), &json!(160 - 2 + 50)));
    assert_eq!(body["sections"][0]["available"], 158);
    assert_eq!(body["sections"][0]["price_tiers"], json!(["A", "B"]));
    assert_eq!(body["sections"][0]["sales_mode"], "pick_seat");
    assert_eq!(body["areas"][0], json!({"index":0,"name":"Floor 1","price_tier":"A","capacity":50,"remaining":50}));
    assert_eq!(body["rules"], json!({"seats_per_identity":10,"hold_ttl_ms":600_000,"orphans":"off"}));
    assert_eq!(body["price_tiers"][0]["price_minor"], 4500);
    assert_eq!(body["venue"]["time_zone"], "Europe/Berlin");
    assert!(body["description"].is_string() && body["performers"].is_array() && body["waiting_room"] == false);
    let tiers =
        base64::Engine::decode(&base64::engine::general_purpose::STANDARD, body["seat_tiers"].as_str().expect("text"));
    let tiers = tiers.expect("base64");
    assert_eq!((tiers.len(), tiers[0], tiers[159]), (160, 0, 1));

    assert_eq!(get(&url, &[("If-None-Match", &etag)]).await.status(), StatusCode::NOT_MODIFIED);
    let packed = get(&url, &[("Accept-Encoding", "gzip")]).await;
    assert_eq!(
        (header(&packed, "content-encoding"), header(&packed, "vary").contains("Accept-Encoding")),
        ("gzip", true)
    );

    let guest = Guest::new(&node.url).await;
    let (status, held) = guest.post(&format!("/v1/events/{event}/holds"), "k1", json!({"seats": [0, 1]})).await;
    assert_eq!((status, held["hold"]["lines"].as_array().map(Vec::len)), (201, Some(2)), "{held}");
    crate::support::eventually("the count to follow", || async {
        let body: Value = get(&url, &[]).await.json().await.expect("JSON");
        (body["available"] == 206 && body["sections"][0]["available"] == 156).then_some(())
    })
    .await;
}

#[tokio::test]
async fn a_list_walks_by_cursor_and_shows_no_more_than_a_summary() {
    let stage = Stage::new().await;
    let mut made = HashSet::new();
    for _ in 0..3 {
        made.insert(enter_event(&stage.store, &Draft::default()).await.to_string());
    }
    let node = stage.node().await;
    let mut seen = HashSet::new();
    let mut url = format!("{}/v1/events?limit=2", node.url);
    loop {
        let response = get(&url, &[]).await;
        assert!(header(&response, "cache-control").starts_with("max-age=1"));
        let body: Value = response.json().await.expect("JSON");
        for item in body["items"].as_array().expect("a list") {
            for hidden in ["description", "sections", "areas", "rules", "seat_tiers"] {
                assert!(item.get(hidden).is_none(), "{hidden}");
            }
            assert_eq!(item["available"], 210);
            assert!(seen.insert(item["id"].as_str().expect("an id").to_owned()), "shown twice");
        }
        let Some(cursor) = body["next_cursor"].as_str() else { break };
        url = format!("{}/v1/events?limit=2&cursor={cursor}", node.url);
    }
    assert_eq!(seen, made);
    let count = async |query: &str| {
        let body: Value = get(&format!("{}/v1/events?{query}", node.url), &[]).await.json().await.expect("JSON");
        body["items"].as_array().map_or(0, Vec::len)
    };
    assert_eq!((count("q=evening+nowhere").await, count("q=opera").await), (3, 0));
    assert_eq!((count("near=52.5,13.4").await, count("near=48.1,11.6&within_km=100").await), (3, 0));
    assert_eq!((count("near=48.1,11.6&within_km=600").await, count("to_ms=1000").await), (3, 0));
    for (query, path) in [
        ("limit=0", "/limit"),
        ("limit=101", "/limit"),
        ("limit=many", "/limit"),
        ("cursor=abc", "/cursor"),
        ("from_ms=-1", "/from_ms"),
        ("near=here", "/near"),
        ("near=91,0", "/near"),
        ("near=1,1&within_km=-5", "/within_km"),
        ("q=%00", "/q"),
    ] {
        let response = get(&format!("{}/v1/events?{query}", node.url), &[]).await;
        assert_eq!(response.status(), StatusCode::BAD_REQUEST, "{query}");
        let error = error_of(response).await;
        assert_eq!((&error["code"], &error["data"]["path"]), (&json!("bad_field"), &json!(path)), "{query}");
    }
}

#[tokio::test]
async fn a_plan_comes_in_two_forms_and_stays_for_ever() {
    let (stage, event) = Stage::with_event(&Draft::default()).await;
    let node = stage.node().await;
    let body: Value = get(&format!("{}/v1/events/{event}", node.url), &[]).await.json().await.expect("JSON");
    let hash = body["layout"].as_str().expect("a hash");
    let url = format!("{}/v1/layouts/{hash}", node.url);
    let response = get(&url, &[]).await;
    assert_eq!(header(&response, "cache-control"), "public, max-age=31536000, immutable");
    assert!(header(&response, "vary").contains("Accept"));
    let json_etag = header(&response, "etag").to_owned();
    let layout: Value = response.json().await.expect("JSON");
    assert_eq!((&layout["hash"], &layout["seat_count"]), (&json!(hash), &json!(160)));
    let compact = get(&url, &[("Accept", "application/vnd.seatwire.layout, */*;q=0.1")]).await;
    assert_eq!(header(&compact, "content-type"), "application/vnd.seatwire.layout");
    assert_ne!(header(&compact, "etag"), json_etag);
    let bytes = compact.bytes().await.expect("bytes");
    let decoded = seatwire_proto::layout_compact::decode(&bytes).expect("compact");
    assert_eq!(decoded.hash().to_string(), hash, "both forms are one plan");
    for unknown in ["00000000000000000000000000000000", "nonsense", &hash.to_uppercase()] {
        let response = get(&format!("{}/v1/layouts/{unknown}", node.url), &[]).await;
        assert_eq!(response.status(), StatusCode::NOT_FOUND, "{unknown}");
        error_of(response).await;
    }
}

#[tokio::test]
async fn a_snapshot_is_a_frame_that_any_cache_may_share() {
    let (stage, event) = Stage::with_event(&Draft::default()).await;
    let node = stage.node().await;
    let guest = Guest::new(&node.url).await;
    guest.post(&format!("/v1/events/{event}/holds"), "k1", json!({"seats": [7]})).await;
    let url = format!("{}/v1/events/{event}/snapshot", node.url);
    let frame = crate::support::eventually("the held seat on the map", || async {
        let response = get(&url, &[("Accept-Encoding", "gzip")]).await;
        assert_eq!(header(&response, "content-type"), "application/vnd.seatwire.map");
        assert_eq!(header(&response, "cache-control"), "public, max-age=1, stale-while-revalidate=1");
        assert_eq!(header(&response, "content-encoding"), "", "never encoded again");
        let etag = header(&response, "etag").to_owned();
        let bytes = response.bytes().await.expect("bytes");
        (etag == "\"1-1\"").then_some(bytes)
    })
    .await;
    assert_eq!((&frame[..4], &frame[8..12]), (&b"SW\x01\x01"[..], &[0; 4][..]), "a snapshot of channel 0");
    assert_eq!(get(&url, &[]).await.bytes().await.expect("bytes"), frame, "frozen for its position");
    let again = get(&url, &[("If-None-Match", "\"1-1\"")]).await;
    assert_eq!((again.status(), header(&again, "etag")), (StatusCode::NOT_MODIFIED, "\"1-1\""));
    let packed = get(&format!("{url}?accepts=packed2"), &[]).await;
    assert_eq!(header(&packed, "etag"), "\"1-1-packed2\"");
    assert_eq!(packed.bytes().await.expect("bytes")[5], 2);
    let json_form = get(&format!("{url}?format=json"), &[]).await;
    assert_eq!(header(&json_form, "content-type"), "application/json");
    let body: Value = json_form.json().await.expect("JSON");
    assert_eq!((&body["epoch"], &body["seq"], &body["areas"]), (&json!(1), &json!(1), &json!([50])));
    let states = body["states"].as_str().expect("digits");
    assert_eq!((states.len(), states.find('1'), states.matches('0').count()), (160, Some(7), 159));
    let bad = get(&format!("{url}?format=xml"), &[]).await;
    assert_eq!(error_of(bad).await["data"]["path"], "/format");
}

#[tokio::test]
async fn what_does_not_exist_is_refused_in_the_same_shape() {
    let stage = Stage::new().await;
    let node = stage.node().await;
    let other = seatwire_proto::id::EventId::generate();
    for (method, path, status, code) in [
        (Method::GET, "/v1/nonsense".to_owned(), 404, "unknown_op"),
        (Method::GET, "/nonsense".to_owned(), 404, "unknown_op"),
        (Method::GET, "/v1/events/evt_nonsense".to_owned(), 404, "event_unknown"),
        (Method::GET, format!("/v1/events/{other}"), 404, "event_unknown"),
        (Method::GET, format!("/v1/events/{other}/snapshot"), 404, "event_unknown"),
        (Method::PUT, "/v1/events".to_owned(), 405, "unknown_op"),
        (Method::GET, "/v1/identities".to_owned(), 405, "unknown_op"),
        (Method::DELETE, "/healthz".to_owned(), 405, "unknown_op"),
    ] {
        let response = ask(method, &format!("{}{path}", node.url), &[]).await;
        assert_eq!(response.status().as_u16(), status, "{path}");
        assert_eq!(error_of(response).await["code"], code, "{path}");
    }
}

#[tokio::test]
async fn health_is_for_everyone_and_numbers_for_operators() {
    let stage = Stage::new().await;
    let node = stage.node().await;
    assert_eq!(get(&format!("{}/healthz", node.url), &[]).await.status(), StatusCode::OK);
    crate::support::eventually("the node to be ready", || async {
        (get(&format!("{}/readyz", node.url), &[]).await.status() == StatusCode::OK).then_some(())
    })
    .await;
    assert_eq!(get(&format!("{}/metrics", node.url), &[]).await.status(), StatusCode::NOT_FOUND);
    Guest::new(&node.url).await;
    let metrics = get(&format!("{}/metrics", node.admin_url), &[]).await;
    assert!(header(&metrics, "content-type").starts_with("application/openmetrics-text"));
    assert!(metrics.text().await.expect("text").contains("seatwire_sockets"));
    let mut stage = stage;
    stage.redis.kill();
    crate::support::eventually("the node to notice", || async {
        let response = get(&format!("{}/readyz", node.url), &[]).await;
        (response.status() == StatusCode::SERVICE_UNAVAILABLE).then_some(response)
    })
    .await;
    assert_eq!(get(&format!("{}/healthz", node.url), &[]).await.status(), StatusCode::OK, "it lives, it only waits");
}

#[tokio::test]
async fn every_answer_tells_browsers_to_be_careful() {
    let stage = Stage::new().await;
    let node = stage.node().await;
    for path in ["/", "/v1/events", "/v1/nonsense", "/events/evt_x"] {
        let response = get(&format!("{}{path}", node.url), &[]).await;
        let policy = header(&response, "content-security-policy");
        assert!(policy.contains("default-src 'self'") && policy.contains("frame-ancestors 'none'"), "{path}: {policy}");
        assert!(!policy.contains("unsafe"), "{policy}");
        assert_eq!(header(&response, "x-content-type-options"), "nosniff", "{path}");
        assert_eq!(header(&response, "referrer-policy"), "same-origin", "{path}");
    }
    for path in ["/", "/events/evt_x", "/orders", "/pay/ord_x"] {
        let response = get(&format!("{}{path}", node.url), &[]).await;
        assert!(header(&response, "content-type").starts_with("text/html"), "{path} is a page of the app");
    }
}

#[tokio::test]
async fn other_sites_may_call_only_where_they_are_listed() {
    let stage = Stage::new().await;
    let node = stage.node_with(&[("SEATWIRE_ORIGINS", "https://tickets.example")]).await;
    let url = format!("{}/v1/events", node.url);
    let allowed = get(&url, &[("Origin", "https://tickets.example")]).await;
    assert_eq!(header(&allowed, "access-control-allow-origin"), "https://tickets.example");
    let vary: Vec<_> = allowed.headers().get_all("vary").into_iter().filter_map(|value| value.to_str().ok()).collect();
    assert!(vary.join(",").to_lowercase().contains("origin"), "{vary:?}");
    let foreign = get(&url, &[("Origin", "https://evil.example")]).await;
    assert_eq!(header(&foreign, "access-control-allow-origin"), "");
    let preflight = ask(
        Method::OPTIONS,
        &format!("{}/v1/orders", node.url),
        &[
            ("Origin", "https://tickets.example"),
            ("Access-Control-Request-Method", "POST"),
            ("Access-Control-Request-Headers", "authorization,idempotency-key"),
        ],
    )
    .await;
    assert_eq!(preflight.status(), StatusCode::OK);
    assert!(header(&preflight, "access-control-allow-methods").contains("POST"));
    let headers = header(&preflight, "access-control-allow-headers").to_lowercase();
    assert!(headers.contains("idempotency-key") && headers.contains("authorization"), "{headers}");
    assert_eq!(header(&preflight, "access-control-allow-credentials"), "");
}

#[tokio::test]
async fn an_address_that_asks_too_often_is_told_when_to_come_back() {
    let stage = Stage::new().await;
    let settings = [("SEATWIRE_HTTP_PER_S", "1"), ("SEATWIRE_HTTP_BURST", "3"), ("SEATWIRE_LIMIT_LOOPBACK", "true")];
    let node = stage.node_with(&settings).await;
    let url = format!("{}/v1/events", node.url);
    // All at once, so that a slow machine asks fast enough.
    let url = &url;
    let asked = (0..40).map(|i| async move { get(url, &[("X-Forwarded-For", &format!("198.51.100.{i}"))]).await });
    let (mut refused, answered): (Vec<_>, Vec<_>) = futures_util::future::join_all(asked)
        .await
        .into_iter()
        .partition(|response| response.status() == StatusCode::TOO_MANY_REQUESTS);
    assert!(answered.len() >= 3, "three are free");
    let response = refused.pop().expect("forty at once are too many");
    assert!(header(&response, "retry-after").parse::<u32>().expect("seconds") >= 1);
    let error = error_of(response).await;
    assert_eq!((&error["code"], &error["retry"]), (&json!("rate_limited"), &json!("after")));
    assert_eq!(get(&format!("{}/healthz", node.url), &[]).await.status(), StatusCode::OK, "health is not counted");
}

#[tokio::test]
async fn the_app_is_asked_for_each_time_and_its_files_never_again() {
    let stage = Stage::new().await;
    let node = stage.node().await;
    let index = get(&format!("{}/", node.url), &[]).await;
    if index.status() == StatusCode::SERVICE_UNAVAILABLE {
        let text = index.text().await.expect("text");
        assert!(text.contains("make web"), "without the app the page says how to get it: {text}");
        return;
    }
    assert_eq!((header(&index, "cache-control"), header(&index, "x-frame-options")), ("no-cache", "DENY"));
    let etag = header(&index, "etag").to_owned();
    let text = index.text().await.expect("text");
    let page = get(&format!("{}/events/evt_x", node.url), &[("If-None-Match", &etag)]).await;
    assert_eq!(page.status(), StatusCode::NOT_MODIFIED, "every page of the app is one document");
    let at = text.find("/assets/").expect("the document names its script");
    let asset: String = text[at..].chars().take_while(|c| *c != '"').collect();
    let plain = get(&format!("{}{asset}", node.url), &[]).await;
    assert_eq!(header(&plain, "cache-control"), "public, max-age=31536000, immutable", "{asset}");
    let packed = get(&format!("{}{asset}", node.url), &[("Accept-Encoding", "gzip")]).await;
    assert_eq!(header(&packed, "content-type"), header(&plain, "content-type"));
    let is_script = asset.ends_with(".js");
    assert!(!is_script || header(&packed, "content-encoding") == "gzip");
    assert_eq!(get(&format!("{}/assets/gone-12345678.js", node.url), &[]).await.status(), StatusCode::NOT_FOUND);
    let nowhere = [("Accept", "text/html,*/*;q=0.8"), ("If-None-Match", etag.as_str())];
    let nowhere = get(&format!("{}/nowhere", node.url), &nowhere).await;
    assert_eq!(nowhere.status(), StatusCode::NOT_FOUND, "also for who has the document");
    assert_eq!(nowhere.text().await.expect("text"), text, "people are told by the app");
    assert_eq!(get(&format!("{}/assets/..%2f..%2fpackage.json", node.url), &[]).await.status(), StatusCode::NOT_FOUND);
}
