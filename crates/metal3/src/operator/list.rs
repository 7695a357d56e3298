//! Searches in lists of API servers that tenants choose, which may never end.

use std::fmt::Debug;
use std::time::Duration;

use kube::Api;
use kube::api::ListParams;
use serde::de::DeserializeOwned;
use tokio::time::timeout;
use tower::BoxError;

/// How many objects are listed per request.
const PAGE_SIZE: u32 = 500;
/// The most requests of a search.
const MAX_PAGES: usize = 100;
/// How long a search may take.
const TIMEOUT: Duration = Duration::from_secs(30);

/// Returns the first object that satisfies a predicate.
///
/// # Errors
///
/// If a request fails, or the list does not end in time.
pub(super) async fn find<K>(
    api: &Api<K>,
    parameters: ListParams,
    is_so: impl Fn(&K) -> bool,
) -> Result<Option<K>, kube::Error>
where
    K: Clone + Debug + DeserializeOwned,
{
    let search = async {
        let mut parameters = parameters.limit(PAGE_SIZE);
        for _ in 0..MAX_PAGES {
            let page = api.list(&parameters).await?;
            let found = page.items.into_iter().find(&is_so);
            let next = page.metadata.continue_.filter(|next| !next.is_empty());
            match (found, next) {
                (None, Some(next)) => parameters = parameters.continue_token(&next),
                (found, _) => return Ok(found),
            }
        }
        Err(endless())
    };
    match timeout(TIMEOUT, search).await {
        Ok(found) => found,
        Err(_) => Err(endless()),
    }
}

fn endless() -> kube::Error {
    kube::Error::Service(BoxError::from("the list does not end"))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use http::{Request, Response};
    use k8s_openapi::api::core::v1::ConfigMap;
    use kube::client::Body;
    use kube::{Client, ResourceExt};
    use tower::service_fn;

    use super::*;

    /// A server without a last page. Each has one object, named by its number.
    fn endless_list() -> (Api<ConfigMap>, Arc<AtomicUsize>) {
        let pages = Arc::<AtomicUsize>::default();
        let count = Arc::clone(&pages);
        let service = service_fn(move |_: Request<Body>| {
            let number = count.fetch_add(1, Ordering::SeqCst);
            async move {
                let page = serde_json::json!({
                    "metadata": {"continue": "next"},
                    "items": [{"metadata": {"name": number.to_string()}}],
                });
                let body = Body::from(page.to_string().into_bytes());
                Ok::<_, BoxError>(Response::new(body))
            }
        });
        (Api::all(Client::new(service, "default")), pages)
    }

    #[tokio::test]
    async fn search_ends_although_the_list_does_not() {
        let (api, pages) = endless_list();
        let all = ListParams::default;
        let found = find(&api, all(), |one| one.name_any() == "7").await;
        assert_eq!(found.unwrap().unwrap().name_any(), "7");
        let found = find(&api, all(), |_| false).await;
        assert_eq!(
            found.unwrap_err().to_string(),
            "ServiceError: the list does not end"
        );
        assert_eq!(pages.load(Ordering::SeqCst), 8 + MAX_PAGES);
    }
}
