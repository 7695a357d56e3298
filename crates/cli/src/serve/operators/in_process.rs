//! Webhooks of operators in the server process, which the server calls directly.

use std::sync::Arc;

use insula_apiserver::egress::{InProcessHandler, InProcessServices};
use insula_core::Space;
use insula_operator::webhook::{ObjectSpace, Router, WebhookService};

/// Returns the Services of operators with webhooks, by the handlers that stand for them.
pub fn services(webhooks: impl IntoIterator<Item = (WebhookService, Router)>) -> InProcessServices {
    let mut services = InProcessServices::default();
    for (service, router) in webhooks {
        services.register(&service.namespace, &service.name, handler(router));
    }
    services
}

fn handler(router: Router) -> InProcessHandler {
    let router = Arc::new(router);
    Arc::new(move |mut request| {
        let space = request.extensions_mut().remove::<Space>();
        let space = space.map(|space| match space {
            Space::System => ObjectSpace::System,
            Space::Tenant(tenant) => ObjectSpace::Tenant(tenant.to_string()),
        });
        let router = Arc::clone(&router);
        Box::pin(async move { router.handle(request, space).await })
    })
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use bytes::Bytes;
    use insula_operator::webhook::AdmissionResponse;
    use serde_json::json;

    use super::*;

    #[tokio::test]
    async fn router_gets_the_space_of_the_object() {
        let seen: Arc<Mutex<Vec<Option<ObjectSpace>>>> = Arc::default();
        let record = Arc::clone(&seen);
        let router = Router::new().validating("/v", move |request| {
            record.lock().unwrap().push(request.space);
            async { AdmissionResponse::allow() }
        });
        let handler = handler(router);
        let tenant = Space::parse("t1").unwrap();
        for space in [None, Some(Space::System), Some(tenant)] {
            let body = json!({
                "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
                "request": {
                    "uid": "u", "operation": "CREATE",
                    "kind": {"group": "", "version": "v1", "kind": "ConfigMap"},
                    "resource": {"group": "", "version": "v1", "resource": "configmaps"},
                },
            });
            let mut request = http::Request::post("/v")
                .header("content-type", "application/json")
                .body(Bytes::from(body.to_string()))
                .unwrap();
            if let Some(space) = space {
                request.extensions_mut().insert(space);
            }
            assert_eq!(handler(request).await.status(), 200);
        }
        let expected = [
            None,
            Some(ObjectSpace::System),
            Some(ObjectSpace::Tenant("t1".to_owned())),
        ];
        assert_eq!(*seen.lock().unwrap(), expected);
    }

    #[test]
    fn services_are_registered_by_namespace_and_name() {
        let service = WebhookService::new("acme-system", "acme-webhooks");
        let services = services([(service, Router::new())]);
        assert_eq!(
            format!("{services:?}"),
            r#"{("acme-system", "acme-webhooks")}"#
        );
    }
}
