//! A hostile administrator of a tenant who writes as fast as possible.

use std::fmt::Debug;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use http::Method;
use insula_broker::names::{ADMIN, ADMIN_TOKEN, FINALIZER};
use insula_broker::tenant::{Phase, TenantSpec};
use insula_broker::token;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::{Namespace, Secret, ServiceAccount};
use k8s_openapi::api::events::v1::Event;
use k8s_openapi::api::rbac::v1::RoleBinding;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::{Api, Client, Resource, ResourceExt};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::json;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

use crate::network::{Chaos, Fate};
use crate::remove::{add_finalizer, answered, let_go};
use crate::world::{DEADLINE, World, eventually, named, namespace, phase_of, ready};

/// Writes an object in a tenant's namespace repeatedly, each time with another finalizer, and
/// ignores refusals.
fn keep_adding_finalizers<K>(
    tasks: &mut JoinSet<()>,
    client: &Client,
    name: &'static str,
) -> Arc<AtomicU64>
where
    K: Resource<Scope = k8s_openapi::NamespaceResourceScope, DynamicType = ()>,
    K: Clone + Debug + Serialize + DeserializeOwned + Send + Sync + 'static,
{
    let api: Api<K> = Api::namespaced(client.clone(), &namespace("acme"));
    let written = Arc::new(AtomicU64::new(0));
    let count = Arc::clone(&written);
    tasks.spawn(async move {
        for number in 0_u64.. {
            if let Ok(mut found) = api.get(name).await {
                let finalizer = format!("example.com/keep-{}", number % 7);
                found.meta_mut().finalizers = Some(vec![finalizer]);
                let label = ("adversary".to_owned(), number.to_string());
                found.labels_mut().extend([label]);
                let done = api.replace(name, &PostParams::default(), &found).await;
                count.fetch_add(u64::from(done.is_ok()), Ordering::SeqCst);
            }
            tokio::task::yield_now().await;
        }
    });
    written
}

#[tokio::test]
async fn r47_concurrent_writes_do_not_keep_credentials_or_namespace() -> anyhow::Result<()> {
    let world = World::new().await?;
    let _running = world.start();
    world.create("acme").await?;
    world.phase("acme", Phase::Provisioned).await?;
    let old = world.as_tenant("acme").await?;
    add_finalizer(&world, "acme").await?;
    let mut tasks = JoinSet::new();
    let counts = [
        keep_adding_finalizers::<Secret>(&mut tasks, &old, ADMIN_TOKEN),
        keep_adding_finalizers::<ServiceAccount>(&mut tasks, &old, ADMIN),
        keep_adding_finalizers::<RoleBinding>(&mut tasks, &old, ADMIN),
    ];
    let all_wrote = || counts.iter().all(|count| count.load(Ordering::SeqCst) > 2);
    eventually(async || Ok(all_wrote().then_some(()))).await?;

    world.delete("acme").await?;
    let begin = Instant::now();
    eventually(async || Ok((answered(&old, "acme").await == 401).then_some(()))).await?;
    let took = begin.elapsed();
    assert!(took < Duration::from_secs(2), "revoked after {took:?}");
    // Another object holds the namespace, but nothing that grants permissions is left in it.
    let (secrets, accounts, bindings) = (
        world.inside::<Secret>("acme"),
        world.inside::<ServiceAccount>("acme"),
        world.inside::<RoleBinding>("acme"),
    );
    eventually(async || {
        let gone = secrets.get_opt(ADMIN_TOKEN).await?.is_none()
            && accounts.get_opt(ADMIN).await?.is_none()
            && bindings.get_opt(ADMIN).await?.is_none();
        Ok(gone.then_some(()))
    })
    .await?;
    assert_eq!(
        phase_of(&world.tenants().get("acme").await?),
        Some(Phase::Deleting)
    );
    let_go(&world, "acme").await?;
    world.gone("acme").await?;
    let left = world.namespaces().get_opt(&namespace("acme")).await?;
    assert!(left.is_none());
    tasks.shutdown().await;
    Ok(())
}

#[tokio::test]
async fn r47_failed_write_does_not_stop_the_others() -> anyhow::Result<()> {
    let world = World::new().await?;
    for (id, method, end) in [
        ("mute", Method::PUT, "/status"),
        ("account", Method::DELETE, ADMIN),
        ("secret", Method::DELETE, ADMIN_TOKEN),
    ] {
        let refuses = Arc::new(AtomicBool::new(false));
        let is_on = Arc::clone(&refuses);
        let chaos = Chaos::of_writes(move |_, request| {
            let is_it = *request.method() == method && request.uri().path().ends_with(end);
            match is_it && is_on.load(Ordering::SeqCst) {
                true => Fate::Refuse(422),
                false => Fate::Pass,
            }
        });
        let running = world.start_as(id, chaos.around(&world.operator));
        world.create(id).await?;
        world.phase(id, Phase::Provisioned).await?;
        let old = world.as_tenant(id).await?;
        refuses.store(true, Ordering::SeqCst);
        world.delete(id).await?;
        eventually(async || Ok((answered(&old, id).await == 401).then_some(()))).await?;
        world.gone(id).await?;
        let left = world.namespaces().get_opt(&namespace(id)).await?;
        assert!(left.is_none(), "{id}");
        running.stop().await?;
    }
    Ok(())
}

