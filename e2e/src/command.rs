//! Running a program and capturing its output.

use std::fmt;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStderr, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;

/// Longer than any command that terminates at all.
const TIMEOUT: Duration = Duration::from_secs(60);
/// The timeout of a session, which is many commands. `tools/test` stops a test program after 15
/// minutes, and then prints less.
const SESSION_TIMEOUT: Duration = Duration::from_secs(10 * 60);
/// The timeout of each line of a session. It is longer than the `--timeout 2m` of kubectl in
/// documented sessions, so that kubectl reports what it waits for.
const SESSION_LINE_TIMEOUT: Duration = Duration::from_secs(150);
/// The timeout of the exit of a process that has closed its standard output, and of the end of its
/// standard error after that.
const EXIT_TIMEOUT: Duration = Duration::from_secs(20);
/// How often an exit is checked for.
const POLL_INTERVAL: Duration = Duration::from_millis(5);

/// The output of a finished command.
#[derive(Clone, Debug)]
pub struct Said {
    /// The command line, for error messages.
    pub line: String,
    /// The exit code, or `None` if the process was killed.
    pub code: Option<i32>,
    /// The standard output.
    pub out: String,
    /// The standard error.
    pub err: String,
}

/// A running command. It and the processes that it started are killed on drop, except for those
/// that have a process group of their own.
pub struct Running {
    line: String,
    process: Child,
    has_ended: bool,
    // The mutexes only make the receivers `Sync`.
    lines: Mutex<Receiver<String>>,
    out: String,
    err: Arc<Mutex<Vec<u8>>>,
    err_closed: Mutex<Receiver<()>>,
}

impl Said {
    /// Returns the standard output of a command that must succeed.
    ///
    /// # Panics
    ///
    /// If it failed.
    #[track_caller]
    pub fn succeeds(self) -> String {
        assert_eq!(self.code, Some(0), "{self}");
        self.out
    }

    /// Returns the standard error of a command that must fail.
    ///
    /// # Panics
    ///
    /// If it succeeded.
    #[track_caller]
    pub fn fails(self) -> String {
        assert_eq!(self.code, Some(1), "{self}");
        self.err
    }
}

impl fmt::Display for Said {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            line,
            code,
            out,
            err,
        } = self;
        write!(f, "{line}\nended with {code:?}\n{out}{err}")
    }
}

impl Running {
    /// Starts a command with this standard input; `line` names it in error messages.
    ///
    /// # Panics
    ///
    /// If it does not start.
    pub fn start(line: String, command: &mut Command, input: &str) -> Self {
        let process = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .spawn();
        let mut process = process.unwrap_or_else(|error| panic!("{line}: {error}"));
        let mut stdin = process.stdin.take().expect("it is piped");
        let input = input.to_owned();
        // Each thread ends with its stream, which ends with the process group. A process that does
        // not read its input is not an error.
        thread::spawn(move || drop(stdin.write_all(input.as_bytes())));
        let err: Arc<Mutex<Vec<u8>>> = Arc::default();
        let stderr = process.stderr.take().expect("it is piped");
        let err_closed = collect(stderr, Arc::clone(&err));
        let lines = read_lines(process.stdout.take().expect("it is piped"));
        Self {
            line,
            process,
            has_ended: false,
            lines: Mutex::new(lines),
            out: String::new(),
            err,
            err_closed: Mutex::new(err_closed),
        }
    }

    /// Waits for an output line that contains this text.
    ///
    /// # Panics
    ///
    /// If there is none in time.
    #[track_caller]
    pub fn await_line(&mut self, text: &str) -> String {
        let deadline = Instant::now() + TIMEOUT;
        while let Some(line) = self.next_line(deadline) {
            if line.contains(text) {
                return line;
            }
        }
        panic!("{} did not say {text:?} but\n{}", self.line, self.out);
    }

    /// Waits until the process exits.
    ///
    /// # Panics
    ///
    /// If it does not exit in time.
    #[track_caller]
    pub fn finish(mut self) -> Said {
        let deadline = Instant::now() + TIMEOUT;
        while self.next_line(deadline).is_some() {}
        self.reap()
    }

    /// Waits until the process of a session exits. It may take minutes, if it keeps printing lines.
    ///
    /// # Panics
    ///
    /// If it prints nothing for too long, or does not exit in time.
    #[track_caller]
    pub fn finish_while_printing(self) -> Said {
        self.finish_session(SESSION_LINE_TIMEOUT, SESSION_TIMEOUT)
    }

