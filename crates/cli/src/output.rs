//! Data, to stdout; everything else goes to stderr.

use std::io::Write;

use serde::Serialize;

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

/// As YAML. Long texts stay on one line, as every other program writes them.
pub fn yaml(value: &impl Serialize) -> Result<String, Failure> {
    let options = serde_saphyr::ser_options! { folded_wrap_chars: usize::MAX };
    serde_saphyr::to_string_with_options(value, options)
        .map_err(|error| Failure::new("cannot write YAML", error))
}
