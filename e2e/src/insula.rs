//! The server process.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::time::SystemTime;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::command::{Running, Said, words};

/// A server that has reported readiness. It is killed on drop.
pub struct Insula {
    process: Running,
    url: String,
    data: PathBuf,
}

impl Insula {
    /// Starts a server on a free port.
    ///
    /// # Panics
    ///
    /// If it does not become ready.
    pub fn start(data: &Path, more: &[&str]) -> Self {
        Self::start_at("127.0.0.1:0", data, more)
    }

    /// Starts a server at this address.
    ///
    /// # Panics
    ///
    /// If it does not become ready.
    pub fn start_at(listen: &str, data: &Path, more: &[&str]) -> Self {
        let mut command = Command::new(binary());
        command
            .args(["serve", "--listen", listen, "--data-dir"])
            .arg(data)
            .args(more)
            .env_remove("RUST_LOG");
        let line = format!("insula serve --listen {listen} {}", more.join(" "));
        let mut process = Running::start(line, &mut command, "");
        let ready = process.await_line("insula ready ");
        let url = ready.split(' ').nth(2).expect("it says where");
        Self {
            url: url.to_owned(),
            data: data.to_owned(),
            process,
        }
    }

    /// The base URL, `https://127.0.0.1:…`.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// The listening address.
    pub fn address(&self) -> &str {
        self.url.trim_start_matches("https://")
    }

    /// The kubeconfig of the system administrator.
    pub fn kubeconfig(&self) -> PathBuf {
        self.data.join("admin.kubeconfig")
    }

    /// Runs `insula` as the system administrator.
    #[track_caller]
    pub fn run(&self, line: &str) -> Said {
        let mut command = Command::new(binary());
        command
            .args(words(line))
            .env("KUBECONFIG", self.kubeconfig())
            .env_remove("RUST_LOG");
        Running::start(format!("insula {line}"), &mut command, "").finish()
    }

    /// Kills the process without warning, as a power cut would. It has exited when this returns.
    ///
    /// # Panics
    ///
    /// If it has exited before.
    pub fn kill(&mut self) {
        self.process.end();
    }

    /// Kills the process and returns its output.
    pub fn end(self) -> Said {
        self.process.kill()
    }

    /// Asks the process to shut down and waits for its exit.
    ///
    /// # Panics
    ///
    /// If it does not exit.
    #[track_caller]
    pub fn stop(self) -> Said {
        let pid = i32::try_from(self.process.pid()).expect("a pid fits");
        kill(Pid::from_raw(pid), Signal::SIGTERM).expect("it runs");
        self.process.finish()
    }
}

/// The `insula` binary of the same profile. It is built if it is missing or older than its sources,
/// since `cargo test -p insula-e2e` does not build it.
///
/// # Panics
///
/// If it cannot be built.
pub fn binary() -> &'static Path {
    static BINARY: OnceLock<PathBuf> = OnceLock::new();
    BINARY.get_or_init(|| built("insula-cli", "insula"))
}

/// The `subctl` binary, likewise.
///
/// # Panics
///
/// If it cannot be built.
pub fn subctl() -> &'static Path {
    static BINARY: OnceLock<PathBuf> = OnceLock::new();
    BINARY.get_or_init(|| built("insula-cli", "subctl"))
}

/// The `fake-azure` binary, likewise.
///
/// # Panics
///
/// If it cannot be built.
pub fn fake_azure() -> &'static Path {
    static BINARY: OnceLock<PathBuf> = OnceLock::new();
    BINARY.get_or_init(|| built("insula-testkit", "fake-azure"))
}

fn built(package: &str, name: &str) -> PathBuf {
    let test = std::env::current_exe().expect("this runs");
    // target/debug/deps/test-hash
    let folder = test.ancestors().nth(2).expect("it is in a target folder");
    let binary = folder.join(name);
    if modified(&binary) < newest_source() {
        build(package, name, folder.ends_with("release"));
    }
    binary
}

fn build(package: &str, name: &str, release: bool) {
    let mut command = Command::new(env!("CARGO"));
    command.args(["build", "-p", package, "--bin", name]);
    if release {
        command.arg("--release");
    }
    let done = command.current_dir(root()).output();
    let done = done.expect("cargo ran before");
    let said = String::from_utf8_lossy(&done.stderr);
    assert!(done.status.success(), "cannot build {name}: {said}");
}

/// The root directory of the repository.
pub fn root() -> &'static Path {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().expect("it is a part of the project")
}

fn newest_source() -> Option<SystemTime> {
    let crates = std::fs::read_dir(root().join("crates")).ok()?;
    // Excludes the crates that only tests depend on.
    let crates = crates
        .flatten()
        .filter(|entry| entry.file_name() != "testkit");
    let sources = crates.map(|entry| entry.path().join("src"));
    sources.filter_map(|folder| newest_in(&folder)).max()
}

fn newest_in(folder: &Path) -> Option<SystemTime> {
    let entries = std::fs::read_dir(folder).ok()?;
    let newest = |path: PathBuf| match path.is_dir() {
        true => newest_in(&path),
        false => modified(&path),
    };
    entries
        .flatten()
        .filter_map(|entry| newest(entry.path()))
        .max()
}

fn modified(path: &Path) -> Option<SystemTime> {
    path.metadata().ok()?.modified().ok()
}
