//! Pages of lists, newest first, by the ids of their ends: `limit`, `starting_after`, `ending_before`.

use super::form::Form;
use super::reply::Reply;
use serde_json::{Value, json};

const DEFAULT_LIMIT: usize = 10;
const MAX_LIMIT: usize = 100;

/// Which page.
#[derive(Debug, Clone)]
pub(super) struct Page {
    limit: usize,
    starting_after: Option<String>,
    ending_before: Option<String>,
}

impl Page {
    /// Reads the query.
    #[must_use]
    pub(super) fn of(form: &Form) -> Self {
        let limit = form.get("limit").and_then(|text| text.parse().ok()).unwrap_or(DEFAULT_LIMIT);
        Self {
            limit: limit.clamp(1, MAX_LIMIT),
            starting_after: form.get("starting_after").map(str::to_owned),
            ending_before: form.get("ending_before").map(str::to_owned),
        }
    }

    /// The page of `items`, which come newest first.
    pub(super) fn reply<'a, T: 'a>(
        &self,
        url: &str,
        items: impl DoubleEndedIterator<Item = (&'a str, &'a T)>,
        is_wanted: impl Fn(&T) -> bool,
        to_json: impl Fn(&T) -> Value,
    ) -> Reply {
        let mut data = Vec::new();
        let mut has_more = false;
        let mut is_known = self.starting_after.is_none() && self.ending_before.is_none();
        let mut take = |item: &T| {
            if !is_wanted(item) {
                return false;
            }
            has_more = data.len() == self.limit;
            if !has_more {
                data.push(to_json(item));
            }
            has_more
        };
        if let Some(end) = &self.ending_before {
            // The page just above `end`, still newest first.
            for (id, item) in items.rev() {
                if is_known {
                    if take(item) {
                        break;
                    }
                } else {
                    is_known = id == end;
                }
            }
            data.reverse();
        } else {
            for (id, item) in items {
                if is_known {
                    if take(item) {
                        break;
                    }
                } else {
                    is_known = self.starting_after.as_deref() == Some(id);
                }
            }
        }
        if !is_known {
            return Reply::error(
                400,
                "invalid_request_error",
                Some("resource_missing"),
                "No such object to begin from",
            );
        }
        Reply::ok(json!({"object": "list", "url": url, "has_more": has_more, "data": data}))
    }
}
