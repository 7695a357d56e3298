//! `insula operator azure storage`.

use std::io::{IsTerminal, Write};
use std::num::NonZeroU32;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use clap::Subcommand;
use insula_azure::names::SYSTEM_NAMESPACE;
use insula_azure::storage::trim::{TrimResult, Trimmed, trim};
use insula_azure::storage::{
    DefinitionStatus, Migrated, Migration, Outcome, Phase, Progress, Records, Settings, State,
    status,
};
use insula_azure::upgrade::{Definition, definitions};
use kube::Client;

use super::upgrade::failure;
use crate::client::{self, AGENT};
use crate::failure::Failure;
use crate::kubeconfig::Source;
use crate::operator::life;
use crate::output;
use crate::terminal;

/// The interval between two lines of progress if stderr is not a terminal.
const LINE_INTERVAL: Duration = Duration::from_secs(5);
/// The highest rate of writes, because timers have milliseconds.
const MAX_RATE: u32 = 1000;

/// The arguments.
#[derive(clap::Args)]
pub struct Args {
    #[command(subcommand)]
    command: Command,

    /// Namespace of the ConfigMap azure-storage-migration, which records progress
    #[arg(long, value_name = "NAME", default_value = SYSTEM_NAMESPACE, global = true)]
    operator_namespace: String,

    /// Name of a CustomResourceDefinition (repeatable; default: all of Azure)
    #[arg(long, value_name = "NAME", global = true)]
    crd: Vec<String>,

    #[command(flatten)]
    source: Source,
}

#[derive(Subcommand)]
enum Command {
    /// Rewrite all objects in the storage version of their kind; continues a killed migration
    Migrate(MigrateArgs),
    /// Show the storage version of each kind, and whether its objects are migrated
    Status,
    /// Remove the versions from status.storedVersions that no object is stored in any more
    Trim(TrimArgs),
}

#[derive(clap::Args)]
struct MigrateArgs {
    /// Print what would be rewritten, without changes
    #[arg(long)]
    dry_run: bool,

    /// Rewrite objects of kinds too that have one stored version
    #[arg(long)]
    all: bool,

    /// Number of concurrent writes
    #[arg(long, value_name = "N", default_value_t = 16)]
    concurrency: u16,

    /// Maximum number of writes per second
    #[arg(long, value_name = "N", default_value = "200")]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=i64::from(MAX_RATE)))]
    rate: u32,
}

#[derive(clap::Args)]
struct TrimArgs {
    /// Print what would be removed, without changes
    #[arg(long)]
    dry_run: bool,
}

/// Runs the command.
pub fn run(args: Args) -> Result<(), Failure> {
    life::run(async {
        let client = client::connect(args.source.config(AGENT).await?)?;
        let installed = definitions::installed(&client, &args.crd).await;
        let installed = installed.map_err(failure)?;
        if installed.is_empty() {
            return Err(Failure::message("no kind of Azure is installed")
                .hint("name definitions with --crd, or use another kubeconfig"));
        }
        let records = Records::new(client.clone(), args.operator_namespace);
        match args.command {
            Command::Migrate(args) => migrate(client, records, &installed, &args).await,
            Command::Status => show(&client, &records, &installed).await,
            Command::Trim(args) => remove(&client, &records, &installed, &args).await,
        }
    })
}

async fn migrate(
    client: Client,
    records: Records,
    installed: &[Definition],
    args: &MigrateArgs,
) -> Result<(), Failure> {
    let settings = Settings {
        concurrency: args.concurrency.into(),
        rate: NonZeroU32::new(args.rate),
        dry_run: args.dry_run,
        all: args.all,
        ..Settings::default()
    };
    let lines = Lines::to_stderr();
    let report = |progress: Progress<'_>| lines.show(&progress);
    let migration = Migration::new(client, records, settings, &report);
    let migrated = migration.run(installed).await;
    lines.end();
    let migrated = migrated.map_err(failure)?;
    output::print(&terminal::sanitize(&format_migrated(&migrated)))?;
    match migrated.iter().any(|it| it.outcome.is_failure()) {
        false => Ok(()),
        true => Err(Failure::message("not all objects could be rewritten")
            .hint("correct these objects, and run the command again: it continues there")),
    }
}

