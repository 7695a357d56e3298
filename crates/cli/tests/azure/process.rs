//! An operator's process.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

/// The deadline of every wait.
const TIMEOUT: Duration = Duration::from_secs(60);

/// A process that is stopped when this value is dropped.
pub struct Process {
    child: Child,
    log: Arc<Mutex<String>>,
}

/// Returns the command with nothing in its environment but these variables.
fn command(kubeconfig: &Path, arguments: &[&str], env: &[(&str, &str)]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_insula"));
    command
        .args(arguments)
        .arg("--kubeconfig")
        .arg(kubeconfig)
        .env_clear()
        .env("RUST_LOG", "warn,insula_cli=info,insula_azure=info")
        .envs(env.iter().copied());
    command
}

/// Runs the command to its end, while the server goes on in this process.
pub async fn output(kubeconfig: &Path, arguments: &[&str], env: &[(&str, &str)]) -> Output {
    let mut command = command(kubeconfig, arguments, env);
    let run = tokio::task::spawn_blocking(move || command.output());
    run.await.unwrap().unwrap()
}

impl Process {
    /// Starts `insula operator azure`.
    pub fn start(kubeconfig: &Path, arguments: &[&str], env: &[(&str, &str)]) -> Self {
        let arguments = [&["operator", "azure"][..], arguments].concat();
        let mut child = command(kubeconfig, &arguments, env)
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let log: Arc<Mutex<String>> = Arc::default();
        let (lines, written) = (child.stderr.take().unwrap(), Arc::clone(&log));
        std::thread::spawn(move || {
            for line in BufReader::new(lines).lines().map_while(Result::ok) {
                written.lock().unwrap().push_str(&(line + "\n"));
            }
        });
        Self { child, log }
    }

    /// Returns what it has logged.
    pub fn log(&self) -> String {
        self.log.lock().unwrap().clone()
    }

    /// Waits until something is so.
    pub async fn until(&self, what: &str, mut is_so: impl AsyncFnMut() -> bool) {
        let begun = Instant::now();
        while !is_so().await {
            assert!(begun.elapsed() < TIMEOUT, "{what}: {}", self.log());
            tokio::task::yield_now().await;
        }
    }

    /// Waits until it has logged a text.
    pub async fn until_logged(&self, text: &str) {
        self.until(text, async || self.log().contains(text)).await;
    }

    /// Stops it, and returns its exit code.
    pub fn stop(mut self) -> Option<i32> {
        let pid = Pid::from_raw(self.child.id().try_into().unwrap());
        kill(pid, Signal::SIGTERM).unwrap();
        self.child.wait().unwrap().code()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}
