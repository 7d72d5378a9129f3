//! Form-encoded parameters with bracketed names, as Stripe's libraries send them: `metadata[order]=..`, `expand[]=..`.

use std::collections::BTreeMap;

/// Parsed parameters, in the order they came.
#[derive(Debug, Clone, Default)]
pub(super) struct Form(Vec<(String, String)>);

impl Form {
    /// Parses a body or a query.
    #[must_use]
    pub(super) fn parse(bytes: &[u8]) -> Self {
        Self(form_urlencoded::parse(bytes).map(|(name, value)| (name.into_owned(), value.into_owned())).collect())
    }

    /// The last value of a name, if it is not empty.
    #[must_use]
    pub(super) fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().rev().find(|(n, _)| n == name).map(|(_, value)| value.as_str()).filter(|value| !value.is_empty())
    }

    /// Whether a flag is `true`.
    #[must_use]
    pub(super) fn is_true(&self, name: &str) -> bool {
        self.get(name) == Some("true")
    }

    /// Values of `name[]` and `name[0]`, ...
    #[must_use]
    pub(super) fn list(&self, name: &str) -> Vec<String> {
        self.0
            .iter()
            .filter(|(n, _)| n.strip_prefix(name).is_some_and(|rest| rest.starts_with('[') && rest.ends_with(']')))
            .map(|(_, value)| value.clone())
            .collect()
    }

    /// Entries of `name[key]`.
    #[must_use]
    pub(super) fn map(&self, name: &str) -> BTreeMap<String, String> {
        self.0
            .iter()
            .filter_map(|(n, value)| {
                let key = n.strip_prefix(name)?.strip_prefix('[')?.strip_suffix(']')?;
                Some((key.to_owned(), value.clone()))
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn brackets_make_lists_and_maps() {
        let form =
            Form::parse(b"amount=100&metadata[order]=ord_1&metadata%5Bn%5D=2&expand[]=latest_charge&expand[1]=x&e=");
        assert_eq!(form.get("amount"), Some("100"));
        assert_eq!(form.get("e"), None);
        assert_eq!(form.list("expand"), ["latest_charge", "x"]);
        assert_eq!(
            form.map("metadata").into_iter().collect::<Vec<_>>(),
            [("n".to_owned(), "2".to_owned()), ("order".to_owned(), "ord_1".to_owned())]
        );
    }
}
