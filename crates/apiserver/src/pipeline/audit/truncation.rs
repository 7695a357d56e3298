//! The size of events.

/// The size that events of a backend are truncated to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Truncation {
    /// The most bytes of an event. A larger one loses its bodies, and all but the least that
    /// an event says if that is not enough.
    pub max_event_bytes: usize,
    /// The most bytes of a batch.
    pub max_batch_bytes: usize,
}
