//! `insula keys`.

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Subcommand;
use jiff::{SignedDuration, Timestamp};

use crate::failure::Failure;
use crate::token_keys::{FILE, Pace, Phase, TokenKey, TokenKeys};
use crate::{duration, output, pki};

/// The arguments of `insula keys`.
#[derive(clap::Args)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Show the keys that sign and verify service account tokens
    List(ListArgs),
    /// Add a key, which signs after a time, and retire the others after a grace period
    Rotate(RotateArgs),
}

#[derive(clap::Args)]
struct ListArgs {
    #[command(flatten)]
    data: DataArgs,
}

#[derive(clap::Args)]
struct RotateArgs {
    #[command(flatten)]
    data: DataArgs,

    /// Time that the new key is published before it signs; verifiers cache keys for an hour
    #[arg(long, value_name = "DURATION", default_value = "1h")]
    #[arg(value_parser = duration::parse)]
    publish_for: Duration,

    /// Time that tokens of the old keys are accepted after that
    #[arg(long, value_name = "DURATION", default_value = "30d")]
    #[arg(value_parser = duration::parse)]
    grace: Duration,
}

#[derive(clap::Args)]
struct DataArgs {
    /// Data directory of `insula serve`
    #[arg(long, value_name = "DIR", default_value = "insula-data")]
    data_dir: PathBuf,
}

/// Runs the command.
pub fn run(args: Args) -> Result<(), Failure> {
    let now = Timestamp::now();
    match args.command {
        Command::List(args) => {
            let (_, keys) = read(&args.data)?;
            output::print(&table(&keys, now))
        }
        Command::Rotate(args) => rotate(&args, now),
    }
}

fn rotate(args: &RotateArgs, now: Timestamp) -> Result<(), Failure> {
    let (folder, _) = read(&args.data)?;
    let _lock = pki::lock(&folder)?;
    // Another rotation may have ended before the lock was taken.
    let (_, keys) = read(&args.data)?;
    let too_long = |error| Failure::new("cannot rotate keys", error);
    let pace = Pace {
        publish_for: SignedDuration::try_from(args.publish_for).map_err(too_long)?,
        grace: SignedDuration::try_from(args.grace).map_err(too_long)?,
    };
    let rotated = keys.rotate(now, pace)?;
    rotated.write(&folder)?;
    output::print(&announcement(&rotated, &folder, now))
}

/// Reads the keys of a data directory.
fn read(args: &DataArgs) -> Result<(PathBuf, TokenKeys), Failure> {
    let folder = args.data_dir.join("pki");
    let keys = TokenKeys::read(&folder)?;
    let keys = keys.ok_or_else(|| {
        let said = format!(
            "there is no key of service accounts in {}",
            folder.display()
        );
        Failure::message(said)
            .hint("check --data-dir; the first start of `insula serve` creates the key")
    })?;
    Ok((folder, keys))
}

fn table(keys: &TokenKeys, now: Timestamp) -> String {
    let header = ["ID", "PHASE", "SIGNS FROM", "VERIFIES UNTIL"];
    let row = |key: &TokenKey| {
        let from = match key.signs_from == Timestamp::UNIX_EPOCH {
            true => "-".to_owned(),
            false => key.signs_from.to_string(),
        };
        let until = key.verifies_until.map(|until| until.to_string());
        let phase = keys.phase(key, now).to_string();
        vec![key.id.clone(), phase, from, until.unwrap_or("-".to_owned())]
    };
    let mut rows = vec![header.map(str::to_owned).to_vec()];
    rows.extend(keys.keys().iter().map(row));
    let rows: Vec<&[String]> = rows.iter().map(Vec::as_slice).collect();
    output::table(&rows)
}

/// Says what happens when, and what is left to do.
fn announcement(keys: &TokenKeys, folder: &Path, now: Timestamp) -> String {
    let mut text = String::new();
    for key in keys.keys() {
        let (id, from) = (&key.id, key.signs_from);
        match key.verifies_until {
            None if keys.phase(key, now) == Phase::Signing => {
                text.push_str(&format!("new key {id}: signs from now on\n"));
            }
            None => {
                text.push_str(&format!("new key {id}: published now, signs from {from}\n"));
            }
            Some(until) => {
                text.push_str(&format!(
                    "old key {id}: its tokens are rejected from {until}\n"
                ));
            }
        }
    }
    text.push_str(
        "Tokens of an old key end then, even if they expire later. Before that, recreate Secrets of \
         type kubernetes.io/service-account-token that were filled before the new key signs.\n",
    );
    text.push_str(&format!(
        "A running server reads the keys within a minute. Copy {} to the other servers on the same \
         etcd before the new key signs.\n",
        folder.join(FILE).display()
    ));
    text
}
