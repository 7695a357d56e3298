//! How a command says how it goes: to stderr, a line for each step.

use std::io::{IsTerminal, Write};
use std::sync::{Mutex, PoisonError};

use insula_broker::report::Report;

/// Lines as Submariner's users know them. On a terminal a step that is under way gives its
/// line to what became of it; elsewhere nothing is ever taken back.
pub struct Progress {
    style: Style,
    under_way: Mutex<Option<String>>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Style {
    Plain,
    Terminal,
}

impl Progress {
    /// With colours if they can be seen and are wanted.
    pub fn to_stderr() -> Self {
        let wanted = std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
        let able = std::env::var_os("TERM").is_some_and(|term| term != "dumb");
        let style = match wanted && able && std::io::stderr().is_terminal() {
            true => Style::Terminal,
            false => Style::Plain,
        };
        Self {
            style,
            under_way: Mutex::default(),
        }
    }

    /// The command is over: what was still under way was done, or was not.
    pub fn end(&self, good: bool) {
        let last = self.take();
        if let Some(last) = last {
            match good {
                true => self.write(&self.line(Sign::Good, &last)),
                false => self.write(&self.line(Sign::Bad, &last)),
            }
        }
    }

    fn take(&self) -> Option<String> {
        let mut under_way = self.under_way.lock();
        under_way
            .as_mut()
            .map_or_else(|_| None, |under_way| under_way.take())
    }

    fn line(&self, sign: Sign, what: &str) -> String {
        let (mark, colour) = match sign {
            Sign::Good => ("✓", 32),
            Sign::Bad => ("✗", 31),
            Sign::Odd => ("⚠", 33),
            Sign::Begun => ("•", 36),
        };
        let end = match sign {
            Sign::Begun => "  ...",
            _ => "\n",
        };
        match self.style {
            Style::Plain => format!(" {mark} {what}{}\n", end.trim_end()),
            // The line is begun anew, whatever stood in it.
            Style::Terminal => format!("\r\x1b[K \x1b[{colour}m{mark}\x1b[0m {what}{end}"),
        }
    }

    #[expect(clippy::let_underscore_must_use, reason = "nobody to tell it to")]
    fn write(&self, line: &str) {
        let mut stderr = std::io::stderr().lock();
        let _ = stderr.write_all(line.as_bytes());
        let _ = stderr.flush();
    }
}

#[derive(Clone, Copy)]
enum Sign {
    Good,
    Bad,
    Odd,
    Begun,
}

impl Report for Progress {
    fn begin(&self, what: &str) {
        self.write(&self.line(Sign::Begun, what));
        let mut under_way = self
            .under_way
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        *under_way = Some(what.to_owned());
    }

    fn done(&self, what: &str) {
        self.take();
        self.write(&self.line(Sign::Good, what));
    }

    fn warn(&self, what: &str) {
        self.write(&self.line(Sign::Odd, what));
    }
}
