//! `insula encryption`.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Subcommand;
use insula_encryption::key_storage::FolderStorage;
use insula_encryption::{Config, KeySummary};

use crate::failure::Failure;
use crate::serve::encryption::FOLDER;
use crate::{output, private_file};

/// The arguments of `insula encryption`.
#[derive(clap::Args)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Write a configuration with a new key, for `insula serve --encryption-config`
    Init(InitArgs),
    /// Show which provider keys are in use, and how many data keys there are
    Status(DataDirArgs),
    /// Let the next start use the keys with the store that it finds, which was refused
    AcceptStore(DataDirArgs),
}

#[derive(clap::Args)]
struct InitArgs {
    /// File to write, which must not exist
    #[arg(value_name = "FILE")]
    file: PathBuf,

    /// Resource to encrypt, such as secrets, widgets.example.com or *.apps (repeatable)
    #[arg(
        long = "resource",
        value_name = "RESOURCE",
        default_value = "secrets",
        conflicts_with = "all"
    )]
    resources: Vec<String>,

    /// Encrypt all resources
    #[arg(long)]
    all: bool,

    /// Name of the new key
    #[arg(long, value_name = "NAME", default_value = "key1")]
    #[arg(value_parser = key_name)]
    key_name: String,
}

#[derive(clap::Args)]
struct DataDirArgs {
    /// Data directory of `insula serve` with the embedded store
    #[arg(long, value_name = "DIR", default_value = "insula-data")]
    data_dir: PathBuf,
}

/// Runs the command.
pub fn run(args: Args) -> Result<(), Failure> {
    match args.command {
        Command::Init(args) => init(&args),
        Command::Status(args) => status(&args),
        Command::AcceptStore(args) => accept_store(&args),
    }
}

fn init(args: &InitArgs) -> Result<(), Failure> {
    let path = &args.file;
    let resources = match args.all {
        true => &["*.*".to_owned()],
        false => &args.resources[..],
    };
    let secret = insula_encryption::generate_secret();
    let secret = secret.map_err(|error| Failure::new("cannot generate a key", error))?;
    let text = configuration(resources, &args.key_name, &secret);
    Config::parse(&text).map_err(|error| Failure::new("cannot encrypt this", error))?;
    // A key that is overwritten may be the only one for a store.
    if path.symlink_metadata().is_ok() {
        return Err(Failure::message(format!("{} exists", path.display()))
            .hint("to rotate, add a second key to it; docs/encryption.md shows how"));
    }
    private_file::write(path, &text)?;
    output::print(&format!(
        "{} written, readable by you only.\n\
         Start with: insula serve --encryption-config {}\n\
         Back it up apart from the data: without its key the encrypted objects are lost.\n",
        path.display(),
        path.display(),
    ))
}

fn configuration(resources: &[String], name: &str, secret: &str) -> String {
    let resources: Vec<_> = resources
        .iter()
        .map(|name| format!("    - '{name}'\n"))
        .collect();
    format!(
        "apiVersion: apiserver.config.k8s.io/v1\n\
         kind: EncryptionConfiguration\n\
         resources:\n\
         \x20 - resources:\n\
         {}\
         \x20   providers:\n\
         \x20   - aesgcm:\n\
         \x20       keys:\n\
         \x20       - name: {name}\n\
         \x20         secret: {secret}\n\
         \x20   - identity: {{}}\n",
        resources.concat()
    )
}

fn key_name(text: &str) -> Result<String, &'static str> {
    let allowed = |sign: char| sign.is_ascii_alphanumeric() || "-_.".contains(sign);
    let first = text.starts_with(|sign: char| sign.is_ascii_alphabetic());
    match first && text.chars().all(allowed) {
        true => Ok(text.to_owned()),
        false => Err("a name consists of letters, digits, `-`, `_` and `.`, a letter first"),
    }
}

fn status(args: &DataDirArgs) -> Result<(), Failure> {
    let folder = args.data_dir.join(FOLDER);
    if !contains_keys(&folder)? {
        return Err(nothing_there(&folder));
    }
    let failed = |error: insula_encryption::Error| {
        let attempted = format!("cannot read {}", folder.display());
        Failure::new(&attempted, error)
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .build()
        .map_err(|error| Failure::new("cannot start", error))?;
    let storage = Arc::new(FolderStorage::existing(folder.clone()));
    let summary = runtime
        .block_on(KeySummary::read(storage))
        .map_err(failed)?;
    output::print(&table(&summary))
}

fn accept_store(args: &DataDirArgs) -> Result<(), Failure> {
    let folder = args.data_dir.join(FOLDER);
    if !contains_keys(&folder)? {
        return Err(nothing_there(&folder));
    }
    let accepted = FolderStorage::accept_store(&folder);
    accepted.map_err(|error| Failure::new("cannot accept the store", error))?;
    output::print(
        "The next start uses the keys with the store that it finds.\n\
         Data keys without a tenant in that store are kept.\n",
    )
}

fn contains_keys(folder: &Path) -> Result<bool, Failure> {
    FolderStorage::contains_keys(folder).map_err(|error| {
        let attempted = format!("cannot read {}", folder.display());
        Failure::new(&attempted, error)
    })
}

fn nothing_there(folder: &Path) -> Failure {
    let message = format!("there are no data keys in {}", folder.display());
    Failure::message(message).hint(
        "check --data-dir; with --store etcd the keys are in etcd, and the metric \
         insula_encryption_rotation_pending says whether old provider keys are in use",
    )
}

fn table(summary: &KeySummary) -> String {
    let header = ["PROVIDER", "KEY ID", "DATA KEYS", "WRAPS NEW KEYS"];
    let mut rows = vec![header.map(str::to_owned).to_vec()];
    rows.extend(summary.root_keys.iter().map(|root_key| {
        let wraps = if root_key.is_active { "yes" } else { "no" };
        vec![
            root_key.provider.clone(),
            root_key.key_id.clone(),
            root_key.data_keys.to_string(),
            wraps.to_owned(),
        ]
    }));
    let rows: Vec<&[String]> = rows.iter().map(Vec::as_slice).collect();
    let (active, destroyed) = (summary.active, summary.destroyed);
    format!(
        "{}\n{active} data keys in use, {destroyed} destroyed with their tenants.\n\
         Provider keys that are not listed are no longer needed.\n",
        output::table(&rows)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn configuration_seals_exactly_the_named_resources() {
        let secret = insula_encryption::generate_secret().unwrap();
        let parse = |resources: &[&str]| {
            let resources: Vec<_> = resources.iter().map(|&name| name.to_owned()).collect();
            Config::parse(&configuration(&resources, "key1", &secret))
                .unwrap()
                .rules
        };
        let some = parse(&["secrets", "widgets.example.com"]);
        assert!(some.seal("", "secrets") && some.seal("example.com", "widgets"));
        assert!(!some.seal("", "configmaps"));
        let all = parse(&["*.*"]);
        assert!(all.seal("", "configmaps") && all.seal("apps", "deployments"));
    }
}
