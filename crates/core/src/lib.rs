//! The nouns of Insula, without I/O.
//!
//! Every other crate speaks in these types. Nothing here opens a file, a socket
//! or a clock, and nothing here knows HTTP, a storage engine or a provider.

mod revision;

pub use revision::{ParseRevisionError, Revision};
