//! Checks of a broker and of the clusters that have joined it.
//!
//! The state is read first; every check then is a function of it.

mod checks;
mod snapshot;
#[cfg(test)]
mod tests;

use kube::Client;
use serde::Serialize;

use crate::columns;
use crate::error::Error;

use self::snapshot::Snapshot;

/// The clients of a diagnosis.
pub struct DiagnoseClients {
    /// The broker, with the administrator's credentials from the file.
    pub broker: Client,
    /// A cluster that has joined, with administrator rights, if it is checked too.
    pub member: Option<Client>,
}

/// The broker that is checked.
#[derive(Clone, Debug)]
pub struct Target {
    /// The broker's URL.
    pub url: String,
    /// The broker's namespace.
    pub namespace: String,
}

/// The result of one check.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Check {
    /// The name of the check.
    pub name: &'static str,
    /// Whether it succeeded.
    pub result: Outcome,
    /// A sentence about what was found.
    pub message: String,
    /// What to do, if the check failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
}

/// The outcome of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Outcome {
    /// Nothing is wrong.
    Ok,
    /// Something is wrong, or could not be read.
    Failed,
    /// An earlier check failed that this one depends on.
    Skipped,
}

/// The names of the checks, in their order.
const NAMES: [&str; 12] = [
    "broker-reachable",
    "credentials",
    "permissions",
    "kinds",
    "broker",
    "clusters",
    "endpoints",
    "globalnet",
    "clusterset-ips",
    "cluster-cidrs",
    "names",
    "member",
];

impl Check {
    fn ok(name: &'static str, message: impl Into<String>) -> Self {
        Self {
            name,
            result: Outcome::Ok,
            message: message.into(),
            hint: None,
        }
    }

    fn failed(name: &'static str, message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self {
            name,
            result: Outcome::Failed,
            message: message.into(),
            hint: Some(hint.into()),
        }
    }

    fn of_error(name: &'static str, error: &Error) -> Self {
        Self {
            name,
            result: Outcome::Failed,
            message: error.to_string(),
            hint: error.hint(),
        }
    }

    /// A check that fails if there are problems.
    fn of_problems(
        name: &'static str,
        problems: &[String],
        good: impl Into<String>,
        hint: &str,
    ) -> Self {
        match problems.is_empty() {
            true => Self::ok(name, good),
            false => Self::failed(name, problems.join("; "), hint),
        }
    }

    fn skipped(name: &'static str, because: &str) -> Self {
        Self {
            name,
            result: Outcome::Skipped,
            message: format!("depends on {because}"),
            hint: None,
        }
    }
}

/// Checks a broker, and a member if there is one.
pub async fn diagnose(clients: &DiagnoseClients, target: &Target) -> Vec<Check> {
    let [reachable, credentials, ..] = NAMES;
    let mut results = Vec::new();
    match snapshot::reach(&clients.broker, target).await {
        Ok(message) => results.push(Check::ok(reachable, message)),
        Err(error) => results.push(Check::of_error(reachable, &error)),
    }
    if results[0].result == Outcome::Ok {
        match snapshot::authenticate(&clients.broker, target).await {
            Ok(message) => results.push(Check::ok(credentials, message)),
            Err(error) => results.push(Check::of_error(credentials, &error)),
        }
    }
    let fatal = results.iter().find(|check| check.result != Outcome::Ok);
    if let Some(because) = fatal.map(|check| check.name) {
        let rest = NAMES[results.len()..].iter();
        let rest = rest.filter(|name| clients.member.is_some() || **name != "member");
        results.extend(rest.map(|name| Check::skipped(name, because)));
        return results;
    }
    let snapshot = Snapshot::read(clients, target).await;
    results.extend(checks::all(&snapshot, target));
    results
}

/// Formats the checks, one line each.
pub fn table(checks: &[Check]) -> String {
    let width = NAMES
        .iter()
        .map(|name| name.len())
        .max()
        .unwrap_or_default();
    let mut text = String::new();
    for check in checks {
        let result = match check.result {
            Outcome::Ok => "ok",
            Outcome::Failed => "failed",
            Outcome::Skipped => "skipped",
        };
        let hint = check.hint.iter().map(|hint| format!(" (hint: {hint})"));
        let detail = format!("{}{}", check.message, hint.collect::<String>());
        // Names come from objects of tenants.
        let detail: String = detail.chars().map(columns::sanitize).collect();
        text.push_str(&format!(
            "{result:<7}   {:<width$}   {detail}\n",
            check.name
        ));
    }
    text
}
