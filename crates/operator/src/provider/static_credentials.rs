//! The file with the operator's own credentials, for objects that reference none.
//!
//! It is polled: for a mounted Secret the kubelet replaces a symbolic link, which is not reported
//! for the file itself.

use std::fmt;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use insula_identity::credential::Hidden;
use tokio::sync::watch;
use tracing::{info, warn};

use super::StaticCredentials;

/// The maximum size of the file.
const MAX_FILE_SIZE: u64 = 64 << 10;

/// Parses the content of a file; the error reveals none of it.
type Parse = dyn Fn(&str) -> Result<StaticCredentials, String> + Send + Sync;

/// The file, and its content when it was last read.
pub struct CredentialsFile {
    file: PathBuf,
    parse: Arc<Parse>,
    last: LastRead,
}

impl fmt::Debug for CredentialsFile {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { file, last, .. } = self;
        write!(out, "CredentialsFile({}, {last:?})", file.display())
    }
}

/// The result of reading the file.
#[derive(Debug, PartialEq, Eq)]
enum LastRead {
    /// It was not read yet.
    Unread,
    Missing,
    /// Its content, valid or not.
    Content(Hidden),
    /// It could not be read.
    Unreadable,
}

impl CredentialsFile {
    /// Creates a reader for a file, which need not exist yet.
    pub fn new(
        file: impl Into<PathBuf>,
        parse: impl Fn(&str) -> Result<StaticCredentials, String> + Send + Sync + 'static,
    ) -> Self {
        Self {
            file: file.into(),
            parse: Arc::new(parse),
            last: LastRead::Unread,
        }
    }

    /// Reads the file and publishes its content. Invalid content changes nothing; a missing file
    /// withdraws the credentials.
    pub fn poll(&mut self, sender: &watch::Sender<Option<StaticCredentials>>) {
        let now = match content(&self.file) {
            Ok(Some(text)) => LastRead::Content(Hidden::new(text)),
            Ok(None) => LastRead::Missing,
            Err(error) => {
                if self.last != LastRead::Unreadable {
                    let file = self.file.display();
                    warn!(%file, %error, "credentials file unreadable, last content kept");
                }
                LastRead::Unreadable
            }
        };
        if now == self.last {
            return;
        }
        match &now {
            LastRead::Missing => self.withdraw(sender),
            LastRead::Content(text) => self.load(text, sender),
            LastRead::Unread | LastRead::Unreadable => {}
        }
        self.last = now;
    }

    /// Polls the file until the receiver is dropped.
    pub async fn watch(
        mut self,
        mut sender: watch::Sender<Option<StaticCredentials>>,
        interval: Duration,
    ) {
        loop {
            tokio::select! {
                () = sender.closed() => return,
                () = tokio::time::sleep(interval) => {}
            }
            // A mounted file may hang, so it is not read on a runtime thread.
            let polled = tokio::task::spawn_blocking(move || {
                self.poll(&sender);
                (self, sender)
            });
            match polled.await {
                Ok((file, returned)) => (self, sender) = (file, returned),
                Err(_) => return,
            }
        }
    }

    fn withdraw(&self, sender: &watch::Sender<Option<StaticCredentials>>) {
        if sender.send_replace(None).is_some() {
            let file = self.file.display();
            warn!(%file, "credentials file missing, static credentials withdrawn");
        }
    }

    fn load(&self, text: &Hidden, sender: &watch::Sender<Option<StaticCredentials>>) {
        let file = self.file.display();
        match (self.parse)(text.text().unwrap_or_default()) {
            Ok(given) => {
                sender.send_replace(Some(given));
                info!(%file, "credentials file loaded");
            }
            Err(error) => warn!(%file, %error, "credentials file rejected"),
        }
    }
}

