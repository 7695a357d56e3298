//! The source of the kubeconfig.

use std::env;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use super::{Connection, Kubeconfig};
use crate::failure::Failure;

/// The kubeconfig of a command.
#[derive(clap::Args, Debug, Default)]
pub struct Source {
    /// Kubeconfig file (default: $KUBECONFIG, insula-data/admin.kubeconfig, ~/.kube/config)
    #[arg(long, value_name = "FILE", global = true)]
    kubeconfig: Option<PathBuf>,

    /// Context of the kubeconfig (default: the current one)
    #[arg(long, value_name = "NAME", global = true)]
    context: Option<String>,
}

/// The file that `insula serve` writes without --data-dir.
const ADMIN_KUBECONFIG: &str = "insula-data/admin.kubeconfig";

impl Source {
    /// Selects a file and a context of it.
    pub const fn of(kubeconfig: PathBuf, context: Option<String>) -> Self {
        Self {
            kubeconfig: Some(kubeconfig),
            context,
        }
    }

    /// Returns the connection to the server.
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
        let merged = merged.ok_or_else(not_found)?;
        Connection::of(&merged, self.context.as_deref())
    }

    /// Returns the files to read; only an explicitly named one may be missing.
    pub fn files_here(&self) -> Result<Vec<PathBuf>, Failure> {
        self.files(&Environment::current())
    }

    /// Returns the context, if it is not the current one.
    pub fn context(&self) -> Option<&str> {
        self.context.as_deref()
    }

    /// Returns the files to read.
    fn files(&self, environment: &Environment) -> Result<Vec<PathBuf>, Failure> {
        if let Some(file) = &self.kubeconfig {
            return Ok(vec![file.clone()]);
        }
        let listed = environment.listed.as_deref();
        if let Some(listed) = listed.filter(|listed| !listed.is_empty()) {
            let listed = env::split_paths(listed).filter(|path| !path.as_os_str().is_empty());
            let files: Vec<_> = listed.filter(|path| path.exists()).collect();
            let missing = "none of the files in $KUBECONFIG exists";
            return match files[..] {
                [] => Err(Failure::message(missing)),
                _ => Ok(files),
            };
        }
        let usual = environment
            .home
            .as_ref()
            .map(|home| home.join(".kube/config"));
        let places = std::iter::once(environment.folder.join(ADMIN_KUBECONFIG)).chain(usual);
        let file = places.into_iter().find(|path| path.exists());
        file.map(|file| vec![file]).ok_or_else(not_found)
    }
}

/// The environment that determines the default files.
struct Environment {
    listed: Option<std::ffi::OsString>,
    folder: PathBuf,
    home: Option<PathBuf>,
}

impl Environment {
    fn current() -> Self {
        Self {
            listed: env::var_os("KUBECONFIG"),
            folder: PathBuf::new(),
            home: env::home_dir(),
        }
    }
}

fn not_found() -> Failure {
    Failure::message("no kubeconfig found")
        .hint("pass one with --kubeconfig; `insula serve` writes admin.kubeconfig into its data directory")
}

impl Kubeconfig {
    /// Reads a file and resolves relative paths in it.
    fn read(path: &Path) -> Result<Self, Failure> {
        let attempted = format!("cannot read {}", path.display());
        let text = std::fs::read_to_string(path);
        let text = text.map_err(|error| Failure::new(&attempted, error))?;
        let folder = path.parent().unwrap_or(Path::new(""));
        // Reports only the position of a syntax error, since the text contains keys.
        Self::parse(&text, folder).map_err(|place| {
            let wrong = format!("not a kubeconfig{place}");
            Failure::new(&attempted, wrong)
        })
    }

    pub(super) fn parse(text: &str, folder: &Path) -> Result<Self, String> {
        let mut config: Self = serde_saphyr::from_str(text).map_err(|error| {
            let place = error.location();
            place.map_or(String::new(), |place| format!(" (line {})", place.line()))
        })?;
        for named in &mut config.clusters {
            resolve(&mut named.cluster.certificate_authority, folder);
        }
        for named in &mut config.users {
            resolve(&mut named.user.client_certificate, folder);
            resolve(&mut named.user.client_key, folder);
            resolve(&mut named.user.token_file, folder);
        }
        Ok(config)
    }

    /// Merges two kubeconfigs; the first one wins.
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

fn resolve(reference: &mut Option<String>, folder: &Path) {
    let Some(path) = reference.take().filter(|path| !path.is_empty()) else {
        return;
    };
    let resolved = folder.join(OsStr::new(&path));
    *reference = Some(resolved.to_str().map_or(path, str::to_owned));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kubeconfig_is_the_flags_then_the_variables_then_the_default_files() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        let here = |listed: Option<&[&str]>| Environment {
            listed: listed.map(|names| env::join_paths(names.iter().map(|name| at(name))).unwrap()),
            folder: at("work"),
            home: Some(at("home")),
        };
        let none = Source::default();
        let files = |listed| {
            none.files(&here(listed))
                .map_err(|failure| format!("{failure:?}"))
        };
        assert!(files(None).unwrap_err().contains("no kubeconfig found"));
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
        assert_eq!(
            files(Some(&[])).unwrap(),
            own,
            "an empty variable is ignored"
        );
        let flag = Source {
            kubeconfig: Some(at("flag")),
            context: None,
        };
        assert_eq!(flag.files(&here(Some(&["one"]))).unwrap(), [at("flag")]);
    }
}
