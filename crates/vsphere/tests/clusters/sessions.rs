//! The number of sessions, and what happens when they end or cannot be opened.

use std::time::Duration;

use insula_testkit::vcenter::{ConnectionMode, FakeVCenter};
use k8s_openapi::api::core::v1::Secret;
use serde_json::json;
use tokio::time::Instant;

use crate::basics::{accounts, allowed, by_identity, by_secret, message};
use crate::world::{HOME, SESSIONS, Space, World, eventually, patched};

/// Longer than two calls in a row take, and short for a test.
const SHORT: Duration = Duration::from_millis(300);

/// Triggers reconciliations of a cluster until a condition holds.
async fn trigger_until(
    space: &Space,
    (namespace, name): (&str, &str),
    holds: impl Fn() -> bool,
) -> anyhow::Result<()> {
    let mut times = 0;
    eventually(async || {
        times += 1;
        trigger(space, namespace, name, &format!("host{times}")).await?;
        Ok(holds().then_some(()))
    })
    .await
}

/// Triggers a reconciliation of a cluster.
async fn trigger(space: &Space, namespace: &str, name: &str, word: &str) -> anyhow::Result<()> {
    let patch = json!({"spec": {"controlPlaneEndpoint": {"host": word, "port": 6443}}});
    space.change(namespace, name, patch).await?;
    space.wait_for_reason(namespace, name, "Available").await?;
    Ok(())
}

#[tokio::test]
async fn g2_c6_clusters_of_one_account_share_one_login() -> anyhow::Result<()> {
    let world = World::new().await?;
    let vcenter = FakeVCenter::start(&[("shared", "pw")]).await?;
    let mut settings = world.settings();
    settings.shell.sessions.check_after = SHORT;
    let here = world.here();
    here.shared("shared", ("shared", "pw"), allowed(&vcenter))
        .await?;
    for namespace in ["a", "b"] {
        here.namespace(namespace, json!({})).await?;
        for number in 0..15 {
            let name = format!("c{number}");
            here.owned(namespace, &name, by_identity(&vcenter, "shared"))
                .await?;
        }
    }
    let running = world.start_with(settings);
    for namespace in ["a", "b"] {
        for number in 0..15 {
            here.wait_for_reason(namespace, &format!("c{number}"), "Available")
                .await?;
        }
    }
    trigger(&here, "a", "c0", "one").await?;
    assert_eq!(vcenter.logins().len(), 1);
    // An administrator ends the session: the next check finds out, and a new one is opened.
    vcenter.terminate_all("shared");
    trigger_until(&here, ("a", "c1"), || vcenter.logins().len() == 2).await?;
    trigger(&here, "b", "c1", "three").await?;
    assert_eq!(vcenter.logins().len(), 2);
    assert_eq!(accounts(&vcenter), ["shared"]);
    let metrics = running.health.metrics();
    assert!(metrics.contains("session"), "{metrics}");
    running.stop().await?;
    assert_eq!(accounts(&vcenter), Vec::<String>::new());
    Ok(())
}

#[tokio::test]
async fn x4_wrong_password_is_tried_once_and_a_changed_one_at_once() -> anyhow::Result<()> {
    let world = World::new().await?;
    let vcenter = FakeVCenter::start(&[("own", "right")]).await?;
    vcenter.lock_out_after(3);
    let _running = world.start();
    let here = world.here();
    here.shared("shared", ("own", "wrong"), allowed(&vcenter))
        .await?;
    here.namespace("a", json!({})).await?;
    for number in 0..5 {
        let name = format!("c{number}");
        here.owned("a", &name, by_identity(&vcenter, "shared"))
            .await?;
    }
    for number in 0..5 {
        let cluster = here
            .wait_for_reason("a", &format!("c{number}"), "InvalidCredentials")
            .await?;
        assert!(
            !message(&cluster).contains("wrong"),
            "{}",
            message(&cluster)
        );
    }
    assert_eq!(vcenter.logins().len(), 1);
    assert!(!vcenter.is_locked("own"));
    here.rotate(HOME, "shared", "right").await?;
    for number in 0..5 {
        here.wait_for_reason("a", &format!("c{number}"), "Available")
            .await?;
    }
    assert_eq!(vcenter.logins().len(), 2);
    Ok(())
}

