//! A program that was run, and what it said.

use std::fmt;
use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// Longer than any command takes that is going to end at all.
const PATIENCE: Duration = Duration::from_secs(60);

/// What a command said until it ended.
#[derive(Clone, Debug)]
pub struct Said {
    /// Who said what, as it would be typed.
    pub line: String,
    /// The exit code; `None`: it was killed.
    pub code: Option<i32>,
    /// On stdout.
    pub out: String,
    /// On stderr.
    pub err: String,
}

/// A command that runs; it is killed when this is dropped.
pub struct Running {
    line: String,
    process: Child,
    // Locked only so that threads may share what has it.
    lines: Mutex<Receiver<String>>,
    out: String,
    err: Option<JoinHandle<String>>,
}

impl Said {
    /// What a command said that succeeds.
    ///
    /// # Panics
    ///
    /// If it failed.
    #[track_caller]
    pub fn succeeds(self) -> String {
        assert_eq!(self.code, Some(0), "{self}");
        self.out
    }

    /// What a command complained of that fails.
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
    /// Starts a command, with this on its stdin. `line` is how it is called in reports.
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
        // Each thread ends with its stream, which ends with the process. One that does not
        // read what it was given is no matter here.
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

    /// Waits until it says a line with this in it.
    ///
    /// # Panics
    ///
    /// If it does not.
    #[track_caller]
    pub fn await_line(&mut self, text: &str) -> String {
        let deadline = Instant::now() + PATIENCE;
        while let Some(line) = self.hear(deadline) {
            if line.contains(text) {
                return line;
            }
        }
        panic!("{} did not say {text:?} but\n{}", self.line, self.out);
    }

    /// Waits until it ends.
    ///
    /// # Panics
    ///
    /// If it does not.
    #[track_caller]
    pub fn finish(mut self) -> Said {
        let deadline = Instant::now() + PATIENCE;
        while self.hear(deadline).is_some() {}
        self.reap()
    }

    /// Waits until it ends, however long it takes, as long as it goes on saying lines.
    ///
    /// # Panics
    ///
    /// If it falls silent.
    #[track_caller]
    pub fn hear_out(mut self) -> Said {
        while self.hear(Instant::now() + PATIENCE).is_some() {}
        self.reap()
    }

    /// Ends it at once, if it has not ended by itself, and waits until it has.
    pub fn end(&mut self) {
        // Both fail only if it has ended, which is what is wanted.
        drop(self.process.kill());
        drop(self.process.wait());
    }

    /// Ends it at once.
    pub fn kill(mut self) -> Said {
        self.end();
        while self.hear(Instant::now() + PATIENCE).is_some() {}
        self.reap()
    }

    /// Its process.
    pub fn pid(&self) -> u32 {
        self.process.id()
    }

    /// The next line; `None`: it has closed its stdout.
    #[track_caller]
    fn hear(&mut self, deadline: Instant) -> Option<String> {
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

/// The words of a command line. What is in single quotes is one word, or part of one.
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
