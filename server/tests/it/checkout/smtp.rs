//! Mails by a mail server that others wrote (aiosmtpd, scripts/python.sh): TLS and password, both languages with tickets, what
//! happens when it says later, never, or nothing at all.

use super::admin::bought;
use super::checkout_of;
use super::dead_node::Scene;
use crate::support::admin::Admin;
use crate::support::client::Client;
use crate::support::eventually;
use crate::support::node::Node;
use crate::support::stage::Draft;
use seatwire::organiser::Scope;
use serde_json::{Value, json};
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

/// A mail server, until the test ends.
struct MailServer {
    child: Child,
    folder: PathBuf,
    url: String,
    authority: String,
}

impl MailServer {
    /// `None` where Python or its packages cannot be had: then this is not tested, and that is said.
    fn start(mode: &str) -> Option<Self> {
        let root = concat!(env!("CARGO_MANIFEST_DIR"), "/..");
        let found = Command::new("scripts/python.sh").current_dir(root).output().expect("a shell");
        if !found.status.success() {
            #[expect(clippy::print_stderr, reason = "whoever runs the tests must read it")]
            {
                eprintln!("*** SKIPPED: no mail server: {}", String::from_utf8_lossy(&found.stderr));
            }
            return None;
        }
        let python = String::from_utf8(found.stdout).expect("a path").trim().to_owned();
        let folder = PathBuf::from(format!("/tmp/seatwire-it-{}-smtp{}", std::process::id(), super::key()));
        std::fs::create_dir_all(&folder).expect("a folder");
        let folder_text = folder.to_str().expect("text");
        let made = Command::new(&python)
            .args(["-m", "trustme", "-q", "-d", folder_text, "-i", "localhost", "127.0.0.1"])
            .status()
            .expect("runs");
        assert!(made.success(), "a certificate");
        let mut child = Command::new(&python)
            .args([&format!("{root}/server/tests/judges/smtp.py"), folder_text, folder_text, mode])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("runs");
        let mut port = String::new();
        BufReader::new(child.stdout.take().expect("piped")).read_line(&mut port).expect("a port");
        let port = port.trim();
        let url = match mode {
            "tls" => format!("smtps://shop:secret%20pass@localhost:{port}"),
            _ => format!("smtp://shop:secret%20pass@localhost:{port}?tls=required"),
        };
        Some(Self { child, authority: format!("{folder_text}/client.pem"), folder, url })
    }

    async fn node(&self, scene: &Scene) -> Node {
        self.node_by(scene, &self.url).await
    }

    async fn node_by(&self, scene: &Scene, url: &str) -> Node {
        let from = "The Shop <shop@tickets.example>";
        scene
            .node(&[("SEATWIRE_SMTP_URL", url), ("SSL_CERT_FILE", &self.authority), ("SEATWIRE_MAIL_FROM", from)])
            .await
    }

    /// Mails that arrived, oldest first; lines that are only broken for the way are whole again.
    fn mails(&self) -> Vec<String> {
        let mut found: Vec<_> = std::fs::read_dir(&self.folder)
            .expect("the folder")
            .flatten()
            .map(|entry| entry.path())
            .filter(|path| path.extension().is_some_and(|ext| ext == "eml"))
            .collect();
        found.sort();
        found.iter().map(|path| std::fs::read_to_string(path).expect("a mail").replace("=\r\n", "")).collect()
    }

    async fn until(&self, n: usize) -> Vec<String> {
        eventually(&format!("{n} mails"), || async {
            let mails = self.mails();
            (mails.len() >= n).then_some(mails)
        })
        .await
    }
}

impl Drop for MailServer {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

fn header<'a>(mail: &'a str, name: &str) -> &'a str {
    let start = format!("{name}: ");
    mail.lines().find_map(|line| line.strip_prefix(&start)).unwrap_or_else(|| panic!("{name} in {mail}"))
}

async fn buy(node: &Node, event: &str, seat: u32, email: &str, lang: &str) -> Value {
    let (mut buyer, _) = Client::guest(&node.url).await;
    let reply = buyer.call("hold", json!({"key": "h", "event": event, "seats": [seat]})).await;
    let mut fields = checkout_of(&reply["hold"], "pm_card_visa");
    fields["key"] = "c".into();
    fields["buyer"] = json!({"name": "Zoë Müller", "email": email, "lang": lang});
    buyer.call("checkout", fields).await["order"].clone()
}

