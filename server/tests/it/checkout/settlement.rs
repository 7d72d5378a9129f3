//! `seatwire audit --settlement`: the provider's file beside the books; every kind of disagreement is a line, a file that
//! cannot be read is told with its line.

use super::till::Till;
use serde_json::Value;
use std::process::Command;

const HEADER: &str = "balance_transaction_id,created_utc,currency,gross,fee,net,reporting_category,source_id,charge_id,payment_intent_id\n";

impl Till {
    /// Runs the audit on a file of this text; its exit code and everything it said.
    async fn settle(&self, text: &str, more: &[&str]) -> (Option<i32>, String) {
        let path = std::env::temp_dir().join(format!("seatwire-settlement-{}.csv", uuid::Uuid::now_v7().simple()));
        std::fs::write(&path, text).expect("writes");
        let mut command = Command::new(crate::support::program());
        command.envs(crate::support::UNHURRIED);
        command.args(["audit", "--settlement"]).arg(&path).args(more);
        command.env("DATABASE_URL", &self.stage.database_url).env("REDIS_URL", self.stage.redis.url());
        let output = tokio::task::spawn_blocking(move || command.output().expect("runs")).await.expect("ends");
        std::fs::remove_file(&path).expect("removes");
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        (output.status.code(), text(&output.stdout) + &text(&output.stderr))
    }

    /// The provider's own account of everything it did, as it would export it.
    async fn statement(&self) -> Vec<String> {
        let ledger = self.ledger().await;
        let list = |name: &str| ledger[name].as_array().expect("a list").clone();
        let text = |value: &Value| value.as_str().expect("a text").to_owned();
        let major =
            |minor: i64| format!("{}{}.{:02}", if minor < 0 { "-" } else { "" }, minor.abs() / 100, minor.abs() % 100);
        let mut lines = Vec::new();
        let mut add = |kind: &str, source: &str, charge: &str, intent: &str, minor: i64| {
            let gross = major(minor);
            let n = lines.len();
            lines.push(format!(
                "txn_{n},2030-01-01 00:00:00,eur,{gross},0.00,{gross},{kind},{source},{charge},{intent}\n"
            ));
        };
        for intent in list("intents") {
            for charge in intent["charges"].as_array().expect("a list").iter().filter(|charge| charge["paid"] == true) {
                let id = text(&charge["id"]);
                add("charge", &id, &id, &text(&intent["id"]), charge["amount"].as_i64().expect("an amount"));
            }
        }
        for refund in list("refunds").iter().filter(|refund| refund["status"] == "succeeded") {
            let minor = -refund["amount"].as_i64().expect("an amount");
            add("refund", &text(&refund["id"]), &text(&refund["charge"]), &text(&refund["payment_intent"]), minor);
        }
        for dispute in list("disputes") {
            let minor = -dispute["amount"].as_i64().expect("an amount");
            add("dispute", &text(&dispute["id"]), &text(&dispute["charge"]), &text(&dispute["payment_intent"]), minor);
        }
        lines
    }
}

fn file(lines: &[String]) -> String {
    format!("{HEADER}{}", lines.concat())
}