async fn show(client: &Client, records: &Records, installed: &[Definition]) -> Result<(), Failure> {
    let statuses = status::status(client, records, installed).await;
    let statuses = statuses.map_err(failure)?;
    output::print(&terminal::sanitize(&format_statuses(&statuses)))
}

async fn remove(
    client: &Client,
    records: &Records,
    installed: &[Definition],
    args: &TrimArgs,
) -> Result<(), Failure> {
    let trimmed = trim(client, records, installed, args.dry_run).await;
    let trimmed = trimmed.map_err(failure)?;
    output::print(&terminal::sanitize(&format_trimmed(&trimmed, args.dry_run)))?;
    let mut refusals = trimmed.iter().filter_map(|it| match &it.result {
        TrimResult::Refused(refusal) => Some(refusal),
        _ => None,
    });
    match refusals.next() {
        None => Ok(()),
        Some(refusal) => {
            Err(Failure::message("not all stored versions could be removed").hint(refusal.hint()))
        }
    }
}

fn format_migrated(migrated: &[Migrated]) -> String {
    let mut text = String::new();
    for it in migrated {
        let (name, version) = (&it.definition, &it.storage_version);
        let result = match &it.outcome {
            Outcome::NotNeeded => format!("all objects are stored in {version}"),
            Outcome::WasComplete => format!("all objects were migrated to {version} before"),
            Outcome::Planned(count) => format!("{count} objects would be migrated to {version}"),
            Outcome::Complete { objects, stored } => {
                format!("migrated to {version}: {objects} objects, {stored} of them rewritten")
            }
            Outcome::Failed(failed) => {
                for it in failed {
                    text.push_str(&format!("{name}: {}: {}\n", it.object, it.message));
                }
                format!("not migrated to {version}")
            }
        };
        text.push_str(&format!("{name}: {result}\n"));
    }
    text
}

fn format_statuses(statuses: &[DefinitionStatus]) -> String {
    let header = ["KIND", "STORAGE", "STORED", "OBJECTS", "MIGRATED"].map(str::to_owned);
    let rows = statuses.iter().map(|it| {
        let state = match it.state {
            State::Trimmed => "yes".to_owned(),
            State::Complete => "yes, not trimmed".to_owned(),
            State::Incomplete(phase, done) => format!("{} ({done} done)", phase_name(phase)),
            State::NotKnown if it.objects == 0 => "no objects, not trimmed".to_owned(),
            State::NotKnown => "not known".to_owned(),
        };
        [
            it.definition.clone(),
            it.storage_version.clone(),
            it.stored_versions.join(","),
            it.objects.to_string(),
            state,
        ]
    });
    let rows: Vec<_> = std::iter::once(header).chain(rows).collect();
    let rows: Vec<_> = rows.iter().map(<[String; 5]>::as_slice).collect();
    output::table(&rows)
}

fn format_trimmed(trimmed: &[Trimmed], dry_run: bool) -> String {
    let mut text = String::new();
    for it in trimmed {
        let (name, version) = (&it.definition, &it.storage_version);
        let result = match &it.result {
            TrimResult::WasTrimmed => format!("has {version} only"),
            TrimResult::Removed(versions) if dry_run => {
                format!("{} would be removed", versions.join(", "))
            }
            TrimResult::Removed(versions) => format!("{} removed", versions.join(", ")),
            TrimResult::Refused(refusal) => format!("not trimmed: {refusal}"),
        };
        text.push_str(&format!("{name}: {result}\n"));
    }
    text
}

const fn phase_name(phase: Phase) -> &'static str {
    match phase {
        Phase::Rewriting => "rewriting",
        Phase::Verifying => "verifying",
        Phase::Complete => "complete",
    }
}

/// Progress on stderr: one line that is overwritten on a terminal, else a line at times.
struct Lines {
    is_terminal: bool,
    last: Mutex<Option<Instant>>,
}

