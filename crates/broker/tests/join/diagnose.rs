//! Tests of `diagnose`.

use insula_broker::diagnose::{Check, DiagnoseClients, Outcome, Target, diagnose};
use insula_broker::info::BrokerInfo;
use insula_broker::join::join;
use insula_broker::report::Silent;
use insula_broker::{crds, names};
use k8s_openapi::api::core::v1::ServiceAccount;
use kube::api::{DeleteParams, PostParams};
use kube::core::{ApiResource, DynamicObject, GroupVersionKind};
use kube::{Api, Client};
use serde_json::{Value, json};

use super::stage::*;

fn target(info: &BrokerInfo) -> Target {
    Target {
        url: info.url.clone(),
        namespace: info.namespace.clone().unwrap(),
    }
}

/// The names of the checks that did not succeed, with their results.
fn failures(checks: &[Check]) -> Vec<(&str, Outcome)> {
    let failed = checks.iter().filter(|check| check.result != Outcome::Ok);
    failed.map(|check| (check.name, check.result)).collect()
}

async fn publish(client: &Client, kind: &str, plural: &str, spec: Value) -> anyhow::Result<()> {
    let kind = GroupVersionKind::gvk("submariner.io", "v1", kind);
    let kind = ApiResource::from_gvk_with_plural(&kind, plural);
    let api: Api<DynamicObject> = Api::namespaced_with(client.clone(), "n", &kind);
    let object = DynamicObject::new("east", &kind).data(json!({ "spec": spec }));
    api.create(&PostParams::default(), &object).await?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn joined_cluster_passes_once_it_has_published_itself() -> anyhow::Result<()> {
    let stage = Stage::start().await?;
    let system = stage.system()?;
    crds::ensure(&system, &crds::broker_kinds(), &Silent).await?;
    let info = stage.deploy("n", Wanted::default()).await?;
    let both = stage.both(&info, "c0").await?;
    join(&both, &settings(&info, "east"), &Silent).await?;
    let clients = DiagnoseClients {
        broker: both.broker,
        member: Some(both.joining),
    };
    let checks = diagnose(&clients, &target(&info)).await;
    assert_eq!(
        failures(&checks),
        [("clusters", Outcome::Failed)],
        "{checks:#?}"
    );
    assert_eq!(checks[5].message, "joined and published nothing: east");

    let cluster = json!({
        "cluster_id": "east", "cluster_cidr": ["10.0.0.0/16"], "service_cidr": [],
        "global_cidr": ["242.0.0.0/16"],
    });
    publish(&system, "Cluster", "clusters", cluster).await?;
    let endpoint = json!({
        "cluster_id": "east", "cable_name": "c", "hostname": "h", "subnets": [],
        "private_ip": "10.0.0.1", "public_ip": "192.0.2.1", "nat_enabled": false, "backend": "b",
    });
    publish(&system, "Endpoint", "endpoints", endpoint).await?;
    let checks = diagnose(&clients, &target(&info)).await;
    assert_eq!(failures(&checks), [], "{checks:#?}");
    assert_eq!(checks.len(), 12);
    assert_eq!(checks[11].message, "it has joined as east");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn void_token_and_silent_server_skip_the_rest() -> anyhow::Result<()> {
    let stage = Stage::start().await?;
    let info = stage.deploy("n", Wanted::default()).await?;
    let clients = DiagnoseClients {
        broker: stage.broker(&info)?,
        member: None,
    };
    let accounts: Api<ServiceAccount> = Api::namespaced(stage.system()?, "n");
    accounts
        .delete(names::ADMIN, &DeleteParams::default())
        .await?;
    let checks = diagnose(&clients, &target(&info)).await;
    assert_eq!(checks[0].result, Outcome::Ok);
    assert_eq!(
        (checks[1].name, checks[1].result, checks[1].hint.as_deref()),
        (
            "credentials",
            Outcome::Failed,
            Some("the credential is not known to this server, or has expired")
        )
    );
    let rest = &checks[2..];
    assert_eq!(rest.len(), 9);
    assert!(
        rest.iter()
            .all(|check| check.result == Outcome::Skipped
                && check.message == "depends on credentials")
    );

    // A port that was free a moment ago.
    let free = std::net::TcpListener::bind("127.0.0.1:0")?.local_addr()?;
    let mut silent = info.clone();
    silent.url = format!("https://{free}");
    let clients = DiagnoseClients {
        broker: stage.broker(&silent)?,
        member: None,
    };
    let checks = diagnose(&clients, &target(&silent)).await;
    assert_eq!(
        (checks[0].name, checks[0].result, checks[0].hint.as_deref()),
        (
            "broker-reachable",
            Outcome::Failed,
            Some("is the server running, and is this its address?")
        )
    );
    assert_eq!(checks[1].message, "depends on broker-reachable");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn missing_permissions_and_kinds_are_named() -> anyhow::Result<()> {
    let stage = Stage::start().await?;
    let wanted = Wanted {
        admin: |_| insula_broker::roles::cluster(),
        ..Wanted::default()
    };
    let info = stage.deploy("n", wanted).await?;
    let clients = DiagnoseClients {
        broker: stage.broker(&info)?,
        member: None,
    };
    let checks = diagnose(&clients, &target(&info)).await;
    assert_eq!(
        checks[2].message,
        "missing permissions: create/delete/get/list/update/watch configmaps in namespace n, create/delete/get/list rolebindings.rbac.authorization.k8s.io in namespace n, create/delete/update secrets in namespace n, create/delete/update/watch serviceaccounts in namespace n"
    );
    assert_eq!(
        checks[3].message,
        "not served: endpoints.submariner.io, serviceimports.multicluster.x-k8s.io, serviceexports.multicluster.x-k8s.io"
    );
    assert_eq!(checks[4].name, "broker");
    assert_eq!(
        checks[4].result,
        Outcome::Failed,
        "the ConfigMaps cannot be read"
    );
    Ok(())
}
