//! Reading events of one space back from the log.
//!
//! The newest events are read first, so that a question about the last hour reads the last hour.
//! What one question reads and returns is bounded.

mod reverse;
#[cfg(test)]
mod tests;
mod view;

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::path::Path;

use flate2::bufread::MultiGzDecoder;
use insula_core::{SYSTEM, Space, TenantName};
use insula_kinds::time::{Precision, Time};
use memchr::memmem;
use serde_json::Value;

use self::reverse::ReverseLines;
use super::file::backups;
use super::line::Line;

/// A question about the events of a space.
#[derive(Clone, Debug)]
pub struct EventQuery {
    /// The space.
    pub space: Space,
    /// Whether a user of that tenant asks, not one of the system.
    pub is_own: bool,
    /// The time of the oldest events.
    pub since: Option<Time>,
    /// The name of the user.
    pub user: Option<String>,
    /// The verb.
    pub verb: Option<String>,
    /// The most events.
    pub limit: usize,
}

/// Events of a space, the oldest first.
#[derive(Debug, Default)]
pub struct FoundEvents {
    /// The events.
    pub events: Vec<Value>,
    /// Whether there may be older events within the question.
    pub is_partial: bool,
}

/// The most bytes of the log that one question of the system reads.
const MAX_READ_BYTES: u64 = 256 << 20;

/// The same for a tenant: the seat for such work is shared by all tenants, so it is held for tens
/// of milliseconds at most.
const MAX_OWN_READ_BYTES: u64 = 32 << 20;

/// The most bytes of the events that are returned.
const MAX_FOUND_BYTES: usize = 4 << 20;

/// The most bytes of an event that is returned with its bodies.
const MAX_EVENT_BYTES: usize = 256 << 10;

/// What an event without bodies counts as.
const BARE_EVENT_BYTES: usize = 16 << 10;

/// The most bytes of a line; longer ones are no events.
const MAX_LINE_BYTES: usize = 16 << 20;

/// Events are written when they are complete, so lines are in order but for this many seconds.
const MAX_DISORDER_SECONDS: i64 = 60;

/// The state of a search, from the newest line to the oldest.
struct Search<'a> {
    query: &'a EventQuery,
    /// `"insula.dev/space":"NAME"` and `"insula.dev/tenant":"NAME"`.
    marks: [memmem::Finder<'static>; 2],
    /// The time of the oldest events, as events spell it.
    since: String,
    /// Lines before this time end the search.
    end: String,
    /// The newest first.
    found: VecDeque<Value>,
    found_bytes: usize,
    read_bytes: u64,
    is_partial: bool,
}

/// Reads the newest events that a question is about.
///
/// # Errors
///
/// If the log cannot be read.
pub fn read(log: &Path, query: &EventQuery) -> io::Result<FoundEvents> {
    let mut search = Search::new(query);
    // Listed first: a file that is rotated meanwhile is then read as the log, and not twice.
    let backups = backups::list(log)?;
    let mut goes_on = search.plain(log)?;
    for backup in backups {
        let rotated = Time {
            seconds: backup.rotated.as_second(),
            nanos: 0,
        };
        if !goes_on || rotated.print(Precision::Micros) < search.end {
            break;
        }
        let searched = match backup.compressed {
            true => search.compressed(&backup.path),
            false => search.plain(&backup.path),
        };
        goes_on = match searched {
            // Removed, or compressed, since it was listed.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                search.is_partial = true;
                true
            }
            searched => searched?,
        };
    }
    Ok(FoundEvents {
        events: search.found.into_iter().rev().collect(),
        is_partial: search.is_partial,
    })
}

impl<'a> Search<'a> {
    fn new(query: &'a EventQuery) -> Self {
        let name = query.space.tenant().map_or(SYSTEM, TenantName::as_str);
        let mark = |annotation: &str| {
            let text = format!("\"insula.dev/{annotation}\":\"{name}\"");
            memmem::Finder::new(text.as_bytes()).into_owned()
        };
        let spelled = |seconds: i64| {
            let since = query.since.map(|since| Time {
                seconds: since.seconds - seconds,
                ..since
            });
            since.map_or_else(String::new, |since| since.print(Precision::Micros))
        };
        Self {
            query,
            marks: [mark("space"), mark("tenant")],
            since: spelled(0),
            end: spelled(MAX_DISORDER_SECONDS),
            found: VecDeque::new(),
            found_bytes: 0,
            read_bytes: 0,
            is_partial: false,
        }
    }

