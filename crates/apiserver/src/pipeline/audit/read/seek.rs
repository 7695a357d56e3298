//! The place of a time in a log.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom};

use super::{MAX_LINE_BYTES, time_of};

/// Parts of this size are not divided further.
const BLOCK_BYTES: u64 = 256 << 10;

/// Returns the end of a line after which all lines are later than a time, but for the last few.
/// Lines are in order of their time, but for some seconds.
pub fn end_of(file: &mut File, time: &[u8]) -> io::Result<u64> {
    let length = file.seek(SeekFrom::End(0))?;
    let (mut low, mut high) = (0, length);
    while high - low > BLOCK_BYTES {
        let middle = low + (high - low) / 2;
        match is_later(file, middle, time)? {
            true => high = middle,
            false => low = middle,
        }
    }
    line_end(file, high, length)
}

/// Whether the first event after a position is later than a time, or there is none.
fn is_later(file: &mut File, position: u64, time: &[u8]) -> io::Result<bool> {
    file.seek(SeekFrom::Start(position))?;
    let mut lines = BufReader::new(file.take(2 * MAX_LINE_BYTES as u64));
    let mut line = Vec::new();
    // The first line is read from its middle.
    lines.read_until(b'\n', &mut line)?;
    loop {
        line.clear();
        if lines.read_until(b'\n', &mut line)? == 0 {
            return Ok(true);
        }
        if let Some(found) = time_of(&line) {
            return Ok(found > time);
        }
    }
}

/// Returns the end of the line that a position is in.
fn line_end(file: &mut File, position: u64, length: u64) -> io::Result<u64> {
    if position == length {
        return Ok(length);
    }
    file.seek(SeekFrom::Start(position))?;
    let mut line = Vec::new();
    let read = BufReader::new(file.take(MAX_LINE_BYTES as u64)).read_until(b'\n', &mut line)?;
    Ok(position + read as u64)
}
