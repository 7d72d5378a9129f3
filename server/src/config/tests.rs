use super::*;

#[test]
fn an_empty_environment_is_the_documented_defaults() {
    let config = Config::from_pairs([]).expect("defaults fit");
    assert_eq!(config.listen.to_string(), "127.0.0.1:8080");
    assert_eq!(config.admin_listen.to_string(), "127.0.0.1:8081");
    assert_eq!(config.door_listen.to_string(), "127.0.0.1:8082");
    assert!(config.database_url.is_none() && config.redis_url.is_none());
}

#[test]
fn the_real_provider_needs_a_key_which_nothing_shows() {
    let stripe = ("SEATWIRE_PAYMENT_PROVIDER", "stripe");
    let error = Config::from_pairs([stripe]).expect_err("no key").to_string();
    assert!(error.starts_with("SEATWIRE_PAYMENT_KEY"), "{error}");
    let secrets = ("SEATWIRE_WEBHOOK_SECRETS", "whsec_new, whsec_old");
    let config = Config::from_pairs([stripe, ("SEATWIRE_PAYMENT_KEY", "sk_live_x"), secrets]).expect("fits");
    assert_eq!(config.checkout.payment_url.as_deref(), Some("https://api.stripe.com"));
    assert_eq!(config.checkout.webhook_secrets.len(), 2);
    let shown = format!("{config:?}");
    assert!(!shown.contains("sk_live_x") && !shown.contains("whsec_"), "{shown}");
}

#[test]
fn a_bad_value_is_one_line_that_names_the_variable() {
    for (name, value) in [
        ("SEATWIRE_LISTEN", "8080"),
        ("SEATWIRE_DOOR_LISTEN", "everywhere"),
        ("SEATWIRE_DB_CONNECTIONS", "many"),
        ("SEATWIRE_DB_CONNECTIONS", "0"),
        ("SEATWIRE_HEARTBEAT_MS", "-1"),
        ("SEATWIRE_LIMIT_LOOPBACK", "yes"),
        ("SEATWIRE_TRUSTED_PROXIES", "10.0.0.0/8, proxy"),
        ("SEATWIRE_TICK_MIN_MS", "900"),
        ("SEATWIRE_LOG_KEPT_DAYS", "3"),
        ("SEATWIRE_PAYMENT_PROVIDER", "cash"),
        ("SEATWIRE_UNKNOWN_IDLE_MS", "19999"),
        ("SEATWIRE_UNKNOWN_IDLE_MS", "300001"),
        ("SEATWIRE_UNKNOWN_SOFT_MS", "900001"),
    ] {
        let error = Config::from_pairs([(name, value)]).expect_err(name).to_string();
        assert!(error.starts_with(name) && !error.contains('\n'), "{error}");
    }
}

#[test]
fn the_half_minute_of_an_idle_payment_lies_between_the_longest_wait_and_the_soft_deadline() {
    let idle = |timeout_ms, soft_ms| {
        Config::from_pairs([("SEATWIRE_PAYMENT_TIMEOUT_MS", timeout_ms), ("SEATWIRE_UNKNOWN_SOFT_MS", soft_ms)])
            .map(|config| config.checkout.unknown_idle.as_millis())
    };
    assert_eq!(idle("20000", "300000").expect("fits"), 30_000);
    assert_eq!(idle("120000", "300000").expect("fits"), 120_000, "as long as an answer is waited for");
    assert_eq!(idle("500", "2000").expect("fits"), 2_000, "nothing is left to do behind the soft deadline");
    let error = idle("2001", "2000").expect_err("nothing lies between").to_string();
    assert!(error.starts_with("SEATWIRE_PAYMENT_TIMEOUT_MS") && error.contains("SOFT"), "{error}");
}

#[test]
fn a_secret_is_not_shown() {
    let config =
        Config::from_pairs([("DATABASE_URL", "postgres://u:hunter2@h/d"), ("SEATWIRE_PAYMENT_KEY", "sk_live_x")])
            .expect("fits");
    let shown = format!("{config:?}");
    assert!(!shown.contains("hunter2") && !shown.contains("sk_live_x"), "{shown}");
}
