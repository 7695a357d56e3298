//! Where a kubeconfig comes from.

use std::env;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use super::{Connection, Kubeconfig};
use crate::failure::Failure;

/// The kubeconfig that a command is told to use.
#[derive(clap::Args, Debug, Default)]
pub struct Source {
    /// The kubeconfig to use; default: $KUBECONFIG, insula-data/admin.kubeconfig, ~/.kube/config
    #[arg(long, value_name = "FILE", global = true)]
    kubeconfig: Option<PathBuf>,

    /// The context of it to use
    #[arg(long, value_name = "NAME", global = true)]
    context: Option<String>,
}

/// What `insula serve` writes without a --data-dir.
const OWN: &str = "insula-data/admin.kubeconfig";

impl Source {
    /// This file, and this context of it.
    pub const fn of(kubeconfig: PathBuf, context: Option<String>) -> Self {
        Self {
            kubeconfig: Some(kubeconfig),
            context,
        }
    }

    /// How to reach the server that is meant.
    pub fn connection(&self) -> Result<Connection, Failure> {
        let files = self.files_here()?;
        let mut merged: Option<Kubeconfig> = None;
        for file in files {
            let next = Kubeconfig::read(&file)?;
            merged = Some(match merged {
                None => next,
                Some(before) => before.merge(next),
            });
        }
        let merged = merged.ok_or_else(none)?;
        Connection::of(&merged, self.context.as_deref())
    }

    /// The files to read, all of which are there but one that was named.
    pub fn files_here(&self) -> Result<Vec<PathBuf>, Failure> {
        self.files(&Surroundings::here())
    }

    /// The context to use, if it is not the current one.
    pub fn context(&self) -> Option<&str> {
        self.context.as_deref()
    }

    /// The files to read, all of which are there.
    fn files(&self, surroundings: &Surroundings) -> Result<Vec<PathBuf>, Failure> {
        if let Some(file) = &self.kubeconfig {
            return Ok(vec![file.clone()]);
        }
        let listed = surroundings.listed.as_deref();
        if let Some(listed) = listed.filter(|listed| !listed.is_empty()) {
            let listed = env::split_paths(listed).filter(|path| !path.as_os_str().is_empty());
            let files: Vec<_> = listed.filter(|path| path.exists()).collect();
            let missing = "none of the files in $KUBECONFIG is there";
            return match files[..] {
                [] => Err(Failure::message(missing)),
                _ => Ok(files),
            };
        }
        let usual = surroundings
            .home
            .as_ref()
            .map(|home| home.join(".kube/config"));
        let places = std::iter::once(surroundings.folder.join(OWN)).chain(usual);
        let file = places.into_iter().find(|path| path.exists());
        file.map(|file| vec![file]).ok_or_else(none)
    }
}

/// What decides where to look.
struct Surroundings {
    listed: Option<std::ffi::OsString>,
    folder: PathBuf,
    home: Option<PathBuf>,
}

impl Surroundings {
    fn here() -> Self {
        Self {
            listed: env::var_os("KUBECONFIG"),
            folder: PathBuf::new(),
            home: env::home_dir(),
        }
    }
}

fn none() -> Failure {
    Failure::message("there is no kubeconfig that says where the server is")
        .hint("name one with --kubeconfig; `insula serve` writes admin.kubeconfig into its data directory")
}

impl Kubeconfig {
    /// Reads a file. References to other files are made to hold from everywhere.
    fn read(path: &Path) -> Result<Self, Failure> {
        let attempted = format!("cannot read {}", path.display());
        let text = std::fs::read_to_string(path);
        let text = text.map_err(|error| Failure::new(&attempted, error))?;
        let folder = path.parent().unwrap_or(Path::new(""));
        // What is wrong with it is told by its place only: the text has keys in it.
        Self::parse(&text, folder).map_err(|place| {
            let wrong = format!("it is no kubeconfig{place}");
            Failure::new(&attempted, wrong)
        })
    }

    pub(super) fn parse(text: &str, folder: &Path) -> Result<Self, String> {
        let mut config: Self = serde_saphyr::from_str(text).map_err(|error| {
            let place = error.location();
            place.map_or(String::new(), |place| format!(" (line {})", place.line()))
        })?;
        for named in &mut config.clusters {
            anchor(&mut named.cluster.certificate_authority, folder);
        }
        for named in &mut config.users {
            anchor(&mut named.user.client_certificate, folder);
            anchor(&mut named.user.client_key, folder);
            anchor(&mut named.user.token_file, folder);
        }
        Ok(config)
    }

    /// What is named in both is as the first says.
    pub(super) fn merge(mut self, next: Self) -> Self {
        for named in next.clusters {
            if self.clusters.iter().all(|had| had.name != named.name) {
                self.clusters.push(named);
            }
        }
        for named in next.users {
            if self.users.iter().all(|had| had.name != named.name) {
                self.users.push(named);
            }
        }
        for named in next.contexts {
            if self.contexts.iter().all(|had| had.name != named.name) {
                self.contexts.push(named);
            }
        }
        if self.current_context.is_empty() {
            self.current_context = next.current_context;
        }
        self
    }
}

fn anchor(reference: &mut Option<String>, folder: &Path) {
    let Some(path) = reference.take().filter(|path| !path.is_empty()) else {
        return;
    };
    let anchored = folder.join(OsStr::new(&path));
    *reference = Some(anchored.to_str().map_or(path, str::to_owned));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_flag_then_the_variable_then_our_own_then_the_usual() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        let here = |listed: Option<&[&str]>| Surroundings {
            listed: listed.map(|names| env::join_paths(names.iter().map(|name| at(name))).unwrap()),
            folder: at("work"),
            home: Some(at("home")),
        };
        let none = Source::default();
        let files = |listed| {
            none.files(&here(listed))
                .map_err(|failure| format!("{failure:?}"))
        };
        assert!(files(None).unwrap_err().contains("there is no kubeconfig"));
        let make = |name: &str| {
            std::fs::create_dir_all(at(name).parent().unwrap()).unwrap();
            std::fs::write(at(name), "").unwrap();
            vec![at(name)]
        };
        let usual = make("home/.kube/config");
        assert_eq!(files(None).unwrap(), usual);
        let own = make("work/insula-data/admin.kubeconfig");
        assert_eq!(files(None).unwrap(), own);
        let (one, two) = (make("one"), make("two"));
        let listed = files(Some(&["missing", "one", "two"])).unwrap();
        assert_eq!(listed, [one, two].concat());
        let missing = files(Some(&["missing"])).unwrap_err();
        assert!(
            missing.contains("none of the files in $KUBECONFIG"),
            "{missing}"
        );
        assert_eq!(files(Some(&[])).unwrap(), own, "an empty variable is none");
        let flag = Source {
            kubeconfig: Some(at("flag")),
            context: None,
        };
        assert_eq!(flag.files(&here(Some(&["one"]))).unwrap(), [at("flag")]);
    }
}
