//! Encryption at rest: the flag, the configuration file, and its changes.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use insula_core::Layout;
use insula_encryption::key_storage::{FolderStorage, KeyStorage, StoreStorage};
use insula_encryption::{Config, EncryptedStore, Error};
use insula_store::Store;
use tokio::time::sleep;

use super::settings::StoreSettings;
use crate::certificate_file::read;
use crate::failure::Failure;

/// The arguments of encryption at rest.
#[derive(clap::Args)]
pub struct EncryptionArgs {
    /// EncryptionConfiguration: resources to encrypt at rest, and keys (default: no encryption)
    #[arg(long, value_name = "FILE")]
    pub encryption_config: Option<PathBuf>,
}

/// The configuration file and what was read from it.
pub struct EncryptionSettings {
    path: PathBuf,
    text: String,
    config: Config,
}

/// Where the wrapped keys are kept.
pub enum KeyPlace {
    /// In a folder beside that of the store.
    Folder(PathBuf),
    /// In the store, which other servers share.
    SharedStore,
    /// In the store, which is lost with the process.
    OwnStore,
}

/// The folder of wrapped keys in the data directory.
pub const FOLDER: &str = "encryption";

/// How often the file is read again.
const POLL_INTERVAL: Duration = Duration::from_secs(2);
/// How often a key provider is asked again that was not available at the start.
const RETRY_INTERVAL: Duration = Duration::from_secs(2);

impl EncryptionSettings {
    /// Reads the configuration file, if the arguments name one.
    pub fn of(args: EncryptionArgs) -> Result<Option<Self>, Failure> {
        let Some(path) = args.encryption_config else {
            return Ok(None);
        };
        let bytes = read(&path)?;
        let text = String::from_utf8(bytes).map_err(|_| unusable(&path, "it is not UTF-8"))?;
        let config = Config::parse(&text).map_err(|error| failure(&path, &error))?;
        Ok(Some(Self { path, text, config }))
    }
}

impl KeyPlace {
    /// Returns the place for an engine.
    pub fn of(store: &StoreSettings, data_dir: &Path) -> Self {
        match store {
            StoreSettings::Embedded(_) => Self::Folder(data_dir.join(FOLDER)),
            StoreSettings::Etcd(_) => Self::SharedStore,
            StoreSettings::Memory => Self::OwnStore,
        }
    }

    async fn contains_keys(&self, store: &dyn Store, layout: &Layout) -> Result<bool, Error> {
        match self {
            Self::Folder(folder) => FolderStorage::contains_keys(folder),
            Self::SharedStore | Self::OwnStore => StoreStorage::contains_keys(store, layout).await,
        }
    }

    fn open(&self, store: &Arc<dyn Store>, layout: &Layout) -> Result<Arc<dyn KeyStorage>, Error> {
        Ok(match self {
            Self::Folder(folder) => Arc::new(FolderStorage::open(folder.clone())?),
            Self::SharedStore | Self::OwnStore => {
                let is_shared = matches!(self, Self::SharedStore);
                let (store, layout) = (Arc::clone(store), layout.clone());
                Arc::new(StoreStorage::new(store, layout, is_shared))
            }
        })
    }
}

/// Opens the store's encryption. Waits for key providers that are not available.
pub async fn open(
    settings: &EncryptionSettings,
    store: &Arc<dyn Store>,
    place: &KeyPlace,
    layout: &Layout,
) -> Result<Arc<EncryptedStore>, Failure> {
    let failed = |error| failure(&settings.path, &error);
    let storage = place.open(store, layout).map_err(failed)?;
    loop {
        let opened = EncryptedStore::open(
            Arc::clone(store),
            Arc::clone(&storage),
            layout.clone(),
            &settings.config,
        );
        match opened.await {
            Err(error @ Error::Provider { .. }) => {
                tracing::warn!(%error, "key provider not available, start waits for it");
                sleep(RETRY_INTERVAL).await;
            }
            opened => return opened.map_err(failed),
        }
    }
}

/// Checks that a server without a configuration does not serve an encrypted store: it would take
/// sealed values for objects.
pub async fn check_not_encrypted(
    store: &dyn Store,
    place: &KeyPlace,
    layout: &Layout,
) -> Result<(), Failure> {
    let found = place.contains_keys(store, layout).await;
    match found.map_err(|error| Failure::new("cannot open the store", error))? {
        false => Ok(()),
        true => Err(Failure::message("the store is encrypted").hint(
            "start with the --encryption-config of the last start; to stop encrypting, put \
             `identity` first in it",
        )),
    }
}

/// Puts changes of the configuration file into use. Until a file can be used, the old one stays.
pub async fn follow(settings: EncryptionSettings, store: Arc<EncryptedStore>) {
    let mut current = settings.text;
    let mut logged = String::new();
    loop {
        sleep(POLL_INTERVAL).await;
        let path = settings.path.clone();
        let text = tokio::task::spawn_blocking(move || std::fs::read_to_string(path)).await;
        let problem = match text {
            // After a problem a file that was reverted is put into use again.
            Ok(Ok(text)) if text == current && logged.is_empty() => continue,
            Ok(Ok(text)) => match reload(&text, &store).await {
                Ok(()) => {
                    current = text;
                    logged.clear();
                    store.count_reload(true);
                    tracing::info!("encryption configuration replaced");
                    continue;
                }
                Err(error) => error.to_string(),
            },
            Ok(Err(error)) => error.to_string(),
            Err(error) => error.to_string(),
        };
        // Each problem once; it is tried again, since a provider may have been away.
        if problem != logged {
            tracing::error!(error = problem, "encryption configuration refused");
            store.count_reload(false);
            logged = problem;
        }
    }
}

async fn reload(text: &str, store: &EncryptedStore) -> Result<(), Error> {
    store.reconfigure(&Config::parse(text)?).await
}

fn failure(path: &Path, error: &Error) -> Failure {
    let failure = unusable(path, error);
    match error.hint() {
        Some(hint) => failure.hint(hint),
        None => failure,
    }
}

fn unusable(path: &Path, problem: impl std::fmt::Display) -> Failure {
    let attempted = format!("cannot encrypt with {}", path.display());
    Failure::new(&attempted, problem)
}
