//! How whoever asked for something is told how it goes.

/// Told what is being done, while it is done. Nothing that is told has a secret in it.
pub trait Report: Send + Sync {
    /// Something begins that may take a while.
    fn begin(&self, what: &str);
    /// Something has been done.
    fn done(&self, what: &str);
    /// Something is not as it might be expected.
    fn warn(&self, what: &str);
}

/// Tells nobody.
pub struct Silent;

impl Report for Silent {
    fn begin(&self, _: &str) {}
    fn done(&self, _: &str) {}
    fn warn(&self, _: &str) {}
}
