//! The lines of a file from its end.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};

/// Reads lines from the end of a file to its beginning.
pub struct ReverseLines {
    file: File,
    /// Where the part of the file begins that is read.
    position: u64,
    /// The part that is read and not yet returned.
    text: Vec<u8>,
    /// Where the text that is not yet returned ends.
    end: usize,
    max_line: usize,
}

const BLOCK_BYTES: u64 = 256 << 10;

impl ReverseLines {
    /// Reads a file before `end`, where a line ends. A line that is longer than `max_line` ends
    /// the reading.
    pub fn before(file: File, end: u64, max_line: usize) -> Self {
        Self {
            file,
            position: end,
            text: Vec::new(),
            end: 0,
            max_line,
        }
    }

    /// Returns the line before the last one that was returned.
    pub fn next_line(&mut self) -> io::Result<Option<&[u8]>> {
        loop {
            // The last byte is the end of the line itself.
            let inner = self.end.saturating_sub(1);
            if let Some(at) = memchr::memrchr(b'\n', &self.text[..inner]) {
                let end = std::mem::replace(&mut self.end, at + 1);
                return Ok(Some(trimmed(&self.text[at + 1..end])));
            }
            if self.position == 0 {
                let end = std::mem::take(&mut self.end);
                return Ok((end > 0).then(|| trimmed(&self.text[..end])));
            }
            if self.end > self.max_line {
                return Ok(None);
            }
            self.read_block()?;
        }
    }

    fn read_block(&mut self) -> io::Result<()> {
        let length = self.position.min(BLOCK_BYTES);
        self.position -= length;
        self.file.seek(SeekFrom::Start(self.position))?;
        let length = usize::try_from(length).map_err(io::Error::other)?;
        let mut text = vec![0; length];
        self.file.read_exact(&mut text)?;
        text.extend_from_slice(&self.text[..self.end]);
        self.end = text.len();
        self.text = text;
        Ok(())
    }
}

fn trimmed(line: &[u8]) -> &[u8] {
    line.strip_suffix(b"\n").unwrap_or(line)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines_of(path: &std::path::Path, max_line: usize) -> ReverseLines {
        let file = File::open(path).unwrap();
        let end = file.metadata().unwrap().len();
        ReverseLines::before(file, end, max_line)
    }

    #[test]
    fn lines_are_returned_from_the_last_to_the_first() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        let long = "x".repeat(600 << 10);
        for (text, expected) in [
            ("".to_owned(), vec![]),
            ("one\n".to_owned(), vec!["one"]),
            ("one\ntwo\n".to_owned(), vec!["two", "one"]),
            ("one\ntwo".to_owned(), vec!["two", "one"]),
            ("\n\none\n".to_owned(), vec!["one", "", ""]),
            (
                format!("a\n{long}\nb\n{long}\n"),
                vec![&long, "b", &long, "a"],
            ),
        ] {
            std::fs::write(&path, &text).unwrap();
            let mut lines = lines_of(&path, 1 << 20);
            let mut found = Vec::new();
            while let Some(line) = lines.next_line().unwrap() {
                found.push(String::from_utf8(line.to_vec()).unwrap());
            }
            assert_eq!(found, expected, "{} bytes", text.len());
        }
        let mut lines = lines_of(&path, 1 << 10);
        assert_eq!(lines.next_line().unwrap(), None);
    }
}