#[tokio::test(flavor = "multi_thread")]
async fn what_agrees_is_quiet_and_each_disagreement_is_a_line() {
    let till = Till::open_with(&Default::default(), &[("SEATWIRE_POLL_PROVIDER_MS", "50")]).await;
    let mut orders = Vec::new();
    for seat in [1, 2, 3] {
        let (buyer, hold) = till.buyer_with(&[seat]).await;
        orders.push((buyer, till.bought(buyer, &hold, "pm_card_visa").await));
    }
    let (buyer, hold) = till.buyer_with(&[5]).await;
    till.bought(buyer, &hold, "pm_card_chargeDeclined").await;
    // One given back by us, one on the provider's own pages.
    let (buyer, order) = &orders[1];
    let id = order["id"].as_str().expect("an id").parse().expect("an id");
    let request = seatwire::checkout::OrderRequest {
        identity: buyer.0,
        key: seatwire_proto::client::IdempotencyKey::parse("refund").expect("a key"),
        fingerprint: [0; 32],
        order: id,
    };
    let what = seatwire::checkout::RefundWhat::Amount(1_000);
    till.app.checkout.refund(request, "it".into(), what, "test".into()).await.expect("works").outcome.expect("begins");
    till.until(*buyer, &order["id"], "partially_refunded").await;
    let intent = till.ledger().await["intents"][2]["id"].as_str().expect("an id").to_owned();
    let form = [("payment_intent", intent.as_str()), ("amount", "500")];
    let call = reqwest::Client::new().post(format!("{}/v1/refunds", till.payment_url)).bearer_auth("sk_test_it");
    assert_eq!(call.form(&form).send().await.expect("answers").status(), 200);
    till.until(orders[2].0, &orders[2].1["id"], "partially_refunded").await;

    let sound = till.statement().await;
    assert_eq!(sound.len(), 5, "three charges, two refunds: {sound:?}");
    let (code, said) = till.settle(&file(&sound), &[]).await;
    assert!(code == Some(0) && said.contains("5 lines compared") && said.contains("everything agrees"), "{said}");
    let mut more = sound.clone();
    more.push("txn_p,2030-01-02 00:00:00,eur,-99.00,0.00,-99.00,payout,po_1,,\n".into());
    let (code, said) = till.settle(&file(&more), &[]).await;
    assert!(code == Some(0) && said.contains("1 of other kinds passed over"), "{said}");

    let change = |at: usize, from: &str, to: &str| {
        let mut lines = sound.clone();
        assert!(lines[at].contains(from), "{}", lines[at]);
        lines[at] = lines[at].replace(from, to);
        file(&lines)
    };
    let (first, third) = (orders[0].1["id"].as_str().expect("an id"), orders[2].1["id"].as_str().expect("an id"));
    let all = ["--from", "2020-01-01T00:00:00Z", "--to", "2040-01-01T00:00:00Z"];
    let without = |at: usize| file(&[&sound[..at], &sound[at + 1..]].concat());
    let again = |at: usize| file(&[&sound[..], &sound[at..=at]].concat());
    let stranger = "txn_x,2030-01-01 00:00:00,eur,47.50,0.00,47.50,charge,ch_x,ch_x,pi_x\n".to_owned();
    let second_charge = sound[0].replace("ch_", "ch_second_");
    let unknown_refund = sound[3].replace("re_", "re_x_");
    for (name, text, words) in [
        ("a charge of no order", file(&[&sound[..], &[stranger]].concat()), vec!["line 7: ", "for no order of ours"]),
        ("an order that is not in the file", without(0), vec![first, "which is not in the file"]),
        ("another amount", change(0, "47.50", "47.49"), vec!["line 2: ", first, "4749 minor EUR", "4750 minor EUR"]),
        ("another currency", change(0, ",eur,", ",usd,"), vec!["line 2: ", "minor USD"]),
        ("a line twice", again(0), vec!["line 7: ", "stands in line 2 already"]),
        ("two charges of an order", file(&[&sound[..], &[second_charge]].concat()), vec!["line 7: ", "as well as by"]),
        ("a refund nobody knows", file(&[&sound[..], &[unknown_refund]].concat()), vec!["line 7: ", "is not known"]),
        ("a refund of another amount", change(3, "-10.00", "-10.01"), vec!["line 5: ", "succeeded"]),
        ("a refund that is not in the file", without(3), vec!["refund re_", "is not in the file"]),
        (
            "one of the provider's pages of another amount",
            change(4, "-5.00", "-4.00"),
            vec!["line 6: ", third, "not known"],
        ),
        ("a net that is wrong", change(0, "0.00,47.50", "1.00,47.50"), vec!["line 2: gross less fee is not net"]),
        ("a dispute nobody knows", change(3, "refund,", "dispute,"), vec!["line 5: ", "dispute re_", "not known"]),
    ] {
        let (code, said) = till.settle(&text, &all).await;
        assert_eq!(code, Some(1), "{name}: {said}");
        assert!(words.iter().all(|word| said.contains(word)), "{name}: {said}");
    }
    // Without a window the file's own is used, and what is outside of it is not missed.
    let (code, said) = till.settle(&without(0), &[]).await;
    assert_eq!(code, Some(0), "{said}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_that_cannot_be_read_is_told_with_its_line_and_leaves_nothing_behind() {
    let till = Till::open().await;
    let good = "txn_1,2030-01-01 00:00:00,eur,47.50,0.00,47.50,charge,ch_x,ch_x,pi_x\n";
    for (text, words) in [
        (String::new(), "line 1: "),
        ("one,two\n1,2\n".to_owned(), "line 1: the header has no column reporting_category or type"),
        (format!("{HEADER}{good}{}", good.replace("47.50", "47,50")), "line 3: "),
        (format!("{HEADER}{good}{}", good.replace("47.50", "1e9")), "line 3: \"1e9\" is no amount of EUR"),
        (format!("{HEADER}{good}{}", good.replace(",eur,", ",,")), "line 3: \"\" is no currency"),
        (format!("{HEADER}{good}{}", good.replace("2030-01-01", "2030-01-99")), "line 3: "),
    ] {
        let (code, said) = till.settle(&text, &[]).await;
        assert!(code == Some(2) && said.contains(words), "{text}: {said}");
    }
    let mut command = Command::new(crate::support::program());
    command.args(["audit", "--settlement", "/nowhere/at/all.csv"]);
    assert_eq!(command.output().expect("runs").status.code(), Some(2));
    let left: i64 = sqlx::query_scalar("select count(*) from settlement_rows")
        .fetch_one(till.app.store.pool())
        .await
        .expect("counts");
    assert_eq!(left, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_long_file_is_read_as_it_goes() {
    let till = Till::open().await;
    let (buyer, hold) = till.buyer_with(&[1]).await;
    till.bought(buyer, &hold, "pm_card_visa").await;
    let mut text = file(&till.statement().await);
    for n in 0..20_000 {
        text.push_str(&format!("txn_{n},2030-01-01 00:00:00,eur,-1.00,0.00,-1.00,fee,fee_{n},,\n"));
        if n % 4 == 0 {
            text.push_str(&format!("txn_c{n},2030-01-01 00:00:00,eur,1.00,0.00,1.00,charge,ch_{n},ch_{n},pi_{n}\n"));
        }
    }
    let (code, said) = till.settle(&text, &[]).await;
    assert_eq!(code, Some(1), "{}", &said[..said.len().min(500)]);
    assert!(said.contains("5001 lines compared, 20000 of other kinds passed over"), "no count of lines");
    assert_eq!(said.matches("for no order of ours").count(), 5_000, "each is told");
}
