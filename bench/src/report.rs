//! Tables of figures.

use crate::figures::Figures;

/// A column of a table: a figure and its unit.
pub struct Column {
    pub title: &'static str,
    pub figure: &'static str,
    pub unit: Unit,
}

#[derive(Clone, Copy, Debug)]
pub enum Unit {
    Count,
    Ratio,
    /// From seconds.
    Time,
    Bytes,
    /// From bytes.
    Kibibytes,
}

/// The result of one measurement.
#[derive(Clone, Debug)]
pub struct Row {
    /// The subject of the measurement.
    pub of: String,
    pub figures: Figures,
}

impl Column {
    pub const fn new(title: &'static str, figure: &'static str, unit: Unit) -> Self {
        Self {
            title,
            figure,
            unit,
        }
    }

    fn cell(&self, figures: &Figures) -> String {
        let value = figures.get(self.figure);
        value.map_or_else(|| "-".to_owned(), |value| self.unit.format(value))
    }
}

impl Unit {
    pub fn format(self, value: f64) -> String {
        match self {
            Self::Count => format!("{value:.0}"),
            Self::Ratio => format!("{value:.3}"),
            Self::Time => time(value),
            Self::Bytes => format!("{:.1} MB", value / 1e6),
            Self::Kibibytes => format!("{:.1} KiB", value / 1024.0),
        }
    }
}

/// Prints a table of figures, with a row for each measurement.
pub fn figures(title: &str, first: &str, columns: &[Column], rows: &[Row]) {
    let mut titles = vec![first];
    titles.extend(columns.iter().map(|column| column.title));
    let cells = |row: &Row| {
        let mut cells = vec![row.of.clone()];
        cells.extend(columns.iter().map(|column| column.cell(&row.figures)));
        cells
    };
    table(title, &titles, &rows.iter().map(cells).collect::<Vec<_>>());
}

/// Prints a Markdown table under a heading.
pub fn table(title: &str, columns: &[&str], rows: &[Vec<String>]) {
    text(&format!("\n## {title}\n"));
    text(&format!("| {} |", columns.join(" | ")));
    text(&format!("|{}", "---|".repeat(columns.len())));
    for row in rows {
        text(&format!("| {} |", row.join(" | ")));
    }
}

#[expect(clippy::print_stdout, reason = "the figures are this program's output")]
pub fn text(line: &str) {
    println!("{line}");
}

/// Prints progress to stderr.
#[expect(clippy::print_stderr, reason = "this is a program for a terminal")]
pub fn progress(text: &str) {
    eprintln!("bench: {text}");
}

fn time(seconds: f64) -> String {
    let micros = seconds * 1e6;
    match micros {
        _ if micros >= 1e6 => format!("{seconds:.2} s"),
        _ if micros >= 1e4 => format!("{:.1} ms", micros / 1e3),
        _ if micros >= 100.0 => format!("{micros:.0} us"),
        _ => format!("{micros:.1} us"),
    }
}

/// Formats a number with thousands separators: `1,000,000`.
pub fn grouped(number: usize) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}
