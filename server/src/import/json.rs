//! Walking foreign JSON: every step knows its JSON Pointer, so that a refusal says where.

use super::ImportError;
use serde_json::Value;

/// Parses a file.
pub(super) fn parse(bytes: &[u8]) -> Result<Value, ImportError> {
    serde_json::from_slice(bytes).map_err(|error| {
        let why = error.to_string();
        let why = why.split(" at line ").next().unwrap_or_default().to_owned();
        ImportError::new(format!("line {} column {}", error.line(), error.column()), format!("not JSON: {why}"))
    })
}

/// A value and where it stands.
#[derive(Debug, Clone)]
pub(super) struct Node<'a> {
    pub(super) value: &'a Value,
    pub(super) at: String,
}

impl<'a> Node<'a> {
    pub(super) const fn root(value: &'a Value) -> Self {
        Self { value, at: String::new() }
    }

    /// A refusal of this place.
    pub(super) fn refuse(&self, why: impl Into<String>) -> ImportError {
        let at = if self.at.is_empty() { "/" } else { &self.at };
        ImportError::new(at, why)
    }

    /// A member that is there and not null.
    pub(super) fn get(&self, key: &str) -> Option<Node<'a>> {
        let value = self.value.get(key).filter(|value| !value.is_null())?;
        Some(Node { value, at: format!("{}/{key}", self.at) })
    }

    /// A member that must be there.
    pub(super) fn need(&self, key: &str) -> Result<Node<'a>, ImportError> {
        self.get(key).ok_or_else(|| self.refuse(format!("{key} is missing")))
    }

    /// The elements of a list member; none when it is absent.
    pub(super) fn list(&self, key: &str) -> Result<Vec<Node<'a>>, ImportError> {
        let Some(list) = self.get(key) else { return Ok(Vec::new()) };
        let values = list.value.as_array().ok_or_else(|| list.refuse("expected a list"))?;
        Ok(values.iter().enumerate().map(|(i, value)| Node { value, at: format!("{}/{i}", list.at) }).collect())
    }

    /// Text or a number as text; `None` for what is absent.
    pub(super) fn text(&self, key: &str) -> Result<Option<String>, ImportError> {
        let Some(node) = self.get(key) else { return Ok(None) };
        match node.value {
            Value::String(text) => Ok(Some(text.trim().to_owned())),
            Value::Number(number) => Ok(Some(number.to_string())),
            _ => Err(node.refuse("expected text")),
        }
    }

    /// Text that must be there and not be blank.
    pub(super) fn need_text(&self, key: &str, what: &str) -> Result<String, ImportError> {
        self.text(key)?.filter(|text| !text.is_empty()).ok_or_else(|| self.refuse(format!("{what} has no {key}")))
    }

    pub(super) fn number(&self, key: &str) -> Result<Option<f64>, ImportError> {
        let Some(node) = self.get(key) else { return Ok(None) };
        // Some editors write numbers as text.
        let number = match node.value {
            Value::String(text) => text.trim().parse::<f64>().ok(),
            other => other.as_f64(),
        };
        match number {
            Some(number) if number.is_finite() => Ok(Some(number)),
            _ => Err(node.refuse("expected a number")),
        }
    }

    pub(super) fn flag(&self, key: &str) -> bool {
        self.value.get(key).and_then(Value::as_bool).unwrap_or(false)
    }

    /// x and y of this object, both needed.
    pub(super) fn point(&self) -> Result<(f64, f64), ImportError> {
        match (self.number("x")?, self.number("y")?) {
            (Some(x), Some(y)) => Ok((x, y)),
            _ => Err(self.refuse("x and y are needed")),
        }
    }

    /// The point under `key`; (0, 0) when it is absent.
    pub(super) fn point_or_zero(&self, key: &str) -> Result<(f64, f64), ImportError> {
        self.get(key).map_or(Ok((0.0, 0.0)), |node| node.point())
    }

    /// The points of a list.
    pub(super) fn points(&self, key: &str) -> Result<Vec<(f64, f64)>, ImportError> {
        self.list(key)?.iter().map(Node::point).collect()
    }
}
