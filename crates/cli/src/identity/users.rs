//! `insula identity users`.

use clap::ValueEnum;
use insula_vsphere::users::{self, User, Users};
use kube::Client;

use super::to_failure;
use crate::failure::Failure;
use crate::{output, terminal};

/// The arguments.
#[derive(clap::Args)]
pub struct Args {
    /// Identity: a vsphereclusteridentity
    #[arg(value_name = "KIND/NAME", value_parser = identity)]
    identity: String,

    /// Output format
    #[arg(short, long, value_enum, default_value = "table")]
    output: Format,
}

/// The output formats.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    /// Columns
    Table,
    /// JSON
    Json,
    /// YAML
    Yaml,
    /// Names of the users, as kubectl accepts them
    Name,
}

/// Shows the users of an identity.
pub async fn run(client: &Client, args: Args) -> Result<(), Failure> {
    let found = users::list(client, &args.identity).await;
    let found = found.map_err(|error| to_failure(&error))?;
    output::print(&match args.output {
        Format::Table => table(&found),
        Format::Json => {
            let value = serde_json::to_value(&found);
            let value = value.map_err(|error| Failure::new("cannot write JSON", error))?;
            format!("{value:#}\n")
        }
        Format::Yaml => output::yaml(&found)?,
        Format::Name => found.users.iter().map(named).collect(),
    })
}

fn columns(users: &[User]) -> String {
    let mut rows = vec![["KIND", "NAMESPACE", "NAME", "AVAILABLE", "REASON"].map(str::to_owned)];
    rows.extend(users.iter().map(|user| {
        let text = |text: &Option<String>| text.clone().unwrap_or_else(|| "-".to_owned());
        [
            user.kind.to_owned(),
            text(&user.namespace),
            user.name.clone(),
            user.available.to_string(),
            text(&user.reason),
        ]
    }));
    let rows: Vec<_> = rows.iter().map(<[String; 5]>::as_slice).collect();
    output::table(&rows)
}

fn table(found: &Users) -> String {
    let mut text = match found.users.is_empty() {
        true => format!("nothing uses {}\n", found.identity),
        false => columns(&found.users),
    };
    let unknown = found.not_read.iter().any(|what| what == users::NAMESPACES);
    text += &match (&found.trouble, found.allowed_namespaces.as_slice()) {
        (Some(trouble), _) => format!("no namespace may use it: {trouble}\n"),
        (None, _) if unknown => "which namespaces may use it is not known\n".to_owned(),
        (None, []) => "no namespace may use it\n".to_owned(),
        (None, names) => format!("namespaces that may use it: {}\n", names.join(", ")),
    };
    if !found.refused.is_empty() {
        text += "objects that name it but may not use it:\n";
        text += &columns(&found.refused);
    }
    for what in &found.not_read {
        text += &format!("note: you may not list {what}\n");
    }
    terminal::sanitize(&text)
}

/// Formats a name such as `vspherecluster.infrastructure.cluster.x-k8s.io/prod`.
fn named(user: &User) -> String {
    let kind = user.kind.to_lowercase();
    let group = insula_vsphere::names::GROUP;
    format!("{kind}.{group}/{}\n", user.name)
}

fn identity(text: &str) -> Result<String, String> {
    let read = text.split_once('/').filter(|(kind, name)| {
        let kind = kind.to_ascii_lowercase();
        let known = ["vsphereclusteridentity", "vsphereclusteridentities"];
        known.contains(&kind.as_str()) && !name.is_empty() && !name.contains('/')
    });
    let read = read.map(|(_, name)| name.to_owned());
    read.ok_or_else(|| {
        "expected a kind and a name such as vsphereclusteridentity/shared; it is the only kind"
            .to_owned()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(users: Vec<User>, allowed: &[&str], not_read: &[&str]) -> Users {
        let is_refused = |user: &User| user.reason.as_deref() == Some("NamespaceNotAllowed");
        let (refused, users) = users.into_iter().partition(is_refused);
        let owned = |words: &[&str]| words.iter().map(|&word| word.to_owned()).collect();
        Users {
            identity: "shared".to_owned(),
            users,
            refused,
            allowed_namespaces: owned(allowed),
            trouble: None,
            not_read: owned(not_read),
        }
    }

    #[test]
    fn users_are_shown_in_columns_with_allowed_namespaces() {
        let user = |kind, namespace: Option<&str>, reason: Option<&str>| User {
            kind,
            namespace: namespace.map(str::to_owned),
            name: "prod".to_owned(),
            available: reason == Some("Available"),
            reason: reason.map(str::to_owned),
        };
        let users = vec![
            user("VSphereCluster", Some("red"), Some("Available")),
            user("VSphereCluster", Some("grey"), Some("NamespaceNotAllowed")),
            user("VSphereDeploymentZone", None, None),
        ];
        assert_eq!(
            table(&found(users, &["blue", "red"], &[])),
            "KIND                    NAMESPACE   NAME   AVAILABLE   REASON\n\
             VSphereCluster          red         prod   true        Available\n\
             VSphereDeploymentZone   -           prod   false       -\n\
             namespaces that may use it: blue, red\n\
             objects that name it but may not use it:\n\
             KIND             NAMESPACE   NAME   AVAILABLE   REASON\n\
             VSphereCluster   grey        prod   false       NamespaceNotAllowed\n"
        );
        assert_eq!(
            table(&found(vec![], &[], &[])),
            "nothing uses shared\nno namespace may use it\n"
        );
        assert_eq!(
            table(&found(vec![], &[], &["Namespaces"])),
            "nothing uses shared\nwhich namespaces may use it is not known\n\
             note: you may not list Namespaces\n"
        );
    }

    #[test]
    fn identity_parses_kind_and_name() {
        let shared = Ok("shared".to_owned());
        assert_eq!(identity("vsphereclusteridentity/shared"), shared);
        assert_eq!(identity("VSphereClusterIdentities/shared"), shared);
        for wrong in [
            "shared",
            "secret/shared",
            "vsphereclusteridentity/",
            "vsphereclusteridentity/a/b",
        ] {
            assert!(
                identity(wrong)
                    .unwrap_err()
                    .starts_with("expected a kind and a name"),
                "{wrong}"
            );
        }
    }
}
