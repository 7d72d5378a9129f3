//! The page where a buyer approves a payment, as a bank's would: two buttons, then back to the shop.

use super::object::Intent;

/// Where the page of an intent is. The key is a part of the client secret, so that the address cannot be guessed.
#[must_use]
pub(super) fn url(base: &str, intent: &Intent) -> String {
    format!("{base}/action/{}?key={}", intent.id, key(&intent.client_secret))
}

/// The part of a client secret that opens the page.
#[must_use]
pub(super) fn key(client_secret: &str) -> &str {
    client_secret.rsplit('_').next().unwrap_or_default()
}

/// The page. Everything put in is an id, a number or a currency code of ours.
#[must_use]
pub(super) fn html(id: &str, key: &str, amount_minor: i64, currency: &str, is_open: bool) -> String {
    let amount = format!("{}.{:02} {}", amount_minor / 100, amount_minor % 100, currency.to_ascii_uppercase());
    let body = if is_open {
        format!(
            r#"<p>Approve the payment of <strong>{amount}</strong>?</p>
<form method="post" action="/action/{id}/approve?key={key}"><button id="approve">Approve</button></form>
<form method="post" action="/action/{id}/fail?key={key}"><button id="fail" class="quiet">Fail</button></form>"#
        )
    } else {
        format!(
            r#"<p>This payment of <strong>{amount}</strong> needs no approval any more.</p>
<form method="post" action="/action/{id}/fail?key={key}"><button id="back" class="quiet">Back to the shop</button></form>"#
        )
    };
    format!(
        r#"<!doctype html><html lang="en"><head><meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1"><title>Test bank</title>
<style>body{{font:1.1rem/1.5 system-ui,sans-serif;max-width:26rem;margin:4rem auto;padding:0 1rem;color:#111;background:#fff}}
button{{font:inherit;width:100%;min-height:3rem;margin:.3rem 0;border:0;border-radius:.5rem;background:#1b5e20;color:#fff}}
.quiet{{background:#eee;color:#111}}small{{color:#555}}</style></head>
<body><h1>Test bank</h1>{body}<p><small>No real money moves here.</small></p></body></html>"#
    )
}
