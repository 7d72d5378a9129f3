//! Cases of text messages: commands good and bad, replies and pushes of every kind.

use seatwire_proto::client::{self, Position};
use seatwire_proto::code::ErrorCode;
use seatwire_proto::seat::{AreaIndex, SeatIndex};
use seatwire_proto::server::{
    Action, Budget, Decline, ErrorObject, EventState, HelloReply, Hold, HoldBestReply, HoldReply, Line, Order,
    OrderReply, OrderState, PingReply, PriceTier, Push, Reply, SubscribeReply, Ticket, TicketState, UnlockReply,
    UnlockedAllocation,
};
use serde::Serialize;
use serde_json::{Value, json};

const EVENT: &str = "evt_01h455vb4pex5vsknk084sn02q";
const HOLD: &str = "hld_01h455vb4pex5vsknk084sn02r";
const ORDER: &str = "ord_01h455vb4pex5vsknk084sn02s";
const SERVER_MS: u64 = 1_790_000_000_123;

pub(crate) fn messages() -> Value {
    let mut commands: Vec<Value> = good_commands().into_iter().map(|(name, text)| command(name, text)).collect();
    commands.extend(bad_commands().into_iter().map(|(name, text, code, path)| refused(name, text, code, path)));
    json!({ "commands": commands, "replies": replies(), "pushes": pushes() })
}

fn command(name: &str, text: Value) -> Value {
    let text = text.to_string();
    let message = client::decode(text.as_bytes()).expect(name);
    message.command.validate().expect(name);
    let encoded = client::encode(&message).expect("plain data");
    let mut fields: Value = serde_json::from_str(&encoded).expect("JSON");
    let members = fields.as_object_mut().expect("an object");
    let mut command = json!({});
    for envelope in ["id", "op", "key"] {
        if let Some(value) = members.remove(envelope) {
            command[envelope] = value;
        }
    }
    command["fields"] = fields;
    json!({"name": name, "text": text, "command": command})
}

fn refused(name: &str, text: String, code: ErrorCode, path: Option<&str>) -> Value {
    let mut refused = json!({"code": code});
    if let Some(path) = path {
        refused["path"] = json!(path);
    }
    if let Err(found) = client::decode(text.as_bytes()) {
        refused["id"] = json!(found.id);
    } else {
        refused["id"] = serde_json::from_str::<Value>(&text).expect("JSON")["id"].clone();
    }
    json!({"name": name, "text": text, "refused": refused})
}

