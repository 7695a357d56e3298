//! Reading events of one space back from the log.
//!
//! The newest events are read first, so that a question about the last hour reads the last hour.
//! What one question reads and returns is bounded.

mod reverse;
mod seek;
#[cfg(test)]
mod tests;
mod view;

use std::borrow::Cow;
use std::collections::VecDeque;
use std::fs::{File, Metadata};
use std::io::{self, BufRead, BufReader, Seek, SeekFrom};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use flate2::bufread::MultiGzDecoder;
use insula_core::{SYSTEM, Space, TenantName};
use insula_kinds::time::{Precision, Time};
use jiff::Timestamp;
use memchr::memmem;
use serde_json::Value;

use self::reverse::ReverseLines;
use super::file::backups::{self, Backup};
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
    /// The time of the newest events, to read on from where another question ended.
    pub until: Option<Time>,
    /// The time from which on requests are those of the present tenant. Requests of an earlier
    /// tenant of the name may end after it.
    pub received_since: Option<Time>,
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
    /// The time back to which the log was read, if there may be older events.
    pub read_back_to: Option<String>,
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
    /// The time of the newest events, and that of the newest lines that are read.
    until: String,
    begin: String,
    received_since: String,
    /// The newest first.
    found: VecDeque<Value>,
    found_bytes: usize,
    read_bytes: u64,
    is_partial: bool,
    /// The time of the line at which the search ended.
    ended_at: Option<String>,
}

/// Reads the newest events that a question is about.
///
/// # Errors
///
/// If the log cannot be read.
pub fn read(log: &Path, query: &EventQuery) -> io::Result<FoundEvents> {
    // Between the two steps of a rotation there is no log.
    let opened = File::open(log).or_else(|_| File::open(log));
    match opened {
        Ok(file) => read_from(file, log, query),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let backups = backups::list(log)?;
            match backups.is_empty() {
                true => Err(error),
                false => Search::new(query).finish(None, &backups),
            }
        }
        Err(error) => Err(error),
    }
}

/// Reads an open log, and the backups that it has when it is opened.
fn read_from(file: File, log: &Path, query: &EventQuery) -> io::Result<FoundEvents> {
    let (opened, now) = (identity(&file.metadata()?), Timestamp::now());
    let mut backups = backups::list(log)?;
    // The log may be rotated since it was opened: it is read once, and newer files are not.
    backups.retain(|backup| backup.rotated <= now);
    let is_opened = |backup: &Backup| {
        let found = std::fs::metadata(&backup.path);
        found.is_ok_and(|found| identity(&found) == opened)
    };
    if let Some(index) = backups.iter().position(is_opened) {
        backups.drain(..=index);
    }
    Search::new(query).finish(Some(file), &backups)
}

fn identity(file: &Metadata) -> (u64, u64) {
    (file.dev(), file.ino())
}

impl<'a> Search<'a> {
    fn new(query: &'a EventQuery) -> Self {
        let name = query.space.tenant().map_or(SYSTEM, TenantName::as_str);
        let mark = |annotation: &str| {
            let text = format!("\"insula.dev/{annotation}\":\"{name}\"");
            memmem::Finder::new(text.as_bytes()).into_owned()
        };
        let spelled = |time: Option<Time>, seconds: i64| {
            let time = time.map(|time| Time {
                seconds: time.seconds + seconds,
                ..time
            });
            time.map_or_else(String::new, |time| time.print(Precision::Micros))
        };
        Self {
            query,
            marks: [mark("space"), mark("tenant")],
            since: spelled(query.since, 0),
            end: spelled(query.since, -MAX_DISORDER_SECONDS),
            until: spelled(query.until, 0),
            begin: spelled(query.until, MAX_DISORDER_SECONDS),
            received_since: spelled(query.received_since, 0),
            found: VecDeque::new(),
            found_bytes: 0,
            read_bytes: 0,
            is_partial: false,
            ended_at: None,
        }
    }

