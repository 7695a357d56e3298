//! The source of the kubeconfig.

use std::env;
use std::path::{Path, PathBuf};
use std::time::Duration;

use insula_operator::user_agent;
use kube::Config;
use kube::config::{KubeConfigOptions, Kubeconfig, NamedAuthInfo};

use super::load;
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

/// Longer than any watch is silent: the server ends it before.
const WATCH_READ_TIMEOUT: Duration = Duration::from_secs(300);

impl Source {
    /// Selects a file and a context of it.
    pub const fn of(kubeconfig: PathBuf, context: Option<String>) -> Self {
        Self {
            kubeconfig: Some(kubeconfig),
            context,
        }
    }

    /// Returns the client configuration of the kubeconfig; else that of the pod.
    pub async fn config(&self, agent: &'static str) -> Result<Config, Failure> {
        let mut config = match self.files_here() {
            Ok(files) => load::with_user(self.read(&files)?, &self.options()).await?,
            Err(none) => Config::incluster().map_err(|_| none)?,
        };
        config.read_timeout = Some(WATCH_READ_TIMEOUT);
        config.reset_reader_on_write = true;
        user_agent::set_user_agent(&mut config, agent);
        Ok(config)
    }

    /// Returns the context as an option of kube.
    pub fn options(&self) -> KubeConfigOptions {
        KubeConfigOptions {
            context: self.context.clone(),
            ..KubeConfigOptions::default()
        }
    }

    /// Reads and merges the files.
    pub fn read(&self, files: &[PathBuf]) -> Result<Kubeconfig, Failure> {
        let kubeconfig = load::merged(files)?;
        let has_plugin = |named: &NamedAuthInfo| {
            let user = named.auth_info.as_ref();
            user.is_some_and(|user| user.exec.is_some() || user.auth_provider.is_some())
        };
        // The folder may be another user's. `insula serve` writes no plugin there.
        let is_found = self.is_default() && files == [Path::new(ADMIN_KUBECONFIG)];
        if is_found && kubeconfig.auth_infos.iter().any(has_plugin) {
            let message = format!(
                "{ADMIN_KUBECONFIG} uses a credential plugin, which is not run from the current folder"
            );
            return Err(
                Failure::message(message).hint("pass the file with --kubeconfig if you trust it")
            );
        }
        Ok(kubeconfig)
    }

    /// Returns whether neither an argument nor the environment names a file.
    fn is_default(&self) -> bool {
        let listed = env::var_os("KUBECONFIG");
        self.kubeconfig.is_none() && listed.is_none_or(|listed| listed.is_empty())
    }

    /// Returns the files to read; only an explicitly named one may be missing.
    pub fn files_here(&self) -> Result<Vec<PathBuf>, Failure> {
        self.files(&Environment::current())
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
