//! Get.

use std::sync::Arc;

use insula_core::Revision;

use super::not_older;
use crate::codec::body::Body;
use crate::codec::view::View;
use crate::pipeline::authorize::Caller;
use crate::registry::Registry;
use crate::registry::{tenant_status, versions};
use crate::request::query::{self, Query};
use crate::status::{Result, StatusError};

/// Returns the object that the path names.
pub async fn get(
    registry: &Registry,
    granted: Caller<'_>,
    query: &Query,
    view: &View,
) -> Result<Body> {
    let path = granted.path();
    let kind = path.of();
    match query.get("resourceVersion") {
        None => {
            registry.catch_up().await?;
        }
        Some(text) => {
            let revision = query::revision(text).map_err(StatusError::plain_error)?;
            if revision > Revision::ZERO {
                Box::pin(not_older(registry, revision)).await?;
            }
        }
    }
    let address = granted.address()?;
    let object = match granted.is_own_tenant() {
        true => tenant_status::own_view(registry, &address.space).map(Arc::new),
        false => registry.seen(&address),
    };
    let object = object.ok_or_else(|| StatusError::not_found(kind, &address.name))?;
    versions::prepare(
        registry,
        Some(granted.context),
        &path.kind,
        std::iter::once(&object),
    )
    .await?;
    view.object(&object)
}
