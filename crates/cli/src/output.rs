//! Output of data on stdout; everything else goes to stderr.

use std::io::Write;

use insula_broker::columns;
use serde::Serialize;

use crate::failure::Failure;

/// Writes to stdout.
pub fn print(text: &str) -> Result<(), Failure> {
    let mut stdout = std::io::stdout().lock();
    let written = stdout.write_all(text.as_bytes());
    let written = written.and_then(|()| stdout.flush());
    match written {
        // The reader has read enough.
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
        other => other.map_err(|error| Failure::new("cannot write to stdout", error)),
    }
}

/// Encodes YAML. Long texts stay on one line, as other programs write them.
pub fn yaml(value: &impl Serialize) -> Result<String, Failure> {
    let options = serde_saphyr::ser_options! { folded_wrap_chars: usize::MAX };
    serde_saphyr::to_string_with_options(value, options)
        .map_err(|error| Failure::new("cannot write YAML", error))
}

/// Encodes several YAML documents.
pub fn documents(objects: &[impl Serialize]) -> Result<String, Failure> {
    let mut text = String::new();
    for object in objects {
        text.push_str("---\n");
        text.push_str(&yaml(object)?);
    }
    Ok(text)
}

/// Formats columns as wide as needed, three spaces apart, as in kubectl.
pub fn table(rows: &[&[String]]) -> String {
    columns::table(rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn untrusted_text_cannot_control_the_terminal() {
        let rows = [vec!["a\x1b]0;x\x07".to_owned(), "ä ✓".to_owned()]];
        let rows: Vec<_> = rows.iter().map(Vec::as_slice).collect();
        assert_eq!(table(&rows), "a\u{fffd}]0;x\u{fffd}   ä ✓\n");
        let document = yaml(&serde_json::json!({ "a": "\x1b[2J" })).unwrap();
        assert!(!document.contains('\x1b'), "{document}");
        let rows = [vec!["a\nb".to_owned(), "c".repeat(70_000)]];
        let rows: Vec<_> = rows.iter().map(Vec::as_slice).collect();
        let shown = format!("a\u{fffd}b   {}…\n", "c".repeat(255));
        assert_eq!(table(&rows), shown);
    }
}
