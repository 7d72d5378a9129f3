//! Plain HTTP: every road answers with the same error object, status and headers.

use crate::support::client::Guest;
use crate::support::stage::{Draft, Stage};
use serde_json::{Value, json};

#[tokio::test]
async fn errors_are_one_object_with_the_status_of_their_code() {
    let (stage, event) = Stage::with_event(&Draft::default()).await;
    let node = stage.node().await;
    let guest = Guest::new(&node.url).await;
    let holds = format!("/v1/events/{event}/holds");
    let http = reqwest::Client::new();
    let post = |path: &str, token: Option<&str>, key: Option<&str>, body: &str| {
        let mut request =
            http.post(format!("{}{path}", node.url)).header("Content-Type", "application/json").body(body.to_owned());
        if let Some(token) = token {
            request = request.bearer_auth(token);
        }
        if let Some(key) = key {
            request = request.header("Idempotency-Key", key);
        }
        async move {
            let response = request.send().await.expect("answers");
            let status = response.status().as_u16();
            let body: Value = response.json().await.expect("JSON");
            (status, body["error"]["code"].as_str().unwrap_or("ok").to_owned(), body)
        }
    };
    let token = Some(guest.token.as_str());
    let big = format!(r#"{{"seats":[1],"more":"{}"}}"#, "x".repeat(200_000));
    for (path, token, key, body, status, code) in [
        (holds.as_str(), token, Some("a"), "{", 400, "bad_json"),
        (holds.as_str(), token, None, r#"{"seats":[1]}"#, 400, "bad_field"),
        (holds.as_str(), token, Some("b"), r#"{"seats":["x"]}"#, 400, "bad_field"),
        (holds.as_str(), token, Some("c"), r#"{"seats":[100000]}"#, 400, "seat_unknown"),
        (holds.as_str(), None, Some("d"), r#"{"seats":[1]}"#, 401, "unauthorized"),
        (holds.as_str(), Some("edited"), Some("d"), r#"{"seats":[1]}"#, 401, "unauthorized"),
        (holds.as_str(), token, Some("e"), big.as_str(), 413, "too_large"),
        ("/v1/events/evt_01h455vb4pex5vsknk084sn02q/holds", token, Some("f"), r#"{"seats":[1]}"#, 404, "event_unknown"),
        ("/v1/holds/hld_01h455vb4pex5vsknk084sn02q/extend", token, Some("g"), "{}", 404, "hold_not_found"),
        (
            "/v1/holds/hld_01h455vb4pex5vsknk084sn02q/checkout",
            token,
            Some("h"),
            r#"{"buyer":{"name":"A","email":"a@b.example"},"payment":{"method":"pm_card_visa"},"expect_total_minor":1}"#,
            404,
            "hold_not_found",
        ),
        ("/v1/orders/ord_01h455vb4pex5vsknk084sn02q/cancel", token, Some("i"), "{}", 404, "order_not_found"),
        (holds.as_str(), token, Some("j"), r#"{"seats":[1]}"#, 201, "ok"),
    ] {
        let (got, name, body) = post(path, token, key, body).await;
        assert_eq!((got, name.as_str()), (status, code), "{path} {key:?}: {body}");
        if code == "bad_field" {
            assert!(body["error"]["data"]["path"].is_string(), "{body}");
        }
    }
}

#[tokio::test]
async fn the_catalogue_tells_of_the_event_and_its_layout() {
    let (stage, event) = Stage::with_event(&Draft::default()).await;
    let node = stage.node().await;
    let list: Value =
        reqwest::get(format!("{}/v1/events", node.url)).await.expect("answers").json().await.expect("JSON");
    let summary = &list["items"][0];
    assert_eq!(
        (&summary["id"], &summary["seat_count"], &summary["available"]),
        (&json!(event), &json!(160), &json!(210)),
        "{summary}"
    );
    assert!(summary.get("sections").is_none() && summary.get("seat_tiers").is_none(), "a summary");
    let response = reqwest::get(format!("{}/v1/events/{event}", node.url)).await.expect("answers");
    assert_eq!(response.headers()["cache-control"], "max-age=1, stale-while-revalidate=1");
    let whole: Value = response.json().await.expect("JSON");
    assert_eq!(
        whole["sections"][0],
        json!({"index": 0, "name": "Stalls", "sales_mode": "pick_seat", "price_tiers": ["A", "B"], "available": 160})
    );
    assert_eq!(
        whole["areas"][0],
        json!({"index": 0, "name": "Floor 1", "price_tier": "A", "capacity": 50, "remaining": 50})
    );
    assert_eq!(whole["rules"], json!({"seats_per_identity": 10, "hold_ttl_ms": 600_000, "orphans": "off"}));
    let layout = whole["layout"].as_str().expect("a hash");
    let response = reqwest::get(format!("{}/v1/layouts/{layout}", node.url)).await.expect("answers");
    assert!(response.headers()["cache-control"].to_str().is_ok_and(|value| value.contains("immutable")));
    assert!(response.headers()["vary"].to_str().is_ok_and(|value| value.to_ascii_lowercase().contains("accept")));
    let body: Value = response.json().await.expect("JSON");
    assert_eq!((&body["hash"], &body["seat_count"]), (&json!(layout), &json!(160)));
    for (path, code) in
        [("/v1/events/evt_01h455vb4pex5vsknk084sn02q", "event_unknown"), ("/v1/events/nonsense", "event_unknown")]
    {
        let response = reqwest::get(format!("{}{path}", node.url)).await.expect("answers");
        assert_eq!(response.status(), 404, "{path}");
        let body: Value = response.json().await.expect("JSON");
        assert_eq!(body["error"]["code"], code, "{path}");
    }
}

#[tokio::test]
async fn health_readiness_and_metrics_have_their_listeners() {
    let stage = Stage::new().await;
    let node = stage.node().await;
    // A store that needs a second to answer is no store that is away, on a slow machine.
    crate::support::eventually("the node to be ready", || async {
        (reqwest::get(format!("{}/readyz", node.url)).await.expect("answers").status() == 200).then_some(())
    })
    .await;
    for (base, path, status) in
        [(&node.url, "/healthz", 200), (&node.url, "/metrics", 404), (&node.admin_url, "/metrics", 200)]
    {
        let response = reqwest::get(format!("{base}{path}")).await.expect("answers");
        assert_eq!(response.status(), status, "{base}{path}");
    }
    let text = reqwest::get(format!("{}/metrics", node.admin_url)).await.expect("answers").text().await.expect("text");
    assert!(text.contains("seatwire_sockets") && text.contains("_seconds_bucket"), "{text}");
}

#[tokio::test]
async fn pages_are_read_only_and_what_is_not_there_is_said_shortly() {
    let stage = Stage::new().await;
    let node = stage.node().await;
    let http = reqwest::Client::new();
    for method in [reqwest::Method::POST, reqwest::Method::PUT, reqwest::Method::DELETE, reqwest::Method::TRACE] {
        let response = http.request(method.clone(), &node.url).send().await.expect("answers");
        assert_eq!(response.status(), 405, "{method}");
    }
    let response = reqwest::get(format!("{}/v1/{}", node.url, "x".repeat(3000))).await.expect("answers");
    assert_eq!(response.status(), 404);
    assert!(response.text().await.expect("text").len() < 400);
}
