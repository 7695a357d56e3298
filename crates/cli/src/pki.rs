//! The keys and certificates that a server makes for itself.
//!
//! The CA and the service-account key are made once and never replaced: clients trust the
//! one, tokens are signed with the other. What the CA issued is made again when it is not
//! as it should be.

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

/// What a server proves itself with, and what it trusts.
#[derive(Debug)]
pub struct Pki {
    /// The CA.
    pub authority: Authority,
    /// What the server shows.
    pub server: Identity,
    /// What its administrator shows.
    pub admin: Identity,
    /// What it signs service accounts' tokens with, in PEM.
    pub service_account_key: Secret,
}

/// A certificate and its key, in PEM.
#[derive(Clone, Debug)]
pub struct Identity {
    /// The certificate.
    pub certificate: String,
    /// The key.
    pub key: Secret,
}

/// What the administrator is called.
pub const ADMINISTRATOR: &str = "kubernetes-admin";

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// As kubeadm has it: ten years for the CA, one for what it issues.
const CA_LASTS: Duration = Duration::from_secs(3650 * DAY.as_secs());
const LEAF_LASTS: Duration = Duration::from_secs(365 * DAY.as_secs());

/// What ends sooner than this is made again at the next start.
const RENEW_BEFORE: Duration = Duration::from_secs(30 * DAY.as_secs());

const RESTORE: &str = "nothing was changed; restore the pki folder from a copy, \
                       or move it away to begin with a new CA";

/// Reads what is in the folder, and makes what is missing, for a server with these DNS
/// names and IP addresses.
pub fn ensure(folder: &Path, names: &BTreeSet<String>, now: SystemTime) -> Result<Pki, Failure> {
    private_file::make_folder(folder)?;
    let maker = Maker { folder, now };
    // Two servers with a store elsewhere may begin at the same time.
    let _lock = maker.lock()?;
    let authority = maker.authority()?;
    let service_account_key = maker.service_account_key()?;
    let server = maker.server(&authority, names)?;
    let admin = maker.admin(&authority)?;
    Ok(Pki {
        authority,
        server,
        admin,
        service_account_key,
    })
}

struct Maker<'a> {
    folder: &'a Path,
    now: SystemTime,
}

impl Maker<'_> {
    fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    fn read(&self, name: &str) -> Result<Option<String>, Failure> {
        private_file::read(&self.path(name)).map_err(|failure| failure.hint(RESTORE))
    }

    fn write(&self, name: &str, contents: &str) -> Result<(), Failure> {
        private_file::write(&self.path(name), contents)
    }

    fn lock(&self) -> Result<File, Failure> {
        let lock = File::open(self.folder).and_then(|folder| folder.lock().map(|()| folder));
        let attempted = format!("cannot lock {}", self.folder.display());
        lock.map_err(|error| Failure::new(&attempted, error))
    }

    fn authority(&self) -> Result<Authority, Failure> {
        match (self.read("ca.crt")?, self.read("ca.key")?) {
            (Some(certificate), Some(key)) => {
                Authority::read(&certificate, &key).map_err(|error| self.unusable_ca(error))
            }
            (None, None) if !self.has_issued() => {
                let made = Authority::make("insula-ca", Validity::starting(self.now, CA_LASTS));
                let made = made.map_err(making)?;
                self.write("ca.key", &made.key_pem())?;
                self.write("ca.crt", made.certificate_pem())?;
                Ok(made)
            }
            // The first start ended between the two.
            (None, Some(key)) if !self.has_issued() => {
                let validity = Validity::starting(self.now, CA_LASTS);
                let made = Authority::make_with("insula-ca", &key, validity);
                let made = made.map_err(|error| self.unusable_ca(error))?;
                self.write("ca.crt", made.certificate_pem())?;
                Ok(made)
            }
            (None, _) => Err(self.unusable_ca("ca.crt is missing")),
            (Some(_), None) => Err(self.unusable_ca("ca.key is missing")),
        }
    }

    /// Whether clients may trust the CA already.
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
        let name = "service-account.key";
        if let Some(key) = self.read(name)? {
            KeyPair::from_pem(&key).map_err(|_| {
                let attempted = format!("cannot use {}", self.path(name).display());
                Failure::new(&attempted, "it is no private key in PEM").hint(RESTORE)
            })?;
            return Ok(Secret::new(key));
        }
        let key = KeyPair::generate().map_err(making)?.serialize_pem();
        self.write(name, &key)?;
        Ok(Secret::new(key))
    }

    fn server(&self, ca: &Authority, names: &BTreeSet<String>) -> Result<Identity, Failure> {
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

    /// What is there if it is as it should be, else a new one.
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
            && self.holds(ca, &certificate, &key)
            && good(&certificate)
        {
            let key = Secret::new(key);
            return Ok(Identity { certificate, key });
        }
        let key = KeyPair::generate().map_err(making)?;
        let certificate = issue(&key, Validity::starting(self.now, LEAF_LASTS));
        let certificate = certificate.map_err(making)?;
        let key = Secret::new(key.serialize_pem());
        self.write(&key_file, key.reveal())?;
        self.write(&certificate_file, &certificate)?;
        Ok(Identity { certificate, key })
    }

    /// Whether a certificate is the CA's, belongs to its key, and does not end soon.
    fn holds(&self, ca: &Authority, certificate: &str, key: &str) -> bool {
        let (Some(issued), Ok(key)) = (ca.recognise(certificate), KeyPair::from_pem(key)) else {
            return false;
        };
        issued.is_for(&key) && issued.until > self.now + RENEW_BEFORE
    }
}

