//! The server's own keys and certificates.
//!
//! The CA and the first service account key are created once and never replaced: clients trust
//! the one, tokens are signed with the other until `insula keys rotate`. Issued certificates are renewed when they do not
//! match, and after two thirds of their lifetime.

use std::collections::BTreeSet;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use insula_access::{Authority, AuthorityError, Subject, Validity};
use insula_core::{MASTERS, Space};
use rcgen::KeyPair;

use crate::failure::Failure;
use crate::private_file;
use crate::secret::Secret;
use crate::token_keys::FIRST_KEY_FILE;

/// The CA, the issued certificates and the service account key.
#[derive(Debug)]
pub struct Pki {
    /// The CA.
    pub authority: Authority,
    /// The certificates that the CA issued.
    pub leaves: Leaves,
    /// The first signing key of service account tokens, in PEM.
    pub service_account_key: Secret,
}

/// The certificates that the CA issues for the server itself.
#[derive(Clone, Debug)]
pub struct Leaves {
    /// The server's certificate.
    pub server: Identity,
    /// The administrator's certificate.
    pub admin: Identity,
}

/// The certificates to issue.
#[derive(Clone, Debug)]
pub struct LeafSettings {
    /// The DNS names and IP addresses of the server.
    pub names: BTreeSet<String>,
    /// Their lifetime.
    pub lasts: Duration,
}

/// A certificate and its key, in PEM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// The certificate.
    pub certificate: String,
    /// The key.
    pub key: Secret,
}

/// The administrator's user name.
pub const ADMINISTRATOR: &str = "kubernetes-admin";

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// As in kubeadm.
const CA_LASTS: Duration = Duration::from_secs(3650 * DAY.as_secs());

const RESTORE: &str = "nothing was changed; restore the pki folder from a backup, \
                       or move it away to start with a new CA";

/// Reads the folder, and creates what is missing or due.
pub fn ensure(folder: &Path, wanted: &LeafSettings, now: SystemTime) -> Result<Pki, Failure> {
    private_file::create_folder(folder)?;
    let pki_folder = PkiFolder {
        folder,
        wanted,
        now,
    };
    // Two servers with a common store may start at the same time.
    let _lock = lock(folder)?;
    let authority = pki_folder.authority()?;
    let ends = authority.validity().map_err(creation_failed)?.until;
    if ends <= now + wanted.lasts {
        let days = ends.duration_since(now).unwrap_or_default().as_secs() / DAY.as_secs();
        tracing::warn!(days, "CA expires soon");
    }
    let service_account_key = pki_folder.service_account_key()?;
    let leaves = pki_folder.leaves(&authority)?;
    Ok(Pki {
        authority,
        leaves,
        service_account_key,
    })
}

/// Renews the issued certificates that are due. Another server with the same folder may have
/// done so already.
pub fn renew(
    folder: &Path,
    authority: &Authority,
    wanted: &LeafSettings,
    now: SystemTime,
) -> Result<Leaves, Failure> {
    let pki_folder = PkiFolder {
        folder,
        wanted,
        now,
    };
    let _lock = lock(folder)?;
    if pki_folder.read("ca.crt")?.as_deref() != Some(authority.certificate_pem()) {
        let attempted = format!("cannot renew certificates in {}", folder.display());
        let why = "ca.crt is not the CA that this server started with";
        return Err(Failure::new(&attempted, why).hint("restart the server"));
    }
    pki_folder.leaves(authority)
}

/// Locks the folder until the file is dropped.
pub fn lock(folder: &Path) -> Result<File, Failure> {
    let lock = File::open(folder).and_then(|file| file.lock().map(|()| file));
    let attempted = format!("cannot lock {}", folder.display());
    lock.map_err(|error| Failure::new(&attempted, error))
}

impl Leaves {
    /// Returns whether one of them is to be renewed.
    pub fn are_due(&self, authority: &Authority, wanted: &LeafSettings, now: SystemTime) -> bool {
        let ends = authority.validity().map(|of| of.until).unwrap_or(now);
        [&self.server, &self.admin].into_iter().any(|leaf| {
            let issued = authority.recognise(&leaf.certificate);
            issued.is_none_or(|issued| is_due(issued.until, ends, wanted, now))
        })
    }
}

/// Returns whether a certificate is to be renewed: it has expired, or two thirds of its
/// lifetime are over and a new one would be valid longer. None is valid longer than the CA.
fn is_due(until: SystemTime, ca_ends: SystemTime, wanted: &LeafSettings, now: SystemTime) -> bool {
    until <= now || (until < ca_ends && until <= now + wanted.lasts / 3)
}

