//! How a command says how it goes: to stderr, a line for each step.

use std::io::{IsTerminal, Write};
use std::sync::{Mutex, PoisonError};

use insula_broker::report::Report;

use crate::output::harmless;

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
        // A step has a line. What others wrote must not look like another step.
        let what = harmless(what).replace('\n', " ");
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

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(style: Style) -> String {
        let progress = Progress {
            style,
            under_way: Mutex::default(),
        };
        let signs = [Sign::Begun, Sign::Good, Sign::Bad, Sign::Odd];
        let what = "it \x1b[2J\ngoes";
        signs.map(|sign| progress.line(sign, what)).concat()
    }

    #[test]
    fn lines_are_plain_unless_they_are_seen_on_a_terminal() {
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
    fn what_is_under_way_is_told_once_how_it_ended() {
        let progress = Progress {
            style: Style::Plain,
            under_way: Mutex::default(),
        };
        progress.begin("a");
        progress.begin("b");
        assert_eq!(progress.take().as_deref(), Some("b"));
        progress.begin("c");
        progress.done("c");
        assert_eq!(progress.take(), None);
    }
}
