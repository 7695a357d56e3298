//! `insula operator azure upgrade`.

use std::collections::BTreeSet;

use clap::Subcommand;
use insula_azure::upgrade::check::{self, Answer, Question};
use insula_azure::upgrade::operators::Found;
use insula_azure::upgrade::removal::{self, Removal};
use insula_azure::upgrade::{Error, Operators, Release};
use kube::Client;

use crate::client::{self, AGENT};
use crate::failure::Failure;
use crate::kubeconfig::Source;
use crate::operator::life;
use crate::output;
use crate::terminal;

/// The arguments.
#[derive(clap::Args)]
pub struct Args {
    #[command(subcommand)]
    command: Command,

    #[command(flatten)]
    source: Source,
}

#[derive(Subcommand)]
enum Command {
    /// Show whether operators can be moved to a release, and what holds them back
    Check(CheckArgs),
    /// Show whether a version can be removed from the kinds, and what needs it
    CanRemove(CanRemoveArgs),
}

#[derive(clap::Args)]
struct CheckArgs {
    /// Release to move to (default: that of this program)
    #[arg(long, value_name = "VERSION")]
    to: Option<Release>,

    /// Namespace of the only operator to move (default: all)
    #[arg(long, value_name = "NAME")]
    tenant_namespace: Option<String>,
}

#[derive(clap::Args)]
struct CanRemoveArgs {
    /// Version such as v1api20200601, or v1api20200601storage
    #[arg(value_name = "VERSION")]
    version: String,

    /// Name of a CustomResourceDefinition to remove it from (repeatable; default: all)
    #[arg(long, value_name = "NAME")]
    crd: Vec<String>,
}

/// Runs the command.
pub fn run(args: Args) -> Result<(), Failure> {
    life::run(async {
        let client = client::connect(args.source.config(AGENT).await?)?;
        match args.command {
            Command::Check(args) => check(&client, args).await,
            Command::CanRemove(args) => can_remove(&client, args).await,
        }
    })
}

async fn check(client: &Client, args: CheckArgs) -> Result<(), Failure> {
    let question = Question {
        to: args.to.unwrap_or_else(Release::own),
        namespace: args.tenant_namespace,
    };
    let answer = check::check(client, &question).await.map_err(failure)?;
    output::print(&terminal::sanitize(&format_answer(&question, &answer)))?;
    let hints = answer.held_back.iter().map(|it| it.hint());
    let message = format!("operators cannot be moved to {}", question.to);
    held_back(message, hints)
}

async fn can_remove(client: &Client, args: CanRemoveArgs) -> Result<(), Failure> {
    let removal = removal::can_remove(client, &args.version, &args.crd).await;
    let removal = removal.map_err(failure)?;
    output::print(&terminal::sanitize(&format_removal(
        &args.version,
        &removal,
    )))?;
    let message = format!("version {} cannot be removed", args.version);
    if !removal.not_listed.is_empty() && removal.blockers.is_empty() {
        return Err(Failure::message(message).hint(RIGHTS));
    }
    held_back(message, removal.blockers.iter().map(|it| it.reason.hint()))
}

const RIGHTS: &str = "use a kubeconfig with rights to Deployments and objects of all namespaces";

/// Returns a failure with all hints, if there is one.
fn held_back(message: String, hints: impl Iterator<Item = &'static str>) -> Result<(), Failure> {
    let hints: BTreeSet<_> = hints.collect();
    if hints.is_empty() {
        return Ok(());
    }
    let hints: Vec<_> = hints.into_iter().collect();
    Err(Failure::message(message).hint(hints.join("; ")))
}

fn format_answer(question: &Question, answer: &Answer) -> String {
    let mut text = format_operators(&answer.operators);
    for reason in &answer.held_back {
        text.push_str(&format!("{reason}\n"));
    }
    if let Some(names) = answer.wider() {
        text.push_str(&format!(
            "note: {names}: has versions that the definitions of this program lack, keep it with \
             `manifests --without-definitions`\n"
        ));
    }
    if answer.held_back.is_empty() {
        let what = match &question.namespace {
            Some(namespace) => format!("the operator in namespace {namespace}"),
            None => "all operators".to_owned(),
        };
        text.push_str(&format!("{what} can be moved to {}\n", question.to));
    }
    text
}

