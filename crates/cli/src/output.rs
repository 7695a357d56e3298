//! Data, to stdout; everything else goes to stderr.

use std::io::Write;

use crate::failure::Failure;

/// Writes to stdout.
pub fn print(text: &str) -> Result<(), Failure> {
    let mut stdout = std::io::stdout().lock();
    let written = stdout.write_all(text.as_bytes());
    let written = written.and_then(|()| stdout.flush());
    match written {
        // Whoever reads it has read enough.
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
        other => other.map_err(|error| Failure::new("cannot write to stdout", error)),
    }
}
