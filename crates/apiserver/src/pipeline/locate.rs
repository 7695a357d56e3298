//! Which space a request is about: the rule of the Arktos document.

use insula_core::{Principal, Spaces};

/// A space named in the URL wins; else it is the principal's own.
///
/// Nothing is granted here: whether the principal may enter is decided by
/// [`authorize`](crate::pipeline::authorize).
pub fn locate(principal: &Principal, named: Option<Spaces>) -> Spaces {
    named.unwrap_or_else(|| Spaces::One(principal.home.clone()))
}
