//! The file with static credentials for clusters that reference no identity.
//!
//! It is polled: for a mounted Secret the kubelet replaces a symbolic link, which is not reported
//! for the file itself.

use std::collections::BTreeMap;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::time::Duration;

use insula_identity::credential::Hidden;
use insula_identity::endpoint::{
    AllowedEndpoints, Endpoint, InvalidEndpoint, InvalidFingerprint, Trust,
};
use serde::Deserialize;
use tokio::sync::watch;
use tracing::{info, warn};

use super::StaticCredentials;
use crate::names::PORT;

/// The maximum size of the file.
const MAX_FILE_SIZE: u64 = 64 << 10;

/// The file, and its content when it was last read.
#[derive(Debug)]
pub struct CredentialsFile {
    file: PathBuf,
    /// The servers that the credentials may be sent to if the file names none.
    default_bound: AllowedEndpoints,
    last: LastRead,
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
    pub fn new(file: impl Into<PathBuf>, default_bound: AllowedEndpoints) -> Self {
        let (file, last) = (file.into(), LastRead::Unread);
        Self {
            file,
            default_bound,
            last,
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
        match parse(text.reveal(), &self.default_bound) {
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

#[derive(Deserialize)]
struct File {
    #[serde(default)]
    username: String,
    #[serde(default)]
    password: String,
    #[serde(default)]
    servers: Option<Vec<Server>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Server {
    address: String,
    #[serde(default)]
    thumbprint: Option<String>,
    #[serde(default)]
    insecure_skip_verify: bool,
}

/// Why a file is not used. The messages reveal none of its content.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
enum InvalidFile {
    #[error("it is not YAML with username, password and servers")]
    Format,
    #[error("{0} is missing or empty")]
    Missing(&'static str),
    #[error(transparent)]
    Address(#[from] InvalidEndpoint),
    #[error(transparent)]
    Thumbprint(#[from] InvalidFingerprint),
}

fn parse(text: &str, default_bound: &AllowedEndpoints) -> Result<StaticCredentials, InvalidFile> {
    // The parser's message would show lines of the file.
    let file: File = serde_saphyr::from_str(text).map_err(|_| InvalidFile::Format)?;
    let mut data = BTreeMap::new();
    for (key, value) in [("username", file.username), ("password", file.password)] {
        if value.is_empty() {
            return Err(InvalidFile::Missing(key));
        }
        data.insert(key.to_owned(), Hidden::new(value));
    }
    let bound = match file.servers {
        None => default_bound.clone(),
        Some(servers) => bound(&servers)?,
    };
    Ok(StaticCredentials { data, bound })
}

fn bound(servers: &[Server]) -> Result<AllowedEndpoints, InvalidFile> {
    let endpoints = servers.iter().map(|server| {
        let trust = match (&server.thumbprint, server.insecure_skip_verify) {
            (Some(text), _) if !text.is_empty() => Some(Trust::pinned(text)?),
            (_, true) => Some(Trust::AnyCertificate),
            (_, false) => None,
        };
        Ok((Endpoint::parse(&server.address, PORT)?, trust))
    });
    Ok(AllowedEndpoints::Only(
        endpoints.collect::<Result<_, InvalidFile>>()?,
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn end(text: &str) -> Endpoint {
        Endpoint::parse(text, PORT).unwrap()
    }

    /// Returns the user name, and the servers that it may be sent to.
    fn user_and_bound(given: Option<&StaticCredentials>) -> Option<(String, AllowedEndpoints)> {
        let given = given?;
        let name = given.data["username"].reveal().to_owned();
        Some((name, given.bound.clone()))
    }

    #[test]
    fn credentials_file_is_parsed_with_its_servers() {
        let default = AllowedEndpoints::Only(vec![(end("default.example"), None)]);
        let print = "ab".repeat(20);
        let pinned = Some(Trust::pinned(&print).unwrap());
        let both = AllowedEndpoints::Only(vec![
            (end("a.example:444"), pinned),
            (end("b.example"), Some(Trust::AnyCertificate)),
            (end("c.example"), None),
        ]);
        for (text, expected) in [
            ("username: u\npassword: p\n".to_owned(), Ok(default.clone())),
            (
                "username: u\npassword: p\nservers: []\n".to_owned(),
                Ok(AllowedEndpoints::Only(vec![])),
            ),
            (
                format!(
                    "username: u\npassword: p\nservers:\n- {{address: a.example:444, thumbprint: {print}}}\n\
                     - {{address: b.example, insecureSkipVerify: true}}\n- address: c.example\n"
                ),
                Ok(both),
            ),
            (
                "username: u\n".to_owned(),
                Err("password is missing or empty"),
            ),
            (
                "username: ''\npassword: p\n".to_owned(),
                Err("username is missing or empty"),
            ),
            ("".to_owned(), Err("username is missing or empty")),
            (
                "{{ hunter2".to_owned(),
                Err("it is not YAML with username, password and servers"),
            ),
            (
                "password: [hunter2]".to_owned(),
                Err("it is not YAML with username, password and servers"),
            ),
            (
                "username: u\npassword: p\nservers: [{address: 'https://a'}]".to_owned(),
                Err("\"https://a\" is no host, and no host with a port"),
            ),
            (
                "username: u\npassword: p\nservers: [{address: a, thumbprint: AA}]".to_owned(),
                Err(
                    "\"AA\" is no SHA-1 and no SHA-256 fingerprint: 20 or 32 pairs of hexadecimal digits",
                ),
            ),
        ] {
            let read = parse(&text, &default).map(|given| given.bound);
            let read = read.map_err(|error| error.to_string());
            assert_eq!(read, expected.map_err(str::to_owned), "{text}");
        }
    }

    #[test]
    fn debug_output_hides_static_credentials() {
        let given = parse(
            "username: u\npassword: hunter2\n",
            &AllowedEndpoints::Anywhere,
        )
        .unwrap();
        let mut file = CredentialsFile::new("/nowhere", AllowedEndpoints::Nowhere);
        file.last = LastRead::Content(Hidden::new("hunter2"));
        let shown = format!("{given:?} {file:?}");
        assert!(!shown.contains("hunter2"), "{shown}");
    }

    #[test]
    fn fr3_last_valid_content_counts_until_the_file_is_removed() {
        let folder = folder();
        let file = folder.join("credentials.yaml");
        let (sender, receiver) = watch::channel(None);
        let mut given = CredentialsFile::new(&file, AllowedEndpoints::Nowhere);
        let name = || user_and_bound(receiver.borrow().as_ref()).map(|(name, _)| name);
        for (content, expected) in [
            (None, None),
            (Some("username: a\npassword: p\n"), Some("a")),
            (Some("username: [\n"), Some("a")),
            (Some("username: b\npassword: p\n"), Some("b")),
            (Some("username: b\n"), Some("b")),
            (None, None),
            (Some("username: c\n"), None),
            (Some("username: c\npassword: p\n"), Some("c")),
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
        let mut given =
            CredentialsFile::new(folder.join("credentials.yaml"), AllowedEndpoints::Nowhere);
        given.poll(&sender);
        let following = tokio::spawn(given.watch(sender, Duration::from_millis(5)));
        let is = |name: &'static str| {
            move |given: &Option<StaticCredentials>| {
                user_and_bound(given.as_ref()).is_some_and(|(user, _)| user == name)
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
