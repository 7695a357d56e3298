//! Clients whose requests are answered in time or not at all.

use std::time::Duration;

use kube::Client;
use kube::client::Body;
use tokio::time::timeout;
use tower::{BoxError, service_fn};

/// A server, or something before it, took a request and said nothing.
#[derive(Debug, thiserror::Error)]
#[error("no answer within {}s", .0.as_secs_f32())]
pub struct NoAnswer(Duration);

/// A client of the same server that waits no longer than this for an answer to begin. How
/// long one goes on, as that of a watch does, is not its business.
pub fn within(client: &Client, patience: Duration) -> Client {
    let client = client.clone();
    let service = service_fn(move |request: http::Request<Body>| {
        let client = client.clone();
        async move {
            match timeout(patience, client.send(request)).await {
                Ok(answer) => Ok::<_, BoxError>(answer?),
                Err(_) => Err(NoAnswer(patience).into()),
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
    async fn who_says_nothing_is_not_waited_for() {
        let silent = Client::new(
            service_fn(|_: http::Request<Body>| {
                std::future::pending::<Result<Response<Body>, BoxError>>()
            }),
            "default",
        );
        let client = within(&silent, Duration::from_millis(20));
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
