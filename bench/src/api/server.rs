//! A server process, with its own folder.

use std::ffi::OsString;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use insula_testkit::etcd::{EtcdServer, Settings};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tempfile::TempDir;

use super::kubeconfig::Kubeconfig;
use super::subject::Subject;
use crate::report::progress;
use crate::system::data_folder;

/// The timeout of a start: twenty times that of a slow one.
const READY: Duration = Duration::from_secs(30);
const STOP: Duration = Duration::from_secs(30);

/// The settings of a server.
#[derive(Clone, Debug)]
pub struct Program {
    pub path: PathBuf,
    pub command: &'static str,
    pub store: Store,
    /// Further arguments.
    pub more: Vec<OsString>,
}

/// The store of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Store {
    Embedded,
    Memory,
    Etcd,
}

/// A running server. Its process ends with this value.
pub struct Server {
    pub subject: Subject,
    /// The time from the start of the process to readiness.
    pub ready_after: Duration,
    /// The program that it was started from.
    program: PathBuf,
    process: Process,
    folder: TempDir,
    etcd: Option<EtcdServer>,
}

/// A process that is killed when dropped.
pub struct Process(Child);

impl Program {
    pub fn name(&self) -> &'static str {
        match self.store {
            Store::Embedded => "embedded",
            Store::Memory => "memory",
            Store::Etcd => "etcd",
        }
    }

    /// Returns whether this is the floor: the program that measures.
    pub fn is_floor(&self) -> bool {
        std::env::current_exe().is_ok_and(|floor| self.path == floor)
    }

    /// Starts it with an empty folder.
    pub fn start(&self) -> Result<Server> {
        let folder = tempfile::tempdir_in(data_folder()?)?;
        let etcd = match self.store {
            Store::Etcd => Some(start_etcd(folder.path())?),
            _ => None,
        };
        self.start_on(folder, etcd)
    }

    fn start_on(&self, folder: TempDir, etcd: Option<EtcdServer>) -> Result<Server> {
        let data = folder.path().join("data");
        let log = folder.path().join("log");
        let mut command = Command::new(&self.path);
        command
            .arg(self.command)
            .arg("--data-dir")
            .arg(&data)
            .args(["--listen", "127.0.0.1:0", "--store", self.name()])
            .args(&self.more)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(File::create(&log)?);
        if let Some(etcd) = &etcd {
            command.args(["--etcd-servers", &etcd.endpoint()]);
        }
        let begun = Instant::now();
        let child = command.spawn();
        let mut process =
            Process(child.with_context(|| format!("cannot start {}", self.path.display()))?);
        let out = process.0.stdout.take().context("a child without stdout")?;
        let line = first_line(out).with_context(|| last_words(&log))?;
        let ready_after = begun.elapsed();
        let mut pids = vec![process.0.id()];
        pids.extend(etcd.as_ref().and_then(EtcdServer::pid));
        Ok(Server {
            subject: Subject {
                kubeconfig: Kubeconfig::read(&kubeconfig(&line)?)?,
                pids,
            },
            ready_after,
            program: self.path.clone(),
            process,
            folder,
            etcd,
        })
    }
}

impl Server {
    /// Returns the kubeconfig of its administrator.
    pub fn kubeconfig(&self) -> PathBuf {
        self.folder.path().join("data/admin.kubeconfig")
    }

    /// Returns the kubeconfig of a user of a tenant.
    pub fn kubeconfig_of(&self, tenant: &str, user: &str, group: &str) -> Result<Kubeconfig> {
        Kubeconfig::parse(&self.kubeconfig_text_of(tenant, user, &["--group", group])?)
    }