    /// Reads a file from its end. Returns whether older files are to be read.
    fn plain(&mut self, path: &Path) -> io::Result<bool> {
        let mut lines = ReverseLines::open(path, MAX_LINE_BYTES)?;
        while let Some(line) = lines.next_line()? {
            self.read_bytes += line.len() as u64 + 1;
            if self.is_before_end(line) {
                return Ok(false);
            }
            if let Some((event, length)) = self.matching(line)
                && !self.push(event, length)
            {
                return Ok(false);
            }
            if self.is_exhausted() {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Reads a compressed file, from its beginning: only the newest of its events are kept.
    fn compressed(&mut self, path: &Path) -> io::Result<bool> {
        let mut lines = BufReader::new(MultiGzDecoder::new(BufReader::new(File::open(path)?)));
        let mut newest: VecDeque<(Value, usize)> = VecDeque::new();
        let mut bytes = 0;
        let room = self.query.limit.saturating_sub(self.found.len());
        let mut line = Vec::new();
        while lines.read_until(b'\n', &mut line)? > 0 {
            self.read_bytes += line.len() as u64;
            if let Some((event, length)) = self.matching(&line) {
                bytes += length;
                newest.push_back((event, length));
            }
            while newest.len() > room || bytes > MAX_FOUND_BYTES {
                bytes -= newest.pop_front().map_or(0, |(_, length)| length);
                self.is_partial = true;
            }
            line.clear();
            if self.is_exhausted() {
                break;
            }
        }
        while let Some((event, length)) = newest.pop_back() {
            if !self.push(event, length) {
                return Ok(false);
            }
        }
        Ok(!self.is_exhausted())
    }

    /// Adds an event. Returns `false` if there is no room for it.
    fn push(&mut self, event: Value, length: usize) -> bool {
        let fits =
            self.found.len() < self.query.limit && self.found_bytes + length <= MAX_FOUND_BYTES;
        if fits {
            self.found.push_back(event);
            self.found_bytes += length;
        } else {
            self.is_partial = true;
        }
        fits
    }

    fn is_exhausted(&mut self) -> bool {
        let max = match self.query.is_own {
            true => MAX_OWN_READ_BYTES,
            false => MAX_READ_BYTES,
        };
        let is_exhausted = self.read_bytes > max;
        self.is_partial |= is_exhausted;
        is_exhausted
    }

    /// Whether a line is so old that older ones need not be read.
    fn is_before_end(&self, line: &[u8]) -> bool {
        let member = b"\"stageTimestamp\":\"";
        let time = memmem::rfind(line, member)
            .and_then(|at| line.get(at + member.len()..at + member.len() + self.end.len()));
        !self.end.is_empty() && time.is_some_and(|time| time < self.end.as_bytes())
    }

    /// Returns the event of a line with its size, as the caller may see it, if the question is
    /// about it.
    fn matching(&mut self, line: &[u8]) -> Option<(Value, usize)> {
        // Bodies may contain the same text, so this only saves work.
        if !self.marks.iter().any(|mark| mark.find(line).is_some()) {
            return None;
        }
        let Some(event) = Line::parse(line).and_then(|line| line.event()) else {
            // It may have been an event of the space.
            self.is_partial = true;
            return None;
        };
        if !self.since.is_empty() && event["stageTimestamp"].as_str()? < self.since.as_str() {
            return None;
        }
        let event = view::shown(event, &self.query.space, self.query.is_own)?;
        let is = |wanted: &Option<String>, value: &Value| {
            wanted.as_deref().is_none_or(|wanted| value == wanted)
        };
        let matches = is(&self.query.user, &event["user"]["username"])
            && is(&self.query.verb, &event["verb"]);
        matches.then(|| match line.len() > MAX_EVENT_BYTES {
            true => (view::without_bodies(event), BARE_EVENT_BYTES),
            false => (event, line.len()),
        })
    }
}
