//! Tickets after the sale: verified without a network, printed, passed on, admitted once.

use super::admin::{bought, refund};
use super::checkout_of;
use super::dead_node::Scene;
use crate::support::admin::Admin;
use crate::support::client::Client;
use crate::support::stage::Draft;
use seatwire::organiser::Scope;
use serde_json::{Value, json};
use std::process::Command;

fn text<'a>(value: &'a Value, name: &str) -> &'a str {
    value[name].as_str().unwrap_or_else(|| panic!("{name} in {value}"))
}

async fn scan(at: &Admin, event: &str, ticket: &str, door: &str, scan: &str) -> Value {
    let body = json!({"ticket": ticket, "door": door, "scan": scan});
    at.done("POST", &format!("/v1/door/events/{event}/check-in"), body).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_qr_code_is_verified_by_the_public_key_alone() {
    let scene = Scene::new(&Draft::default()).await;
    let node = scene.node(&[]).await;
    let (_, order) = bought(&node, &scene.event, &[3], "pm_card_visa").await;
    let qr = text(&order["tickets"][0], "qr");
    let key: Value =
        reqwest::get(format!("{}/v1/ticket-key", node.url)).await.expect("answers").json().await.expect("JSON");
    let verify = |qr: &str| {
        let mut command = Command::new(crate::support::program());
        // Neither stores nor a network: a folder that is not there would show that something was started.
        command.args(["ticket", "verify", "--key", text(&key, "public_key"), qr]);
        command.env("DATABASE_URL", "postgres://nobody@127.0.0.1:1/x").env("SEATWIRE_DATA", "/nonexistent");
        let done = command.output().expect("runs");
        (done.status.success(), String::from_utf8_lossy(&done.stdout).into_owned())
    };
    let (is_valid, said) = verify(qr);
    assert!(is_valid && said.contains(&scene.event) && said.contains("seat 3"), "{said}");
    let mut edited = qr.to_owned();
    edited.replace_range(30..31, if &qr[30..31] == "A" { "B" } else { "A" });
    assert!(!verify(&edited).0);
    assert!(!verify(text(&order["tickets"][0], "code")).0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_ticket_admits_once_also_when_two_doors_scan_together() {
    let scene = Scene::new(&Draft::default()).await;
    let node = scene.node(&[]).await;
    let admin = Admin::new(&scene.stage, &node, &[Scope::Orders]).await;
    let north = Admin::door(&scene.stage, &node).await;
    let (_, order) = bought(&node, &scene.event, &[1, 2, 3, 4], "pm_card_visa").await;
    let tickets = order["tickets"].as_array().expect("tickets");
    for ticket in &tickets[..2] {
        let scans = (0..20).map(|n| {
            let (north, event, qr) = (north.clone(), scene.event.clone(), text(ticket, "qr").to_owned());
            tokio::spawn(async move { scan(&north, &event, &qr, &format!("door {n}"), "s").await })
        });
        let mut admitted = Vec::new();
        for (n, task) in scans.collect::<Vec<_>>().into_iter().enumerate() {
            let answer = task.await.expect("scans");
            match answer["admitted"] == true {
                true => admitted.push(n),
                false => assert_eq!(answer["reason"], "used", "{answer}"),
            }
        }
        assert_eq!(admitted.len(), 1);
        // The answer was lost: the same scan of the same door asks again, and nobody else comes in by it.
        let door = format!("door {}", admitted[0]);
        assert_eq!(scan(&north, &scene.event, text(ticket, "qr"), &door, "s").await["admitted"], true);
        assert_eq!(scan(&north, &scene.event, text(ticket, "code"), &door, "s2").await["admitted"], false);
    }
    // By the code, typed in; and what does not admit.
    let typed = format!(" {}\n", text(&tickets[2], "code").to_ascii_lowercase());
    assert_eq!(scan(&north, &scene.event, &typed, "a", "1").await["admitted"], true);
    let (status, _) =
        refund(&admin, &order, "r", json!({"lines": [{"line": 3, "quantity": 1}], "reason": "ill"})).await;
    assert_eq!(status, 200);
    let refused = scan(&north, &scene.event, text(&tickets[3], "qr"), "a", "2").await;
    assert_eq!((&refused["admitted"], &refused["reason"]), (&json!(false), &json!("void")));
    assert_eq!(scan(&north, &scene.event, "ABCDEFGH", "a", "3").await["reason"], "unknown");
    let forged = text(&tickets[3], "qr").replace(".", ".A");
    assert_eq!(scan(&north, &scene.event, &forged, "a", "4").await["admitted"], false);
    let edited = {
        let qr = text(&tickets[3], "qr");
        let (signed, signature) = qr.rsplit_once('.').expect("two dots");
        let first = if signature.starts_with('A') { "B" } else { "A" };
        format!("{signed}.{first}{}", &signature[1..])
    };
    assert_eq!(scan(&north, &scene.event, &edited, "a", "5").await["reason"], "forged");
    let elsewhere = seatwire_proto::id::EventId::generate().to_string();
    assert_eq!(scan(&north, &elsewhere, text(&tickets[3], "qr"), "a", "6").await["reason"], "wrong_event");
    assert_eq!(
        scan(&north, &elsewhere, text(&tickets[3], "code"), "a", "7").await["reason"],
        "wrong_event",
        "typed in"
    );
    assert_eq!(scan(&north, &elsewhere, "ABCDEFGH", "a", "8").await["reason"], "unknown");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_door_learns_what_it_needs_with_its_own_key_and_nothing_else() {
    let scene = Scene::new(&Draft::default()).await;
    let node = scene.node(&[]).await;
    let north = Admin::door(&scene.stage, &node).await;
    let listed = north.done("GET", "/v1/door/events", Value::Null).await;
    assert_eq!(listed["items"][0]["id"], scene.event, "{listed}");
    let facts = north.done("GET", &format!("/v1/door/events/{}", scene.event), Value::Null).await;
    let key: Value =
        reqwest::get(format!("{}/v1/ticket-key", node.url)).await.expect("answers").json().await.expect("JSON");
    assert_eq!(facts["public_key"], key["public_key"]);
    assert!(facts["areas"].is_array() && facts["name"].is_string() && facts["time_zone"].is_string(), "{facts}");
    let layout = format!("/v1/layouts/{}", text(&facts, "layout"));
    assert_eq!(north.call("GET", &layout, Value::Null).await.0, 200);
    let nowhere = seatwire_proto::id::EventId::generate();
    let (status, body) = north.call("GET", &format!("/v1/door/events/{nowhere}"), Value::Null).await;
    assert_eq!((status, &body["error"]["code"]), (404, &json!("event_unknown")));
    // A key for doors opens doors, and their listener has nothing else for any key.
    let all = Admin::new(&scene.stage, &node, &Scope::ALL).await;
    let (at_admin, at_door) =
        (Admin { url: node.admin_url.clone(), ..north.clone() }, Admin { url: node.door_url.clone(), ..all.clone() });
    for path in ["/v1/admin/events", "/v1/admin/webhooks", "/v1/admin/log"] {
        assert_eq!(at_admin.call("GET", path, Value::Null).await.0, 403, "{path}");
        assert_eq!(at_door.call("GET", path, Value::Null).await.0, 404, "{path}");
    }
    for path in ["/v1/events", "/v1/orders"] {
        assert_eq!(at_door.call("GET", path, Value::Null).await.0, 404, "{path}");
    }
    let events_at_admin = all.call("GET", "/v1/door/events", Value::Null).await;
    assert_eq!(events_at_admin.0, 404, "{events_at_admin:?}");
    let check_in = format!("/v1/door/events/{}/check-in", scene.event);
    for (field, wrong) in [
        ("/ticket", json!({"ticket": "", "door": "a", "scan": "s"})),
        ("/door", json!({"ticket": "t", "door": "", "scan": "s"})),
        ("/scan", json!({"ticket": "t", "door": "a", "scan": "x".repeat(513)})),
    ] {
        let (status, body) = north.call("POST", &check_in, wrong).await;
        assert_eq!((status, &body["error"]["data"]["path"]), (400, &json!(field)), "{body}");
    }
    assert_eq!(north.call("POST", &check_in, json!({"ticket": "t"})).await.0, 400);

    // The scanner lies beside what it asks, may use the camera, and is nowhere else.
    let http = reqwest::Client::builder().redirect(reqwest::redirect::Policy::none()).build().expect("a client");
    let get = async |url: String| http.get(url).send().await.expect("answers");
    let page = get(format!("{}/scan/", node.door_url)).await;
    assert!(page.headers()["permissions-policy"].to_str().expect("text").contains("camera=(self)"));
    assert!(page.headers()["content-security-policy"].to_str().expect("text").contains("default-src 'self'"));
    assert!(page.headers().get("access-control-allow-origin").is_none());
    assert_eq!(get(format!("{}/scan", node.door_url)).await.status(), 308);
    assert_eq!(get(format!("{}/", node.door_url)).await.headers()["location"], "/scan/");
    assert_eq!(get(format!("{}/metrics", node.door_url)).await.status(), 404);
    for url in
        [format!("{}/scan/", node.url), format!("{}/scan/scan.html", node.url), format!("{}/scan/", node.admin_url)]
    {
        let elsewhere = get(url).await;
        assert_eq!(elsewhere.status(), 404);
        assert!(elsewhere.headers()["permissions-policy"].to_str().expect("text").contains("camera=()"));
    }

    // What is over is not chosen from.
    for (hours, n) in [(23, 1), (25, 0)] {
        let sql = "update events set starts_ms = (extract(epoch from now()) * 1000)::bigint - $1 * 3600000::bigint";
        sqlx::query(sql).bind(hours).execute(scene.stage.store.pool()).await.expect("sql");
        let listed = north.done("GET", "/v1/door/events", Value::Null).await;
        assert_eq!(listed["items"].as_array().map(Vec::len), Some(n), "{listed}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn keys_cannot_be_tried_in_bulk_at_the_doors() {
    let scene = Scene::new(&Draft::default()).await;
    let node = scene.node(&[("SEATWIRE_DOOR_PER_S", "1"), ("SEATWIRE_LIMIT_LOOPBACK", "true")]).await;
    let mut stranger = Admin::door(&scene.stage, &node).await;
    stranger.key = "swadm_guess".into();
    // Three are free, and one each second: all at once, so that a slow machine asks fast enough.
    let tries = (0..40).map(|_| stranger.call("GET", "/v1/door/events", Value::Null));
    let (tried, refused): (Vec<_>, Vec<_>) =
        futures_util::future::join_all(tries).await.into_iter().partition(|(status, _)| *status == 401);
    assert!(tried.len() >= 3 && !refused.is_empty(), "{tried:?}");
    for (status, answer) in refused {
        assert_eq!((status, &answer["error"]["code"]), (429, &json!("rate_limited")), "{answer}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_ticket_passed_on_has_another_code_and_the_old_one_admits_nobody() {
    let scene = Scene::new(&Draft::default()).await;
    let node = scene.node(&[]).await;
    let north = Admin::door(&scene.stage, &node).await;
    let (guest, order) = bought(&node, &scene.event, &[1, 2], "pm_card_visa").await;
    let ticket = &order["tickets"][0];
    let path = format!("/v1/orders/{}/tickets/{}/transfer", text(&order, "id"), text(ticket, "id"));
    for wrong in
        [json!({}), json!({"to": {"name": "", "email": "b@example.org"}}), json!({"to": {"name": "B", "email": "b"}})]
    {
        assert_eq!(guest.post(&path, "k", wrong.clone()).await.0, 400, "{wrong}");
    }
    for wrong in ["@", "bob@", "b@c.d, evil@x.y", "a b@c.de", "a..b@c.de"] {
        let (status, refused) = guest.post(&path, "k", json!({"to": {"name": "B", "email": wrong}})).await;
        assert_eq!((status, &refused["error"]["data"]["path"]), (400, &json!("/to/email")), "{wrong}: {refused}");
    }
    let (stranger, _) = bought(&node, &scene.event, &[5], "pm_card_visa").await;
    let to = json!({"to": {"name": "Bob", "email": "bob@example.org"}});
    assert_eq!(stranger.post(&path, "k", to.clone()).await.0, 404);
    let other = scene.node(&[]).await;
    let doors = [north.clone(), Admin::door(&scene.stage, &other).await];
    let (status, body) = guest.post(&path, "k", to.clone()).await;
    assert_eq!((status, &body["order"]["tickets"][0]["state"]), (200, &json!("transferred")), "{body}");
    assert_eq!(body["order"]["tickets"].as_array().map(Vec::len), Some(2), "the new code is not the buyer's to see");
    for door in &doors {
        assert_eq!(scan(door, &scene.event, text(ticket, "qr"), "a", "1").await["reason"], "transferred", "at once");
    }
    // The same key says the same again, to another person it says no; another key finds nothing to pass on.
    let (status, again) = guest.post(&path, "k", to.clone()).await;
    assert_eq!((status, &again["replayed"], &again["order"]), (200, &json!(true), &body["order"]), "{again}");
    let eve = json!({"to": {"name": "Eve", "email": "eve@example.org"}});
    let (status, refused) = guest.post(&path, "k", eve).await;
    assert_eq!((status, &refused["error"]["code"]), (422, &json!("key_reused")), "{refused}");
    let (status, refused) = guest.post(&path, "k2", to.clone()).await;
    assert_eq!((status, &refused["error"]["code"]), (400, &json!("bad_field")), "once: {refused}");
    let (status, refused) = guest.post(&path, "k2", to.clone()).await;
    assert_eq!((status, &refused["replayed"]), (400, &json!(true)), "{refused}");
    // Nor what was used; the ticket is named, not the order. What is no ticket of the order is not found.
    let second = &order["tickets"][1];
    assert_eq!(scan(&north, &scene.event, text(second, "qr"), "a", "3").await["admitted"], true);
    let used = format!("/v1/orders/{}/tickets/{}/transfer", text(&order, "id"), text(second, "id"));
    let (status, refused) = guest.post(&used, "k3", to.clone()).await;
    let error = &refused["error"];
    assert_eq!((status, &error["code"], &error["data"]["path"]), (400, &json!("bad_field"), &json!("/ticket")));
    assert!(error["message"].as_str().is_some_and(|text| text.contains("used")), "{refused}");
    let nowhere = used.replace(text(second, "id"), &seatwire_proto::id::TicketId::generate().to_string());
    let (status, refused) = guest.post(&nowhere, "k4", to).await;
    assert_eq!((status, &refused["error"]["code"]), (404, &json!("order_not_found")), "{refused}");
    let passed: i64 = sqlx::query_scalar("select count(*) from tickets where holder_email is not null")
        .fetch_one(scene.stage.store.pool())
        .await
        .expect("sql");
    assert_eq!(passed, 1);
    let code: String = sqlx::query_scalar("select code from tickets where holder_email = 'bob@example.org'")
        .fetch_one(scene.stage.store.pool())
        .await
        .expect("the new ticket");
    let admitted = scan(&north, &scene.event, &code, "a", "2").await;
    assert_eq!((&admitted["admitted"], &admitted["ticket"]["holder"]), (&json!(true), &json!("Bob")));
    let found = super::books::violations(scene.stage.store.pool(), &scene.ledger().await, true).await;
    assert_eq!(found, Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn an_address_no_mail_reaches_buys_nothing() {
    let scene = Scene::new(&Draft::default()).await;
    let node = scene.node(&[]).await;
    let (mut buyer, _) = Client::guest(&node.url).await;
    let reply = buyer.call("hold", json!({"key": "h", "event": scene.event, "seats": [1]})).await;
    let mut fields = checkout_of(&reply["hold"], "pm_card_visa");
    fields["key"] = "c".into();
    for wrong in ["a..b@c.de", "a@b..de", "a,b@c.de"] {
        fields["buyer"]["email"] = wrong.into();
        let reply = buyer.call("checkout", fields.clone()).await;
        assert_eq!(
            (&reply["error"]["code"], &reply["error"]["data"]["path"]),
            (&json!("bad_field"), &json!("/buyer/email")),
            "{reply}"
        );
    }
    fields["buyer"]["email"] = "ada@example.org".into();
    assert_eq!(buyer.call("checkout", fields).await["ok"], true);
}

#[tokio::test(flavor = "multi_thread")]
async fn tickets_are_printed_for_their_owner_alone() {
    let scene = Scene::new(&Draft::default()).await;
    let node = scene.node(&[]).await;
    let (guest, order) = bought(&node, &scene.event, &[1, 2], "pm_card_visa").await;
    let url = format!("{}/v1/orders/{}/tickets.pdf", node.url, text(&order, "id"));
    let http = reqwest::Client::new();
    let printed = http.get(&url).bearer_auth(&guest.token).send().await.expect("answers");
    assert_eq!(
        (printed.status().as_u16(), printed.headers()["content-type"].to_str().expect("text")),
        (200, "application/pdf")
    );
    let bytes = printed.bytes().await.expect("a document");
    let shown: String = bytes.iter().map(|&byte| byte as char).collect();
    assert!(shown.starts_with("%PDF-1.4") && shown.contains("/Count 2"));
    assert!(shown.contains(text(&order, "reference")) && shown.contains("Stalls"));
    let secret = text(&order, "pay_url").split_once('#').expect("a secret").1.to_owned();
    assert_eq!(http.get(&url).header("Seatwire-Pay-Secret", secret).send().await.expect("answers").status(), 200);
    let ticket = &order["tickets"][0];
    let wallet = format!("/v1/orders/{}/tickets/{}/wallet", text(&order, "id"), text(ticket, "id"));
    let (status, fields) = guest.get(&wallet).await;
    assert_eq!(status, 200, "{fields}");
    assert_eq!(fields["apple"]["barcodes"][0]["message"], ticket["qr"]);
    assert_eq!(fields["apple"]["eventTicket"]["auxiliaryFields"][0]["value"], "Stalls", "{fields}");
    assert_eq!(fields["google"]["object"]["seatInfo"]["seat"]["defaultValue"]["value"], "2", "{fields}");
    assert_eq!(fields["google"]["object"]["barcode"]["value"], ticket["qr"]);
    let (stranger, _) = bought(&node, &scene.event, &[9], "pm_card_visa").await;
    assert_eq!(stranger.get(&wallet).await.0, 404);
    assert_eq!(guest.get(&wallet.replace("tkt_0", "tkt_1")).await.0, 404);
    assert_eq!(http.get(&url).bearer_auth(&stranger.token).send().await.expect("answers").status(), 404);
}

/// Pairs of a refund and something else done with the same ticket.
const RACES: u32 = 30;

#[tokio::test(flavor = "multi_thread")]
async fn a_refund_racing_with_a_transfer_or_a_door_ends_with_one_of_both() {
    let scene = Scene::new(&Draft::default()).await;
    let nodes = [scene.node(&[]).await, scene.node(&[]).await];
    let admin = Admin::new(&scene.stage, &nodes[0], &[Scope::Orders]).await;
    let south = Admin::door(&scene.stage, &nodes[1]).await;
    let all = json!({"all": true, "reason": "ill"});
    let mut refunds_first_n = 0;
    for n in 0..RACES {
        let (mut guest, order) = bought(&nodes[0], &scene.event, &[n, 40 + n], "pm_card_visa").await;
        guest.url.clone_from(&nodes[1].url);
        let ticket = &order["tickets"][0];
        let key = format!("r{n}");
        let given_back = refund(&admin, &order, &key, all.clone());
        let ((status, body), other) = if n % 2 == 0 {
            let path = format!("/v1/orders/{}/tickets/{}/transfer", text(&order, "id"), text(ticket, "id"));
            let to = json!({"to": {"name": "Bob", "email": "bob@example.org"}});
            let (refunded, (status, body)) = tokio::join!(given_back, guest.post(&path, "k", to));
            let is_over = status == 400 && body["error"]["data"]["path"] == "/ticket";
            assert!(status == 200 || is_over, "{status} {body}");
            (refunded, status == 200)
        } else {
            let scanned = scan(&south, &scene.event, text(ticket, "qr"), "a", "s");
            let (refunded, scanned) = tokio::join!(given_back, scanned);
            assert!(scanned["admitted"] == true || scanned["reason"] == "void", "{scanned}");
            (refunded, scanned["admitted"] == true)
        };
        assert_eq!(status, 200, "{body}");
        refunds_first_n += usize::from(!other);
    }
    assert!(refunds_first_n < RACES as usize, "nothing but refunds won");
    let pool = scene.stage.store.pool();
    crate::support::eventually("every order to be settled", || async {
        let sql = "select count(*) from orders where state <> 'refunded'";
        let open_n: i64 = sqlx::query_scalar(sql).fetch_one(pool).await.expect("sql");
        (open_n == 0).then_some(())
    })
    .await;
    let sql = "select count(*) from tickets where state = 'valid'";
    assert_eq!(sqlx::query_scalar::<_, i64>(sql).fetch_one(pool).await.expect("sql"), 0);
    // Who is inside and has the money back is the operator's own doing; the place stays sold.
    let mut found = super::books::violations(pool, &scene.ledger().await, true).await;
    found.retain(|violation| !violation.starts_with("I4: live tickets whose money"));
    assert_eq!(found, Vec::<String>::new());
}
