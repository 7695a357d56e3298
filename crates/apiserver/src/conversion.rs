//! Objects from one version to another, by the webhook that a definition names.

use insula_kinds::Object;

use crate::registry::Registry;
use crate::served::Custom;
use crate::status::{Refusal, Result};

/// The objects in the version that is wanted, in their order.
pub async fn convert(
    _registry: &Registry,
    to: &Custom,
    _objects: Vec<Object>,
) -> Result<Vec<Object>> {
    let kind = &to.version().kind;
    Err(Refusal::plain_error(format!(
        "conversion webhook for {}, Kind={} failed: no webhook is called yet",
        kind.api_version(),
        kind.kind
    )))
}