struct PkiFolder<'a> {
    folder: &'a Path,
    wanted: &'a LeafSettings,
    now: SystemTime,
}

impl PkiFolder<'_> {
    fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    fn read(&self, name: &str) -> Result<Option<String>, Failure> {
        private_file::read(&self.path(name)).map_err(|failure| failure.hint(RESTORE))
    }

    fn write(&self, name: &str, contents: &str) -> Result<(), Failure> {
        private_file::write(&self.path(name), contents)
    }

    fn authority(&self) -> Result<Authority, Failure> {
        match (self.read("ca.crt")?, self.read("ca.key")?) {
            (Some(certificate), Some(key)) => {
                Authority::from_pem(&certificate, &key).map_err(|error| self.unusable_ca(error))
            }
            (None, None) if !self.has_issued() => {
                let ca = Authority::generate("insula-ca", Validity::starting(self.now, CA_LASTS));
                let ca = ca.map_err(creation_failed)?;
                self.write("ca.key", &ca.key_pem())?;
                self.write("ca.crt", ca.certificate_pem())?;
                Ok(ca)
            }
            // The first start was interrupted between the two writes.
            (None, Some(key)) if !self.has_issued() => {
                let validity = Validity::starting(self.now, CA_LASTS);
                let ca = Authority::generate_with_key("insula-ca", &key, validity);
                let ca = ca.map_err(|error| self.unusable_ca(error))?;
                self.write("ca.crt", ca.certificate_pem())?;
                Ok(ca)
            }
            (None, _) => Err(self.unusable_ca("ca.crt is missing")),
            (Some(_), None) => Err(self.unusable_ca("ca.key is missing")),
        }
    }

    /// Returns whether clients may already trust the CA.
    fn has_issued(&self) -> bool {
        ["server.crt", "admin.crt"]
            .iter()
            .any(|name| self.path(name).exists())
    }

    fn unusable_ca(&self, error: impl std::fmt::Display) -> Failure {
        let attempted = format!("cannot use the CA in {}", self.folder.display());
        Failure::new(&attempted, error).hint(RESTORE)
    }

    fn service_account_key(&self) -> Result<Secret, Failure> {
        let name = FIRST_KEY_FILE;
        if let Some(key) = self.read(name)? {
            KeyPair::from_pem(&key).map_err(|_| {
                let attempted = format!("cannot use {}", self.path(name).display());
                Failure::new(&attempted, "not a PEM private key").hint(RESTORE)
            })?;
            return Ok(Secret::new(key));
        }
        let key = KeyPair::generate()
            .map_err(creation_failed)?
            .serialize_pem();
        self.write(name, &key)?;
        Ok(Secret::new(key))
    }

    fn leaves(&self, ca: &Authority) -> Result<Leaves, Failure> {
        Ok(Leaves {
            server: self.server(ca)?,
            admin: self.admin(ca)?,
        })
    }

    fn server(&self, ca: &Authority) -> Result<Identity, Failure> {
        let names = &self.wanted.names;
        let good = |certificate: &str| {
            let issued = ca.recognise(certificate);
            issued.is_some_and(|issued| issued.names == *names)
        };
        self.identity(ca, "server", good, |key, validity| {
            let names: Vec<_> = names.iter().cloned().collect();
            ca.issue_server(&names, key, validity)
        })
    }

    fn admin(&self, ca: &Authority) -> Result<Identity, Failure> {
        let subject = Subject {
            user: ADMINISTRATOR.to_owned(),
            groups: vec![MASTERS.to_owned()],
            tenant: Some(Space::System),
            tenant_uid: None,
        };
        let good = |certificate: &str| Subject::read(certificate).as_ref() == Ok(&subject);
        self.identity(ca, "admin", good, |key, validity| {
            ca.issue_client(&subject, key, validity)
        })
    }

    /// Returns the existing certificate if it is valid, else a new one.
    fn identity(
        &self,
        ca: &Authority,
        name: &str,
        good: impl Fn(&str) -> bool,
        issue: impl Fn(&KeyPair, Validity) -> Result<String, AuthorityError>,
    ) -> Result<Identity, Failure> {
        let (certificate_file, key_file) = (format!("{name}.crt"), format!("{name}.key"));
        let there = (self.read(&certificate_file)?, self.read(&key_file)?);
        if let (Some(certificate), Some(key)) = there
            && self.is_valid(ca, &certificate, &key)
            && good(&certificate)
        {
            let key = Secret::new(key);
            return Ok(Identity { certificate, key });
        }
        let key = KeyPair::generate().map_err(creation_failed)?;
        let certificate = issue(&key, self.validity(ca)?).map_err(creation_failed)?;
        let key = Secret::new(key.serialize_pem());
        self.write(&key_file, key.reveal())?;
        self.write(&certificate_file, &certificate)?;
        Ok(Identity { certificate, key })
    }

    /// Returns whether a certificate is issued by the CA, matches its key, and is not due.
    fn is_valid(&self, ca: &Authority, certificate: &str, key: &str) -> bool {
        let (Some(issued), Ok(key)) = (ca.recognise(certificate), KeyPair::from_pem(key)) else {
            return false;
        };
        let ends = ca.validity().map(|of| of.until);
        let due = |ends| is_due(issued.until, ends, self.wanted, self.now);
        issued.is_for(&key) && ends.is_ok_and(|ends| !due(ends))
    }

    /// Limits the validity to that of the CA, unless the CA has expired.
    fn validity(&self, ca: &Authority) -> Result<Validity, Failure> {
        let mut validity = Validity::starting(self.now, self.wanted.lasts);
        let ends = ca.validity().map_err(creation_failed)?.until;
        if ends > self.now {
            validity.until = validity.until.min(ends);
        }
        Ok(validity)
    }
}

