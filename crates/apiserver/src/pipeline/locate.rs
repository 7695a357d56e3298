//! The space of a request, by the rule of the Arktos document.

use insula_core::{Principal, Spaces};

/// Returns the space that the URL names, or else the principal's own.
///
/// This grants nothing: whether the principal may enter is decided by
/// [`authorize`](crate::pipeline::authorize).
pub fn locate(principal: &Principal, named: Option<Spaces>) -> Spaces {
    named.unwrap_or_else(|| Spaces::One(principal.home.clone()))
}
