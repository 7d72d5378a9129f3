//! A mail as HTML: one column of tables and inline styles, which is what mail readers agree on; no pictures, nothing fetched,
//! readable in dark mode. The same words as the plain text beside it.

use super::text::Words;

const FONT: &str = "font-family:-apple-system,'Segoe UI',Roboto,Helvetica,Arial,sans-serif";

/// The document.
pub(super) fn html(words: &Words) -> String {
    let mut rows = String::new();
    for (label, value) in &words.facts {
        rows.push_str(&format!(
            "<tr><td style=\"{FONT};font-size:13px;line-height:20px;color:#566070;padding:7px 16px 7px 0;\
             vertical-align:top;white-space:nowrap\">{}</td><td style=\"{FONT};font-size:15px;line-height:20px;\
             color:#14181f;font-weight:600;padding:7px 0\">{}</td></tr>",
            escaped(label),
            escaped(value)
        ));
    }
    let paragraphs: String = words
        .paragraphs
        .iter()
        .map(|paragraph| format!("<p style=\"margin:0 0 16px\">{}</p>", escaped(paragraph)))
        .collect();
    let button = words.link.as_ref().map_or_else(String::new, |(label, link)| {
        format!(
            "<table role=\"presentation\" cellpadding=\"0\" cellspacing=\"0\" style=\"margin:24px 0 0\"><tr>\
             <td style=\"background:#0b5fff;border-radius:10px\"><a href=\"{}\" style=\"{FONT};display:inline-block;\
             padding:13px 24px;font-size:16px;font-weight:600;color:#ffffff;text-decoration:none\">{}</a></td></tr></table>",
            escaped(link),
            escaped(label)
        )
    });
    format!(
        "<!doctype html><html lang=\"{lang}\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\
         <meta name=\"color-scheme\" content=\"light\"><title>{subject}</title></head>\
         <body style=\"margin:0;padding:0;background:#f4f6f9\">\
         <table role=\"presentation\" width=\"100%\" cellpadding=\"0\" cellspacing=\"0\" style=\"background:#f4f6f9\">\
         <tr><td align=\"center\" style=\"padding:24px 12px\">\
         <table role=\"presentation\" width=\"100%\" cellpadding=\"0\" cellspacing=\"0\" style=\"max-width:560px;\
         background:#ffffff;border-radius:16px;overflow:hidden\">\
         <tr><td style=\"background:#14181f;padding:22px 28px\"><h1 style=\"{FONT};margin:0;font-size:20px;\
         line-height:27px;color:#ffffff\">{subject}</h1></td></tr>\
         <tr><td style=\"{FONT};padding:26px 28px 30px;font-size:16px;line-height:25px;color:#14181f\">\
         <p style=\"margin:0 0 16px\">{greeting}</p>{paragraphs}\
         <table role=\"presentation\" cellpadding=\"0\" cellspacing=\"0\" width=\"100%\" style=\"border-top:1px solid #e2e7ee;\
         border-bottom:1px solid #e2e7ee\">{rows}</table>{button}</td></tr></table>\
         <p style=\"{FONT};max-width:520px;margin:18px auto 0;font-size:12px;line-height:18px;color:#566070\">{footer}</p>\
         </td></tr></table></body></html>",
        lang = words.lang,
        subject = escaped(&words.subject),
        greeting = escaped(&words.greeting),
        footer = escaped(words.footer),
    )
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::super::text::{Facts, money, plain, words};
    use super::*;
    use crate::store::mail::MailKind;

    #[test]
    fn what_people_wrote_stays_text() {
        let facts = Facts {
            name: "<b>Ada</b> & \"Co\"",
            event: "A < B",
            starts: "2026-12-01 20:00",
            venue: "Hall, Berlin",
            reference: "ABCD2345",
            total: &money(4750, "EUR", "de"),
            amount: &money(500, "JPY", "de"),
            has_tickets: true,
            link: "https://example.org/pay/x#y",
        };
        for &kind in MailKind::ALL {
            for lang in ["en", "de"] {
                let words = words(kind, lang, &facts);
                let (page, text) = (html(&words), plain(&words));
                assert!(
                    page.contains("&lt;b&gt;Ada&lt;/b&gt; &amp; &quot;Co&quot;") && !page.contains("<b>Ada"),
                    "{page}"
                );
                assert!(text.contains("<b>Ada</b>") && page.contains(&format!("lang=\"{lang}\"")));
                // Whoever gets a ticket does not get the order.
                assert_eq!(text.contains(facts.link), !kind.is_for_holder());
                assert_eq!(page.contains(facts.link), !kind.is_for_holder());
            }
        }
        assert_eq!((facts.total, facts.amount), ("47,50 EUR", "500 JPY"));
        assert_eq!(money(4705, "EUR", "en"), "47.05 EUR");
    }
}
