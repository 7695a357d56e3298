//! Signing of a client certificate: a request in the tenant's space is created, approved and
//! deleted.

use std::time::Duration;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Value, json};

use super::KubeconfigRequest;
use crate::client::{Client, ClientError};
use crate::failure::Failure;
use crate::tenant::wait::{TimedOut, Wait};
use crate::tenant::{Server, conditions};

/// The server's signer of client certificates.
const SIGNER: &str = "kubernetes.io/kube-apiserver-client";

const TIMEOUT: Duration = Duration::from_secs(30);

/// The maximum number of attempts on write conflicts.
const MAX_ATTEMPTS: usize = 5;

/// Has a request signed and returns the certificate in PEM.
pub async fn sign(
    server: &Server,
    requested: &KubeconfigRequest<'_>,
    request: &str,
    attempted: &str,
) -> Result<String, Failure> {
    let client = &server.client;
    let requests = format!(
        "/apis/certificates.k8s.io/v1/tenants/{}/certificatesigningrequests",
        requested.tenant
    );
    let created = client.post(&requests, &object(requested, request)).await;
    let created = created.map_err(|error| error.to_failure(attempted))?;
    let Some(name) = created["metadata"]["name"].as_str() else {
        return Err(Failure::new(
            attempted,
            "the server gave the request no name",
        ));
    };
    let path = format!("{requests}/{name}");
    let certificate = signed(client, &path, created.clone(), attempted).await;
    // The request is no longer needed; the server deletes it eventually as well.
    if let Err(error) = client.delete(&path).await {
        tracing::warn!(%error, %path, "signing request deletion failed");
    }
    certificate
}

fn object(requested: &KubeconfigRequest<'_>, request: &str) -> Value {
    json!({
        "apiVersion": "certificates.k8s.io/v1",
        "kind": "CertificateSigningRequest",
        "metadata": { "generateName": "insula-" },
        "spec": {
            "request": BASE64_STANDARD.encode(request),
            "signerName": SIGNER,
            "usages": ["client auth"],
            "expirationSeconds": requested.expires.as_secs(),
        },
    })
}

async fn signed(
    client: &Client,
    path: &str,
    created: Value,
    attempted: &str,
) -> Result<String, Failure> {
    let approved = approve(client, path, created).await;
    let mut request = approved.map_err(|error| error.to_failure(attempted))?;
    let mut wait = Wait::with_timeout(TIMEOUT);
    loop {
        if let Some(certificate) = request["status"]["certificate"].as_str() {
            let bytes = BASE64_STANDARD.decode(certificate).ok();
            let text = bytes.and_then(|bytes| String::from_utf8(bytes).ok());
            let unreadable = "the server's certificate is not base64-encoded PEM";
            return text.ok_or_else(|| Failure::new(attempted, unreadable));
        }
        let refused = conditions(&request).into_iter();
        let mut refused = refused.filter(|of| of.kind == "Failed" || of.kind == "Denied");
        if let Some(condition) = refused.next() {
            let why = format!("the server refused to sign it: {}", condition.message);
            return Err(Failure::new(attempted, why));
        }
        let waiting = wait.pause("the server to sign a certificate").await;
        let late = "the server has signed no certificate in 30s";
        waiting.map_err(|TimedOut| Failure::new(attempted, late))?;
        let looked = client.get(path).await;
        request = looked.map_err(|error| error.to_failure(attempted))?;
    }
}

async fn approve(client: &Client, path: &str, created: Value) -> Result<Value, ClientError> {
    let approval = format!("{path}/approval");
    let mut request = created;
    for _ in 1..MAX_ATTEMPTS {
        match client.put(&approval, &with_approval(request)).await {
            Err(error) if error.is_conflict() => request = client.get(path).await?,
            other => return other,
        }
    }
    client.put(&approval, &with_approval(request)).await
}

fn with_approval(mut request: Value) -> Value {
    let condition = json!({
        "type": "Approved",
        "status": "True",
        "reason": "InsulaTenantKubeconfig",
        "message": "requested with `insula tenant kubeconfig`",
    });
    match &mut request["status"]["conditions"] {
        Value::Array(conditions) => conditions.push(condition),
        conditions => *conditions = json!([condition]),
    }
    request
}
