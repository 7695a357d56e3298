//! kubectl as one user.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::thread;
use std::time::{Duration, Instant};

use insula_testkit::peer;

use crate::command::{Running, Said, words};

/// As pinned in `tools/peers/kubectl/go.mod`.
const NAME: &str = "kubectl-1.36.4";

/// The oldest minor version of kubectl 1 that knows every command used here.
const MIN_MINOR: u32 = 30;

/// The deadline of a wait for an expected output.
const AWAIT_TIMEOUT: Duration = Duration::from_secs(90);
/// The interval between two attempts.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// kubectl with a kubeconfig and its own working directory.
#[derive(Clone, Debug)]
pub struct Kubectl {
    name: String,
    program: PathBuf,
    folder: PathBuf,
    kubeconfig: PathBuf,
    input: String,
    editor: String,
}

/// The object of every namespace that lists of names leave out.
const DEFAULT_CONFIG_MAP: &str = "configmap/kube-root-ca.crt";

impl Kubectl {
    /// Finds kubectl. If there is none, reports that the test is skipped.
    pub fn find() -> Option<PathBuf> {
        static FOUND: OnceLock<Option<PathBuf>> = OnceLock::new();
        let found = FOUND.get_or_init(|| {
            let in_path = || Some(PathBuf::from("kubectl"));
            let found = peer::installed("INSULA_KUBECTL", NAME).or_else(in_path);
            found.filter(|program| minor_version(program) >= Some(MIN_MINOR))
        });
        if found.is_none() {
            peer::skipped("kubectl is not installed (run tools/peers/install)");
        }
        found.clone()
    }

    /// kubectl with this kubeconfig. Its cache and working directory are in `folder`.
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

    /// The user's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The program.
    pub fn program(&self) -> &Path {
        &self.program
    }

    /// The working directory.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The same with this standard input.
    pub fn given(&self, input: &str) -> Self {
        Self {
            input: input.to_owned(),
            ..self.clone()
        }
    }

    /// The same with this editor.
    pub fn editing(&self, editor: &str) -> Self {
        Self {
            editor: editor.to_owned(),
            ..self.clone()
        }
    }

    /// Writes a file in the working directory.
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

    /// Runs a command without additional flags, for commands that must come first.
    #[track_caller]
    pub fn run_bare(&self, line: &str) -> Said {
        self.begin(&mut Command::new(&self.program), line).finish()
    }

    /// The minor version.
    pub fn minor(&self) -> u32 {
        minor_version(&self.program).unwrap_or_default()
    }

    /// Runs a command and waits for it.
    #[track_caller]
    pub fn run(&self, line: &str) -> Said {
        self.start(line).finish()
    }

    /// Runs a command that must succeed and returns its output.
    #[track_caller]
    pub fn get(&self, line: &str) -> String {
        self.run(line).succeeds()
    }

    /// Repeats a command that must succeed until its output is as expected, and returns that.
    ///
    /// # Panics
    ///
    /// If it does not become so in time.
    #[track_caller]
    pub fn await_output(&self, line: &str, is_expected: impl Fn(&str) -> bool) -> String {
        let deadline = Instant::now() + AWAIT_TIMEOUT;
        loop {
            let out = self.get(line);
            if is_expected(&out) {
                return out;
            }
            assert!(Instant::now() < deadline, "{line} prints {out:?}");
            thread::sleep(POLL_INTERVAL);
        }
    }

    /// Asserts that a command succeeds and prints exactly this text, except for trailing space.
    #[track_caller]
    pub fn prints(&self, line: &str, text: &str) {
        let said = self.run(line);
        let own = said.out.lines().filter(|line| *line != DEFAULT_CONFIG_MAP);
        let out = own.collect::<Vec<_>>().join("\n");
        let out = out.trim_end();
        assert!(said.code == Some(0) && out == text, "not {text:?}: {said}");
    }

    /// Asserts that a command succeeds and prints lines containing these texts, in this order.
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

    /// Asserts that a command fails with this text on stderr.
    #[track_caller]
    pub fn refuses(&self, line: &str, why: &str) {
        let said = self.run(line);
        let refused = said.code == Some(1) && said.err.contains(why);
        assert!(refused, "not refused with {why:?}: {said}");
    }

    /// Asserts that `auth can-i` answers yes, in text and exit code.
    #[track_caller]
    pub fn may(&self, what: &str) {
        let said = self.run(&format!("auth can-i {what}"));
        let yes = said.code == Some(0) && said.out == "yes\n";
        assert!(yes, "not yes: {said}");
    }

    /// Asserts that `auth can-i` answers no, possibly with a reason, in text and exit code.
    #[track_caller]
    pub fn may_not(&self, what: &str) {
        let said = self.run(&format!("auth can-i {what}"));
        let no = said.code == Some(1) && (said.out == "no\n" || said.out.starts_with("no - "));
        assert!(no, "not no: {said}");
    }
}

/// Collapses runs of spaces, as in table columns.
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
