//! What every provider must do for the till: the same calls, the same readings. The simulator always stands for it;
//! `SEATWIRE_STRIPE_TEST_KEY` (an `sk_test_..` key of a Stripe account) lets the real API stand for it as well.

use seatwire::checkout::payment::stripe::Provider;
use seatwire::checkout::payment::{
    Confirmation, Intent, IntentStatus, NewIntent, NewRefund, ProviderError, RefundStatus,
};
use seatwire::clock::Clock;
use seatwire::config::Secret;
use seatwire::paysim::PaysimConfig;
use seatwire::shutdown::Shutdown;
use seatwire_proto::id::OrderId;
use serde_json::json;
use std::time::Duration;

async fn simulator() -> String {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let sim = seatwire::paysim::start(listener, PaysimConfig::default(), Clock::system(), Shutdown::new()).await;
    sim.expect("starts").url()
}

fn client(url: &str, key: &str) -> Provider {
    Provider::new(url, Secret::new(key), Duration::from_secs(20), Clock::system()).expect("a client")
}

async fn intent(provider: &Provider, key: &str) -> Intent {
    let currency = "EUR".parse().expect("a currency");
    let new = NewIntent { order: OrderId::generate(), reference: "ABCDEFGH", amount_minor: 4750, currency, key };
    provider.create_intent(&new, None).await.expect("an intent")
}

async fn confirm(provider: &Provider, intent: &Intent, method: &str) -> Result<Intent, ProviderError> {
    let key = format!("{}:{method}:{}", intent.id, rand::random::<u32>());
    let return_url = "https://example.org/orders/x";
    provider.confirm(&Confirmation { intent: &intent.id, method, return_url, key: &key }, None).await
}

async fn conforms(url: &str, secret_key: &str) {
    let provider = client(url, secret_key);
    let key = format!("conform:{}", rand::random::<u64>());
    let first = intent(&provider, &key).await;
    assert_eq!((first.status, first.amount_minor, first.currency.as_str()), (IntentStatus::Open, 4750, "EUR"));

    // A decline is definite, names its charge, and another method may pay.
    let declined = confirm(&provider, &first, "pm_card_visa_chargeDeclinedInsufficientFunds").await;
    let Err(ProviderError::Refused { reason, charge: Some(charge) }) = declined else { panic!("{declined:?}") };
    assert_eq!(reason, "insufficient_funds");
    let seen = provider.intent(&first.id).await.expect("read");
    assert_eq!((seen.status, seen.decline.and_then(|d| d.charge)), (IntentStatus::Open, Some(charge)));
    let paid = confirm(&provider, &first, "pm_card_visa").await.expect("paid");
    assert_eq!(paid.status, IntentStatus::Succeeded);
    let charge = paid.charge.expect("a charge");

    // Who comes late is told where it stands.
    let moved = confirm(&provider, &first, "pm_card_visa").await;
    assert!(matches!(&moved, Err(ProviderError::Moved(seen)) if seen.status == IntentStatus::Succeeded), "{moved:?}");
    let moved = provider.cancel_intent(&first.id).await;
    assert!(matches!(&moved, Err(ProviderError::Moved(seen)) if seen.status == IntentStatus::Succeeded), "{moved:?}");

    // Refunds: by name once, in parts, never above what was taken.
    let refund = async |name: &str, amount_minor| {
        let key = format!("{key}:{name}");
        provider.refund(&NewRefund { intent: &first.id, amount_minor, name, key: &key }).await
    };
    assert_eq!(provider.refund_by_name(&first.id, "r1").await, Ok(None));
    let part = refund("r1", 750).await.expect("refunded");
    assert_eq!(refund("r1", 750).await.expect("the same"), part);
    assert!(matches!(part.status, RefundStatus::Succeeded | RefundStatus::Pending));
    assert_eq!(provider.refund_by_name(&first.id, "r1").await.expect("read").expect("found").id, part.id);
    assert_eq!(provider.refund_by_id(&part.id).await.expect("read").id, part.id);
    let over = refund("r2", 4001).await;
    assert!(matches!(over, Err(ProviderError::Refused { .. })), "{over:?}");
    refund("r3", 4000).await.expect("refunded");
    assert_eq!(provider.given_back_minor(&charge).await, Ok(4750));
    // A name that is not one plain part of a path is nobody's: nothing is asked.
    let not_found = ProviderError::Refused { reason: "resource_missing".to_owned(), charge: None };
    for name in [String::new(), format!("{charge}?expand[]=refunds"), format!("../charges/{charge}"), "a/b".to_owned()]
    {
        assert_eq!(provider.given_back_minor(&name).await, Err(not_found.clone()), "{name}");
        assert_eq!(provider.refund_by_id(&name).await, Err(not_found.clone()), "{name}");
        assert_eq!(provider.intent(&name).await, Err(not_found.clone()), "{name}");
        assert_eq!(provider.fingerprint(&name).await, Err(not_found.clone()), "{name}");
    }
    let over = refund("r4", 1).await;
    assert!(matches!(over, Err(ProviderError::Refused { .. })), "{over:?}");

    // An approval is asked for; the fence is final.
    let second = intent(&provider, &format!("{key}:2")).await;
    let asked = confirm(&provider, &second, "pm_card_authenticationRequired").await.expect("asks");
    assert_eq!(asked.status, IntentStatus::ActionRequired);
    assert!(asked.action_url.is_some_and(|url| url.starts_with("http")));
    assert_eq!(provider.cancel_intent(&second.id).await.expect("cancelled").status, IntentStatus::Canceled);
    let late = confirm(&provider, &second, "pm_card_visa").await;
    assert!(matches!(&late, Err(ProviderError::Moved(seen)) if seen.status == IntentStatus::Canceled), "{late:?}");
    let again = provider.cancel_intent(&second.id).await;
    assert!(matches!(&again, Err(ProviderError::Moved(seen)) if seen.status == IntentStatus::Canceled), "{again:?}");

    // One key, two calls: told apart from a decline.
    let currency = "EUR".parse().expect("a currency");
    let other = NewIntent { order: OrderId::generate(), reference: "OTHER", amount_minor: 1_000, currency, key: &key };
    assert!(matches!(provider.create_intent(&other, None).await, Err(ProviderError::Unknown(_))));

    let page = provider.events_after(None, &[], 100).await.expect("events");
    assert!(page.events.iter().any(|event| event["type"] == "payment_intent.succeeded"));
    let stranger = client(url, "nonsense").intent(&first.id).await;
    assert!(matches!(stranger, Err(ProviderError::Unauthorized(_))), "{stranger:?}");
}

