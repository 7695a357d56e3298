//! A user with a folder and a kubeconfig.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use insula_e2e::command::{Running, Said, words};
use insula_e2e::insula::{self, subctl};

use crate::journal::Journal;
use crate::subm::Subm;

/// The default output file.
pub const FILE: &str = "broker-info.subm";

/// The log filter: everything of our programs, without the noise of the transport.
const TALK: &str = "debug,insula_broker=trace,insula_operator=trace,insula_cli=trace,\
                    kube_client=trace,h2=info,hyper=info,hyper_util=info,rustls=info";

/// A user who runs commands in a folder of their own.
#[derive(Clone, Debug)]
pub struct User {
    /// The folder.
    pub folder: PathBuf,
    kubeconfig: Option<PathBuf>,
    log: Option<&'static str>,
    journal: Arc<Journal>,
}

impl User {
    /// Creates a user in an empty folder.
    pub fn new(folder: &Path, kubeconfig: Option<&Path>, journal: &Arc<Journal>) -> Self {
        std::fs::create_dir_all(folder).unwrap();
        Self {
            folder: folder.to_owned(),
            kubeconfig: kubeconfig.map(Path::to_owned),
            log: None,
            journal: Arc::clone(journal),
        }
    }

    /// The same user in a subfolder.
    pub fn at(&self, folder: &str) -> Self {
        let folder = self.folder.join(folder);
        std::fs::create_dir_all(&folder).unwrap();
        Self {
            folder,
            ..self.clone()
        }
    }

    /// The same user with the most verbose logs.
    pub fn verbose(&self) -> Self {
        Self {
            log: Some(TALK),
            ..self.clone()
        }
    }

    /// The path of a file.
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// Runs `subctl`.
    #[track_caller]
    pub fn subctl(&self, line: &str) -> Said {
        let said = self.start(line).finish();
        self.journal.note(&said);
        said
    }

    /// Runs `subctl` successfully, and returns its stdout.
    #[track_caller]
    pub fn does(&self, line: &str) -> String {
        self.subctl(line).succeeds()
    }

    /// Runs `subctl`, which fails without output and with all of these in its message.
    #[track_caller]
    pub fn fails(&self, line: &str, why: &[&str]) -> String {
        let said = self.subctl(line);
        let told = said.code == Some(1) && why.iter().all(|why| said.err.contains(why));
        assert!(told, "not refused with {why:?}: {said}");
        said.err
    }

    /// Runs `subctl` with a wrong command line.
    #[track_caller]
    pub fn misuses(&self, line: &str, why: &str) {
        let said = self.subctl(line);
        let told = said.code == Some(2) && said.err.contains(why);
        assert!(told, "not a wrong command line for {why:?}: {said}");
    }

    /// Starts `subctl`.
    pub fn start(&self, line: &str) -> Running {
        self.begin("subctl", &mut Command::new(subctl()), line)
    }

    /// Starts `insula`.
    pub fn start_insula(&self, line: &str) -> Running {
        self.begin("insula", &mut Command::new(insula::binary()), line)
    }

    /// Runs another program.
    #[track_caller]
    pub fn run(&self, program: &Path, line: &str) -> Said {
        let name = program.display().to_string();
        let said = self.begin(&name, &mut Command::new(program), line).finish();
        self.journal.note(&said);
        said
    }

    fn begin(&self, name: &str, command: &mut Command, line: &str) -> Running {
        command
            .args(words(line))
            .current_dir(&self.folder)
            .env("HOME", &self.folder)
            .env_remove("RUST_LOG")
            .env_remove("KUBECONFIG");
        if let Some(kubeconfig) = &self.kubeconfig {
            command.env("KUBECONFIG", kubeconfig);
        }
        if let Some(log) = self.log {
            command.env("RUST_LOG", log);
        }
        Running::start(format!("{name} {line}"), command, "")
    }

    /// Reads a file and registers its secrets with the journal.
    #[track_caller]
    pub fn reads(&self, name: &str) -> Subm {
        let subm = Subm::read(&self.path(name));
        self.journal.hide(&subm);
        subm
    }

    /// The names of the files in the folder.
    pub fn files(&self) -> Vec<String> {
        let entries = std::fs::read_dir(&self.folder).unwrap().flatten();
        let name = |entry: std::fs::DirEntry| entry.file_name().into_string().unwrap();
        // Files of clients begin with a dot.
        let shown = entries.map(name).filter(|name| !name.starts_with('.'));
        let mut names: Vec<String> = shown.collect();
        names.sort();
        names
    }
}