    /// Returns the text of a kubeconfig of a user of a tenant.
    pub fn kubeconfig_text_of(&self, tenant: &str, user: &str, more: &[&str]) -> Result<String> {
        let made = Command::new(&self.program)
            .args(["tenant", "--kubeconfig"])
            .arg(self.kubeconfig())
            .args(["kubeconfig", tenant, "--user", user])
            .args(more)
            .output()?;
        let said = String::from_utf8_lossy(&made.stderr);
        ensure!(made.status.success(), "no kubeconfig for {user}: {said}");
        Ok(String::from_utf8(made.stdout)?)
    }

    pub fn stop(mut self) -> Result<()> {
        self.process.stop()
    }

    /// Restarts it after a change to its data folder.
    pub async fn restart_after(
        mut self,
        program: &Program,
        change: impl AsyncFnOnce(&Path) -> Result<()>,
    ) -> Result<Self> {
        self.process.stop()?;
        change(&self.folder.path().join("data")).await?;
        program.start_on(self.folder, self.etcd)
    }

    /// Restarts it with the same data.
    pub fn restart(mut self, program: &Program) -> Result<Self> {
        self.process.stop()?;
        program.start_on(self.folder, self.etcd)
    }
}

impl Process {
    /// Wraps a started process.
    pub fn of(child: Child) -> Self {
        Self(child)
    }

    pub fn id(&self) -> u32 {
        self.0.id()
    }

    /// Stops it with a signal, and waits for its end.
    fn stop(&mut self) -> Result<()> {
        let pid = Pid::from_raw(i32::try_from(self.0.id())?);
        kill(pid, Signal::SIGTERM)?;
        let until = Instant::now() + STOP;
        let status = loop {
            if let Some(status) = self.0.try_wait()? {
                break status;
            }
            if Instant::now() > until {
                bail!("the server does not end within {} s", STOP.as_secs());
            }
            thread::sleep(Duration::from_millis(5));
        };
        warn_of_unclean_end(status);
        Ok(())
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if let Ok(None) = self.0.try_wait() {
            // It may have ended meanwhile.
            let _ = self.0.kill();
            let _ = self.0.wait();
        }
    }
}

/// Warns if a server ended with an error. The floor is ended by the signal itself.
fn warn_of_unclean_end(status: ExitStatus) {
    if status.code().is_some_and(|code| code != 0) {
        progress(&format!("the server ended with {status}"));
    }
}

fn start_etcd(folder: &Path) -> Result<EtcdServer> {
    let settings = Settings {
        folder: Some(folder.to_owned()),
        ..Settings::default()
    };
    EtcdServer::start_with(settings).context("etcd is not installed")
}

/// Returns the line that reports readiness. Later output is drained, so that the server never
/// blocks on the pipe.
fn first_line(out: ChildStdout) -> Result<String> {
    let (send, receive) = mpsc::channel();
    thread::spawn(move || {
        for line in BufReader::new(out).lines().map_while(Result::ok) {
            // Only the first line is needed.
            let _ = send.send(line);
        }
    });
    let line = receive.recv_timeout(READY);
    line.context("the server does not say that it is ready")
}

fn kubeconfig(line: &str) -> Result<PathBuf> {
    let ready = line.strip_prefix("insula ready https://");
    let path = ready.and_then(|rest| rest.split_once(" kubeconfig="));
    let (_, path) = path.with_context(|| format!("not the word that it is ready: {line}"))?;
    Ok(PathBuf::from(path))
}

/// Returns the end of its stderr.
fn last_words(log: &Path) -> String {
    let said = std::fs::read_to_string(log).unwrap_or_default();
    let lines: Vec<&str> = said.lines().collect();
    let last = &lines[lines.len().saturating_sub(5)..];
    format!("the server did not start; it said: {}", last.join("\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_word_that_it_is_ready_names_the_kubeconfig() {
        let line = "insula ready https://127.0.0.1:6443 kubeconfig=some data/admin.kubeconfig";
        let path = kubeconfig(line).unwrap();
        assert_eq!(path, Path::new("some data/admin.kubeconfig"));
        let refused = kubeconfig("insula: store open").unwrap_err();
        assert!(refused.to_string().contains("store open"));
    }
}
