//! Resource quantities.