#[tokio::test]
async fn removed_admin_loses_permissions_despite_concurrent_writes() -> anyhow::Result<()> {
    let world = World::new().await?;
    let _running = world.start();
    let joe = json!([{"kind": "User", "name": "joe"}]);
    let spec: TenantSpec = serde_json::from_value(json!({"admins": joe}))?;
    world.create_with("acme", spec).await?;
    world.phase("acme", Phase::Provisioned).await?;
    let old = world.as_tenant("acme").await?;
    let mut tasks = JoinSet::new();
    let written = keep_adding_finalizers::<RoleBinding>(&mut tasks, &old, ADMIN);
    eventually(async || Ok((written.load(Ordering::SeqCst) > 2).then_some(()))).await?;
    let nobody = Patch::Merge(json!({"spec": {"admins": null}}));
    let parameters = PatchParams::default();
    world.tenants().patch("acme", &parameters, &nobody).await?;
    let begin = Instant::now();
    let bindings: Api<RoleBinding> = world.inside("acme");
    eventually(async || {
        let binding = bindings.get(ADMIN).await?;
        let mut subjects = binding.subjects.iter().flatten();
        Ok(subjects.all(|one| one.name == ADMIN).then_some(()))
    })
    .await?;
    let took = begin.elapsed();
    assert!(took < Duration::from_secs(2), "after {took:?}");
    tasks.shutdown().await;
    Ok(())
}

#[tokio::test]
async fn r79_object_with_a_finalizer_is_recreated() -> anyhow::Result<()> {
    let world = World::new().await?;
    let _running = world.start();
    world.create("acme").await?;
    world.phase("acme", Phase::Provisioned).await?;
    let secrets: Api<Secret> = world.inside("acme");
    let accounts: Api<ServiceAccount> = world.inside("acme");

    let old = world.as_tenant("acme").await?;
    let begin = Instant::now();
    delete_held(&secrets, ADMIN_TOKEN).await?;
    assert_eq!(answered(&old, "acme").await, 401);
    world.phase("acme", Phase::Provisioned).await?;
    assert_eq!(answered(&world.as_tenant("acme").await?, "acme").await, 200);

    let old = world.as_tenant("acme").await?;
    delete_held(&accounts, ADMIN).await?;
    assert_eq!(answered(&old, "acme").await, 401);
    // The new account has a token of its own.
    let works = async || {
        let Ok(new) = world.as_tenant("acme").await else {
            return Ok(None);
        };
        Ok((answered(&new, "acme").await == 200).then_some(()))
    };
    eventually(works).await?;
    world.phase("acme", Phase::Provisioned).await?;
    let took = begin.elapsed();
    assert!(took < Duration::from_secs(20), "{took:?}");
    Ok(())
}

/// Adds a finalizer to an object, deletes it, and waits until it is recreated.
async fn delete_held<K>(api: &Api<K>, name: &str) -> anyhow::Result<()>
where
    K: Resource + Clone + Debug + Serialize + DeserializeOwned,
{
    let before = loop {
        let mut found = api.get(name).await?;
        found.finalizers_mut().push("example.com/keep".to_owned());
        if let Ok(held) = api.replace(name, &PostParams::default(), &found).await {
            break held;
        }
    };
    api.delete(name, &DeleteParams::default()).await?;
    eventually(async || {
        let found = api.get_opt(name).await?;
        let new = found.filter(|found| found.uid() != before.uid());
        Ok(new.map(drop))
    })
    .await
}

