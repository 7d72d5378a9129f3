//! A ticket as the fields that wallets ask for: those of an Apple `pass.json` (PassKit, event ticket) and of a Google Wallet
//! `EventTicketObject` with its class. Whoever has the certificates of the two adds issuer and signature; nothing of them is ours.

use seatwire_proto::server::{Event, Ticket};
use serde_json::{Map, Value, json};

/// What a pass says.
#[derive(Debug, Clone, Copy)]
pub(super) struct Pass<'a> {
    pub(super) event: &'a Event,
    pub(super) ticket: &'a Ticket,
    /// Label and value, e.g. section, row and seat.
    pub(super) place: &'a [(String, String)],
    pub(super) holder: &'a str,
    pub(super) reference: &'a str,
    pub(super) lang: &'a str,
    /// What the QR code says.
    pub(super) qr: &'a str,
}

pub(super) fn fields(pass: &Pass<'_>) -> Value {
    let Pass { event, ticket, place, holder, reference, lang, qr } = pass;
    let summary = &event.summary;
    let label = |german: &str, english: &str| if *lang == "de" { german.to_owned() } else { english.to_owned() };
    let starts =
        jiff::Timestamp::from_millisecond(summary.starts_ms.cast_signed()).ok().map(
            |at| match jiff::tz::TimeZone::get(&summary.venue.time_zone) {
                Ok(zone) => at.to_zoned_datetime(zone).strftime("%Y-%m-%dT%H:%M:%S%:z").to_string(),
                Err(_) => at.to_string(),
            },
        );
    let venue = format!("{}, {}", summary.venue.name, summary.venue.city);
    let field = |key: &str, label: String, value: &str| json!({"key": key, "label": label, "value": value});
    let auxiliary: Vec<Value> =
        place.iter().enumerate().map(|(at, (name, value))| field(&format!("place{at}"), name.clone(), value)).collect();
    let text = |value: &str| json!({"defaultValue": {"language": lang, "value": value}});
    // Google names its parts; those of ours stand in this order.
    let seat_info: Map<String, Value> = ["section", "row", "seat"]
        .iter()
        .zip(*place)
        .map(|(name, (_, value))| ((*name).to_owned(), text(value)))
        .collect();
    json!({
        "ticket": ticket.id,
        "apple": {
            "formatVersion": 1,
            "serialNumber": ticket.id,
            "description": summary.name,
            "relevantDate": starts,
            "sharingProhibited": true,
            "barcodes": [{
                "format": "PKBarcodeFormatQR", "message": qr, "messageEncoding": "iso-8859-1", "altText": ticket.code,
            }],
            "eventTicket": {
                "primaryFields": [field("event", label("Veranstaltung", "Event"), &summary.name)],
                "secondaryFields": [
                    field("venue", label("Ort", "Venue"), &venue),
                    {
                        "key": "starts", "label": label("Beginn", "Starts"), "value": starts,
                        "dateStyle": "PKDateStyleMedium", "timeStyle": "PKDateStyleShort", "ignoresTimeZone": true,
                    },
                ],
                "auxiliaryFields": auxiliary,
                "backFields": [
                    field("holder", "Name".to_owned(), holder),
                    field("order", label("Bestellung", "Order"), reference),
                ],
            },
        },
        "google": {
            "class": {
                "eventId": summary.id,
                "eventName": text(&summary.name),
                "venue": {"name": text(&summary.venue.name), "address": text(&summary.venue.city)},
                "dateTime": {"start": starts},
            },
            "object": {
                "id": ticket.id,
                "state": "ACTIVE",
                "ticketHolderName": holder,
                "ticketNumber": ticket.code,
                "reservationInfo": {"confirmationCode": reference},
                "seatInfo": seat_info,
                "barcode": {"type": "QR_CODE", "value": qr, "alternateText": ticket.code},
            },
        },
    })
}