fn creation_failed(error: impl std::fmt::Display) -> Failure {
    Failure::new("cannot create keys and certificates", error)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    const LEAF_LASTS: Duration = Duration::from_secs(365 * DAY.as_secs());

    const FILES: [&str; 7] = [
        "admin.crt",
        "admin.key",
        "ca.crt",
        "ca.key",
        "server.crt",
        "server.key",
        "service-account.key",
    ];

    struct Home {
        folder: tempfile::TempDir,
        now: SystemTime,
    }

    fn wanted(names: &[&str]) -> LeafSettings {
        LeafSettings {
            names: names.iter().map(|&name| name.to_owned()).collect(),
            lasts: LEAF_LASTS,
        }
    }

    impl Home {
        fn new() -> Self {
            Self {
                folder: tempfile::tempdir().unwrap(),
                now: SystemTime::now(),
            }
        }

        fn pki(&self) -> PathBuf {
            self.folder.path().join("pki")
        }

        fn ensure(&self, names: &[&str]) -> Result<Pki, Failure> {
            ensure(&self.pki(), &wanted(names), self.now)
        }

        fn files(&self) -> BTreeMap<String, String> {
            let entries = self.pki().read_dir().unwrap().map(|entry| entry.unwrap());
            let read = |path| std::fs::read_to_string(path).unwrap();
            entries
                .map(|entry| (entry.file_name().into_string().unwrap(), read(entry.path())))
                .collect()
        }

        fn write(&self, name: &str, contents: &str) {
            std::fs::write(self.pki().join(name), contents).unwrap();
        }

        fn remove(&self, name: &str) {
            std::fs::remove_file(self.pki().join(name)).unwrap();
        }

        /// The files that another start changes.
        fn changed_by(&self, names: &[&str]) -> Vec<String> {
            let before = self.files();
            self.ensure(names).unwrap();
            let after = self.files();
            let changed = after
                .into_iter()
                .filter(|(name, now)| before.get(name) != Some(now));
            changed.map(|(name, _)| name).collect()
        }
    }

    #[test]
    fn first_start_creates_private_files_and_the_second_changes_none() {
        let home = Home::new();
        let pki = home.ensure(&["localhost", "127.0.0.1", "::1"]).unwrap();
        assert_eq!(home.files().into_keys().collect::<Vec<_>>(), FILES);
        let mode = |path: PathBuf| path.metadata().unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(home.pki()), 0o700);
        for name in FILES {
            assert_eq!(mode(home.pki().join(name)), 0o600, "{name}");
        }
        let issued = pki
            .authority
            .recognise(&pki.leaves.server.certificate)
            .unwrap();
        let names = ["127.0.0.1", "::1", "localhost"];
        assert!(
            issued.names.iter().map(String::as_str).eq(names),
            "{issued:?}"
        );
        let admin = Subject::read(&pki.leaves.admin.certificate).unwrap();
        assert_eq!(admin.user, "kubernetes-admin");
        assert_eq!(admin.groups, ["system:masters"]);
        assert_eq!(admin.tenant, Some(Space::System));
        assert!(home.changed_by(&names).is_empty());
        let shown = format!("{pki:?}");
        assert!(!shown.contains("PRIVATE"), "{shown}");
    }

    #[test]
    fn invalid_certificates_are_reissued() {
        let (server, admin) = (["server.crt", "server.key"], ["admin.crt", "admin.key"]);
        let mut home = Home::new();
        home.ensure(&["a"]).unwrap();
        assert_eq!(home.changed_by(&["a", "b"]), server, "a name more");
        assert_eq!(home.changed_by(&["b"]), server, "a name less");
        home.remove("server.key");
        assert_eq!(home.changed_by(&["b"]), server, "a key lost");
        home.write("admin.crt", "nonsense");
        assert_eq!(home.changed_by(&["b"]), admin, "damage");
        let other = home.files()["server.key"].clone();
        home.write("admin.key", &other);
        assert_eq!(home.changed_by(&["b"]), admin, "another's key");
        let another = Home::new();
        another.ensure(&["b"]).unwrap();
        for name in server {
            home.write(name, &another.files()[name]);
        }
        assert_eq!(home.changed_by(&["b"]), server, "another's certificate");
        home.now += LEAF_LASTS * 2 / 3 - DAY;
        assert!(home.changed_by(&["b"]).is_empty());
        home.now += 2 * DAY;
        assert_eq!(home.changed_by(&["b"]), [admin, server].concat(), "age");
    }

    #[test]
    fn running_server_renews_with_the_ca_it_started_with() {
        let home = Home::new();
        let pki = home.ensure(&["a"]).unwrap();
        let (ca, wanted) = (&pki.authority, wanted(&["a"]));
        let renewed = |now| renew(&home.pki(), ca, &wanted, now);
        let young = home.now + LEAF_LASTS * 2 / 3 - DAY;
        assert!(!pki.leaves.are_due(ca, &wanted, young));
        let same = renewed(young).unwrap();
        assert_eq!(same.server, pki.leaves.server);
        assert_eq!(same.admin, pki.leaves.admin);
        let old = young + 2 * DAY;
        assert!(pki.leaves.are_due(ca, &wanted, old));
        let next = renewed(old).unwrap();
        assert_ne!(next.server, pki.leaves.server);
        assert_ne!(next.admin, pki.leaves.admin);
        assert!(!next.are_due(ca, &wanted, old));
        let names = ca.recognise(&next.server.certificate).unwrap().names;
        assert_eq!(names, wanted.names);
        // A second renewal finds nothing to do.
        assert_eq!(renewed(old).unwrap().server, next.server);
        let other = Home::new();
        other.ensure(&["a"]).unwrap();
        home.write("ca.crt", &other.files()["ca.crt"]);
        let message = renewed(old + LEAF_LASTS).unwrap_err().to_string();
        assert!(
            message.ends_with("is not the CA that this server started with"),
            "{message}"
        );
    }

    #[test]
    fn certificates_do_not_outlive_the_ca_and_are_not_reissued_repeatedly() {
        let mut home = Home::new();
        let pki = home.ensure(&["a"]).unwrap();
        let ends = pki.authority.validity().unwrap().until;
        let until = |home: &Home| {
            let leaves = home.ensure(&["a"]).unwrap().leaves;
            let issued = pki.authority.recognise(&leaves.server.certificate);
            issued.unwrap().until
        };
        home.now = ends - LEAF_LASTS / 2;
        assert_eq!(until(&home), ends);
        for left in [10 * DAY, DAY, Duration::from_secs(1)] {
            home.now = ends - left;
            assert!(
                home.changed_by(&["a"]).is_empty(),
                "{left:?} before its end"
            );
        }
        // Clients refuse it then, but tokens stay valid.
        home.now = ends + DAY;
        assert!(until(&home) > home.now);
        assert!(home.changed_by(&["a"]).is_empty());
    }

    #[test]
    fn interrupted_first_start_is_completed() {
        let home = Home::new();
        home.ensure(&["a"]).unwrap();
        for name in FILES.iter().filter(|&&name| name != "ca.key") {
            home.remove(name);
        }
        let key = home.files()["ca.key"].clone();
        home.ensure(&["a"]).unwrap();
        let files = home.files();
        assert_eq!(files["ca.key"], key);
        assert_eq!(files.into_keys().collect::<Vec<_>>(), FILES);
    }

    #[test]
    fn damaged_ca_or_key_is_refused_and_left_alone() {
        for (name, damage) in [
            ("ca.crt", Some("nonsense")),
            ("ca.key", Some("nonsense")),
            ("ca.crt", None),
            ("ca.key", None),
            ("service-account.key", Some("nonsense")),
        ] {
            let home = Home::new();
            home.ensure(&["a"]).unwrap();
            match damage {
                Some(contents) => home.write(name, contents),
                None => home.remove(name),
            }
            let before = home.files();
            let failure = home.ensure(&["a"]).unwrap_err();
            let message = format!("{failure:?}");
            assert!(message.contains("restore the pki folder"), "{message}");
            assert_eq!(home.files(), before, "{name}");
        }
    }
}
