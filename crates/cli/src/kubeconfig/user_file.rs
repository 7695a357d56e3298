//! The kubeconfig of the user, which other programs change as well.

use std::env;
use std::ffi::OsStr;
use std::fs::{self, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use kube::config::Kubeconfig;

use super::merge::{CurrentContext, MergeError, OtherServer, merge};
use super::ordered::Ordered;
use crate::failure::Failure;
use crate::output;
use crate::private_file;

/// The file that `insula serve` writes into its data directory, and writes anew.
const WRITTEN_BY_SERVER: &str = "admin.kubeconfig";

/// How long another program may hold the lock, which takes it for one change.
const LOCK_TIMEOUT: Duration = Duration::from_secs(5);
const LOCK_POLL_INTERVAL: Duration = Duration::from_millis(20);

/// Returns the file that `kubectl config` changes: of the files in `$KUBECONFIG` the first that
/// exists, else the last; without the variable `~/.kube/config`.
pub fn default_path() -> Result<PathBuf, Failure> {
    let listed = env::var_os("KUBECONFIG").unwrap_or_default();
    let home = env::home_dir();
    choose(&listed, home.as_deref()).ok_or_else(|| {
        Failure::message("there is no home directory for ~/.kube/config")
            .hint("name the file: --merge=FILE")
    })
}

fn choose(listed: &OsStr, home: Option<&Path>) -> Option<PathBuf> {
    let listed = env::split_paths(listed).filter(|path| !path.as_os_str().is_empty());
    let listed: Vec<_> = listed.collect();
    let existing = listed.iter().find(|path| path.exists());
    let chosen = existing.or(listed.last()).cloned();
    chosen.or_else(|| Some(home?.join(".kube/config")))
}

/// Adds the context of a kubeconfig to a file, or renews it there, as one change.
pub async fn add(
    path: &Path,
    new: &Kubeconfig,
    other_server: OtherServer,
) -> Result<CurrentContext, Failure> {
    let attempted = format!("cannot add a context to {}", path.display());
    let failed = |error: io::Error| Failure::new(&attempted, error);
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder).map_err(failed)?;
    }
    let _lock = Lock::acquire(path, LOCK_TIMEOUT, &attempted).await?;
    // A link keeps leading to the file, which is replaced.
    let target = match fs::canonicalize(path) {
        Ok(target) => target,
        Err(error) if error.kind() == io::ErrorKind::NotFound && !path.is_symlink() => {
            path.to_owned()
        }
        Err(error) => return Err(failed(error)),
    };
    if target.file_name() == Some(OsStr::new(WRITTEN_BY_SERVER)) {
        let why = "the server writes this file, and would remove the context";
        return Err(Failure::new(&attempted, why)
            .hint("name another file: --merge=FILE, for instance ~/.kube/config"));
    }
    let text = private_file::read(&target)?.unwrap_or_default();
    let mut file = parse(&text).map_err(|why| Failure::new(&attempted, why))?;
    let current = merge(&mut file, new, other_server).map_err(|error| {
        let failure = Failure::new(&attempted, &error);
        match error {
            MergeError::OtherServer { .. } => failure.hint(
                "name another context with --context-name, or replace this one with --overwrite",
            ),
            MergeError::NotAKubeconfig(_) => failure,
        }
    })?;
    private_file::write(&target, &output::yaml(&file)?)?;
    Ok(current)
}

/// Parses a file. Of a syntax error only the position is reported, since the text contains keys.
fn parse(text: &str) -> Result<Ordered, String> {
    Ordered::parse(text).map_err(|error| {
        let line = error.location().map(|place| place.line());
        let line = line.map_or(String::new(), |line| format!(" (line {line})"));
        format!("it is not a kubeconfig{line}")
    })
}

/// The lock file that kubectl creates beside a kubeconfig while it changes it.
struct Lock(PathBuf);