    /// Searches the log and then its backups, the newest first.
    fn finish(mut self, log: Option<File>, backups: &[Backup]) -> io::Result<FoundEvents> {
        let mut goes_on = match log {
            Some(log) => self.plain(log)?,
            None => true,
        };
        for (index, backup) in backups.iter().enumerate() {
            if !goes_on || printed(backup) < self.end {
                break;
            }
            // All events of a file are later than the file before it.
            let older = backups.get(index + 1);
            if !self.begin.is_empty() && older.is_some_and(|older| printed(older) > self.begin) {
                continue;
            }
            goes_on = match self.backup(backup) {
                // Removed, or compressed, since it was listed.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    self.is_partial = true;
                    true
                }
                searched => searched?,
            };
        }
        Ok(FoundEvents {
            events: self.found.into_iter().rev().collect(),
            is_partial: self.is_partial,
            read_back_to: self.ended_at.filter(|_| self.is_partial),
        })
    }

    fn backup(&mut self, backup: &Backup) -> io::Result<bool> {
        let file = File::open(&backup.path)?;
        match backup.compressed {
            true => self.compressed(file),
            false => self.plain(file),
        }
    }

    /// Reads a file from its end. Returns whether older files are to be read.
    fn plain(&mut self, mut file: File) -> io::Result<bool> {
        let end = match self.begin.as_str() {
            "" => file.seek(SeekFrom::End(0))?,
            begin => seek::end_of(&mut file, begin.as_bytes())?,
        };
        let mut lines = ReverseLines::before(file, end, MAX_LINE_BYTES);
        while let Some(line) = lines.next_line()? {
            self.read_bytes += line.len() as u64 + 1;
            if self.is_before_end(line) {
                return Ok(false);
            }
            let has_room = match self.matching(line) {
                Some((event, length)) => self.push(event, length),
                None => true,
            };
            if !has_room || self.is_exhausted() {
                let time = time_of(line).map(String::from_utf8_lossy);
                self.ended_at = time.map(Cow::into_owned);
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Reads a compressed file, from its beginning: only the newest of its events are kept. If it
    /// cannot be read to its end, none is: there would be a gap before the next file.
    fn compressed(&mut self, file: File) -> io::Result<bool> {
        let mut lines = BufReader::new(MultiGzDecoder::new(BufReader::new(file)));
        let mut newest: VecDeque<(Value, usize)> = VecDeque::new();
        let mut bytes = 0;
        let room = self.query.limit.saturating_sub(self.found.len());
        let mut line = Vec::new();
        let mut dropped = None;
        while lines.read_until(b'\n', &mut line)? > 0 {
            self.read_bytes += line.len() as u64;
            if let Some((event, length)) = self.matching(&line) {
                bytes += length;
                newest.push_back((event, length));
            }
            while newest.len() > room || bytes > MAX_FOUND_BYTES {
                bytes -= newest.front().map_or(0, |(_, length)| *length);
                dropped = newest.pop_front();
            }
            line.clear();
            if self.is_exhausted() {
                self.ended_at = self.found.back().and_then(stage_time);
                return Ok(false);
            }
        }
        while let Some((event, length)) = newest.pop_back() {
            let time = stage_time(&event);
            if !self.push(event, length) {
                self.ended_at = time;
                return Ok(false);
            }
        }
        if let Some((event, _)) = dropped {
            self.is_partial = true;
            self.ended_at = stage_time(&event);
            return Ok(false);
        }
        Ok(true)
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
        !self.end.is_empty() && time_of(line).is_some_and(|time| time < self.end.as_bytes())
    }

    /// Whether the times of an event are those of the question.
    fn is_in_time(&self, event: &Value) -> bool {
        let is = |bound: &str, member: &str, holds: fn(&str, &str) -> bool| {
            let time = event[member].as_str();
            bound.is_empty() || time.is_some_and(|time| holds(time, bound))
        };
        is(&self.since, "stageTimestamp", |time, since| time >= since)
            && is(&self.until, "stageTimestamp", |time, until| time <= until)
            && is(
                &self.received_since,
                "requestReceivedTimestamp",
                |time, since| time >= since,
            )
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
        if !self.is_in_time(&event) {
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

/// Returns the time of a line's event, which is after its bodies. Quotation marks in annotations
/// are escaped.
fn time_of(line: &[u8]) -> Option<&[u8]> {
    const MEMBER: &[u8] = b"\"stageTimestamp\":\"";
    const LENGTH: usize = "2001-09-09T01:46:40.000000Z".len();
    let at = memmem::rfind(line, MEMBER)? + MEMBER.len();
    line.get(at..at + LENGTH)
}

fn stage_time(event: &Value) -> Option<String> {
    event["stageTimestamp"].as_str().map(str::to_owned)
}

/// Returns the time at which a backup was rotated, as events spell it.
fn printed(backup: &Backup) -> String {
    let time = Time {
        seconds: backup.rotated.as_second(),
        nanos: 0,
    };
    time.print(Precision::Micros)
}
