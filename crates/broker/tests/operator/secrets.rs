//! No secrets in logs, status or events.

use std::io;
use std::sync::{Arc, Mutex};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use insula_broker::names::{ADMIN_TOKEN, AXON};
use insula_broker::tenant::Phase;
use insula_broker::token;
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::api::events::v1::Event;
use kube::Api;
use kube::api::{DeleteParams, ListParams};
use tracing_subscriber::EnvFilter;

use crate::world::{World, eventually};

/// A recorded log.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().expect("no panic").extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[tokio::test]
async fn r81_no_token_in_logs_status_or_events() -> anyhow::Result<()> {
    let world = World::new().await?;
    let log = Log::default();
    let written = log.clone();
    let subscriber = tracing_subscriber::fmt()
        .with_env_filter(EnvFilter::new("insula_broker=trace,insula_operator=trace"))
        .with_writer(move || written.clone())
        .finish();
    // Each test has its own thread, which the operator shares.
    let guard = tracing::subscriber::set_default(subscriber);
    let running = world.start();
    world.create("acme").await?;
    world.phase("acme", Phase::Provisioned).await?;
    let secrets: Api<Secret> = world.inside("acme");
    let mut tokens = Vec::new();
    for _ in 0..2 {
        let secret = eventually(async || {
            let secret = secrets.get_opt(ADMIN_TOKEN).await?;
            Ok(secret.filter(|secret| token::of(secret).is_some()))
        })
        .await?;
        tokens.push(token::of(&secret).unwrap_or_default().to_vec());
        secrets
            .delete(ADMIN_TOKEN, &DeleteParams::default())
            .await?;
    }
    world.phase("acme", Phase::Provisioned).await?;
    world.delete("acme").await?;
    let status = format!("{:?}", world.tenants().get_opt("acme").await?);
    world.gone("acme").await?;
    running.stop().await?;
    drop(guard);
    let events: Api<Event> = Api::namespaced(world.admin.clone(), AXON);
    let events = format!("{:?}", events.list(&ListParams::default()).await?.items);
    let log = String::from_utf8(log.0.lock().expect("no panic").clone())?;
    assert!(
        log.contains("create secret submariner-k8s-broker-admin-token"),
        "{log}"
    );
    for token in tokens {
        let plain = String::from_utf8(token.clone())?;
        assert!(plain.starts_with("ey"), "a token");
        for text in [&log, &status, &events] {
            for form in [
                plain.as_str(),
                &STANDARD.encode(&token),
                &format!("{token:?}"),
            ] {
                assert!(!text.contains(form), "a token was told");
            }
        }
    }
    Ok(())
}
