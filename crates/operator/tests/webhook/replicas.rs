//! Replicas that share one Secret.

use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use insula_operator::webhook::certificate::SecretCertificates;
use insula_operator::webhook::{CertificateSource, Certificates};
use insula_testkit::server::TestServer;
use serde_json::{Value, json};
use tokio::sync::Barrier;
use tokio::task::JoinSet;

use super::scene::kube_client;

const SECRET: &str = "/api/v1/namespaces/default/secrets/certificate";
const DAY: Duration = Duration::from_secs(86_400);

/// The number of replicas.
const REPLICAS: usize = 8;

/// Refreshes all replicas at the same time and returns the CA bundles that they use.
async fn refresh(server: &TestServer, now: SystemTime) -> anyhow::Result<Vec<String>> {
    let barrier = Arc::new(Barrier::new(REPLICAS));
    let bundles: Arc<Mutex<Vec<String>>> = Arc::default();
    let mut replicas = JoinSet::new();
    for _ in 0..REPLICAS {
        let client = kube_client(server, "system")?;
        let names = vec!["localhost".to_owned()];
        let clock = Arc::new(move || now);
        let secret =
            SecretCertificates::with_clock(&client, "default", "certificate", names, clock);
        let (barrier, bundles) = (Arc::clone(&barrier), Arc::clone(&bundles));
        replicas.spawn(async move {
            let certificates = Certificates::default();
            barrier.wait().await;
            let bundle = CertificateSource::Secret(Box::new(secret))
                .refresh(&certificates)
                .await?;
            assert!(certificates.is_loaded());
            bundles.lock().unwrap().extend(bundle);
            Ok::<_, anyhow::Error>(())
        });
    }
    while let Some(replica) = replicas.join_next().await {
        replica??;
    }
    Ok(bundles.lock().unwrap().clone())
}

async fn secret(server: &TestServer) -> anyhow::Result<Value> {
    Ok(server.system().await?.get(SECRET).await?.json())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn replicas_that_start_or_rotate_at_once_agree() -> anyhow::Result<()> {
    let server = TestServer::start().await?;
    let start = SystemTime::now();
    let first = refresh(&server, start).await?;
    assert_eq!(first.len(), REPLICAS);
    assert!(first.iter().all(|bundle| *bundle == first[0]));
    assert_eq!(first[0].matches("BEGIN CERTIFICATE").count(), 1);
    let created = secret(&server).await?;
    assert_eq!(created["type"], "kubernetes.io/tls");
    // A later check writes nothing.
    refresh(&server, start + DAY * 30).await?;
    assert_eq!(secret(&server).await?, created);
    // The serving certificate, the CA and its use are each rotated once.
    let mut last = created;
    for (days, changed) in [
        (200, ["tls.crt", "tls.key"]),
        (246, ["ca.crt", "ca.key"]),
        (247, ["tls.crt", "tls.key"]),
    ] {
        let bundles = refresh(&server, start + DAY * days).await?;
        assert!(bundles.iter().all(|bundle| *bundle == bundles[0]));
        let found = secret(&server).await?;
        for key in ["ca.crt", "ca.key", "tls.crt", "tls.key"] {
            let is_changed = found["data"][key] != last["data"][key];
            assert_eq!(is_changed, changed.contains(&key), "{days} {key}");
        }
        last = found;
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn damaged_secret_is_repaired_and_other_data_is_kept() -> anyhow::Result<()> {
    let server = TestServer::start().await?;
    let system = server.system().await?;
    let now = SystemTime::now();
    let first = refresh(&server, now).await?;
    let damage = json!({
        "metadata": {"labels": {"a": "b"}},
        "data": {"tls.key": "bm9uc2Vuc2U=", "other": "eA=="},
    });
    let patched = system.patch(SECRET, "merge", &damage).await?;
    assert_eq!(patched.status, 200, "{}", patched.text());
    let second = refresh(&server, now).await?;
    assert_eq!(first[0], second[0], "the CA is the same");
    let found = secret(&server).await?;
    assert_ne!(found["data"]["tls.key"], "bm9uc2Vuc2U=");
    assert_eq!(found["data"]["other"], "eA==");
    assert_eq!(found["metadata"]["labels"], json!({"a": "b"}));
    // Deleted, it is created again.
    assert_eq!(system.delete(SECRET).await?.status, 200);
    let third = refresh(&server, now).await?;
    assert_ne!(first[0], third[0]);
    Ok(())
}
