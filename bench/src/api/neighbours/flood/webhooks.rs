//! Creates that wait for a webhook that accepts connections and never answers.

use anyhow::Result;
use bytes::Bytes;
use http::{Method, StatusCode};
use serde_json::json;
use tokio::net::TcpListener;

use super::{Run, requests};

const CONFIGURATIONS: &str =
    "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations";

pub async fn flood(run: &Run) -> Result<()> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let url = format!("https://{}/", listener.local_addr()?);
    tokio::spawn(async move {
        let mut silent = vec![];
        while let Ok((stream, _)) = listener.accept().await {
            silent.push(stream);
        }
    });
    let client = run.connect(1).await?;
    let body = Some(Bytes::from(configuration(&url).to_string()));
    let created = client.call(Method::POST, CONFIGURATIONS, body).await?;
    created.expect(StatusCode::CREATED)?;
    requests::creates(run).await
}

fn configuration(url: &str) -> serde_json::Value {
    json!({
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": "silent"},
        "webhooks": [{
            "name": "silent.example.com",
            "clientConfig": {"url": url},
            "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"],
                "resources": ["configmaps"]}],
            "admissionReviewVersions": ["v1"],
            "sideEffects": "None",
            "failurePolicy": "Ignore",
            "timeoutSeconds": 10,
        }],
    })
}
