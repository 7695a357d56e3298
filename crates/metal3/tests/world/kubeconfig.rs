//! Kubeconfigs.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use insula_testkit::server::TestServer;
use serde_json::{Value, json};

/// A context with its user.
#[derive(Clone, Copy, Debug)]
pub struct Entry<'a> {
    pub context: &'a str,
    pub token: &'a str,
    pub namespace: &'a str,
}

impl<'a> Entry<'a> {
    pub fn new(context: &'a str, token: &'a str, namespace: &'a str) -> Self {
        Self {
            context,
            token,
            namespace,
        }
    }
}

/// Returns a kubeconfig with these contexts of one server. The first one is the current one.
pub fn kubeconfig(server: &TestServer, entries: &[Entry<'_>]) -> Value {
    let authority = STANDARD.encode(server.authority().certificate_pem());
    let users = entries
        .iter()
        .map(|entry| json!({"name": entry.context, "user": {"token": entry.token}}));
    let contexts = entries.iter().map(|entry| {
        let (user, namespace) = (entry.context, entry.namespace);
        let context = json!({"cluster": "server", "user": user, "namespace": namespace});
        json!({"name": entry.context, "context": context})
    });
    json!({
        "apiVersion": "v1", "kind": "Config",
        "current-context": entries.first().map(|entry| entry.context),
        "clusters": [{"name": "server", "cluster": {
            "server": server.url(), "certificate-authority-data": authority,
        }}],
        "users": users.collect::<Vec<_>>(),
        "contexts": contexts.collect::<Vec<_>>(),
    })
}