    #[track_caller]
    fn finish_session(mut self, line: Duration, session: Duration) -> Said {
        let end = Instant::now() + session;
        while self.next_line(end.min(Instant::now() + line)).is_some() {}
        self.reap()
    }

    /// Kills the process and those that it started, and waits for its exit.
    pub fn end(&mut self) {
        if !self.has_ended {
            self.kill_group();
            // Fails only if the process has already been waited for.
            drop(self.process.wait());
            self.has_ended = true;
        }
    }

    /// Kills the process and returns its output.
    #[track_caller]
    pub fn kill(mut self) -> Said {
        self.kill_group();
        let deadline = Instant::now() + TIMEOUT;
        while self.next_line(deadline).is_some() {}
        self.reap()
    }

    /// The process ID.
    pub fn pid(&self) -> u32 {
        self.process.id()
    }

    /// The next line, or `None` once the standard output is closed.
    #[track_caller]
    fn next_line(&mut self, deadline: Instant) -> Option<String> {
        let left = deadline.saturating_duration_since(Instant::now());
        let lines = self.lines.get_mut();
        let lines = lines.unwrap_or_else(PoisonError::into_inner);
        match lines.recv_timeout(left) {
            Ok(line) => {
                self.out.push_str(&line);
                Some(line)
            }
            Err(RecvTimeoutError::Disconnected) => None,
            Err(RecvTimeoutError::Timeout) => {
                panic!("{} takes too long and said\n{}", self.line, self.out)
            }
        }
    }

    /// Waits for the exit of a process that has closed its standard output, and kills what it has
    /// left behind, which may keep its standard error open.
    #[track_caller]
    fn reap(&mut self) -> Said {
        let status = self.await_exit();
        let closed = self.err_closed.get_mut();
        let closed = closed.unwrap_or_else(PoisonError::into_inner);
        // A process that has left the group may still write, and is not waited for.
        closed.recv_timeout(EXIT_TIMEOUT).ok();
        let err = self.err.lock().unwrap_or_else(PoisonError::into_inner);
        Said {
            line: std::mem::take(&mut self.line),
            code: status.code(),
            out: std::mem::take(&mut self.out),
            err: String::from_utf8_lossy(&err).into_owned(),
        }
    }

    #[track_caller]
    fn await_exit(&mut self) -> ExitStatus {
        let deadline = Instant::now() + EXIT_TIMEOUT;
        loop {
            let exited = self.process.try_wait();
            if let Some(status) = exited.expect("it is a child of this process") {
                self.kill_group();
                self.has_ended = true;
                return status;
            }
            let (line, out) = (&self.line, &self.out);
            let is_late = Instant::now() > deadline;
            assert!(
                !is_late,
                "{line} closed its output, did not exit, and said\n{out}"
            );
            thread::sleep(POLL_INTERVAL);
        }
    }

    fn kill_group(&self) {
        let group = i32::try_from(self.process.id()).expect("a process id fits");
        // Fails only if no process of the group is left.
        killpg(Pid::from_raw(group), Signal::SIGKILL).ok();
    }
}

/// Reads lines in a thread.
fn read_lines(stdout: ChildStdout) -> Receiver<String> {
    let (sender, lines) = channel();
    let mut stdout = BufReader::new(stdout);
    thread::spawn(move || {
        let mut text = Vec::new();
        while stdout
            .read_until(b'\n', &mut text)
            .is_ok_and(|read| read > 0)
        {
            let line = String::from_utf8_lossy(&text).into_owned();
            if sender.send(line).is_err() {
                break;
            }
            text.clear();
        }
    });
    lines
}

/// Collects what is written in a thread, and reports the end.
fn collect(mut stderr: ChildStderr, text: Arc<Mutex<Vec<u8>>>) -> Receiver<()> {
    let (sender, closed) = channel();
    thread::spawn(move || {
        let mut buffer = [0; 4096];
        while let Ok(read @ 1..) = stderr.read(&mut buffer) {
            let mut text = text.lock().unwrap_or_else(PoisonError::into_inner);
            text.extend_from_slice(&buffer[..read]);
        }
        // The command may have been dropped.
        sender.send(()).ok();
    });
    closed
}

impl Drop for Running {
    fn drop(&mut self) {
        self.end();
    }
}

/// Splits a command line into words. Single quotes keep a word together.
pub fn words(line: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quoted = false;
    for sign in line.chars() {
        match sign {
            '\'' => {
                quoted = !quoted;
                word.get_or_insert_default();
            }
            ' ' if !quoted => words.extend(word.take()),
            sign => word.get_or_insert_default().push(sign),
        }
    }
    words.extend(word);
    words
}

#[cfg(test)]
mod tests;
