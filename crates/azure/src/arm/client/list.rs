//! Collections of resources, which ARM returns page by page.

use percent_encoding::utf8_percent_encode;
use serde_json::Value;

use super::{Client, QUERY, RequestFailure};
use crate::arm::id::ResourceId;

/// The maximum number of pages of a collection. A page usually has 100 to 1000 elements.
const MAX_PAGES: usize = 200;

impl Client {
    /// Returns all elements of a collection of a scope, such as `subnets` of a virtual network or
    /// `providers/Microsoft.Authorization/roleAssignments` of any resource.
    ///
    /// # Errors
    ///
    /// If a page cannot be read.
    pub async fn list(
        &self,
        scope: &ResourceId,
        collection: &str,
        api_version: &str,
        filter: Option<&str>,
    ) -> Result<Vec<Value>, RequestFailure> {
        let below = format!("{}/{collection}", scope.url_path());
        let mut path = self.path(&below, api_version);
        if let Some(filter) = filter {
            path.push_str(&format!("&$filter={}", utf8_percent_encode(filter, QUERY)));
        }
        let (mut elements, mut size) = (Vec::new(), 0_usize);
        for _ in 0..MAX_PAGES {
            let page = self.exchange(http::Method::GET, &path, None).await?;
            size = size.saturating_add(page.size);
            if size > self.bounds().list_bytes {
                return Err(RequestFailure::InvalidAnswer("a list is too large"));
            }
            let mut page = page.success()?.body;
            match page["value"].take() {
                Value::Array(values) => elements.extend(values),
                _ => return Err(RequestFailure::InvalidAnswer("a list has no elements")),
            }
            let next = page["nextLink"].as_str().filter(|next| !next.is_empty());
            let Some(next) = next else {
                return Ok(elements);
            };
            // The token is never sent to another server.
            path = self.server.path_within(next).map_err(|_| {
                RequestFailure::InvalidAnswer("the next page of a list is on another server")
            })?;
        }
        Err(RequestFailure::InvalidAnswer("a list has too many pages"))
    }
}