#[tokio::test]
async fn x3_changed_thumbprint_takes_effect_at_once() -> anyhow::Result<()> {
    let world = World::new().await?;
    let vcenter = FakeVCenter::start(&[("own", "pw")]).await?;
    let _running = world.start();
    let here = world.here();
    here.namespace("a", json!({})).await?;
    here.account("a", "own", ("own", "pw")).await?;
    let mut spec = by_secret(&vcenter, "own");
    spec["thumbprint"] = json!(null);
    here.owned("a", "prod", spec).await?;
    // No authority has signed its certificate, so nothing is sent.
    here.wait_for_reason("a", "prod", "CertificateNotTrusted")
        .await?;
    assert_eq!(vcenter.logins(), []);
    let written = |text: String| json!({"spec": {"thumbprint": text}});
    here.change("a", "prod", written(vcenter.thumbprint_sha1()))
        .await?;
    here.wait_for_reason("a", "prod", "Available").await?;
    // The certificate is renewed, and the new thumbprint written.
    vcenter.renew_certificate()?;
    let newer = vcenter.thumbprint_sha256().replace(':', "").to_lowercase();
    here.change("a", "prod", written(newer)).await?;
    here.wait_for_reason("a", "prod", "Available").await?;
    assert_eq!(accounts(&vcenter), ["own"]);
    let other = "AA".repeat(20);
    here.change("a", "prod", written(other)).await?;
    here.wait_for_reason("a", "prod", "CertificateNotTrusted")
        .await?;
    let left = |vcenter: &FakeVCenter| accounts(vcenter).is_empty();
    vcenter.wait_for("no session", left).await
}

#[tokio::test]
async fn x5_x7_restricted_accounts_and_old_sessions_work() -> anyhow::Result<()> {
    let world = World::new().await?;
    let vcenter = FakeVCenter::start(&[("own", "pw")]).await?;
    vcenter.limit("own");
    let mut settings = world.settings();
    settings.shell.sessions.check_after = SHORT;
    settings.shell.sessions.lifetime = 4 * SHORT;
    let _running = world.start_with(settings);
    let here = world.here();
    here.namespace("a", json!({})).await?;
    here.account("a", "own", ("own", "pw")).await?;
    here.owned("a", "prod", by_secret(&vcenter, "own")).await?;
    here.wait_for_reason("a", "prod", "Available").await?;
    let first = vcenter.open_sessions();
    trigger_until(&here, ("a", "prod"), || {
        let open = vcenter.open_sessions();
        open.len() == 1 && open != first
    })
    .await?;
    assert!(vcenter.logins().iter().all(|login| login.ok));
    Ok(())
}

#[tokio::test]
async fn c6_x6_unresponsive_vcenter_delays_no_other() -> anyhow::Result<()> {
    let world = World::new().await?;
    let dead = FakeVCenter::start(&[("own", "pw")]).await?;
    let alive = FakeVCenter::start(&[("own", "pw")]).await?;
    dead.set_connection_mode(ConnectionMode::Silent).await;
    let mut settings = world.settings();
    settings.shell.concurrency = 2;
    let _running = world.start_with(settings);
    let here = world.here();
    here.namespace("a", json!({})).await?;
    for number in 0..6 {
        let name = format!("dead{number}");
        here.account("a", &name, ("own", "pw")).await?;
        here.owned("a", &name, by_secret(&dead, &name)).await?;
    }
    here.account("a", "own", ("own", "pw")).await?;
    let begin = Instant::now();
    here.owned("a", "alive", by_secret(&alive, "own")).await?;
    here.wait_for_reason("a", "alive", "Available").await?;
    let took = begin.elapsed();
    assert!(
        took < SESSIONS.request_timeout + Duration::from_secs(6),
        "{took:?}"
    );
    for number in 0..6 {
        here.wait_for_reason("a", &format!("dead{number}"), "VCenterUnreachable")
            .await?;
    }
    dead.resume().await;
    for number in 0..6 {
        here.wait_for_reason("a", &format!("dead{number}"), "Available")
            .await?;
    }
    Ok(())
}

#[tokio::test]
async fn secret_with_a_server_key_is_sent_only_there() -> anyhow::Result<()> {
    let world = World::new().await?;
    let vcenter = FakeVCenter::start(&[("own", "pw")]).await?;
    let other = FakeVCenter::start(&[("own", "pw")]).await?;
    let _running = world.start();
    let here = world.here();
    here.namespace("a", json!({})).await?;
    let address = vcenter.address();
    let texts = [
        ("username", "own"),
        ("password", "pw"),
        ("server", address.as_str()),
    ];
    here.secret("a", "own", &texts).await?;
    here.owned("a", "prod", by_secret(&other, "own")).await?;
    here.wait_for_reason("a", "prod", "ServerNotAllowed")
        .await?;
    assert_eq!(other.connections(), 0);
    let both = format!("{address}, {}", other.address());
    let patch = json!({"stringData": {"server": both}});
    patched(&here.inside::<Secret>("a"), "own", patch).await?;
    here.wait_for_reason("a", "prod", "Available").await?;
    Ok(())
}
