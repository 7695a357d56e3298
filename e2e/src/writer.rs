//! The writer process, as seen by its parent.

use std::ffi::OsStr;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use insula_store::Revision;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

/// Lines buffered for the parent before the writer blocks.
const MAX_LINES: usize = 64 << 10;

/// A running writer, which is killed on drop.
pub struct Writer {
    process: Child,
    lines: Receiver<String>,
    said: Vec<String>,
}

impl Writer {
    /// Starts a writer on the store in `folder`. Its second watcher starts after `after`.
    pub fn start(
        program: impl AsRef<OsStr>,
        folder: &Path,
        seed: u64,
        after: Revision,
    ) -> anyhow::Result<Self> {
        let mut process = Command::new(program)
            .arg(folder)
            .args([seed.to_string(), after.to_string()])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .context("cannot start a writer")?;
        let output = process.stdout.take().context("its output is piped")?;
        let (sender, lines) = sync_channel(MAX_LINES);
        // Ends with the output, which ends with the process.
        thread::spawn(move || forward(output, &sender));
        Ok(Self {
            process,
            lines,
            said: Vec::new(),
        })
    }

    /// Waits for a line of this kind.
    pub fn await_line(&mut self, kind: &str, timeout: Duration) -> anyhow::Result<()> {
        let deadline = Instant::now() + timeout;
        while let Some(line) = self.next_line(deadline)? {
            if line.split_ascii_whitespace().nth(1) == Some(kind) {
                return Ok(());
            }
        }
        bail!("a writer did not say {kind:?} within {timeout:?}");
    }

    /// Reads lines for this long and returns their number.
    pub fn listen(&mut self, time: Duration) -> anyhow::Result<usize> {
        let deadline = Instant::now() + time;
        let before = self.said.len();
        while self.next_line(deadline)?.is_some() {}
        Ok(self.said.len() - before)
    }

    /// The next line, if it arrives in time. An exit of the process is an error.
    fn next_line(&mut self, deadline: Instant) -> anyhow::Result<Option<&str>> {
        let left = deadline.saturating_duration_since(Instant::now());
        match self.lines.recv_timeout(left) {
            Ok(line) => self.said.push(line),
            Err(RecvTimeoutError::Timeout) => return Ok(None),
            Err(RecvTimeoutError::Disconnected) => {
                let last = self.said.last();
                bail!("a writer has ended by itself; its last line is {last:?}");
            }
        }
        Ok(self.said.last().map(String::as_str))
    }

    /// Sends a signal to the process.
    pub fn signal(&self, signal: Signal) -> anyhow::Result<()> {
        let process = Pid::from_raw(i32::try_from(self.process.id())?);
        kill(process, signal).with_context(|| format!("cannot send {signal}"))
    }

    /// Kills the process without warning and returns everything it printed.
    pub fn kill(mut self) -> anyhow::Result<Vec<String>> {
        self.end()?;
        let mut said = std::mem::take(&mut self.said);
        said.extend(self.lines.iter());
        Ok(said)
    }

    /// On Unix, `kill` sends SIGKILL.
    fn end(&mut self) -> anyhow::Result<()> {
        self.process.kill().context("cannot kill a writer")?;
        self.process.wait().context("cannot wait for a writer")?;
        Ok(())
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        // A process that has already exited cannot be killed.
        self.end().ok();
    }
}

/// Forwards complete lines; a truncated last line is dropped.
fn forward(output: ChildStdout, lines: &SyncSender<String>) {
    let mut output = BufReader::new(output);
    let mut line = String::new();
    while output.read_line(&mut line).is_ok() && line.ends_with('\n') {
        line.pop();
        if lines.send(std::mem::take(&mut line)).is_err() {
            break;
        }
    }
}