#[tokio::test]
async fn the_simulator_conforms() {
    conforms(&simulator().await, "sk_test_it").await;
}

#[tokio::test]
async fn the_real_api_conforms_where_a_test_key_is_given() {
    match std::env::var("SEATWIRE_STRIPE_TEST_KEY") {
        Ok(key) => conforms("https://api.stripe.com", &key).await,
        Err(_) => {
            use std::io::Write;
            // Past the harness, which shows what a test prints only where it fails.
            let said = "*** SKIPPED: SEATWIRE_STRIPE_TEST_KEY is not set, so the real API was NOT asked\n";
            std::io::stderr().write_all(said.as_bytes()).expect("is said");
        }
    }
}

#[tokio::test]
async fn whatever_is_not_definite_is_not_read_as_definite() {
    let url = simulator().await;
    let provider =
        Provider::new(&url, Secret::new("sk_test_it"), Duration::from_secs(2), Clock::system()).expect("a client");
    let http = reqwest::Client::new();
    let faults = async |form: &[(&str, &str)]| {
        http.post(format!("{url}/_sim/faults")).form(form).send().await.expect("answers");
    };
    let open = intent(&provider, "k").await;
    for outage in ["fail", "hang", "garbage"] {
        faults(&[("outage", outage)]).await;
        let lost = confirm(&provider, &open, "pm_card_chargeDeclined").await;
        assert!(matches!(lost, Err(ProviderError::Unknown(_))), "{outage}: {lost:?}");
    }
    faults(&[("outage", "none"), ("busy_percent", "100")]).await;
    assert!(matches!(confirm(&provider, &open, "pm_card_visa").await, Err(ProviderError::Busy(_))));
    faults(&[("busy_percent", "0"), ("fail_before_percent", "100")]).await;
    let confirmation =
        Confirmation { intent: &open.id, method: "pm_card_visa", return_url: "https://x.example", key: "c" };
    assert!(matches!(provider.confirm(&confirmation, None).await, Err(ProviderError::Unknown(_))));
    assert!(
        matches!(provider.confirm(&confirmation, None).await, Err(ProviderError::Remembered(_))),
        "the key is used up"
    );
    let nobody =
        Provider::new("http://127.0.0.1:9", Secret::new("sk_test_it"), Duration::from_secs(2), Clock::system());
    assert!(matches!(
        confirm(&nobody.expect("a client"), &open, "pm_card_visa").await,
        Err(ProviderError::NotBegun(_))
    ));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_provider_that_limits_our_rate_closes_no_till() {
    let url = simulator().await;
    let provider = client(&url, "sk_test_it");
    let form = [("busy_percent", "100")];
    reqwest::Client::new().post(format!("{url}/_sim/faults")).form(&form).send().await.expect("answers");
    for _ in 0..25 {
        let answer = provider.intent("pi_x").await;
        assert!(matches!(answer, Err(ProviderError::Busy(_))), "{answer:?}");
    }
    assert!(provider.is_open(), "it is there, and says so");
}

/// A provider that answers every call with a 429 of this code.
async fn one_that_says(code: &'static str) -> String {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let url = format!("http://{}", listener.local_addr().expect("an address"));
    let router = axum::Router::new().fallback(move || async move {
        let body = json!({"error": {"type": "invalid_request_error", "code": code, "message": "not now"}});
        (http::StatusCode::TOO_MANY_REQUESTS, axum::Json(body))
    });
    tokio::spawn(async move { axum::serve(listener, router).await });
    url
}

#[tokio::test(flavor = "multi_thread")]
async fn only_a_429_about_load_makes_us_ask_less_and_closes_tills() {
    for (code, is_load) in [("lock_timeout", false), ("rate_limit", true)] {
        let url = one_that_says(code).await;
        // It is asked again for so long; each time it answers within a moment.
        let waited = Duration::from_secs(3);
        let provider = Provider::new(&url, Secret::new("sk_test_it"), waited, Clock::system()).expect("a client");
        let currency = "EUR".parse().expect("a currency");
        let new =
            NewIntent { order: OrderId::generate(), reference: "ABCDEFGH", amount_minor: 4750, currency, key: "k" };
        let answer = provider.create_intent(&new, None).await;
        if is_load {
            assert!(matches!(answer, Err(ProviderError::Busy(_))), "{answer:?}");
        } else {
            assert!(matches!(answer, Err(ProviderError::Locked(_))), "{answer:?}");
        }
        assert_eq!((provider.is_jammed(), provider.share() < 1.0), (is_load, is_load), "{code}");
        assert!(provider.is_open(), "{code}: it is there");
    }
}
