//! Running a program and capturing its output.

use std::fmt;
use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// Longer than any command that terminates at all.
const TIMEOUT: Duration = Duration::from_secs(60);

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

/// A running command, which is killed on drop.
pub struct Running {
    line: String,
    process: Child,
    // The mutex only makes the receiver `Sync`.
    lines: Mutex<Receiver<String>>,
    out: String,
    err: Option<JoinHandle<String>>,
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
            .spawn();
        let mut process = process.unwrap_or_else(|error| panic!("{line}: {error}"));
        let mut stdin = process.stdin.take().expect("it is piped");
        let input = input.to_owned();
        // Each thread ends with its stream, which ends with the process. A process that does not
        // read its input is not an error.
        thread::spawn(move || drop(stdin.write_all(input.as_bytes())));
        let mut stderr = process.stderr.take().expect("it is piped");
        let err = thread::spawn(move || {
            let mut text = Vec::new();
            drop(stderr.read_to_end(&mut text));
            String::from_utf8_lossy(&text).into_owned()
        });
        let mut stdout = BufReader::new(process.stdout.take().expect("it is piped"));
        let (sender, lines) = channel();
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
        Self {
            line,
            process,
            lines: Mutex::new(lines),
            out: String::new(),
            err: Some(err),
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

    /// Waits until the process exits, however long it takes, as long as it keeps printing lines.
    ///
    /// # Panics
    ///
    /// If it prints nothing for too long.
    #[track_caller]
    pub fn finish_while_printing(mut self) -> Said {
        while self.next_line(Instant::now() + TIMEOUT).is_some() {}
        self.reap()
    }

    /// Kills the process if it is still running, and waits for its exit.
    pub fn end(&mut self) {
        // Both calls fail only if the process has already exited.
        drop(self.process.kill());
        drop(self.process.wait());
    }

    /// Kills the process and returns its output.
    pub fn kill(mut self) -> Said {
        self.end();
        while self.next_line(Instant::now() + TIMEOUT).is_some() {}
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

    fn reap(&mut self) -> Said {
        let status = self.process.wait().expect("it is a child of this process");
        let err = self.err.take().and_then(|thread| thread.join().ok());
        Said {
            line: std::mem::take(&mut self.line),
            code: status.code(),
            out: std::mem::take(&mut self.out),
            err: err.unwrap_or_default(),
        }
    }
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
mod tests {
    use super::*;

    #[test]
    fn quotes_keep_words_together() {
        assert_eq!(words(" a  b=c "), ["a", "b=c"]);
        assert_eq!(words("x='a b' '' 'c'"), ["x=a b", "", "c"]);
    }
}
