//! The simulator from outside, as the checkout and any Stripe-shaped client see it: plain HTTP and forms.

use crate::support::eventually;
use reqwest::{Response, StatusCode};
use seatwire::clock::Clock;
use seatwire::paysim::{Paysim, PaysimConfig, start};
use seatwire::shutdown::{Phase, Shutdown};
use serde_json::Value;
use std::path::Path;
use std::time::Duration;

/// A simulator and a client of it.
struct Provider {
    sim: Paysim,
    clock: Clock,
    shutdown: Shutdown,
    http: reqwest::Client,
}

impl Provider {
    async fn start(data: Option<&Path>) -> Self {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let (clock, shutdown) = (Clock::manual(1_700_000_000_000), Shutdown::new());
        let config = PaysimConfig { data: data.map(Into::into), ..PaysimConfig::default() };
        let sim = start(listener, config, clock.clone(), shutdown.clone()).await.expect("starts");
        let http = reqwest::Client::builder().redirect(reqwest::redirect::Policy::none()).build().expect("a client");
        Self { sim, clock, shutdown, http }
    }

    async fn post(&self, path: &str, key: Option<&str>, form: &[(&str, &str)]) -> Response {
        let mut request = self.http.post(format!("{}{path}", self.sim.url())).bearer_auth("sk_test_it").form(form);
        if let Some(key) = key {
            request = request.header("Idempotency-Key", key);
        }
        request.send().await.expect("an answer")
    }

    async fn get(&self, path: &str) -> Value {
        let request = self.http.get(format!("{}{path}", self.sim.url())).bearer_auth("sk_test_it");
        request.send().await.expect("an answer").json().await.expect("JSON")
    }

    async fn intent(&self, amount: &str) -> String {
        let form = [("amount", amount), ("currency", "eur"), ("metadata[order]", "ord_1")];
        let intent: Value = self.post("/v1/payment_intents", None, &form).await.json().await.expect("JSON");
        intent["id"].as_str().expect("an id").to_owned()
    }

    async fn confirm(&self, id: &str, key: &str, method: &str) -> Response {
        let form = [("payment_method", method), ("return_url", "http://shop.example/order?x=1#s")];
        self.post(&format!("/v1/payment_intents/{id}/confirm"), Some(key), &form).await
    }

    async fn charges_paid(&self, id: &str) -> usize {
        let ledger = self.get("/_sim/ledger").await;
        let intents = ledger["intents"].as_array().expect("a list");
        let intent = intents.iter().find(|intent| intent["id"] == id).expect("the intent");
        intent["charges"].as_array().expect("a list").iter().filter(|charge| charge["paid"] == true).count()
    }
}

#[tokio::test]
async fn a_card_is_charged_once_however_often_the_key_is_sent() {
    let provider = Provider::start(None).await;
    let id = provider.intent("2500").await;
    let first = provider.confirm(&id, "k1", "pm_card_visa").await;
    assert!(first.headers().get("idempotent-replayed").is_none());
    let first: Value = first.json().await.expect("JSON");
    assert_eq!((first["status"].as_str(), first["amount_received"].as_i64()), (Some("succeeded"), Some(2500)));
    let again = provider.confirm(&id, "k1", "pm_card_visa").await;
    assert_eq!(again.headers().get("idempotent-replayed").map(|v| v.as_bytes()), Some(&b"true"[..]));
    assert_eq!(again.json::<Value>().await.expect("JSON"), first);
    assert_eq!(provider.charges_paid(&id).await, 1);
    let mismatch = provider.confirm(&id, "k1", "pm_card_mastercard").await;
    assert_eq!(mismatch.status(), StatusCode::BAD_REQUEST);
    assert_eq!(mismatch.json::<Value>().await.expect("JSON")["error"]["type"], "idempotency_error");
    let moved = provider.confirm(&id, "k2", "pm_card_visa").await;
    assert_eq!(moved.status(), StatusCode::BAD_REQUEST);
    let moved: Value = moved.json().await.expect("JSON");
    assert_eq!(moved["error"]["code"], "payment_intent_unexpected_state");
    assert_eq!(moved["error"]["payment_intent"]["status"], "succeeded");
}

#[tokio::test]
async fn a_declined_card_is_definite_and_another_may_pay() {
    let provider = Provider::start(None).await;
    let id = provider.intent("2500").await;
    let declined = provider.confirm(&id, "k1", "pm_card_visa_chargeDeclinedInsufficientFunds").await;
    assert_eq!(declined.status(), StatusCode::PAYMENT_REQUIRED);
    let declined: Value = declined.json().await.expect("JSON");
    assert_eq!(declined["error"]["decline_code"], "insufficient_funds");
    assert_eq!(declined["error"]["payment_intent"]["status"], "requires_payment_method");
    assert_eq!(provider.charges_paid(&id).await, 0);
    assert_eq!(provider.confirm(&id, "k2", "pm_card_visa").await.status(), StatusCode::OK);
    assert_eq!(provider.charges_paid(&id).await, 1);
}

