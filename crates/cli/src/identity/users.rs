//! `insula identity users`.

use clap::ValueEnum;
use insula_operator::provider::IdentityKind;
use insula_operator::provider::explain::Inspect;
use insula_operator::provider::users::{self, User, Users};
use kube::Client;

use super::{join, to_failure};
use crate::failure::Failure;
use crate::providers::INSPECTED;
use crate::{output, terminal};

/// The arguments.
#[derive(clap::Args)]
pub struct Args {
    /// Identity: a vsphereclusteridentity
    #[arg(value_name = "KIND/NAME", value_parser = identity)]
    identity: Identity,

    /// Output format
    #[arg(short, long, value_enum, default_value = "table")]
    output: Format,
}

#[derive(Clone)]
struct Identity {
    provider: &'static dyn Inspect,
    kind: &'static IdentityKind,
    name: String,
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
    let Identity {
        provider,
        kind,
        name,
    } = args.identity;
    let found = users::list(client, provider, kind, &name).await;
    let found = found.map_err(|error| to_failure(&error))?;
    output::print(&match args.output {
        Format::Table => table(&found),
        Format::Json => {
            let value = serde_json::to_value(&found);
            let value = value.map_err(|error| Failure::new("cannot write JSON", error))?;
            format!("{value:#}\n")
        }
        Format::Yaml => output::yaml(&found)?,
        // The names of tenants' objects would be those of other objects here.
        Format::Name => {
            let here = found.users.iter().filter(|user| user.tenant.is_none());
            here.map(named).collect()
        }
    })
}

/// Formats users as columns; those of tenants have one more.
fn columns(users: &[User]) -> String {
    let has_tenants = users.iter().any(|user| user.tenant.is_some());
    let mut rows = vec![vec!["KIND", "NAMESPACE", "NAME", "AVAILABLE", "REASON"]];
    let or_dash = |text: &'_ Option<String>| text.clone().unwrap_or_else(|| "-".to_owned());
    let texts: Vec<_> = users
        .iter()
        .map(|user| {
            [
                or_dash(&user.tenant),
                user.kind.to_owned(),
                or_dash(&user.namespace),
                user.name.clone(),
                user.available.to_string(),
                or_dash(&user.reason),
            ]
        })
        .collect();
    rows.extend(
        texts
            .iter()
            .map(|row| row[1..].iter().map(String::as_str).collect()),
    );
    if has_tenants {
        rows[0].insert(0, "TENANT");
        for (row, texts) in rows[1..].iter_mut().zip(&texts) {
            row.insert(0, &texts[0]);
        }
    }
    let rows: Vec<Vec<String>> = rows
        .iter()
        .map(|row| row.iter().map(|&text| text.to_owned()).collect())
        .collect();
    let rows: Vec<_> = rows.iter().map(Vec::as_slice).collect();
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
    if !found.allowed_tenants.is_empty() {
        let names = found.allowed_tenants.join(", ");
        text += &format!("tenants that may use it: {names}\n");
    }
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
    let (kind, group) = (user.kind.to_lowercase(), &user.group);
    format!("{kind}.{group}/{}\n", user.name)
}

fn identity(text: &str) -> Result<Identity, String> {
    let all = INSPECTED
        .iter()
        .filter_map(|provider| Some((*provider, provider.identities()?)));
    let read = text.split_once('/').and_then(|(kind, name)| {
        let is = |(_, known): &(_, &IdentityKind)| {
            let plural = (known.resource)().plural;
            kind.eq_ignore_ascii_case(known.kind) || kind.eq_ignore_ascii_case(&plural)
        };
        let (provider, kind) = all.clone().find(is)?;
        let name = name.to_owned();
        let is_name = !name.is_empty() && !name.contains('/');
        is_name.then_some(Identity {
            provider,
            kind,
            name,
        })
    });
    read.ok_or_else(|| {
        let kinds: Vec<_> = all
            .clone()
            .map(|(_, known)| known.kind.to_ascii_lowercase())
            .collect();
        format!(
            "expected a kind and a name such as vsphereclusteridentity/shared; kinds are {}",
            join(&kinds)
        )
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
            allowed_tenants: Vec::new(),
            trouble: None,
            not_read: owned(not_read),
        }
    }

    #[test]
    fn users_are_shown_in_columns_with_allowed_namespaces() {
        let user = |kind, namespace: Option<&str>, reason: Option<&str>| User {
            kind,
            group: "infrastructure.cluster.x-k8s.io".to_owned(),
            tenant: None,
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
        let lent = User {
            tenant: Some("acme".to_owned()),
            ..user("VSphereCluster", Some("red"), Some("Available"))
        };
        let mut lent = found(vec![lent], &[], &[]);
        lent.allowed_tenants = vec!["acme".to_owned(), "bmce".to_owned()];
        assert_eq!(
            table(&lent),
            "TENANT   KIND             NAMESPACE   NAME   AVAILABLE   REASON\n\
             acme     VSphereCluster   red         prod   true        Available\n\
             no namespace may use it\n\
             tenants that may use it: acme, bmce\n"
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
        for text in [
            "vsphereclusteridentity/shared",
            "VSphereClusterIdentities/shared",
        ] {
            let name = identity(text).map(|identity| identity.name);
            assert_eq!(name, Ok("shared".to_owned()), "{text}");
        }
        for wrong in [
            "shared",
            "secret/shared",
            "vsphereclusteridentity/",
            "vsphereclusteridentity/a/b",
        ] {
            assert_eq!(
                identity(wrong).err().as_deref(),
                Some(
                    "expected a kind and a name such as vsphereclusteridentity/shared; kinds are \
                     vsphereclusteridentity"
                ),
                "{wrong}"
            );
        }
    }
}
