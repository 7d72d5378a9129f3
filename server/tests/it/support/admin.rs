//! An operator: a key of the stage's store and the admin listener of a node.

use super::node::Node;
use super::stage::Stage;
use seatwire::clock::Clock;
use seatwire::organiser::{Scope, key};
use serde_json::Value;

/// Calls the admin listener of one node with one key.
#[derive(Debug, Clone)]
pub(crate) struct Admin {
    pub(crate) url: String,
    pub(crate) key: String,
}

impl Admin {
    /// With a new key of these scopes.
    pub(crate) async fn new(stage: &Stage, node: &Node, scopes: &[Scope]) -> Self {
        let made = key::create(&stage.store, "test", scopes, Clock::system().now_ms()).await.expect("a key");
        Self { url: node.admin_url.clone(), key: made.key.reveal().to_owned() }
    }

    /// At the listener of the doors, with a new key that opens nothing but them.
    pub(crate) async fn door(stage: &Stage, node: &Node) -> Self {
        Self { url: node.door_url.clone(), ..Self::new(stage, node, &[Scope::Door]).await }
    }

    /// Status and body of a call.
    pub(crate) async fn call(&self, method: &str, path: &str, body: Value) -> (u16, Value) {
        let method = method.parse::<reqwest::Method>().expect("a method");
        let mut request = reqwest::Client::new().request(method, format!("{}{path}", self.url)).bearer_auth(&self.key);
        if !body.is_null() {
            request = request.json(&body);
        }
        let response = request.send().await.expect("answers");
        (response.status().as_u16(), response.json().await.expect("JSON"))
    }

    /// The body of a call that is done.
    pub(crate) async fn done(&self, method: &str, path: &str, body: Value) -> Value {
        let (status, answer) = self.call(method, path, body).await;
        assert_eq!(status, 200, "{method} {path}: {answer}");
        answer
    }
}
