//! Transient errors during waits.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use http::{Method, Request, Response};
use insula_broker::deploy::axon;
use insula_broker::deploy::broker::{Mode, Prepared};
use insula_broker::names::AXON;
use insula_broker::report::Silent;
use insula_broker::{crds, mode, token};
use k8s_openapi::api::core::v1::{Secret, ServiceAccount};
use kube::api::PostParams;
use kube::client::Body;
use kube::{Api, Client};
use serde_json::json;
use tower::{BoxError, service_fn};

use crate::broker::fixture::Scene;
use crate::scene::{Told, config};

/// The outcome of a request.
#[derive(Clone, Copy)]
enum Fate {
    /// The request is answered normally.
    Passes,
    /// The server answers with this status.
    Answered(u16),
    /// There is no response.
    Cut,
}

/// Wraps a client whose requests of this method to such paths have these outcomes; later ones
/// pass.
fn stumbling(client: &Client, (method, path): (Method, &'static str), fates: &[Fate]) -> Client {
    let fates = Arc::new(Mutex::new(VecDeque::from(fates.to_vec())));
    let client = client.clone();
    let service = service_fn(move |request: Request<Body>| {
        let (client, fates, method) = (client.clone(), Arc::clone(&fates), method.clone());
        async move {
            let is_meant = *request.method() == method && request.uri().path().contains(path);
            let fate = match is_meant {
                true => fates.lock().expect("no test panics with it").pop_front(),
                false => None,
            };
            match fate {
                Some(Fate::Cut) => Err(BoxError::from("the connection was reset")),
                Some(Fate::Answered(code)) => {
                    let page = Body::from(b"page not found".to_vec());
                    Ok(Response::builder().status(code).body(page)?)
                }
                Some(Fate::Passes) | None => Ok(client.send(request).await?),
            }
        }
    });
    Client::new(service, "default")
}

#[tokio::test]
async fn token_wait_survives_transient_errors() -> anyhow::Result<()> {
    let scene = Scene::empty().await?;
    let fates = [
        Fate::Answered(503),
        Fate::Cut,
        Fate::Answered(429),
        Fate::Answered(404),
    ];
    let client = stumbling(&scene.admin, (Method::GET, "/secrets/a-token-"), &fates);
    let accounts: Api<ServiceAccount> = Api::namespaced(client.clone(), "default");
    let account = serde_json::from_value(json!({"metadata": {"name": "a"}}))?;
    let account = accounts.create(&PostParams::default(), &account).await?;
    let secrets: Api<Secret> = Api::namespaced(client, "default");
    let secret = token::ensure_for(&secrets, &account, Duration::from_secs(20)).await?;
    assert!(token::of(&secret).is_some());
    // A refusal is final.
    let fates = [Fate::Answered(403)];
    let client = stumbling(&scene.admin, (Method::GET, "/secrets/b-token-"), &fates);
    let account = serde_json::from_value(json!({"metadata": {"name": "b"}}))?;
    let account = accounts.create(&PostParams::default(), &account).await?;
    let secrets: Api<Secret> = Api::namespaced(client, "default");
    let refused = token::ensure_for(&secrets, &account, Duration::from_secs(20)).await;
    assert!(refused.unwrap_err().is_forbidden());
    Ok(())
}

#[tokio::test]
async fn kind_wait_survives_transient_errors() -> anyhow::Result<()> {
    let scene = Scene::empty().await?;
    let (definitions, path) = (crds::broker_kinds(), "/customresourcedefinitions/brokers");
    // One read whether it is being deleted, one whether it exists, and two whether it is
    // served.
    let fates = [Fate::Passes, Fate::Passes, Fate::Answered(500), Fate::Cut];
    let client = stumbling(&scene.admin, (Method::GET, path), &fates);
    crds::ensure(&client, &definitions[..1], &Silent).await?;
    Ok(())
}

#[tokio::test]
async fn operator_wait_survives_transient_errors() -> anyhow::Result<()> {
    let scene = Scene::axon().await?;
    let now = jiff::Timestamp::now();
    let lease = json!({
        "metadata": {"name": AXON},
        "spec": {"holderIdentity": "somebody", "renewTime": format!("{now:.6}"),
            "leaseDurationSeconds": 60},
    });
    let leases: Api<k8s_openapi::api::coordination::v1::Lease> =
        Api::namespaced(scene.admin.clone(), AXON);
    let lease = serde_json::from_value(lease)?;
    leases.create(&PostParams::default(), &lease).await?;
    let fates = [Fate::Answered(503), Fate::Cut];
    let client = stumbling(&scene.admin, (Method::GET, "/leases/"), &fates);
    let told = Told::default();
    axon::wait_for_operator(&client, Duration::from_secs(20), &told).await?;
    let last = told.all().pop();
    assert_eq!(
        last.as_deref(),
        Some("done: The Axon operator is running (somebody)")
    );
    Ok(())
}

#[tokio::test]
async fn r61_discovery_is_retried_once_for_lagging_servers() -> anyhow::Result<()> {
    let scene = Scene::axon().await?;
    let group = (Method::GET, "/apis/submariner.io/v1alpha1");
    let late = stumbling(&scene.admin, group.clone(), &[Fate::Answered(404)]);
    assert!(mode::is_axon(&late, "n").await?);
    let never = [Fate::Answered(404), Fate::Answered(404)];
    let never = stumbling(&scene.admin, group, &never);
    assert!(!mode::is_axon(&never, "n").await?);
    Ok(())
}

#[tokio::test]
async fn r66_new_kind_may_be_unknown_for_a_moment() -> anyhow::Result<()> {
    let scene = Scene::empty().await?;
    let settings = scene.settings();
    let context = config(&scene.server, "system")?;
    let prepared = Prepared::new(Ok(context), &settings, &Silent)?;
    let fates = [Fate::Answered(404), Fate::Answered(404)];
    let client = stumbling(
        &prepared.target.client()?,
        (Method::POST, "/brokers"),
        &fates,
    );
    let deployed = prepared.deploy(&client, &settings, &Silent).await?;
    assert_eq!(deployed.mode, Mode::Classic);
    Ok(())
}
