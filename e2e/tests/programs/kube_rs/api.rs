//! Operations of an `Api` beyond reading and writing.

use insula_e2e::two_tenants::TwoTenants;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::authentication::v1::TokenRequest;
use k8s_openapi::api::authorization::v1::SelfSubjectAccessReview;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, ObjectReference, Pod, ServiceAccount};
use k8s_openapi::api::events::v1::Event as Recorded;
use kube::api::{
    ApiResource, DeleteParams, DynamicObject, EvictParams, ListParams, Patch, PatchParams,
    PostParams, PropagationPolicy,
};
use kube::runtime::events::{Event, EventType, Recorder, Reporter};
use kube::runtime::wait::{await_condition, conditions, delete};
use kube::{Api, Client, Discovery, ResourceExt};
use serde_json::json;

use super::{both, soon};

fn pod(name: &str) -> anyhow::Result<Pod> {
    Ok(serde_json::from_value(json!({
        "metadata": {"name": name, "labels": {"app": name}},
        "spec": {"containers": [{"name": "main", "image": "web:1"}]},
    }))?)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pod_and_deployment_subresources_work() -> anyhow::Result<()> {
    let Some(two_tenants) = TwoTenants::start() else {
        return Ok(());
    };
    both(&two_tenants, |tenant, client| async move {
        let pods = Api::<Pod>::namespaced(client.clone(), "default");
        pods.create(&PostParams::default(), &pod("evicted")?)
            .await?;
        let done = pods.evict("evicted", &EvictParams::default()).await?;
        assert!(done.is_success(), "{done:?}");
        assert!(pods.get_opt("evicted").await?.is_none());

        let deployments = Api::<Deployment>::namespaced(client.clone(), "default");
        let web = serde_json::from_value(json!({
            "metadata": {"name": "web"},
            "spec": {
                "replicas": 2,
                "selector": {"matchLabels": {"app": "web"}},
                "template": {
                    "metadata": {"labels": {"app": "web"}},
                    "spec": {"containers": [{"name": "main", "image": tenant}]},
                },
            },
        }))?;
        let dry = PostParams {
            dry_run: true,
            ..PostParams::default()
        };
        deployments.create(&dry, &web).await?;
        assert!(deployments.get_opt("web").await?.is_none());
        deployments.create(&PostParams::default(), &web).await?;
        let scale = Patch::Merge(json!({"spec": {"replicas": 7}}));
        let scaled = deployments
            .patch_scale("web", &PatchParams::default(), &scale)
            .await?;
        assert_eq!(scaled.spec.and_then(|it| it.replicas), Some(7));
        let found = deployments.get_scale("web").await?;
        let selector = found.status.and_then(|it| it.selector);
        assert_eq!(selector.as_deref(), Some("app=web"));
        let restarted = deployments.restart("web").await?;
        assert_eq!(restarted.metadata.generation, Some(3));
        let mut status = restarted;
        status.status.get_or_insert_default().replicas = Some(7);
        let status = deployments
            .replace_status("web", &PostParams::default(), &status)
            .await?;
        assert_eq!(status.status.and_then(|it| it.replicas), Some(7));
        // Without nodes there are no logs, and the error says so.
        pods.create(&PostParams::default(), &pod("quiet")?).await?;
        let refused = pods.logs("quiet", &Default::default()).await;
        let Err(kube::Error::Api(refusal)) = refused else {
            anyhow::bail!("logs of nothing: {refused:?}");
        };
        assert!(refusal.message.contains("needs a node"), "{refusal:?}");
        Ok(())
    })
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn paged_lists_and_delete_collection_work() -> anyhow::Result<()> {
    let Some(two_tenants) = TwoTenants::start() else {
        return Ok(());
    };
    both(&two_tenants, |tenant, client| async move {
        let api = Api::<ConfigMap>::namespaced(client, "default");
        for number in 0..7 {
            let mut made = ConfigMap::default();
            made.metadata.name = Some(format!("page-{number}"));
            made.metadata.labels = Some([("owner".to_owned(), tenant.to_owned())].into());
            api.create(&PostParams::default(), &made).await?;
        }
        let owned = format!("owner={tenant}");
        let mut names = Vec::new();
        let mut params = ListParams::default().labels(&owned).limit(3);
        loop {
            let page = api.list(&params).await?;
            names.push(
                page.items
                    .iter()
                    .map(ResourceExt::name_any)
                    .collect::<Vec<_>>(),
            );
            match page.metadata.continue_.filter(|token| !token.is_empty()) {
                Some(token) => params = params.continue_token(&token),
                None => break,
            }
        }
        let sizes: Vec<_> = names.iter().map(Vec::len).collect();
        assert_eq!(sizes, [3, 3, 1]);
        let selected = ListParams::default().labels(&owned);
        let gone = api
            .delete_collection(&DeleteParams::default(), &selected)
            .await?;
        let gone = gone.left().map(|list| list.items.len());
        assert!(gone.is_none_or(|gone| gone == 7), "{gone:?}");
        assert_eq!(api.list(&selected).await?.items.len(), 0);
        Ok(())
    })
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn discovered_kinds_work_without_types() -> anyhow::Result<()> {
    let Some(two_tenants) = TwoTenants::start() else {
        return Ok(());
    };
    both(&two_tenants, |tenant, client| async move {
        assert_eq!(client.apiserver_version().await?.major, "1");
        let discovery = Discovery::new(client.clone()).run().await?;
        assert!(discovery.has_group("apps") && discovery.has_group(""));
        let apps = discovery
            .get("apps")
            .map(|group| group.recommended_resources());
        let found = apps
            .into_iter()
            .flatten()
            .find(|(it, _)| it.kind == "Deployment");
        let (resource, capabilities) = found.ok_or_else(|| anyhow::anyhow!("no Deployment"))?;
        assert_eq!(resource.plural, "deployments");
        assert!(capabilities.supports_operation("watch"));
        let kind = ApiResource::erase::<ConfigMap>(&());
        let api = Api::<DynamicObject>::namespaced_with(client.clone(), "default", &kind);
        let made = DynamicObject::new("loose", &kind).data(json!({"data": {"of": tenant}}));
        api.create(&PostParams::default(), &made).await?;
        assert_eq!(api.get("loose").await?.data["data"], json!({"of": tenant}));
        let metadata = api.get_metadata("loose").await?;
        assert_eq!(metadata.name_any(), "loose");
        let entry = api.entry("loose").await?.and_modify(|it| {
            it.data["data"]["more"] = json!("1");
        });
        let mut entry = entry.or_insert(|| DynamicObject::new("loose", &kind));
        entry.commit(&PostParams::default()).await?;
        let both = json!({"of": tenant, "more": "1"});
        assert_eq!(api.get("loose").await?.data["data"], both);
        Ok(())
    })
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tokens_reviews_events_and_namespaces_work() -> anyhow::Result<()> {
    let Some(two_tenants) = TwoTenants::start() else {
        return Ok(());
    };
    both(&two_tenants, |tenant, client| async move {
        let namespaces = Api::<Namespace>::all(client.clone());
        let background = DeleteParams {
            propagation_policy: Some(PropagationPolicy::Background),
            ..DeleteParams::default()
        };
        let shop = serde_json::from_value(json!({"metadata": {"name": "shop"}}))?;
        namespaces.create(&PostParams::default(), &shop).await?;
        token(&client).await?;
        let review = Api::<SelfSubjectAccessReview>::all(client.clone());
        let asked = serde_json::from_value(json!({"spec": {"resourceAttributes": {
            "verb": "delete", "resource": "namespaces", "name": "shop",
        }}}))?;
        let told = review.create(&PostParams::default(), &asked).await?;
        assert_eq!(told.status.map(|it| it.allowed), Some(true));
        event(&client, tenant).await?;
        let deleted = delete::delete_and_finalize(namespaces.clone(), "shop", &background);
        soon("the namespace is gone", deleted).await??;
        assert!(namespaces.get_opt("shop").await?.is_none());
        await_condition(namespaces, "default", conditions::is_created()).await?;
        Ok(())
    })
    .await
}

async fn token(client: &Client) -> anyhow::Result<()> {
    let accounts = Api::<ServiceAccount>::namespaced(client.clone(), "shop");
    let robot = serde_json::from_value(json!({"metadata": {"name": "robot"}}))?;
    accounts.create(&PostParams::default(), &robot).await?;
    let request: TokenRequest = serde_json::from_value(json!({
        "spec": {"audiences": [], "expirationSeconds": 600},
    }))?;
    let made = accounts
        .create_token_request("robot", &PostParams::default(), &request)
        .await?;
    let token = made.status.and_then(|it| it.token).unwrap_or_default();
    assert_eq!(token.split('.').count(), 3, "{token}");
    Ok(())
}

async fn event(client: &Client, tenant: &str) -> anyhow::Result<()> {
    let reporter = Reporter {
        controller: "tests".to_owned(),
        instance: None,
    };
    let recorder = Recorder::new(client.clone(), reporter);
    let about = ObjectReference {
        kind: Some("ConfigMap".to_owned()),
        api_version: Some("v1".to_owned()),
        namespace: Some("shop".to_owned()),
        name: Some("told".to_owned()),
        uid: Some("7".to_owned()),
        ..ObjectReference::default()
    };
    let event = Event {
        type_: EventType::Normal,
        reason: "Told".to_owned(),
        note: Some(format!("by {tenant}")),
        action: "Telling".to_owned(),
        secondary: None,
    };
    // The second event increments the count of the first.
    for _ in 0..2 {
        recorder.publish(&event, &about).await?;
    }
    let events = Api::<Recorded>::namespaced(client.clone(), "shop");
    let told = events.list(&ListParams::default()).await?.items;
    let told: Vec<_> = told
        .iter()
        .map(|it| {
            (
                it.note.clone(),
                it.series.as_ref().map(|series| series.count),
            )
        })
        .collect();
    assert_eq!(told, [(Some(format!("by {tenant}")), Some(2))]);
    Ok(())
}