fn good_commands() -> Vec<(&'static str, Value)> {
    vec![
        ("hello_anonymous", json!({"id": 0, "op": "hello"})),
        (
            "hello",
            json!({"id": 4_294_967_295_u32, "op": "hello", "token": "t.o.k", "client": {"name": "mine", "version": "1"},
                "accepts": ["packed2", "later"], "lang": "de"}),
        ),
        ("unknown_members_are_ignored", json!({"id": 2, "op": "hello", "later": {"a": []}, "key": 5})),
        ("ping", json!({"id": 3, "op": "ping", "t0": 12.5})),
        ("subscribe", json!({"id": 4, "op": "subscribe", "event": EVENT})),
        ("subscribe_live", json!({"id": 4, "op": "subscribe", "event": EVENT, "from": "live", "accepts": []})),
        (
            "subscribe_from",
            json!({"id": 4, "op": "subscribe", "event": EVENT, "from": {"epoch": 3, "seq": 9_007_199_254_740_991_u64}}),
        ),
        ("unsubscribe", json!({"id": 5, "op": "unsubscribe", "channel": 7})),
        ("resync", json!({"id": 6, "op": "resync", "channel": 7, "epoch": 3, "seq": 0})),
        ("hold", json!({"id": 7, "op": "hold", "key": "a b~", "event": EVENT, "seats": [3, 1, 2]})),
        ("hold_best", json!({"id": 8, "op": "hold_best", "key": "k", "event": EVENT, "quantity": 2})),
        (
            "hold_best_with_everything",
            json!({"id": 8, "op": "hold_best", "key": "k", "event": EVENT, "quantity": 4, "together": "preferred",
                "price_tiers": ["A", "B"], "sections": [0, 9], "max_price_minor": 12_050, "accessible": 1}),
        ),
        ("hold_area", json!({"id": 9, "op": "hold_area", "key": "k", "event": EVENT, "area": 1, "quantity": 200})),
        ("extend", json!({"id": 10, "op": "extend", "key": "k", "hold": HOLD})),
        ("release_all", json!({"id": 11, "op": "release", "key": "k", "hold": HOLD})),
        (
            "release_some",
            json!({"id": 11, "op": "release", "key": "k", "hold": HOLD, "seats": [5],
                "areas": [{"area": 0, "quantity": 2}]}),
        ),
        ("unlock", json!({"id": 12, "op": "unlock", "key": "k", "event": EVENT, "code": "FANS-2026"})),
        ("admit", json!({"id": 13, "op": "admit", "key": "k", "event": EVENT, "admission": "opaque"})),
        (
            "checkout",
            json!({"id": 14, "op": "checkout", "key": "k", "hold": HOLD, "buyer": {"name": "Zoë", "email": "z@example.org"},
                "payment": {"method": "pm_card_visa"}, "expect_total_minor": 9_000}),
        ),
        ("pay", json!({"id": 15, "op": "pay", "key": "k", "order": ORDER, "payment": {"method": "pm_card_visa"}})),
        ("cancel", json!({"id": 16, "op": "cancel", "key": "k", "order": ORDER})),
        ("order", json!({"id": 17, "op": "order", "order": ORDER})),
        (
            "waitlist_join",
            json!({"id": 18, "op": "waitlist_join", "key": "k", "event": EVENT, "quantity": 2, "price_tiers": ["A"]}),
        ),
        ("waitlist_leave", json!({"id": 19, "op": "waitlist_leave", "key": "k", "event": EVENT, "quantity": 2})),
        ("room_watch", json!({"id": 20, "op": "room_watch", "event": EVENT})),
        ("room_unwatch", json!({"id": 21, "op": "room_unwatch", "event": EVENT})),
    ]
}

type Bad = (&'static str, String, ErrorCode, Option<&'static str>);

fn bad_commands() -> Vec<Bad> {
    use ErrorCode::{BadField, BadJson, UnknownOp};
    let field = |name, text: Value, path| (name, text.to_string(), BadField, Some(path));
    let hold = |seats: Value| json!({"id": 1, "op": "hold", "key": "k", "event": EVENT, "seats": seats});
    vec![
        ("not_json", "{\"id\":1".to_owned(), BadJson, None),
        ("not_an_object", "[1]".to_owned(), BadJson, None),
        ("op_unknown", json!({"id": 1, "op": "buy"}).to_string(), UnknownOp, None),
        field("id_missing", json!({"op": "ping"}), "/id"),
        field("id_too_large", json!({"id": 4_294_967_296_u64, "op": "ping"}), "/id"),
        field("id_negative", json!({"id": -1, "op": "ping"}), "/id"),
        field("op_missing", json!({"id": 1}), "/op"),
        field("op_number", json!({"id": 1, "op": 2}), "/op"),
        field("event_missing", json!({"id": 1, "op": "subscribe"}), "/event"),
        field("event_of_another_kind", json!({"id": 1, "op": "subscribe", "event": HOLD}), "/event"),
        field("key_missing", json!({"id": 1, "op": "extend", "hold": HOLD}), "/key"),
        field("key_empty", json!({"id": 1, "op": "extend", "hold": HOLD, "key": ""}), "/key"),
        field("key_too_long", json!({"id": 1, "op": "extend", "hold": HOLD, "key": "x".repeat(65)}), "/key"),
        field("key_not_ascii", json!({"id": 1, "op": "extend", "hold": HOLD, "key": "ö"}), "/key"),
        field("seats_empty", hold(json!([])), "/seats"),
        field("seats_repeated", hold(json!([1, 2, 1])), "/seats/2"),
        field("seats_negative", hold(json!([1, -2])), "/seats/1"),
        field("seats_not_a_list", hold(json!("1")), "/seats"),
        field("seats_too_many", hold(json!((0..201).collect::<Vec<_>>())), "/seats"),
        field(
            "quantity_zero",
            json!({"id": 1, "op": "hold_area", "key": "k", "event": EVENT, "area": 0, "quantity": 0}),
            "/quantity",
        ),
    ]
}

