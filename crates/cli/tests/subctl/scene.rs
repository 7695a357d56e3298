//! A server, a working folder, and the programs.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::prelude::{BASE64_STANDARD, BASE64_URL_SAFE};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;

/// The deadline of every wait.
pub const TIMEOUT: Duration = Duration::from_secs(60);

/// A server that is stopped when this value is dropped, and a working folder.
pub struct Scene {
    pub folder: tempfile::TempDir,
    pub url: String,
    child: Child,
}

impl Scene {
    /// A server with the operator.
    pub fn start() -> Self {
        Self::start_with(&["--operators", "broker"])
    }

    /// A server with these arguments.
    pub fn start_with(more: &[&str]) -> Self {
        let memory = [&["--store", "memory"][..], more].concat();
        Self::start_at("127.0.0.1:0", &memory)
    }

    /// A server that stores its objects there.
    pub fn start_at(listen: &str, more: &[&str]) -> Self {
        Self::start_in(tempfile::tempdir().unwrap(), listen, more)
    }

    /// Kills it, and starts another with these arguments in the same place.
    pub fn restart(mut self, listen: &str, more: &[&str]) -> Self {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
        let empty = tempfile::tempdir().unwrap();
        let folder = std::mem::replace(&mut self.folder, empty);
        Self::start_in(folder, listen, more)
    }

    fn start_in(folder: tempfile::TempDir, listen: &str, more: &[&str]) -> Self {
        let data = folder.path().join("insula-data");
        let mut child = Command::new(env!("CARGO_BIN_EXE_insula"))
            .args(["serve", "--listen", listen])
            .arg("--data-dir")
            .arg(data)
            .args(more)
            .current_dir(folder.path())
            .env_remove("RUST_LOG")
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut message = String::new();
        let mut lines = BufReader::new(child.stdout.take().unwrap());
        lines.read_line(&mut message).unwrap();
        let url = message.strip_prefix("insula ready ").unwrap();
        let url = url.split(' ').next().unwrap().to_owned();
        Self { folder, url, child }
    }

    /// A server with the operator and its prerequisites.
    pub fn deployed() -> Self {
        let scene = Self::start();
        scene.succeed(&["deploy", "axon-cp", "--without-deployment", "--spaces"]);
        scene
    }

    pub fn at(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub fn admin(&self) -> PathBuf {
        self.at("insula-data/admin.kubeconfig")
    }

    /// `subctl`, in the folder and with an empty environment.
    pub fn subctl(&self, arguments: &[&str]) -> Command {
        self.program(env!("CARGO_BIN_EXE_subctl"), arguments)
    }

    pub fn insula(&self, arguments: &[&str]) -> Command {
        self.program(env!("CARGO_BIN_EXE_insula"), arguments)
    }

    fn program(&self, program: &str, arguments: &[&str]) -> Command {
        let mut command = Command::new(program);
        command
            .args(arguments)
            .current_dir(self.folder.path())
            .env_remove("RUST_LOG")
            .env_remove("KUBECONFIG")
            .env("TZ", "UTC")
            .env("HOME", self.at("home"));
        command
    }

    /// Returns stdout; the command must succeed.
    pub fn succeed(&self, arguments: &[&str]) -> String {
        good(&self.subctl(arguments).output().unwrap())
    }

    /// Returns stderr; the command must fail without output.
    pub fn fail(&self, arguments: &[&str]) -> String {
        let output = self.subctl(arguments).output().unwrap();
        assert_eq!(output.status.code(), Some(1), "{output:?}");
        assert_eq!(stdout(&output), "");
        stderr(&output)
    }

    pub fn stop(mut self) -> Option<i32> {
        stop(&mut self.child)
    }
}

impl Drop for Scene {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

/// Stops a process and waits for it.
pub fn stop(child: &mut Child) -> Option<i32> {
    let pid = Pid::from_raw(child.id().try_into().unwrap());
    kill(pid, Signal::SIGTERM).unwrap();
    child.wait().unwrap().code()
}

pub fn good(output: &Output) -> String {
    assert_eq!(output.status.code(), Some(0), "{}", stderr(output));
    stdout(output)
}

pub fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

pub fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

/// Decodes a broker-info file.
pub fn decoded(file: &Path) -> Value {
    let text = std::fs::read_to_string(file).unwrap();
    serde_json::from_slice(&BASE64_URL_SAFE.decode(text).unwrap()).unwrap()
}

/// Decodes a value of a Secret in it.
pub fn datum(secret: &Value, key: &str) -> String {
    let text = secret["data"][key].as_str().unwrap();
    String::from_utf8(BASE64_STANDARD.decode(text).unwrap()).unwrap()
}

/// Waits until a condition holds.
pub fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let deadline = Instant::now() + TIMEOUT;
    while !is_so() {
        assert!(Instant::now() < deadline, "{what}: not in time");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Returns a free port.
pub fn free_port() -> u16 {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap().port()
}
