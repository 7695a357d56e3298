//! kubectl, as one user.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use insula_testkit::peer;

use crate::command::{Running, Said, words};

/// As pinned in `tools/peers/kubectl/go.mod`.
const NAME: &str = "kubectl-1.36.4";

/// The oldest minor version of Kubernetes 1 whose kubectl knows every word that is said.
const OLDEST: u32 = 30;

/// kubectl with a kubeconfig, in a folder of its own.
#[derive(Clone, Debug)]
pub struct Kubectl {
    name: String,
    program: PathBuf,
    folder: PathBuf,
    kubeconfig: PathBuf,
    input: String,
    editor: String,
}

/// What every namespace has, which lists of names are not about.
const EVERYWHERE: &str = "configmap/kube-root-ca.crt";

impl Kubectl {
    /// Where kubectl is. If there is none, says that this test is skipped.
    pub fn find() -> Option<PathBuf> {
        static FOUND: OnceLock<Option<PathBuf>> = OnceLock::new();
        let found = FOUND.get_or_init(|| {
            let in_path = || Some(PathBuf::from("kubectl"));
            let found = peer::installed("INSULA_KUBECTL", NAME).or_else(in_path);
            found.filter(|program| minor_version(program) >= Some(OLDEST))
        });
        if found.is_none() {
            peer::skipped("kubectl is not installed (run tools/peers/install)");
        }
        found.clone()
    }

    /// As the user of a kubeconfig. What it keeps, it keeps in `folder`, where it also runs.
    pub fn new(name: &str, program: &Path, kubeconfig: &Path, folder: &Path) -> Self {
        Self {
            name: name.to_owned(),
            program: program.to_owned(),
            folder: folder.to_owned(),
            kubeconfig: kubeconfig.to_owned(),
            input: String::new(),
            editor: "false".to_owned(),
        }
    }

    /// Who it is.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The program.
    pub fn program(&self) -> &Path {
        &self.program
    }

    /// Where it runs.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The same, with this on its stdin.
    pub fn given(&self, input: &str) -> Self {
        Self {
            input: input.to_owned(),
            ..self.clone()
        }
    }

    /// The same, with this to edit files.
    pub fn editing(&self, editor: &str) -> Self {
        Self {
            editor: editor.to_owned(),
            ..self.clone()
        }
    }

    /// Writes a file where it runs.
    ///
    /// # Panics
    ///
    /// If it cannot.
    pub fn write(&self, path: &str, text: &str) {
        let path = self.folder.join(path);
        std::fs::create_dir_all(path.parent().expect("it is in a folder"))
            .and_then(|()| std::fs::write(&path, text))
            .unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    }

    /// Starts a command.
    pub fn start(&self, line: &str) -> Running {
        let mut command = Command::new(&self.program);
        command.arg("--cache-dir").arg(self.folder.join("cache"));
        self.begin(&mut command, line)
    }

    fn begin(&self, command: &mut Command, line: &str) -> Running {
        command
            .args(words(line))
            .current_dir(&self.folder)
            .env("HOME", &self.folder)
            .env("KUBECONFIG", &self.kubeconfig)
            .env("KUBE_EDITOR", &self.editor);
        let line = format!("{}$ kubectl {line}", self.name);
        Running::start(line, command, &self.input)
    }

    /// Runs a command to its end without any flag of ours: some words must come first.
    #[track_caller]
    pub fn run_bare(&self, line: &str) -> Said {
        self.begin(&mut Command::new(&self.program), line).finish()
    }

    /// Its minor version.
    pub fn minor(&self) -> u32 {
        minor_version(&self.program).unwrap_or_default()
    }

    /// Runs a command to its end.
    #[track_caller]
    pub fn run(&self, line: &str) -> Said {
        self.start(line).finish()
    }

    /// Runs a command that succeeds; gives what it printed.
    #[track_caller]
    pub fn get(&self, line: &str) -> String {
        self.run(line).succeeds()
    }

    /// Runs a command that succeeds and prints exactly this, but for space at the end.
    #[track_caller]
    pub fn prints(&self, line: &str, text: &str) {
        let said = self.run(line);
        let own = said.out.lines().filter(|line| *line != EVERYWHERE);
        let out = own.collect::<Vec<_>>().join("\n");
        let out = out.trim_end();
        assert!(said.code == Some(0) && out == text, "not {text:?}: {said}");
    }

    /// Runs a command that succeeds and prints lines with these in them, in this order.
    #[track_caller]
    pub fn shows(&self, line: &str, texts: &[&str]) {
        let said = self.run(line);
        assert_eq!(said.code, Some(0), "{said}");
        let mut lines = said.out.lines().map(squeezed);
        for text in texts {
            let found = lines.any(|line| line.contains(text));
            assert!(found, "no {text:?} (in this order) in {said}");
        }
    }

    /// Runs a command that fails, and says why on stderr.
    #[track_caller]
    pub fn refuses(&self, line: &str, why: &str) {
        let said = self.run(line);
        let refused = said.code == Some(1) && said.err.contains(why);
        assert!(refused, "not refused with {why:?}: {said}");
    }

    /// `auth can-i` says yes, in words and by its exit code.
    #[track_caller]
    pub fn may(&self, what: &str) {
        let said = self.run(&format!("auth can-i {what}"));
        let yes = said.code == Some(0) && said.out == "yes\n";
        assert!(yes, "not yes: {said}");
    }

    /// `auth can-i` says no, perhaps with a reason, and by its exit code.
    #[track_caller]
    pub fn may_not(&self, what: &str) {
        let said = self.run(&format!("auth can-i {what}"));
        let no = said.code == Some(1) && (said.out == "no\n" || said.out.starts_with("no - "));
        assert!(no, "not no: {said}");
    }
}

/// With one space where a table has many.
pub fn squeezed(line: &str) -> String {
    line.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// `Some(32)` for `Client Version: v1.32.4`.
fn minor_version(program: &Path) -> Option<u32> {
    let said = Command::new(program).args(["version", "--client"]).output();
    let said = String::from_utf8(said.ok()?.stdout).ok()?;
    let version = said
        .lines()
        .find_map(|line| line.strip_prefix("Client Version: v1."))?;
    version.split('.').next()?.parse().ok()
}