#[tokio::test]
async fn r37_secret_without_the_accounts_token_is_recreated() -> anyhow::Result<()> {
    let world = World::new().await?;
    let _running = world.start();
    for id in ["acme", "other"] {
        world.create(id).await?;
        world.phase(id, Phase::Provisioned).await?;
    }
    let theirs = world.inside::<Secret>("other").get(ADMIN_TOKEN).await?;
    let theirs = token::of(&theirs).expect("a token").to_vec();
    let secrets: Api<Secret> = world.inside("acme");
    for (key, value) in [
        ("token", b"nonsense".to_vec()),
        ("token", theirs),
        ("namespace", b"submariner-broker-other".to_vec()),
    ] {
        let client = world.as_tenant("acme").await?;
        let own: Api<Secret> = Api::namespaced(client, &namespace("acme"));
        let mut secret = own.get(ADMIN_TOKEN).await?;
        let data = secret.data.get_or_insert_default();
        data.insert(key.to_owned(), ByteString(value.clone()));
        // The server records when a token was last used, which must not interfere.
        secret.metadata.resource_version = None;
        let parameters = PostParams::default();
        own.replace(ADMIN_TOKEN, &parameters, &secret).await?;
        eventually(async || {
            let found = secrets.get_opt(ADMIN_TOKEN).await?;
            let is_right = |found: &Secret| {
                let data = found.data.as_ref().and_then(|data| data.get(key));
                data.is_some_and(|data| data.0 != value) && token::of(found).is_some()
            };
            Ok(found.filter(is_right).map(drop))
        })
        .await?;
        world.phase("acme", Phase::Provisioned).await?;
        assert_eq!(answered(&world.as_tenant("acme").await?, "acme").await, 200);
    }
    Ok(())
}

/// Returns the number of requests an operator sends in three seconds of this disturbance, and
/// how long another tenant takes to be ready.
async fn pestered<F>(
    world: &World,
    chaos: &Chaos,
    other: &str,
    pester: impl Fn() -> F + Send + 'static,
) -> anyhow::Result<(u64, Duration)>
where
    F: Future<Output = ()> + Send,
{
    let mut tasks = JoinSet::new();
    tasks.spawn(async move {
        loop {
            pester().await;
        }
    });
    let (begin, before) = (Instant::now(), chaos.requests.load(Ordering::SeqCst));
    world.create(other).await?;
    world.phase(other, Phase::Provisioned).await?;
    let took = begin.elapsed();
    let rest = Duration::from_secs(3).saturating_sub(took);
    sleep(rest).await;
    let requests = chaos.requests.load(Ordering::SeqCst) - before;
    tasks.shutdown().await;
    Ok((requests, took))
}

#[tokio::test]
async fn r80_rapid_changes_of_one_tenant_do_not_delay_others() -> anyhow::Result<()> {
    let world = World::new().await?;
    let chaos = Chaos::counting();
    let _running = world.start_as("calm", chaos.around(&world.operator));
    world.create("acme").await?;
    world.phase("acme", Phase::Provisioned).await?;
    let touched = Arc::new(AtomicU64::new(0));
    // Provisioning a tenant costs about thirty requests, checking one a dozen.
    const BOUND: u64 = 150;

    let (count, secrets) = (Arc::clone(&touched), world.inside::<Secret>("acme"));
    let touch = move || {
        let (count, secrets) = (Arc::clone(&count), secrets.clone());
        async move {
            let number = count.fetch_add(1, Ordering::SeqCst);
            if let Ok(mut secret) = secrets.get(ADMIN_TOKEN).await {
                let label = ("adversary".to_owned(), number.to_string());
                secret.labels_mut().extend([label]);
                let parameters = PostParams::default();
                secrets
                    .replace(ADMIN_TOKEN, &parameters, &secret)
                    .await
                    .ok();
            }
        }
    };
    let (requests, took) = pestered(&world, &chaos, "first", touch).await?;
    let times = touched.load(Ordering::SeqCst);
    assert!(times > 30, "touched only {times} times");
    assert!(requests < BOUND, "{requests} requests for {times} touches");
    assert!(took < Duration::from_secs(2), "the other took {took:?}");

    let secrets = world.inside::<Secret>("acme");
    let delete = move || {
        let secrets = secrets.clone();
        async move {
            secrets
                .delete(ADMIN_TOKEN, &DeleteParams::default())
                .await
                .ok();
        }
    };
    let (requests, took) = pestered(&world, &chaos, "second", delete).await?;
    assert!(requests < BOUND, "{requests} requests");
    assert!(took < Duration::from_secs(2), "the other took {took:?}");
    world.phase("acme", Phase::Provisioned).await?;

    let events: Api<Event> = Api::namespaced(world.admin.clone(), "axon-operator");
    let events = events.list(&ListParams::default()).await?;
    let of_acme = events.iter().filter(|event| {
        let regarding = event.regarding.as_ref();
        regarding.and_then(|one| one.name.as_deref()) == Some("acme")
    });
    let told = of_acme.count();
    assert!((1..=6).contains(&told), "{told} events");
    Ok(())
}