fn format_operators(operators: &Operators) -> String {
    let header = ["NAMESPACE", "RELEASE", "FOUND BY"].map(str::to_owned);
    let rows = operators.all.iter().map(|operator| {
        let release = operator.release.as_ref().map(ToString::to_string);
        let found = match &operator.found {
            Found::Deployment(name) if operator.is_webhook_only => {
                format!("Deployment {name} (webhooks)")
            }
            Found::Deployment(name) => format!("Deployment {name}"),
            Found::Objects(1) => "1 object".to_owned(),
            Found::Objects(count) => format!("{count} objects"),
            Found::TenantObjects { tenant, count } => {
                format!("{count} objects of tenant {tenant}")
            }
        };
        let release = release.unwrap_or_else(|| "not known".to_owned());
        [operator.namespace.clone(), release, found]
    });
    let rows: Vec<_> = std::iter::once(header).chain(rows).collect();
    let mut text = match operators.all.is_empty() {
        true => "no operator was found\n".to_owned(),
        false => {
            let rows: Vec<_> = rows.iter().map(<[String; 3]>::as_slice).collect();
            output::table(&rows)
        }
    };
    for what in &operators.not_listed {
        text.push_str(&format!("note: you may not list {what}\n"));
    }
    text
}

fn format_removal(version: &str, removal: &Removal) -> String {
    let mut text = String::new();
    for blocker in &removal.blockers {
        text.push_str(&format!("{blocker}\n"));
    }
    for what in &removal.not_listed {
        text.push_str(&format!("note: you may not list {what}\n"));
    }
    if removal.definitions.is_empty() {
        return format!("no definition has version {version}\n");
    }
    if removal.blockers.is_empty() && removal.not_listed.is_empty() {
        let names = removal.definitions.join(", ");
        text.push_str(&format!("version {version} can be removed from {names}\n"));
    }
    text
}

/// Converts an error, with its hint.
pub fn failure(error: Error) -> Failure {
    let failure = Failure::message(error.to_string());
    match error.hint() {
        Some(hint) => failure.hint(hint),
        None => failure,
    }
}

#[cfg(test)]
mod tests {
    use insula_azure::upgrade::TenantOperator;
    use insula_azure::upgrade::check::HeldBack;

    use super::*;

    #[test]
    fn answer_has_the_operators_and_one_line_for_each_reason() {
        let operator = TenantOperator {
            namespace: "acme-system".to_owned(),
            found: Found::Objects(3),
            release: "v2.19.0".parse().ok(),
            is_webhook_only: false,
        };
        let mut answer = Answer {
            operators: Operators {
                all: vec![operator],
                not_listed: vec!["deployments.apps".to_owned()],
            },
            held_back: Vec::new(),
            wider: vec!["a.azure.com".to_owned(), "b.azure.com".to_owned()],
        };
        let question = Question {
            to: "v2.20.0".parse().unwrap(),
            namespace: None,
        };
        let operators = "NAMESPACE     RELEASE   FOUND BY\n\
                         acme-system   v2.19.0   3 objects\n\
                         note: you may not list deployments.apps\n";
        assert_eq!(
            format_answer(&question, &answer),
            format!(
                "{operators}note: a.azure.com and 1 more: has versions that the definitions of \
                 this program lack, keep it with `manifests --without-definitions`\n\
                 all operators can be moved to v2.20.0\n"
            )
        );
        answer.wider.clear();
        answer.held_back.push(HeldBack::NoDefinitions);
        assert_eq!(
            format_answer(&question, &answer),
            format!("{operators}definitions: none is installed\n")
        );
    }

    #[test]
    fn version_without_blockers_can_be_removed() {
        let mut removal = Removal {
            definitions: vec!["a.azure.com".to_owned()],
            blockers: Vec::new(),
            not_listed: Vec::new(),
        };
        assert_eq!(
            format_removal("v1", &removal),
            "version v1 can be removed from a.azure.com\n"
        );
        removal.definitions.clear();
        assert_eq!(
            format_removal("v1", &removal),
            "no definition has version v1\n"
        );
    }
}