fn id<T: std::str::FromStr>(text: &str) -> T {
    text.parse().ok().expect("a good id")
}

fn lines() -> Vec<Line> {
    let line = |seat: Option<u32>, area: Option<u32>, quantity| Line {
        seat: seat.map(SeatIndex),
        area: area.map(AreaIndex),
        quantity,
        price_tier: "A".into(),
        price_minor: 4_000,
        fee_minor: 250,
    };
    vec![line(Some(17), None, 1), line(None, Some(0), 3)]
}

fn hold() -> Hold {
    Hold {
        id: id(HOLD),
        event: id(EVENT),
        lines: lines(),
        total_minor: 17_000,
        currency: id("EUR"),
        expires_ms: SERVER_MS + 600_000,
        server_ms: SERVER_MS,
        extended: false,
        locked: false,
        offer: false,
    }
}

fn order(state: OrderState) -> Order {
    Order {
        id: id(ORDER),
        reference: "K7QM2XPA".into(),
        event: id(EVENT),
        state,
        lines: lines(),
        total_minor: 17_000,
        refunded_minor: 0,
        currency: id("EUR"),
        tickets: None,
        action: None,
        decline: None,
        pay_url: format!("/orders/{ORDER}#s=secret"),
        created_ms: SERVER_MS,
    }
}

fn orders() -> Vec<(&'static str, Order)> {
    let ticket = |number: u8, seat: Option<u32>, area: Option<u32>| Ticket {
        id: id(&format!("tkt_01h455vb4pex5vsknk084sn0{number:02}")),
        code: format!("CODE{number}"),
        seat: seat.map(SeatIndex),
        area: area.map(AreaIndex),
        state: TicketState::Valid,
        qr: None,
    };
    let tickets = Some(vec![ticket(20, Some(17), None), ticket(21, None, Some(0))]);
    let redirect = Some(Action::Redirect { url: "https://pay.example/3ds".into() });
    let secret = Some(Action::ClientSecret { value: "cs_1".into() });
    let decline = Some(Decline { reason: "insufficient_funds".into() });
    vec![
        ("order_paid", Order { tickets, ..order(OrderState::Paid) }),
        ("order_redirect", Order { action: redirect, ..order(OrderState::ActionRequired) }),
        ("order_secret", Order { action: secret, ..order(OrderState::ActionRequired) }),
        ("order_declined", Order { decline, ..order(OrderState::PaymentDeclined) }),
        ("order_unknown", order(OrderState::PaymentUnknown)),
    ]
}