#[tokio::test]
async fn nothing_is_created_in_a_replaced_namespace() -> anyhow::Result<()> {
    let world = World::new().await?;
    let running = world.start();
    world.create("acme").await?;
    world.phase("acme", Phase::Provisioned).await?;
    running.stop().await?;
    // The namespace is replaced between the operator's reads of it and of its contents.
    let (admin, swapped) = (world.admin.clone(), Arc::new(AtomicBool::new(false)));
    let operator = world.operator.clone();
    let service = tower::service_fn(move |request: http::Request<kube::client::Body>| {
        let (admin, operator) = (admin.clone(), operator.clone());
        let looks = request.uri().path().ends_with(ADMIN_TOKEN);
        let swaps = looks && !swapped.swap(true, Ordering::SeqCst);
        async move {
            if swaps {
                swap(Api::all(admin)).await?;
            }
            Ok::<_, tower::BoxError>(operator.send(request).await?)
        }
    });
    let _running = world.start_as("late", Client::new(service, "default"));
    let tenant = world.phase("acme", Phase::Failed).await?;
    assert_eq!(
        ready(&tenant).map(|(_, reason, _)| reason),
        Some("NamespaceNotOurs")
    );
    let accounts: Api<ServiceAccount> = world.inside("acme");
    assert!(accounts.get_opt(ADMIN).await?.is_none());
    assert!(
        world
            .inside::<Secret>("acme")
            .get_opt(ADMIN_TOKEN)
            .await?
            .is_none()
    );
    assert!(
        world
            .inside::<RoleBinding>("acme")
            .get_opt(ADMIN)
            .await?
            .is_none()
    );
    Ok(())
}

/// Deletes a tenant's namespace and creates another one.
async fn swap(namespaces: Api<Namespace>) -> Result<(), tower::BoxError> {
    let name = namespace("acme");
    namespaces.delete(&name, &DeleteParams::default()).await?;
    let deadline = Instant::now() + DEADLINE;
    while namespaces.get_opt(&name).await?.is_some() {
        assert!(Instant::now() < deadline, "the namespace does not go");
        sleep(Duration::from_millis(10)).await;
    }
    let theirs = named::<Namespace>(&name);
    let parameters = PostParams::default();
    namespaces.create(&parameters, &theirs).await?;
    Ok(())
}

#[tokio::test]
async fn r33_recently_granted_permissions_are_not_reported_as_missing() -> anyhow::Result<()> {
    let world = World::new().await?;
    let refused = AtomicU64::new(0);
    let chaos = Chaos::of_writes(move |_, request| {
        let of_roles = request.uri().path().ends_with("/roles");
        // Two roles are created: all writes of the first and the second attempt.
        match of_roles && refused.fetch_add(1, Ordering::SeqCst) < 4 {
            true => Fate::Refuse(403),
            false => Fate::Pass,
        }
    });
    let _running = world.start_as("early", chaos.around(&world.operator));
    world.create("acme").await?;
    let tenant = world
        .tenant("acme", |tenant| {
            let phase = phase_of(tenant);
            assert_ne!(phase, Some(Phase::Failed), "{tenant:?}");
            phase == Some(Phase::Provisioned)
        })
        .await?;
    assert_eq!(tenant.finalizers(), [FINALIZER]);
    let events: Api<Event> = Api::namespaced(world.admin.clone(), "axon-operator");
    let events = events.list(&ListParams::default()).await?;
    let reasons: Vec<_> = events
        .iter()
        .filter_map(|one| one.reason.as_deref())
        .collect();
    assert!(!reasons.contains(&"Forbidden"), "{reasons:?}");
    Ok(())
}

#[tokio::test]
async fn lists_are_paged_where_they_are_not_streamed() -> anyhow::Result<()> {
    let world = World::new().await?;
    let lists = Arc::new(std::sync::Mutex::new(Vec::new()));
    let seen = Arc::clone(&lists);
    let chaos = Chaos::new(move |_, request| {
        let (path, query) = (request.uri().path(), request.uri().query());
        let query = query.unwrap_or_default();
        if path == "/version" {
            return Fate::Refuse(404);
        }
        let whole = ["/secrets", "/serviceaccounts", "/roles", "/rolebindings"];
        let reads = request.method() == Method::GET && !query.contains("watch=true");
        if reads && whole.iter().any(|end| path.ends_with(end)) {
            let list = format!("{path}?{query}");
            seen.lock().expect("no panic").push(list);
        }
        Fate::Pass
    });
    let _running = world.start_as("reader", chaos.around(&world.operator));
    world.create("acme").await?;
    world.phase("acme", Phase::Provisioned).await?;
    let lists = lists.lock().expect("no panic").clone();
    assert!(lists.len() >= 4, "{lists:?}");
    assert!(
        lists
            .iter()
            .all(|list| list.split(['?', '&']).any(|one| one == "limit=50")),
        "{lists:?}"
    );
    Ok(())
}