async fn open_mails(admin: &Admin) -> Vec<Value> {
    admin.done("GET", "/v1/admin/mails/open", Value::Null).await["items"].as_array().expect("a list").clone()
}

/// Moves every mail that waits to now: tests wait for no greylisting.
async fn make_due(scene: &Scene) {
    sqlx::query("update mails set due_ms = 0 where sent_ms is null")
        .execute(scene.stage.store.pool())
        .await
        .expect("sql");
}

#[tokio::test(flavor = "multi_thread")]
async fn mails_go_by_tls_and_password_in_both_languages_with_their_tickets() {
    for mode in ["starttls", "tls"] {
        let Some(server) = MailServer::start(mode) else { return };
        let scene = Scene::new(&Draft::default()).await;
        let node = server.node(&scene).await;
        let order = buy(&node, &scene.event, 1, "ada@example.org", "en").await;
        let english = server.until(1).await.remove(0);
        assert!(english.starts_with("X-How: tls auth"), "{english}");
        assert_eq!(header(&english, "From"), "\"The Shop\" <shop@tickets.example>");
        let (id, name) = (header(&english, "Message-ID"), order["id"].as_str().expect("an id"));
        assert!(id.starts_with(&format!("<{name}.")) && id.ends_with("@tickets.example>"), "{id}");
        assert_eq!(header(&english, "Auto-Submitted"), "auto-generated");
        for part in ["multipart/mixed", "multipart/alternative", "text/plain", "text/html", "application/pdf"] {
            assert!(english.contains(part), "{part} in {english}");
        }
        assert!(english.contains("Your tickets:") && english.contains("Open the order"));
        buy(&node, &scene.event, 2, "zoe@example.org", "de").await;
        let german = server.until(2).await.remove(1);
        assert!(german.contains("application/pdf") && german.contains("Zur Bestellung"), "{german}");
        assert!(german.contains("lang=3D\"de\"") || german.contains("lang=\"de\""), "{german}");
        eventually("both to be noted as sent", || async {
            let n: i64 = sqlx::query_scalar("select count(*) from mails where sent_ms is not null")
                .fetch_one(scene.stage.store.pool())
                .await
                .expect("sql");
            (n == 2).then_some(())
        })
        .await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_mail_waits_for_later_and_is_listed_when_nobody_takes_it() {
    let Some(server) = MailServer::start("starttls") else { return };
    let scene = Scene::new(&Draft::default()).await;
    let node = server.node(&scene).await;
    let admin = Admin::new(&scene.stage, &node, &[Scope::Orders]).await;
    // Come back later: tried again, and then taken.
    buy(&node, &scene.event, 1, "grey@example.org", "en").await;
    let listed = eventually("it to be put off", || async {
        let open = open_mails(&admin).await;
        (open.len() == 1).then(|| open[0].clone())
    })
    .await;
    assert!(listed["failure"].as_str().is_some_and(|text| text.contains("451")), "{listed}");
    assert!(listed["next_try_ms"].is_u64() && server.mails().is_empty(), "{listed}");
    make_due(&scene).await;
    server.until(1).await;
    eventually("nothing to be open", || async { open_mails(&admin).await.is_empty().then_some(()) }).await;
    // Refused after the mail was sent, for now.
    buy(&node, &scene.event, 2, "full@example.org", "en").await;
    let listed = eventually("it to be put off", || async { open_mails(&admin).await.pop() }).await;
    assert!(listed["next_try_ms"].is_u64() && listed["failure"].as_str().is_some_and(|text| text.contains("452")));
    // No such mailbox: given up, listed, and sent again only when a person says so.
    buy(&node, &scene.event, 3, "gone@example.org", "en").await;
    let listed = eventually("it to be given up", || async {
        open_mails(&admin).await.into_iter().find(|mail| mail["next_try_ms"].is_null())
    })
    .await;
    assert!(listed["failure"].as_str().is_some_and(|text| text.contains("550")), "{listed}");
    assert_eq!((&listed["tries"], &listed["about"]), (&json!(1), &json!("order_paid")));
    sqlx::query("update orders set buyer_email = 'ada@example.org' where buyer_email = 'gone@example.org'")
        .execute(scene.stage.store.pool())
        .await
        .expect("sql");
    admin.done("POST", &format!("/v1/admin/mails/{}/retry", listed["id"]), json!({})).await;
    assert!(server.until(2).await[1].contains("ada@example.org"));
    for wrong in ["0", "x", &listed["id"].to_string()] {
        eventually("nothing to be sent again", || async {
            let (status, _) = admin.call("POST", &format!("/v1/admin/mails/{wrong}/retry"), json!({})).await;
            (status == 400).then_some(())
        })
        .await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refusal_for_our_sake_is_tried_again_for_two_days_and_then_left_to_a_person() {
    let Some(server) = MailServer::start("starttls") else { return };
    let scene = Scene::new(&Draft::default()).await;
    let node = server.node(&scene).await;
    let admin = Admin::new(&scene.stage, &node, &[Scope::Orders]).await;
    let pool = scene.stage.store.pool();
    for (seat, email) in [(1, "block@example.org"), (2, "big@example.org")] {
        buy(&node, &scene.event, seat, email, "en").await;
    }
    let open = eventually("both to be put off", || async {
        let open = open_mails(&admin).await;
        (open.len() == 2).then_some(open)
    })
    .await;
    assert!(open.iter().all(|mail| mail["next_try_ms"].is_u64()), "not given up: {open:?}");
    // Two days later one is given up, counted and listed; the other is taken once we are let in again.
    sqlx::query("update mails set tries_n = 100, due_ms = 0 where mail_id = (select max(mail_id) from mails)")
        .execute(pool)
        .await
        .expect("sql");
    let given_up = eventually("it to be given up", || async {
        open_mails(&admin).await.into_iter().find(|mail| mail["next_try_ms"].is_null())
    })
    .await;
    assert!(given_up["failure"].as_str().is_some_and(|text| text.contains("554")), "{given_up}");
    let metrics = format!("{}/metrics", node.admin_url);
    eventually("it to be counted", || async {
        let text = reqwest::get(&metrics).await.expect("answers").text().await.expect("text");
        text.contains("seatwire_mails_for_people 1").then_some(())
    })
    .await;
    std::fs::write(server.folder.join("unblocked"), "").expect("a file");
    make_due(&scene).await;
    assert!(server.until(1).await[0].contains("block@example.org"));
    admin.done("POST", &format!("/v1/admin/mails/{}/retry", given_up["id"]), json!({})).await;
    assert!(server.until(2).await[1].contains("big@example.org"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wrong_password_or_an_unknown_certificate_loses_no_mail() {
    let Some(server) = MailServer::start("starttls") else { return };
    let scene = Scene::new(&Draft::default()).await;
    let node = server.node_by(&scene, &server.url.replace("secret", "wrong")).await;
    let admin = Admin::new(&scene.stage, &node, &[Scope::Orders]).await;
    bought(&node, &scene.event, &[1], "pm_card_visa").await;
    let refused = eventually("the password to be refused", || async { open_mails(&admin).await.pop() }).await;
    assert!(refused["next_try_ms"].is_u64() && refused["failure"].as_str().is_some_and(|text| text.contains("535")));
    drop(node);
    let stranger = MailServer::start("starttls").expect("as the other");
    let settings = [("SEATWIRE_SMTP_URL", stranger.url.as_str()), ("SSL_CERT_FILE", server.authority.as_str())];
    let node = scene.node(&settings).await;
    make_due(&scene).await;
    let admin = Admin::new(&scene.stage, &node, &[Scope::Orders]).await;
    eventually("the certificate to be refused", || async {
        let open = open_mails(&admin).await.pop()?;
        open["failure"].as_str()?.to_lowercase().contains("certificate").then_some(())
    })
    .await;
    assert!(stranger.mails().is_empty() && server.mails().is_empty());
    drop(node);
    let _node = server.node(&scene).await;
    make_due(&scene).await;
    server.until(1).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_dies_before_it_hears_of_the_delivery_repeats_the_same_message() {
    let Some(server) = MailServer::start("starttls") else { return };
    let scene = Scene::new(&Draft::default()).await;
    let node = server.node(&scene).await;
    let order = buy(&node, &scene.event, 1, "hang@example.org", "en").await;
    server.until(1).await;
    node.signal("KILL");
    drop(node);
    // Whoever took it is dead: after its time another node sends it again, by the name that lets a mailbox see one mail.
    let _node = server.node(&scene).await;
    make_due(&scene).await;
    let mails = server.until(2).await;
    let ids: Vec<&str> = mails.iter().map(|mail| header(mail, "Message-ID")).collect();
    assert_eq!(ids[0], ids[1]);
    assert!(ids[0].contains(order["id"].as_str().expect("an id")));
}
