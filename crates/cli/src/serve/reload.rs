//! Reload of the files that credentials are verified with, while the server runs.
//!
//! Files are compared by content every few seconds. A file that cannot be used leaves what was
//! read before in force.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use insula_access::TokenFile;
use insula_apiserver::pipeline::oidc::Provider;
use insula_apiserver::pipeline::trust::CurrentTrust;
use insula_tls::Trust;
use ring::digest::{SHA256, digest};
use rustls::pki_types::CertificateDer;
use tokio::task::spawn_blocking;
use tokio::time::{MissedTickBehavior, interval};

use crate::certificate_file;
use crate::failure::Failure;

/// The files that credentials are verified with.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TrustFiles {
    /// Additional CAs of client certificates.
    pub client_ca: Option<TrustFile>,
    /// The static tokens.
    pub tokens: Option<TrustFile>,
    /// The CA of the OpenID Connect provider.
    pub oidc_ca: Option<TrustFile>,
}

/// A file, and what it contained before it was parsed: a change while the server starts is found
/// by the first comparison.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TrustFile {
    path: PathBuf,
    digest: Option<Vec<u8>>,
}

impl TrustFile {
    /// Notes the content of a file that is parsed later.
    pub fn new(path: &Path) -> Self {
        Self {
            digest: std::fs::read(path).ok().map(|bytes| hash(&bytes)),
            path: path.to_owned(),
        }
    }
}

/// Reloads files that have changed.
pub struct Reload {
    trust: Arc<CurrentTrust>,
    provider: Option<Arc<Provider>>,
    /// The own CA, which is trusted beside those of the file.
    own_ca: CertificateDer<'static>,
    files: Vec<WatchedFile>,
}

/// A file, and what was last found in it.
struct WatchedFile {
    path: PathBuf,
    content: Content,
    /// The digest of the content in use, or of one that cannot be used.
    seen: Option<Vec<u8>>,
    /// The last error, so that each is logged once.
    problem: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Content {
    ClientCas,
    Tokens,
    OidcCa,
}

/// How often the files are read.
const INTERVAL: Duration = Duration::from_secs(5);

/// How long a changed file must stay the same: an editor may have written half of it.
const SETTLE: Duration = Duration::from_millis(250);

impl Reload {
    /// Reloads these files into `trust` and the provider.
    pub fn new(
        trust: Arc<CurrentTrust>,
        provider: Option<Arc<Provider>>,
        own_ca: CertificateDer<'static>,
        files: TrustFiles,
    ) -> Self {
        let files = [
            (files.client_ca, Content::ClientCas),
            (files.tokens, Content::Tokens),
            (files.oidc_ca, Content::OidcCa),
        ];
        let watched = |(file, content): (Option<TrustFile>, _)| {
            let file = file?;
            Some(WatchedFile {
                seen: file.digest,
                path: file.path,
                content,
                problem: String::new(),
            })
        };
        Self {
            trust,
            provider,
            own_ca,
            files: files.into_iter().filter_map(watched).collect(),
        }
    }

    /// Runs until it is aborted.
    pub async fn run(self) {
        if self.files.is_empty() {
            return;
        }
        let mut ticks = interval(INTERVAL);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut reload = self;
        loop {
            ticks.tick().await;
            let checked = spawn_blocking(move || {
                reload.check();
                reload
            });
            reload = match checked.await {
                Ok(reload) => reload,
                Err(error) => {
                    tracing::error!(%error, "reload of files stopped");
                    return;
                }
            };
        }
    }

    /// Reloads every file that has changed.
    fn check(&mut self) {
        let mut files = std::mem::take(&mut self.files);
        for file in &mut files {
            let path = file.path.display().to_string();
            match file.changed().and_then(|bytes| match bytes {
                None => Ok(false),
                Some(bytes) => self.replace(file, &bytes).map(|()| true),
            }) {
                Ok(false) => {}
                Ok(true) => {
                    self.trust.count_reload(true);
                    file.problem.clear();
                    tracing::info!(file = path, "file reloaded");
                }
                Err(failure) => {
                    let problem = failure.to_string();
                    if problem != file.problem {
                        self.trust.count_reload(false);
                        tracing::error!(file = path, error = problem, "file not reloaded");
                    }
                    file.problem = problem;
                }
            }
        }
        self.files = files;
    }

