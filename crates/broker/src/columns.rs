//! Terminal tables of untrusted text.
//!
//! Tenants decide what their objects contain, and administrators look at them: no value may
//! control the terminal, imitate a line, or push the other columns out of sight.

/// The maximum length of a cell. Names of namespaces and objects are shorter.
const MAX_LENGTH: usize = 256;
/// The minimum gap between two columns.
const GAP: usize = 3;

/// Formats rows with columns as wide as needed, three spaces apart, as in kubectl.
pub fn table<R: AsRef<[String]>>(rows: &[R]) -> String {
    let rows: Vec<Vec<String>> = rows
        .iter()
        .map(|row| row.as_ref().iter().map(|text| cell(text)).collect())
        .collect();
    let columns = rows.iter().map(Vec::len).max().unwrap_or_default();
    let width = |column: usize| {
        let cells = rows.iter().filter_map(|row| row.get(column));
        cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let mut text = String::new();
    for row in &rows {
        let mut line = String::new();
        for (cell, width) in row.iter().zip(&widths) {
            line.push_str(cell);
            // Padded by hand: the formatter limits the width.
            let rest = width.saturating_sub(cell.chars().count()) + GAP;
            line.extend(std::iter::repeat_n(' ', rest));
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

/// Sanitizes a text to one line of limited length.
pub fn cell(text: &str) -> String {
    let mut characters = text.chars();
    let mut cell: String = characters.by_ref().take(MAX_LENGTH).map(sanitize).collect();
    if characters.next().is_some() {
        cell.pop();
        cell.push('\u{2026}');
    }
    cell
}

/// Replaces a character that would move the cursor, change colours, end the line, or change
/// the text direction.
pub fn sanitize(character: char) -> char {
    match character {
        '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => '\u{fffd}',
        '\u{2028}' | '\u{2029}' => '\u{fffd}',
        character if character.is_control() => '\u{fffd}',
        character => character,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_needed() {
        let rows = [["a", "bb", ""], ["ccc", "\u{e4}", "d"]];
        let rows = rows.map(|row| row.map(str::to_owned));
        assert_eq!(table(&rows), "a     bb\nccc   \u{e4}    d\n");
        assert_eq!(table::<[String; 0]>(&[]), "");
    }

    #[test]
    fn cells_are_sanitized_and_truncated() {
        for (text, shown) in [
            ("a\x1b[31mb", "a\u{fffd}[31mb".to_owned()),
            ("a\r\nb\tc", "a\u{fffd}\u{fffd}b\u{fffd}c".to_owned()),
            ("\u{202e}a\u{9b}", "\u{fffd}a\u{fffd}".to_owned()),
            (&"x".repeat(256), "x".repeat(256)),
            (&"x".repeat(257), format!("{}\u{2026}", "x".repeat(255))),
        ] {
            assert_eq!(cell(text), shown);
        }
    }

    #[test]
    fn very_long_text_is_truncated() {
        let rows = [["\u{1F600}".repeat(70_000), "b".to_owned()]];
        let shown = table(&rows);
        assert_eq!(shown.chars().count(), 256 + 3 + 1 + 1);
        assert!(shown.ends_with("\u{2026}   b\n"), "{shown}");
    }
}
