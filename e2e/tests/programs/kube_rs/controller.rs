//! A controller with a finalizer, owned objects, status and server-side apply.

use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use insula_e2e::two_tenants::TwoTenants;
use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use kube::runtime::controller::{Action, Controller};
use kube::runtime::finalizer::{self, Event, finalizer};
use kube::runtime::wait::{await_condition, conditions};
use kube::runtime::watcher;
use kube::{Api, Client, CustomResource, Resource, ResourceExt};
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::{both, soon};

#[derive(Clone, CustomResource, Debug, Deserialize, Serialize)]
#[kube(group = "rs.example", version = "v1", kind = "Fleet", namespaced)]
#[kube(status = "FleetStatus", schema = "disabled")]
struct FleetSpec {
    ships: Vec<String>,
}

#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
struct FleetStatus {
    ships: usize,
    generation: i64,
}

#[derive(Debug, thiserror::Error)]
enum Failure {
    #[error("the server refused")]
    Server(#[from] kube::Error),
    #[error("the finalizer failed")]
    Finalizer(#[source] Box<finalizer::Error<kube::Error>>),
}

const DEFAULT: &str = "default";

fn definition() -> serde_json::Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "fleets.rs.example"},
        "spec": {
            "group": "rs.example",
            "scope": "Namespaced",
            "names": {"kind": "Fleet", "plural": "fleets", "singular": "fleet"},
            "versions": [{
                "name": "v1", "served": true, "storage": true, "subresources": {"status": {}},
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {
                    "spec": {"type": "object", "properties": {
                        "ships": {
                            "type": "array", "items": {"type": "string"},
                            "x-kubernetes-list-type": "set",
                        },
                    }},
                    "status": {"type": "object", "properties": {
                        "ships": {"type": "integer"}, "generation": {"type": "integer"},
                    }},
                }}},
            }],
        },
    })
}

async fn reconcile(fleet: Arc<Fleet>, client: Arc<Client>) -> Result<Action, Failure> {
    let fleets = Api::<Fleet>::namespaced((*client).clone(), DEFAULT);
    let done = finalizer(&fleets, "rs.example/harbour", fleet, |event| async {
        match event {
            Event::Apply(fleet) => apply_ships(&fleet, &client).await,
            Event::Cleanup(fleet) => clean_up(&fleet, &client).await,
        }
    });
    done.await
        .map_err(|error| Failure::Finalizer(Box::new(error)))
}

/// Applies a ConfigMap for each ship and updates the count.
async fn apply_ships(fleet: &Fleet, client: &Client) -> kube::Result<Action> {
    let ships = Api::<ConfigMap>::namespaced(client.clone(), DEFAULT);
    let apply = PatchParams::apply("fleets").force();
    for ship in &fleet.spec.ships {
        let mut wanted = ConfigMap::default();
        wanted.metadata.name = Some(format!("{}-{ship}", fleet.name_any()));
        wanted.metadata.owner_references = fleet.controller_owner_ref(&()).map(|it| vec![it]);
        wanted.data = Some([("ship".to_owned(), ship.clone())].into());
        ships
            .patch(&wanted.name_any(), &apply, &Patch::Apply(&wanted))
            .await?;
    }
    let status = json!({
        "apiVersion": "rs.example/v1", "kind": "Fleet",
        "status": {"ships": fleet.spec.ships.len(), "generation": fleet.metadata.generation},
    });
    let fleets = Api::<Fleet>::namespaced(client.clone(), DEFAULT);
    fleets
        .patch_status(&fleet.name_any(), &apply, &Patch::Apply(status))
        .await?;
    Ok(Action::await_change())
}

/// The finalizer's work, which garbage collection does not cover: a final note.
async fn clean_up(fleet: &Fleet, client: &Client) -> kube::Result<Action> {
    let notes = Api::<ConfigMap>::namespaced(client.clone(), DEFAULT);
    let mut note = ConfigMap::default();
    note.metadata.name = Some(format!("{}-is-over", fleet.name_any()));
    note.data = Some([("uid".to_owned(), fleet.uid().unwrap_or_default())].into());
    match notes.create(&PostParams::default(), &note).await {
        Err(kube::Error::Api(refusal)) if !refusal.is_already_exists() => {
            Err(kube::Error::Api(refusal))
        }
        _ => Ok(Action::await_change()),
    }
}