    fn replace(&self, file: &WatchedFile, bytes: &[u8]) -> Result<(), Failure> {
        let attempted = format!("cannot use {}", file.path.display());
        match file.content {
            Content::ClientCas => {
                let mut cas = certificates(&file.path, bytes)?;
                cas.insert(0, self.own_ca.clone());
                let replaced = self.trust.replace_clients(&cas);
                replaced.map_err(|error| Failure::new(&attempted, error))
            }
            // A file of no bytes was probably truncated, and is yet to be written.
            Content::Tokens if bytes.is_empty() => Err(Failure::new(&attempted, "it is empty")
                .hint("leave an empty line in it to take all tokens away")),
            Content::Tokens => {
                let tokens = TokenFile::from_bytes(bytes);
                let tokens = tokens.map_err(|error| Failure::new(&attempted, error))?;
                self.trust.replace_tokens(tokens);
                Ok(())
            }
            Content::OidcCa => {
                certificates(&file.path, bytes)?;
                let trust = Trust::Authorities(String::from_utf8_lossy(bytes).into_owned());
                let Some(provider) = &self.provider else {
                    return Ok(());
                };
                let replaced = provider.replace_trust(&trust);
                replaced.map_err(|error| Failure::new(&attempted, error))
            }
        }
    }
}

impl WatchedFile {
    /// Returns the content if it has changed, and stayed the same for a moment.
    fn changed(&mut self) -> Result<Option<Vec<u8>>, Failure> {
        let first = hash(&certificate_file::read(&self.path)?);
        if self.seen.as_ref() == Some(&first) {
            return Ok(None);
        }
        std::thread::sleep(SETTLE);
        let bytes = certificate_file::read(&self.path)?;
        if hash(&bytes) != first {
            return Ok(None);
        }
        self.seen = Some(first);
        Ok(Some(bytes))
    }
}

fn certificates(path: &Path, bytes: &[u8]) -> Result<Vec<CertificateDer<'static>>, Failure> {
    let attempted = format!("cannot use {}", path.display());
    certificate_file::parse(bytes).map_err(|why| Failure::new(&attempted, why))
}

fn hash(bytes: &[u8]) -> Vec<u8> {
    digest(&SHA256, bytes).as_ref().to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALICE: &str = "a-token,alice,1\n";
    const BOB: &str = "b-token,bob,2\n";

    /// Starts with a token file that `edit` changes after it was parsed.
    fn reload(folder: &Path, edit: &str) -> (Reload, PathBuf) {
        let path = folder.join("tokens");
        std::fs::write(&path, ALICE).unwrap();
        let files = TrustFiles {
            tokens: Some(TrustFile::new(&path)),
            ..TrustFiles::default()
        };
        let tokens = TokenFile::load(&path).unwrap();
        let trust = Arc::new(CurrentTrust::new(&[], Some(tokens)).unwrap());
        std::fs::write(&path, edit).unwrap();
        let own_ca = CertificateDer::from(Vec::new());
        (Reload::new(trust, None, own_ca, files), path)
    }

    fn knows(reload: &Reload, token: &str) -> bool {
        let trust = reload.trust.get();
        let tokens = trust.tokens.as_ref();
        tokens.is_some_and(|tokens| tokens.find(token).is_some())
    }

    #[test]
    fn file_that_changed_while_the_server_started_is_reloaded() {
        let folder = tempfile::tempdir().unwrap();
        let (mut reload, _) = reload(folder.path(), BOB);
        reload.check();
        assert!(knows(&reload, "b-token") && !knows(&reload, "a-token"));
        assert_eq!(reload.trust.reloads(), [1, 0]);
    }

    #[test]
    fn empty_or_half_written_token_file_changes_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let (mut reload, path) = reload(folder.path(), "");
        reload.check();
        assert!(knows(&reload, "a-token"), "an empty file");
        std::fs::write(&path, format!("{ALICE}b-token,b")).unwrap();
        reload.check();
        assert!(knows(&reload, "a-token") && !knows(&reload, "b-token"));
        assert_eq!(reload.trust.reloads(), [0, 2]);
        // An empty line is a content.
        std::fs::write(&path, "\n").unwrap();
        reload.check();
        assert!(!knows(&reload, "a-token"));
    }
}