impl Lock {
    async fn acquire(path: &Path, timeout: Duration, attempted: &str) -> Result<Self, Failure> {
        let mut lock = path.as_os_str().to_owned();
        lock.push(".lock");
        let lock = PathBuf::from(lock);
        let created = tokio::time::timeout(timeout, async {
            loop {
                match OpenOptions::new().write(true).create_new(true).open(&lock) {
                    Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                        tokio::time::sleep(LOCK_POLL_INTERVAL).await;
                    }
                    other => return other,
                }
            }
        });
        match created.await {
            Ok(Ok(_)) => Ok(Self(lock)),
            Ok(Err(error)) => Err(Failure::new(attempted, error)),
            Err(_) => {
                let why = format!("{} exists: another program changes it", lock.display());
                Err(Failure::new(attempted, why)
                    .hint(format!("if none does: rm {}", lock.display())))
            }
        }
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_file(&self.0) {
            tracing::warn!(%error, path = %self.0.display(), "lock file removal failed");
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    fn new() -> Kubeconfig {
        let text = "current-context: acme\n\
                    clusters: [{name: c, cluster: {server: 'https://h/tenants/acme'}}]\n\
                    users: [{name: u, user: {token: t}}]\n\
                    contexts: [{name: acme, context: {cluster: c, user: u}}]\n";
        serde_saphyr::from_str(text).unwrap()
    }

    async fn added(path: &Path) -> Result<CurrentContext, String> {
        let added = add(path, &new(), OtherServer::Refused).await;
        added.map_err(|failure| failure.to_string())
    }

    #[test]
    fn file_is_chosen_as_kubectl_does() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        let choose = |listed: &[&str]| {
            let listed = env::join_paths(listed.iter().map(|name| at(name))).unwrap();
            choose(&listed, Some(&at("home"))).unwrap()
        };
        assert_eq!(choose(&[]), at("home/.kube/config"));
        assert_eq!(choose(&["a"]), at("a"));
        assert_eq!(choose(&["a", "b"]), at("b"), "none exists");
        fs::write(at("b"), "").unwrap();
        assert_eq!(choose(&["a", "b", "c"]), at("b"));
        assert_eq!(super::choose(OsStr::new(""), None), None);
    }

    #[tokio::test]
    async fn file_is_created_private_and_changed_through_links() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("home/.kube/config");
        assert_eq!(added(&path).await, Ok(CurrentContext::Added));
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
        let link = folder.path().join("link");
        symlink(&path, &link).unwrap();
        assert_eq!(
            added(&link).await,
            Ok(CurrentContext::Kept("acme".to_owned()))
        );
        assert!(link.is_symlink(), "it was not replaced");
        let read = Kubeconfig::read_from(&path).unwrap();
        assert_eq!(read.contexts.len(), 1);
        let left: Vec<_> = path.parent().unwrap().read_dir().unwrap().collect();
        assert_eq!(left.len(), 1, "{left:?}");
    }

    #[tokio::test]
    async fn refused_change_leaves_the_file_alone_and_quotes_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("config");
        let text = "users:\n- {name: u, user: {token: s3cret}\nx";
        fs::write(&path, text).unwrap();
        let refused = added(&path).await.unwrap_err();
        assert!(
            refused.contains("it is not a kubeconfig (line "),
            "{refused}"
        );
        assert!(!refused.contains("s3cret"), "{refused}");
        assert_eq!(fs::read_to_string(&path).unwrap(), text);
        assert!(!folder.path().join("config.lock").exists());
        let admin = folder.path().join("admin.kubeconfig");
        let refused = added(&admin).await.unwrap_err();
        assert!(refused.contains("the server writes this file"), "{refused}");
        assert!(!admin.exists());
    }

    #[tokio::test]
    async fn file_is_locked_as_kubectl_does() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("config");
        let lock = folder.path().join("config.lock");
        fs::write(&lock, "").unwrap();
        let at_once = Lock::acquire(&path, Duration::ZERO, "cannot add");
        let refused = at_once.await.err().unwrap().to_string();
        assert!(refused.starts_with("cannot add: "), "{refused}");
        assert!(refused.contains("config.lock exists"), "{refused}");
        assert!(lock.exists(), "it belongs to the other program");
        let waiting = added(&path);
        let released = async { fs::remove_file(&lock).unwrap() };
        let (added, ()) = tokio::join!(waiting, released);
        assert_eq!(added, Ok(CurrentContext::Added));
        assert!(path.exists() && !lock.exists());
    }
}