/// Returns the content of the file, or `None` if it does not exist.
fn content(file: &Path) -> io::Result<Option<String>> {
    let opened = match std::fs::File::open(file) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        opened => opened?,
    };
    let mut text = String::new();
    opened.take(MAX_FILE_SIZE + 1).read_to_string(&mut text)?;
    match text.len() as u64 > MAX_FILE_SIZE {
        true => Err(io::Error::other("it is larger than 64 KiB")),
        false => Ok(Some(text)),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    /// Returns a reader for a file with `username: NAME` in its first line.
    fn reader(file: impl Into<PathBuf>) -> CredentialsFile {
        CredentialsFile::new(file, |text| {
            let name = text
                .lines()
                .next()
                .and_then(|line| line.strip_prefix("username: "));
            let name = name.ok_or("no user name")?;
            let data = [("username".to_owned(), Hidden::new(name))];
            Ok(StaticCredentials {
                data: BTreeMap::from(data),
                ..StaticCredentials::default()
            })
        })
    }

    fn user_of(given: Option<&StaticCredentials>) -> Option<String> {
        given?.data["username"].text().map(str::to_owned)
    }

    #[test]
    fn debug_output_hides_the_content() {
        let mut file = reader("/nowhere");
        file.last = LastRead::Content(Hidden::new("hunter2"));
        let shown = format!("{file:?}");
        assert!(!shown.contains("hunter2"), "{shown}");
    }

    #[test]
    fn fr3_last_valid_content_counts_until_the_file_is_removed() {
        let folder = folder();
        let file = folder.join("credentials.yaml");
        let (sender, receiver) = watch::channel(None);
        let mut given = reader(&file);
        let name = || user_of(receiver.borrow().as_ref());
        for (content, expected) in [
            (None, None),
            (Some("username: a\n"), Some("a")),
            (Some("user: [\n"), Some("a")),
            (Some("username: b\n"), Some("b")),
            (Some(""), Some("b")),
            (None, None),
            (Some("user: c\n"), None),
            (Some("username: c\n"), Some("c")),
        ] {
            match content {
                Some(text) => std::fs::write(&file, text).unwrap(),
                None => drop(std::fs::remove_file(&file)),
            }
            given.poll(&sender);
            assert_eq!(name().as_deref(), expected, "{content:?}");
        }
        std::fs::write(&file, "x".repeat(70_000)).unwrap();
        given.poll(&sender);
        assert_eq!(name().as_deref(), Some("c"), "too large");
        std::fs::remove_dir_all(folder).unwrap();
    }

    #[tokio::test]
    async fn fr3_mounted_secret_is_followed_through_its_links() {
        let folder = folder();
        let version = |name: &str, user: &str| {
            let within = folder.join(name);
            std::fs::create_dir(&within).unwrap();
            std::fs::write(
                within.join("credentials.yaml"),
                format!("username: {user}\npassword: p\n"),
            )
            .unwrap();
            // The kubelet also replaces the link in one step.
            std::os::unix::fs::symlink(name, folder.join("next")).unwrap();
            std::fs::rename(folder.join("next"), folder.join("..data")).unwrap();
        };
        version("..1", "a");
        std::os::unix::fs::symlink("..data/credentials.yaml", folder.join("credentials.yaml"))
            .unwrap();
        let (sender, mut receiver) = watch::channel(None);
        let mut given = reader(folder.join("credentials.yaml"));
        given.poll(&sender);
        let following = tokio::spawn(given.watch(sender, Duration::from_millis(5)));
        let is = |name: &'static str| {
            move |given: &Option<StaticCredentials>| {
                user_of(given.as_ref()).is_some_and(|user| user == name)
            }
        };
        let timeout = Duration::from_secs(20);
        tokio::time::timeout(timeout, receiver.wait_for(is("a")))
            .await
            .unwrap()
            .unwrap();
        version("..2", "b");
        tokio::time::timeout(timeout, receiver.wait_for(is("b")))
            .await
            .unwrap()
            .unwrap();
        drop(receiver);
        tokio::time::timeout(timeout, following)
            .await
            .unwrap()
            .unwrap();
        std::fs::remove_dir_all(folder).unwrap();
    }

    fn folder() -> PathBuf {
        let folder =
            std::env::temp_dir().join(format!("insula-credentials-{}", uuid::Uuid::new_v4()));
        std::fs::create_dir(&folder).unwrap();
        folder
    }
}