fn replies() -> Vec<Value> {
    let mut replies = Vec::new();
    let mut push = |name: &str, kind: &str, reply: Reply| {
        replies.push(json!({"name": name, "type": kind, "text": reply.to_text()}));
    };
    fn ok<T: Serialize>(body: &T) -> Reply {
        Reply::ok(7, body).expect("plain data")
    }
    let at = |mut reply: Reply| {
        reply.position = Some(Position { epoch: 3, seq: 5_000_000_001 });
        reply
    };
    let hello = HelloReply {
        session: id("ses_01h455vb4pex5vsknk084sn02t"),
        node: id("nod_01h455vb4pex5vsknk084sn02v"),
        server_ms: SERVER_MS,
        identity: Some(id("idn_01h455vb4pex5vsknk084sn02w")),
        heartbeat_ms: 20_000,
        budget: Budget { burst: 30, per_s: 10 },
        max_command_bytes: 4_096,
        holds: vec![hold()],
        orders: vec![order(OrderState::PaymentUnknown)],
    };
    push("hello", "hello", ok(&hello));
    push("hello_anonymous", "hello", ok(&HelloReply { identity: None, holds: vec![], orders: vec![], ..hello }));
    push("ping", "ping", ok(&PingReply { t0: json!(12.5), t1: SERVER_MS, t2: SERVER_MS + 1 }));
    let subscribed = SubscribeReply {
        channel: 7,
        event: id(EVENT),
        layout: "44136fa355b3678a1146ad16f7e8649e".into(),
        seat_count: 70_000,
        area_count: 2,
        epoch: 3,
        seq: 5_000_000_000,
        recovered: false,
    };
    push("subscribe", "subscribe", ok(&subscribed));
    push("unsubscribe", "empty", ok(&json!({})));
    push("hold", "hold", at(ok(&HoldReply { hold: Some(hold()) })));
    push("release_all", "hold", at(ok(&HoldReply { hold: None })));
    let best = HoldBestReply { hold: hold(), added: vec![SeatIndex(17)], together: true };
    push("hold_best", "hold_best", at(ok(&best)));
    push("replayed", "hold", Reply { is_replayed: true, ..at(ok(&HoldReply { hold: Some(hold()) })) });
    let allocation = UnlockedAllocation {
        id: id("alc_01h455vb4pex5vsknk084sn02x"),
        name: "Fan club".into(),
        until_ms: SERVER_MS + 86_400_000,
    };
    let seats = "OjAAAAEAAAAAAAEAEAAAAAEAAwA=".to_owned();
    push("unlock", "unlock", at(ok(&UnlockReply { allocation, seats })));
    for (name, order) in orders() {
        push(name, "order", ok(&OrderReply { order }));
    }
    let taken = ErrorObject::new(ErrorCode::SeatTaken, "seat 17 is taken")
        .with_data(json!({"seats": [17], "alternatives": [[18, 19], [40, 41]]}));
    push("seat_taken", "error", at(Reply::error(Some(7), taken)));
    let limited = ErrorObject::new(ErrorCode::RateLimited, "slow down").with_retry_after_ms(250);
    push("rate_limited", "error", Reply::error(Some(8), limited));
    push("id_null", "error", Reply::error(None, ErrorObject::new(ErrorCode::BadJson, "not a JSON object")));
    for code in ErrorCode::ALL {
        let reply = Reply::error(Some(9), ErrorObject::new(*code, "for developers"));
        push(&format!("code_{code}"), "error", reply);
    }
    replies
}

fn pushes() -> Vec<Value> {
    let tier = PriceTier {
        code: "A".into(),
        name: "Best".into(),
        color: "#b5179e".into(),
        price_minor: 4_000,
        fee_minor: 250,
    };
    let mut pushes = vec![
        Push::HoldUpdate { id: id(HOLD), hold: Some(hold()) },
        Push::HoldUpdate { id: id(HOLD), hold: None },
        Push::HoldExpiring { hold: hold() },
        Push::HoldExpired { hold: hold() },
        Push::HoldRevoked { hold: hold(), reason: "the organiser took the seats back".into() },
        Push::WaitlistOffer { hold: Hold { offer: true, ..hold() } },
        Push::RoomPlace { event: id(EVENT), place: 1_234 },
        Push::BudgetLow { remaining: 3, per_s: 10 },
        Push::EventState { event: id(EVENT), state: EventState::Paused, reason: Some("weather".into()) },
        Push::EventState { event: id(EVENT), state: EventState::OnSale, reason: None },
        Push::PriceChange { event: id(EVENT), price_tiers: vec![tier] },
        Push::LayoutChange { event: id(EVENT), layout: "44136fa355b3678a1146ad16f7e8649e".into(), seat_count: 70_004 },
        Push::ServerDrain { after_ms: 10_000, jitter_ms: 5_000 },
    ];
    pushes.extend(orders().into_iter().map(|(_, order)| Push::OrderUpdate { order }));
    let named = pushes.iter().map(|push| {
        let value = serde_json::to_value(push).expect("plain data");
        json!({"name": value["push"], "text": value.to_string()})
    });
    named.collect()
}
