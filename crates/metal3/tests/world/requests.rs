//! The requests that a server has received, from its audit log.

use std::collections::BTreeSet;
use std::fmt;

use insula_testkit::server::AuditLog;
use serde_json::Value;

/// A request to a resource.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Request {
    pub user: String,
    pub verb: String,
    pub resource: String,
    pub namespace: String,
    pub name: String,
}

impl fmt::Display for Request {
    /// Verb, resource and namespace, such as `list baremetalhosts pool-a`.
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{} {} {}", self.verb, self.resource, self.namespace)
    }
}

/// Returns all requests to resources, in the order of their events. A watch has two.
pub fn requests(log: &AuditLog) -> anyhow::Result<Vec<Request>> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let events = log.events()?;
    let events = events.iter().filter(|event| event["objectRef"].is_object());
    let requests = events.map(|event| {
        let object = &event["objectRef"];
        let mut resource = text(&object["resource"]);
        if let Some(part) = object["subresource"].as_str() {
            resource = format!("{resource}/{part}");
        }
        Request {
            user: text(&event["user"]["username"]),
            verb: text(&event["verb"]),
            resource,
            namespace: text(&object["namespace"]),
            name: text(&object["name"]),
        }
    });
    Ok(requests.collect())
}

/// Returns the different requests of a user as text.
pub fn requests_by(log: &AuditLog, user: &str) -> anyhow::Result<BTreeSet<String>> {
    let all = requests(log)?.into_iter();
    let of_user = all.filter(|request| request.user == user);
    Ok(of_user.map(|request| request.to_string()).collect())
}

/// Returns the users that have sent requests to a resource.
pub fn users_of(log: &AuditLog, resource: &str) -> anyhow::Result<BTreeSet<String>> {
    let all = requests(log)?.into_iter();
    let to_resource = all.filter(|request| {
        let (base, _) = request
            .resource
            .split_once('/')
            .unwrap_or((&request.resource, ""));
        base == resource
    });
    Ok(to_resource.map(|request| request.user).collect())
}