fn making(error: impl std::fmt::Display) -> Failure {
    Failure::new("cannot make keys and certificates", error)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::os::unix::fs::PermissionsExt;

    use super::*;

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
            let names = names.iter().map(|&name| name.to_owned()).collect();
            ensure(&self.pki(), &names, self.now)
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

        /// The files that are different after another start.
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
    fn the_first_start_makes_everything_for_its_owner_only_and_the_second_nothing() {
        let home = Home::new();
        let pki = home.ensure(&["localhost", "127.0.0.1", "::1"]).unwrap();
        assert_eq!(home.files().into_keys().collect::<Vec<_>>(), FILES);
        let mode = |path: PathBuf| path.metadata().unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(home.pki()), 0o700);
        for name in FILES {
            assert_eq!(mode(home.pki().join(name)), 0o600, "{name}");
        }
        let issued = pki.authority.recognise(&pki.server.certificate).unwrap();
        let names = ["127.0.0.1", "::1", "localhost"];
        assert!(
            issued.names.iter().map(String::as_str).eq(names),
            "{issued:?}"
        );
        let admin = Subject::read(&pki.admin.certificate).unwrap();
        assert_eq!(admin.user, "kubernetes-admin");
        assert_eq!(admin.groups, ["system:masters"]);
        assert_eq!(admin.tenant, Some(Space::System));
        assert!(home.changed_by(&names).is_empty());
        let shown = format!("{pki:?}");
        assert!(!shown.contains("PRIVATE"), "{shown}");
    }

    #[test]
    fn what_was_issued_is_made_again_when_it_is_not_as_it_should_be() {
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
        home.now += LEAF_LASTS - RENEW_BEFORE - DAY;
        assert!(home.changed_by(&["b"]).is_empty());
        home.now += 2 * DAY;
        assert_eq!(home.changed_by(&["b"]), [admin, server].concat(), "age");
    }

    #[test]
    fn a_first_start_that_was_cut_short_is_finished() {
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
    fn damage_to_what_others_trust_is_refused_and_left_alone() {
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
            let said = format!("{failure:?}");
            assert!(said.contains("restore the pki folder"), "{said}");
            assert_eq!(home.files(), before, "{name}");
        }
    }
}
