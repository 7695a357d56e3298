//! Progress reports of long operations.

/// Receives the progress of an operation. Reports contain no secrets.
pub trait Report: Send + Sync {
    /// A step that may take a while begins.
    fn begin(&self, what: &str);
    /// A step was completed.
    fn done(&self, what: &str);
    /// Something unexpected was found.
    fn warn(&self, what: &str);
}

/// Discards all reports.
pub struct Silent;

impl Report for Silent {
    fn begin(&self, _: &str) {}
    fn done(&self, _: &str) {}
    fn warn(&self, _: &str) {}
}