#[tokio::test]
async fn a_lost_answer_may_hide_a_charge_and_the_key_tells() {
    let provider = Provider::start(None).await;
    for (method, charges) in [("pm_sim_500_charged", 1), ("pm_sim_500_not_charged", 0)] {
        let id = provider.intent("900").await;
        for replayed in [false, true] {
            let answer = provider.confirm(&id, method, method).await;
            assert_eq!(answer.status(), StatusCode::INTERNAL_SERVER_ERROR);
            assert_eq!(answer.headers().contains_key("idempotent-replayed"), replayed);
        }
        assert_eq!(provider.charges_paid(&id).await, charges, "{method}");
    }
    for (method, charges) in [("pm_sim_timeout_charged", 1), ("pm_sim_timeout_not_charged", 0)] {
        let id = provider.intent("900").await;
        let url = format!("{}/v1/payment_intents/{id}/confirm", provider.sim.url());
        let call = provider.http.post(url).bearer_auth("sk_test_it").form(&[("payment_method", method)]);
        // Nobody is answered; that it has come there on a slow machine, its charge tells.
        let answer = tokio::spawn(call.timeout(Duration::from_secs(3)).send());
        eventually("the charge", || async { (provider.charges_paid(&id).await == charges).then_some(()) }).await;
        assert!(answer.await.expect("ends").is_err_and(|error| error.is_timeout()), "{method}");
        assert_eq!(provider.charges_paid(&id).await, charges, "{method}");
    }
    let id = provider.intent("900").await;
    assert_eq!(provider.confirm(&id, "b", "pm_sim_429_then_ok").await.status(), StatusCode::TOO_MANY_REQUESTS);
    assert_eq!(provider.confirm(&id, "b", "pm_sim_429_then_ok").await.status(), StatusCode::OK);
}

#[tokio::test]
async fn a_caller_who_hangs_up_does_not_stop_the_charge() {
    let provider = Provider::start(None).await;
    let id = provider.intent("900").await;
    let url = format!("{}/v1/payment_intents/{id}/confirm", provider.sim.url());
    let call = provider.http.post(url).bearer_auth("sk_test_it").header("Idempotency-Key", "slow");
    let call = call.form(&[("payment_method", "pm_sim_delay_8s")]).timeout(Duration::from_millis(2_000));
    assert!(call.send().await.is_err());
    let path = format!("/v1/payment_intents/{id}/confirm");
    let again = provider.post(&path, Some("slow"), &[("payment_method", "pm_sim_delay_8s")]);
    assert_eq!(again.await.status(), StatusCode::CONFLICT, "the first call still runs");
    eventually("the charge", || async { (provider.charges_paid(&id).await == 1).then_some(()) }).await;
}

#[tokio::test]
async fn processing_settles_in_its_time_and_cannot_be_cancelled() {
    let provider = Provider::start(None).await;
    let late = provider.intent("900").await;
    let fails = provider.intent("900").await;
    for (id, method) in [(&late, "pm_sim_late_success_20m"), (&fails, "pm_sim_processing_then_fail")] {
        let intent: Value = provider.confirm(id, id, method).await.json().await.expect("JSON");
        assert_eq!(intent["status"], "processing");
        let cancel = provider.post(&format!("/v1/payment_intents/{id}/cancel"), None, &[]).await;
        assert_eq!(cancel.status(), StatusCode::BAD_REQUEST);
    }
    provider.clock.advance_ms(3_000);
    let failed = eventually("the failure", || async {
        let intent = provider.get(&format!("/v1/payment_intents/{fails}")).await;
        (intent["status"] == "requires_payment_method").then_some(intent)
    });
    assert_eq!(failed.await["last_payment_error"]["decline_code"], "generic_decline");
    assert_eq!(provider.charges_paid(&late).await, 0);
    provider.clock.advance_ms(20 * 60_000);
    eventually("the late charge", || async { (provider.charges_paid(&late).await == 1).then_some(()) }).await;
}

