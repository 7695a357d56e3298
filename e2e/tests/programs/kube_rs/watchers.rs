//! Watchers and reflectors.

use std::collections::BTreeMap;

use futures_util::{StreamExt, TryStreamExt};
use insula_e2e::two_tenants::TwoTenants;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::core::PartialObjectMeta;
use kube::runtime::{WatchStreamExt, reflector, watcher};
use kube::{Api, Client, ResourceExt};
use serde_json::json;

use super::{both, soon};

fn config_map(name: &str, data: &str) -> ConfigMap {
    let mut made = ConfigMap::default();
    made.metadata.name = Some(name.to_owned());
    made.metadata.labels = Some([("followed".to_owned(), "yes".to_owned())].into());
    made.data = Some([("of".to_owned(), data.to_owned())].into());
    made
}

/// Formats an event.
fn summary(event: &watcher::Event<ConfigMap>) -> String {
    let of = |object: &ConfigMap| {
        let data = object.data.clone().unwrap_or_default();
        format!(
            "{}={}",
            object.name_any(),
            data.get("of").map_or("", |text| text)
        )
    };
    match event {
        watcher::Event::Init => "init".to_owned(),
        watcher::Event::InitApply(object) => format!("init {}", of(object)),
        watcher::Event::InitDone => "done".to_owned(),
        watcher::Event::Apply(object) => format!("apply {}", of(object)),
        watcher::Event::Delete(object) => format!("delete {}", object.name_any()),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn watcher_delivers_the_initial_state_and_changes() -> anyhow::Result<()> {
    let Some(two_tenants) = TwoTenants::start() else {
        return Ok(());
    };
    both(&two_tenants, |tenant, client| async move {
        let api = Api::<ConfigMap>::namespaced(client, "default");
        for name in ["a", "b"] {
            api.create(&PostParams::default(), &config_map(name, tenant))
                .await?;
        }
        let followed = watcher::Config::default().labels("followed=yes");
        let streamed = watcher(api.clone(), followed.clone().streaming_lists());
        let paged = watcher(api.clone(), followed.page_size(1));
        let (mut streamed, mut paged) = (streamed.boxed(), paged.boxed());
        let mut seen = [Vec::new(), Vec::new()];
        // Both have the complete initial state before anything changes.
        for (stream, seen) in [&mut streamed, &mut paged].into_iter().zip(&mut seen) {
            while seen.last().is_none_or(|last| last != "done") {
                seen.extend(
                    soon("the start", stream.try_next())
                        .await??
                        .as_ref()
                        .map(summary),
                );
            }
        }
        api.create(&PostParams::default(), &config_map("c", tenant))
            .await?;
        let patch = Patch::Merge(json!({"data": {"of": "changed"}}));
        api.patch("a", &PatchParams::default(), &patch).await?;
        // The object no longer matches, which the selecting watcher sees as a deletion.
        let patch = Patch::Merge(json!({"metadata": {"labels": {"followed": null}}}));
        api.patch("b", &PatchParams::default(), &patch).await?;
        api.delete("a", &DeleteParams::default()).await?;
        for (stream, seen) in [&mut streamed, &mut paged].into_iter().zip(&mut seen) {
            while seen.last().is_none_or(|last| last != "delete a") {
                seen.extend(
                    soon("a change", stream.try_next())
                        .await??
                        .as_ref()
                        .map(summary),
                );
            }
        }
        let wanted = [
            "init".to_owned(),
            format!("init a={tenant}"),
            format!("init b={tenant}"),
            "done".to_owned(),
            format!("apply c={tenant}"),
            "apply a=changed".to_owned(),
            "delete b".to_owned(),
            "delete a".to_owned(),
        ];
        assert_eq!(seen, [wanted.to_vec(), wanted.to_vec()]);
        Ok(())
    })
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn reflector_matches_the_server() -> anyhow::Result<()> {
    let Some(two_tenants) = TwoTenants::start() else {
        return Ok(());
    };
    both(&two_tenants, |tenant, client| async move {
        let api = Api::<ConfigMap>::namespaced(client.clone(), "default");
        let followed = watcher::Config::default().labels("followed=yes");
        let (store, writer) = reflector::store();
        let stream = watcher(api.clone(), followed.clone().streaming_lists());
        let mut stream = stream.reflect(writer).touched_objects().boxed();
        let driven = tokio::spawn(async move { while stream.next().await.is_some() {} });
        soon("it is ready", store.wait_until_ready()).await??;
        change(&api, tenant).await?;
        let list = api
            .list(&ListParams::default().labels("followed=yes"))
            .await?;
        let listed = versions(list.items.iter());
        let settled = async {
            while versions(store.state().iter().map(|it| &**it)) != listed {
                tokio::task::yield_now().await;
            }
        };
        soon("it agrees", settled).await?;
        driven.abort();
        // A metadata watcher gets metadata only.
        let api = Api::<PartialObjectMeta<ConfigMap>>::namespaced(client, "default");
        let mut stream = watcher(api, followed).applied_objects().boxed();
        let first = soon("metadata", stream.try_next()).await??;
        let first = first.map(|it| (it.name_any(), it.types.map(|types| types.kind)));
        let partial = "PartialObjectMetadata".to_owned();
        assert_eq!(first, Some(("m0".to_owned(), Some(partial))));
        Ok(())
    })
    .await
}

async fn change(api: &Api<ConfigMap>, tenant: &str) -> anyhow::Result<()> {
    for round in 0..40 {
        let name = format!("m{}", round % 10);
        match round {
            0..10 => drop(
                api.create(&PostParams::default(), &config_map(&name, tenant))
                    .await?,
            ),
            10..30 => {
                let patch = Patch::Merge(json!({"data": {"of": round.to_string()}}));
                api.patch(&name, &PatchParams::default(), &patch).await?;
            }
            _ if round % 2 == 1 => drop(api.delete(&name, &DeleteParams::default()).await?),
            _ => {}
        }
    }
    Ok(())
}

fn versions<'a>(objects: impl Iterator<Item = &'a ConfigMap>) -> BTreeMap<String, Option<String>> {
    let version = |object: &ConfigMap| (object.name_any(), object.resource_version());
    objects.map(version).collect()
}

/// Stores filled from one tenant's watches never contain another tenant's objects.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn watchers_see_their_own_tenant_only() -> anyhow::Result<()> {
    let Some(two_tenants) = TwoTenants::start() else {
        return Ok(());
    };
    let write = |tenant: &'static str, client: Client| async move {
        let api = Api::<ConfigMap>::all(client.clone());
        let mut stream = watcher(api, watcher::Config::default().labels("followed=yes"))
            .touched_objects()
            .boxed();
        let own = Api::<ConfigMap>::namespaced(client, "default");
        for round in 0..50 {
            let name = format!("same-{round}");
            own.create(&PostParams::default(), &config_map(&name, tenant))
                .await?;
            let seen = soon("it is seen", stream.try_next()).await??;
            let seen = seen.map(|it| (it.name_any(), it.data.unwrap_or_default()));
            let data = [("of".to_owned(), tenant.to_owned())].into();
            assert_eq!(seen, Some((name, data)));
        }
        Ok(())
    };
    both(&two_tenants, write).await
}
