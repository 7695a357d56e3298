//! `insula identity users`.

use clap::ValueEnum;
use insula_vsphere::users::{self, User, Users};
use kube::Client;

use super::told;
use crate::failure::Failure;
use crate::output;

/// What it can be told.
#[derive(clap::Args)]
pub struct Args {
    /// The identity: a vsphereclusteridentity
    #[arg(value_name = "KIND/NAME", value_parser = identity)]
    identity: String,

    /// How to show them
    #[arg(short, long, value_enum, default_value = "table")]
    output: Format,
}

/// How they are shown.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    /// In columns
    Table,
    /// As one object
    Json,
    /// The same
    Yaml,
    /// What uses it, as kubectl takes it
    Name,
}

/// Shows them.
pub async fn run(client: &Client, args: Args) -> Result<(), Failure> {
    let found = users::of(client, &args.identity).await;
    let found = found.map_err(|error| told(&error))?;
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

fn table(found: &Users) -> String {
    let mut rows = vec![["KIND", "NAMESPACE", "NAME", "AVAILABLE", "REASON"].map(str::to_owned)];
    rows.extend(found.users.iter().map(|user| {
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
    let mut text = match found.users.is_empty() {
        true => format!("nothing uses {}\n", found.identity),
        false => output::table(&rows),
    };
    text += &match (&found.trouble, found.allowed_namespaces.as_slice()) {
        (Some(trouble), _) => format!("no namespace may use it: {trouble}\n"),
        (None, []) => "no namespace may use it\n".to_owned(),
        (None, names) => format!("namespaces that may use it: {}\n", names.join(", ")),
    };
    for what in &found.not_read {
        text += &format!("note: you may not list {what}, so that there may be more\n");
    }
    output::harmless(&text)
}

/// As in `vspherecluster.infrastructure.cluster.x-k8s.io/prod`.
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
        "it is a kind and a name, as vsphereclusteridentity/shared; there is one such kind"
            .to_owned()
    })
}
