//! Progress reports on stderr, one line per step.

use std::io::{IsTerminal, Write};
use std::sync::{Mutex, PoisonError};

use insula_broker::report::Report;

use crate::terminal::sanitize;

/// Progress lines in the style of Submariner's `subctl`. On a terminal the line of a running
/// step is replaced by its result; elsewhere lines are only appended.
pub struct Progress {
    style: Style,
    running: Mutex<Option<String>>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Style {
    Plain,
    Terminal,
}

impl Progress {
    /// Uses colours on a terminal that supports them, unless `NO_COLOR` is set.
    pub fn to_stderr() -> Self {
        let wanted = std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
        let able = std::env::var_os("TERM").is_some_and(|term| term != "dumb");
        let style = match wanted && able && std::io::stderr().is_terminal() {
            true => Style::Terminal,
            false => Style::Plain,
        };
        Self {
            style,
            running: Mutex::default(),
        }
    }

    /// Ends the command: a step that is still running succeeded or failed with it.
    pub fn end(&self, good: bool) {
        let last = self.take();
        if let Some(last) = last {
            match good {
                true => self.write(&self.line(Mark::Done, &last)),
                false => self.write(&self.line(Mark::Failed, &last)),
            }
        }
    }

    fn take(&self) -> Option<String> {
        let mut running = self.running.lock();
        running
            .as_mut()
            .map_or_else(|_| None, |running| running.take())
    }

    fn line(&self, sign: Mark, what: &str) -> String {
        let (mark, colour) = match sign {
            Mark::Done => ("✓", 32),
            Mark::Failed => ("✗", 31),
            Mark::Warning => ("⚠", 33),
            Mark::Started => ("•", 36),
        };
        let end = match sign {
            Mark::Started => "  ...",
            _ => "\n",
        };
        // Each step has one line. Text of others must not imitate another step.
        let what = sanitize(what).replace('\n', " ");
        match self.style {
            Style::Plain => format!(" {mark} {what}{}\n", end.trim_end()),
            // Overwrites the current line.
            Style::Terminal => format!("\r\x1b[K \x1b[{colour}m{mark}\x1b[0m {what}{end}"),
        }
    }

    #[expect(
        clippy::let_underscore_must_use,
        reason = "a failed write to stderr cannot be reported"
    )]
    fn write(&self, line: &str) {
        let mut stderr = std::io::stderr().lock();
        let _ = stderr.write_all(line.as_bytes());
        let _ = stderr.flush();
    }
}

#[derive(Clone, Copy)]
enum Mark {
    Done,
    Failed,
    Warning,
    Started,
}

impl Report for Progress {
    fn begin(&self, what: &str) {
        self.write(&self.line(Mark::Started, what));
        let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        *running = Some(what.to_owned());
    }

    fn done(&self, what: &str) {
        self.take();
        self.write(&self.line(Mark::Done, what));
    }

    fn warn(&self, what: &str) {
        self.write(&self.line(Mark::Warning, what));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(style: Style) -> String {
        let progress = Progress {
            style,
            running: Mutex::default(),
        };
        let signs = [Mark::Started, Mark::Done, Mark::Failed, Mark::Warning];
        let what = "it \x1b[2J\ngoes";
        signs.map(|sign| progress.line(sign, what)).concat()
    }

    #[test]
    fn lines_have_colours_on_a_terminal_only() {
        let what = "it \u{fffd}[2J goes";
        assert_eq!(
            lines(Style::Plain),
            format!(" • {what}  ...\n ✓ {what}\n ✗ {what}\n ⚠ {what}\n")
        );
        let new = "\r\x1b[K \x1b";
        assert_eq!(
            lines(Style::Terminal),
            format!(
                "{new}[36m•\x1b[0m {what}  ...\
                 {new}[32m✓\x1b[0m {what}\n\
                 {new}[31m✗\x1b[0m {what}\n\
                 {new}[33m⚠\x1b[0m {what}\n"
            )
        );
    }

    #[test]
    fn running_step_is_finished_once() {
        let progress = Progress {
            style: Style::Plain,
            running: Mutex::default(),
        };
        progress.begin("a");
        progress.begin("b");
        assert_eq!(progress.take().as_deref(), Some("b"));
        progress.begin("c");
        progress.done("c");
        assert_eq!(progress.take(), None);
    }
}