impl Lines {
    fn to_stderr() -> Self {
        Self {
            is_terminal: std::io::stderr().is_terminal(),
            last: Mutex::default(),
        }
    }

    fn show(&self, progress: &Progress<'_>) {
        let line = terminal::sanitize(&format_progress(progress));
        if self.is_terminal {
            return write(&format!("\r\x1b[K{line}"));
        }
        let mut last = self.last.lock().unwrap_or_else(|it| it.into_inner());
        let is_end = progress.total == Some(progress.done);
        let is_due = last.is_none_or(|last| last.elapsed() >= LINE_INTERVAL);
        if is_due || is_end {
            *last = Some(Instant::now());
            write(&format!("{line}\n"));
        }
    }

    fn end(&self) {
        if self.is_terminal {
            write("\r\x1b[K");
        }
    }
}

#[expect(
    clippy::let_underscore_must_use,
    reason = "a failed write to stderr cannot be reported"
)]
fn write(text: &str) {
    let mut stderr = std::io::stderr().lock();
    let _ = stderr.write_all(text.as_bytes());
    let _ = stderr.flush();
}

fn format_progress(progress: &Progress<'_>) -> String {
    let (name, done) = (progress.definition, progress.done);
    let phase = phase_name(progress.phase);
    match progress.total {
        Some(total) => format!("{name}: {phase}, {done} of {total}"),
        None => format!("{name}: {phase}, {done}"),
    }
}

#[cfg(test)]
mod tests {
    use insula_azure::storage::migration::NotWritten;
    use insula_azure::storage::trim::Refusal;

    use super::*;

    #[test]
    fn statuses_are_shown_in_columns() {
        let status = |state, objects| DefinitionStatus {
            definition: "a.azure.com".to_owned(),
            storage_version: "v2storage".to_owned(),
            stored_versions: vec!["v1storage".to_owned(), "v2storage".to_owned()],
            objects,
            state,
        };
        let statuses = [
            status(State::NotKnown, 7),
            status(State::Incomplete(Phase::Verifying, 5), 7),
        ];
        assert_eq!(
            format_statuses(&statuses),
            "KIND          STORAGE     STORED                OBJECTS   MIGRATED\n\
             a.azure.com   v2storage   v1storage,v2storage   7         not known\n\
             a.azure.com   v2storage   v1storage,v2storage   7         verifying (5 done)\n"
        );
    }

    #[test]
    fn each_definition_has_a_line_and_each_failure() {
        let migrated = |outcome| Migrated {
            definition: "a.azure.com".to_owned(),
            storage_version: "v2".to_owned(),
            outcome,
        };
        let failed = NotWritten {
            object: "n/x".to_owned(),
            message: "refused".to_owned(),
        };
        let complete = Outcome::Complete {
            objects: 3,
            stored: 2,
        };
        assert_eq!(
            format_migrated(&[migrated(complete), migrated(Outcome::Failed(vec![failed]))]),
            "a.azure.com: migrated to v2: 3 objects, 2 of them rewritten\n\
             a.azure.com: n/x: refused\n\
             a.azure.com: not migrated to v2\n"
        );
        let trimmed = |result| Trimmed {
            definition: "a.azure.com".to_owned(),
            storage_version: "v2".to_owned(),
            result,
        };
        let trimmed = [
            trimmed(TrimResult::Removed(vec!["v1".to_owned()])),
            trimmed(TrimResult::Refused(Refusal::NotMigrated)),
        ];
        assert_eq!(
            format_trimmed(&trimmed, false),
            "a.azure.com: v1 removed\n\
             a.azure.com: not trimmed: not all objects are known to be migrated\n"
        );
    }

    #[test]
    fn progress_has_the_total_if_it_is_known() {
        let progress = |total| Progress {
            definition: "a.azure.com",
            phase: Phase::Rewriting,
            done: 500,
            total,
        };
        let known = format_progress(&progress(Some(2000)));
        assert_eq!(known, "a.azure.com: rewriting, 500 of 2000");
        assert_eq!(
            format_progress(&progress(None)),
            "a.azure.com: rewriting, 500"
        );
    }
}