fn is_reconciled(generation: i64) -> impl Fn(Option<&Fleet>) -> bool {
    move |fleet| {
        let status = fleet.and_then(|fleet| fleet.status.as_ref());
        status.is_some_and(|status| status.generation == generation)
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn controller_reconciles_owned_objects_and_cleans_up() -> anyhow::Result<()> {
    let Some(two_tenants) = TwoTenants::start() else {
        return Ok(());
    };
    both(&two_tenants, |tenant, client| async move {
        let definitions = Api::<CustomResourceDefinition>::all(client.clone());
        let made = serde_json::from_value(definition())?;
        definitions.create(&PostParams::default(), &made).await?;
        let established = await_condition(
            definitions,
            "fleets.rs.example",
            conditions::is_crd_established(),
        );
        soon("the kind is served", established).await??;
        let controller = tokio::spawn(run_controller(client.clone()));
        let done = soon("its life", run_lifecycle(tenant, client)).await;
        controller.abort();
        done?
    })
    .await
}

async fn run_controller(client: Client) {
    let fleets = Api::<Fleet>::namespaced(client.clone(), DEFAULT);
    let ships = Api::<ConfigMap>::namespaced(client.clone(), DEFAULT);
    Controller::new(fleets, watcher::Config::default().streaming_lists())
        .owns(ships, watcher::Config::default())
        .run(
            reconcile,
            |_, _, _| Action::requeue(Duration::from_secs(1)),
            Arc::new(client),
        )
        .for_each(|_| async {})
        .await;
}

async fn run_lifecycle(tenant: &str, client: Client) -> anyhow::Result<()> {
    let fleets = Api::<Fleet>::namespaced(client.clone(), DEFAULT);
    let ships = Api::<ConfigMap>::namespaced(client.clone(), DEFAULT);
    let ship = format!("of-{tenant}");
    let spec = FleetSpec {
        ships: vec!["one".to_owned(), ship.clone()],
    };
    let made = fleets
        .create(&PostParams::default(), &Fleet::new("royal", spec))
        .await?;
    let uid = made.uid().unwrap_or_default();
    let read = await_condition(fleets.clone(), "royal", is_reconciled(1)).await?;
    let status = read.and_then(|fleet| fleet.status);
    assert_eq!(
        status,
        Some(FleetStatus {
            ships: 2,
            generation: 1
        })
    );
    let owned = ships.get(&format!("royal-{ship}")).await?;
    let owner = &owned.owner_references()[0];
    assert_eq!(
        (owner.uid.as_str(), owner.controller),
        (uid.as_str(), Some(true))
    );
    let applied = owned.managed_fields().iter();
    let applied: Vec<_> = applied
        .map(|entry| (entry.manager.as_deref(), entry.operation.as_deref()))
        .collect();
    assert_eq!(applied, [(Some("fleets"), Some("Apply"))]);

    // A deleted owned object is recreated.
    let first = ships.get("royal-one").await?.uid();
    ships.delete("royal-one", &DeleteParams::default()).await?;
    let again = |ship: Option<&ConfigMap>| ship.is_some_and(|ship| ship.uid() != first);
    await_condition(ships.clone(), "royal-one", again).await?;

    // A spec change is reconciled.
    let more = json!({"spec": {"ships": ["one", ship, "two"]}});
    fleets
        .patch("royal", &PatchParams::default(), &Patch::Merge(&more))
        .await?;
    let read = await_condition(fleets.clone(), "royal", is_reconciled(2)).await?;
    assert_eq!(
        read.and_then(|fleet| fleet.status).map(|it| it.ships),
        Some(3)
    );
    assert_eq!(
        ships.get("royal-two").await?.data,
        Some([("ship".to_owned(), "two".to_owned())].into())
    );

    // The object stays until the finalizer has run.
    fleets.delete("royal", &DeleteParams::default()).await?;
    await_condition(fleets, "royal", conditions::is_deleted(&uid)).await?;
    let note = ships.get("royal-is-over").await?;
    assert_eq!(note.data, Some([("uid".to_owned(), uid)].into()));
    // Its dependents are deleted too.
    for ship in ["one", &ship, "two"] {
        let name = format!("royal-{ship}");
        await_condition(ships.clone(), &name, |ship: Option<&ConfigMap>| {
            ship.is_none()
        })
        .await?;
    }
    Ok(())
}