#[tokio::test]
async fn an_approval_happens_on_the_banks_page_and_leads_back() {
    let provider = Provider::start(None).await;
    for (choice, status, redirect) in
        [("approve", "succeeded", "succeeded"), ("fail", "requires_payment_method", "failed")]
    {
        let id = provider.intent("900").await;
        let intent: Value =
            provider.confirm(&id, &id, "pm_card_authenticationRequired").await.json().await.expect("JSON");
        assert_eq!(intent["status"], "requires_action");
        let page = intent["next_action"]["redirect_to_url"]["url"].as_str().expect("a page").to_owned();
        let html = provider.http.get(&page).send().await.expect("an answer").text().await.expect("text");
        assert!(html.contains("9.00 EUR") && html.contains(r#"id="approve""#), "{html}");
        let guessed = page.replace("key=", "key=x");
        assert_eq!(provider.http.get(guessed).send().await.expect("an answer").status(), StatusCode::NOT_FOUND);
        let target = page.replace('?', &format!("/{choice}?"));
        let back = provider.http.post(target).send().await.expect("an answer");
        assert_eq!(back.status(), StatusCode::SEE_OTHER);
        let location = back.headers()["location"].to_str().expect("ASCII").to_owned();
        assert_eq!(location, format!("http://shop.example/order?x=1&payment_intent={id}&redirect_status={redirect}#s"));
        assert_eq!(provider.get(&format!("/v1/payment_intents/{id}")).await["status"], status);
    }
}

#[tokio::test]
async fn refunds_add_up_to_the_charge_and_no_further() {
    let provider = Provider::start(None).await;
    let id = provider.intent("1000").await;
    let early = provider.post("/v1/refunds", None, &[("payment_intent", &id)]).await;
    assert_eq!(early.status(), StatusCode::BAD_REQUEST, "nothing was charged yet");
    provider.confirm(&id, "k", "pm_card_visa").await;
    for (amount, status) in [("600", 200), ("500", 400), ("400", 200), ("1", 400)] {
        let refund = provider.post("/v1/refunds", None, &[("payment_intent", &id), ("amount", amount)]).await;
        assert_eq!(refund.status().as_u16(), status, "{amount}");
    }
    assert_eq!(
        provider.get(&format!("/v1/refunds?payment_intent={id}")).await["data"].as_array().map(Vec::len),
        Some(2)
    );
    let stubborn = provider.intent("1000").await;
    provider.confirm(&stubborn, "s", "pm_sim_refund_fails").await;
    let refund: Value =
        provider.post("/v1/refunds", None, &[("payment_intent", &stubborn)]).await.json().await.expect("JSON");
    assert_eq!((refund["status"].as_str(), refund["failure_reason"].is_string()), (Some("failed"), true));
}

#[tokio::test]
async fn a_killed_provider_still_knows_what_it_charged() {
    let folder = std::env::temp_dir().join(format!("seatwire-paysim-{}", std::process::id()));
    let (id, first) = {
        let provider = Provider::start(Some(&folder)).await;
        let id = provider.intent("1000").await;
        let first: Value = provider.confirm(&id, "k", "pm_card_visa").await.json().await.expect("JSON");
        provider.shutdown.advance(Phase::Stopping);
        (id, first)
    };
    let provider = Provider::start(Some(&folder)).await;
    assert_eq!(provider.charges_paid(&id).await, 1);
    let again = provider.confirm(&id, "k", "pm_card_visa").await;
    assert!(again.headers().contains_key("idempotent-replayed"));
    assert_eq!(again.json::<Value>().await.expect("JSON"), first);
    let events = provider.get("/v1/events?type=payment_intent.succeeded").await;
    assert_eq!(events["data"][0]["data"]["object"]["id"], id.as_str());
    std::fs::remove_dir_all(&folder).expect("removes");
}

#[tokio::test]
async fn lists_are_paged_from_both_ends() {
    let provider = Provider::start(None).await;
    let mut ids = Vec::new();
    for _ in 0..5 {
        ids.insert(0, provider.intent("100").await);
    }
    let page = async |query: &str| {
        let list = provider.get(&format!("/v1/payment_intents?{query}")).await;
        let data = list["data"].as_array().expect("a list");
        let found: Vec<String> = data.iter().map(|i| i["id"].as_str().expect("an id").to_owned()).collect();
        (found, list["has_more"] == true)
    };
    assert_eq!(page("limit=2").await, (ids[0..2].to_vec(), true));
    assert_eq!(page(&format!("limit=2&starting_after={}", ids[1])).await, (ids[2..4].to_vec(), true));
    assert_eq!(page(&format!("limit=2&starting_after={}", ids[2])).await, (ids[3..5].to_vec(), false));
    assert_eq!(page(&format!("limit=2&ending_before={}", ids[4])).await, (ids[2..4].to_vec(), true));
    assert_eq!(page(&format!("limit=4&ending_before={}", ids[2])).await, (ids[0..2].to_vec(), false));
}

#[tokio::test]
async fn strangers_and_nonsense_are_refused_in_the_providers_words() {
    let provider = Provider::start(None).await;
    let open =
        provider.http.post(format!("{}/v1/payment_intents", provider.sim.url())).send().await.expect("an answer");
    assert_eq!(open.status(), StatusCode::UNAUTHORIZED);
    for form in [
        &[("currency", "eur")][..],
        &[("amount", "-5"), ("currency", "eur")],
        &[("amount", "99999999999999"), ("currency", "eur")],
        &[("amount", "5"), ("currency", "euro")],
        &[("amount", "5"), ("currency", "eur"), ("payment_method", "pm_nobody")],
    ] {
        // A call that did not run leaves its key fresh.
        let refused = provider.post("/v1/payment_intents", Some("same"), form).await;
        assert_eq!(refused.status(), StatusCode::BAD_REQUEST, "{form:?}");
    }
    let good = provider.post("/v1/payment_intents", Some("same"), &[("amount", "5"), ("currency", "EUR")]).await;
    assert_eq!(good.status(), StatusCode::OK);
    assert_eq!(provider.post("/v1/nothing", None, &[]).await.status(), StatusCode::NOT_FOUND);
}
