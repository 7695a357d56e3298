//! Clients with a response timeout.

use std::time::Duration;

use kube::Client;
use kube::client::Body;
use tokio::time::timeout;
use tower::{BoxError, service_fn};

/// A request without a response within the timeout.
#[derive(Debug, thiserror::Error)]
#[error("no answer within {}s", .0.as_secs_f32())]
pub struct NoAnswer(pub(crate) Duration);

/// Returns a client of the same server with a timeout until the response begins. The body, such
/// as the events of a watch, is not limited.
pub fn with_timeout(client: &Client, limit: Duration) -> Client {
    let client = client.clone();
    let service = service_fn(move |request: http::Request<Body>| {
        let client = client.clone();
        async move {
            match timeout(limit, client.send(request)).await {
                Ok(answer) => Ok::<_, BoxError>(answer?),
                Err(_) => Err(NoAnswer(limit).into()),
            }
        }
    });
    Client::new(service, "default")
}

#[cfg(test)]
mod tests {
    use http::Response;
    use k8s_openapi::api::core::v1::Namespace;
    use kube::Api;

    use super::*;

    #[tokio::test]
    async fn silent_server_times_out() {
        let silent = Client::new(
            service_fn(|_: http::Request<Body>| {
                std::future::pending::<Result<Response<Body>, BoxError>>()
            }),
            "default",
        );
        let client = with_timeout(&silent, Duration::from_millis(20));
        let answer = Api::<Namespace>::all(client).get("n").await;
        let Err(error) = answer else {
            panic!("an answer");
        };
        let mut source: &dyn std::error::Error = &error;
        while let Some(inner) = source.source() {
            source = inner;
        }
        assert_eq!(source.to_string(), "no answer within 0.02s");
    }
}
