//! Two operators that are configured for the same objects.

use std::time::Duration;

use anyhow::Context as _;
use futures_util::{StreamExt, TryStreamExt, stream};
use insula_azure::operator::Operator;
use insula_operator::lease::Times;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use kube::{Api, ResourceExt};
use serde_json::{Value, json};

use crate::scene::{FINALIZER, OPERATOR, await_condition, condition, group, id, run_for, senders};
use crate::world::{Log, Running, World, credential, eventually};

const OPERATOR_V2: &str = "serviceoperator.azure.com/operator-namespace";
const OVERLAP: &str = "OperatorOverlap";

fn message(own: &str, other: &str) -> String {
    format!("Operators in {own:?} and {other:?} are both configured to manage this resource")
}

/// Removes the annotations that claim an object.
async fn release(world: &World, object: &Value) -> anyhow::Result<()> {
    let annotations = json!({OPERATOR: null, OPERATOR_V2: null});
    let patch = json!({"metadata": {"annotations": annotations}});
    world.patch(object, patch).await
}

/// Returns how many times the objects of a name were written.
fn writes(world: &World, name: &str) -> anyhow::Result<usize> {
    let events = world.log.events()?;
    let of_name = events.iter().filter(|event| {
        let verb = event["verb"].as_str().unwrap_or_default();
        event["objectRef"]["name"] == name
            && event["objectRef"]["resource"] == "resourcegroups"
            && event["stage"] == "ResponseComplete"
            && ["patch", "update"].contains(&verb)
    });
    Ok(of_name.count())
}

#[tokio::test]
async fn r06_reconciled_object_names_its_operator() -> anyhow::Result<()> {
    let world = World::start().await?;
    world.team("red");
    world.namespace_of("red", "red").await?;
    let _operator = world.run("any-system", &[]).await?;
    for name in ["one", "two", "three"] {
        let group = group("red", name);
        world.create(&group).await?;
        let made = world.await_ready(&group, "True", "Succeeded").await?;
        for annotation in [OPERATOR, OPERATOR_V2] {
            assert_eq!(made["metadata"]["annotations"][annotation], "any-system");
        }
    }
    // One that lost its annotation gets it again.
    let one = group("red", "one");
    release(&world, &one).await?;
    eventually("annotation", async || {
        let found = world.read(&one).await?.unwrap();
        let is = |name| found["metadata"]["annotations"][name] == "any-system";
        Ok((is(OPERATOR) && is(OPERATOR_V2)).then_some(()))
    })
    .await?;
    assert_eq!(world.azure.puts(&id("red", "one")), 1);
    Ok(())
}

#[tokio::test]
async fn r07_of_two_operators_one_claims_and_the_other_reports() -> anyhow::Result<()> {
    let log = Log::default();
    // Both operators run on the thread of the test.
    let _logged = tracing::subscriber::set_default(log.clone());
    let world = World::start().await?;
    world.team("red");
    world.namespace_of("red", "red").await?;
    let _first = world.run("a-system", &[]).await?;
    let shop = group("red", "shop");
    world.create(&shop).await?;
    world.await_ready(&shop, "True", "Succeeded").await?;
    let _second = world
        .run("b-system", &[("AZURE_TARGET_NAMESPACES", "red")])
        .await?;
    let expected = message("b-system", "a-system");
    assert_eq!(await_condition(&world, &shop, OVERLAP).await?, expected);
    let notes = eventually("event", async || {
        let notes = world.events("red", "Overlap").await?;
        let of_object = notes
            .into_iter()
            .filter(|note| note.ends_with("this resource"));
        let of_object: Vec<_> = of_object.collect();
        Ok((!of_object.is_empty()).then_some(of_object))
    })
    .await?;
    assert_eq!(notes[0], expected);
    let text = log.text();
    for line in [
        "message=object belongs to another operator\n",
        "other=a-system\n",
    ] {
        assert!(text.contains(line), "{line:?} in {text}");
    }
    // The claimant still works, and the condition stays beside it.
    world
        .patch(&shop, json!({"spec": {"tags": {"a": "b"}}}))
        .await?;
    world.azure.await_puts(&id("red", "shop"), 2).await?;
    let others: Vec<_> = (0..10)
        .map(|n| group("red", &format!("other{n}")))
        .collect();
    for other in &others {
        world.create(other).await?;
        world.await_ready(other, "True", "Succeeded").await?;
        await_condition(&world, other, OVERLAP).await?;
    }
    let found = world.read(&shop).await?.unwrap();
    assert_eq!(condition(&found, OVERLAP), Some(expected));
    assert_eq!(found["metadata"]["annotations"][OPERATOR], "a-system");
    assert_eq!(world.azure.puts(&id("red", "shop")), 2);
    // Neither operator undoes what the other one wrote.
    let count = writes(&world, "shop")?;
    assert!(count <= 16, "{count} writes");
    Ok(())
}

#[tokio::test]
async fn r08_object_of_another_operator_is_left_alone_until_it_is_released() -> anyhow::Result<()> {
    let world = World::start().await?;
    world.team("red");
    world.namespace_of("red", "red").await?;
    let first = world.run("a-system", &[]).await?;
    let (shop, kept) = (group("red", "shop"), group("red", "kept"));
    for group in [&shop, &kept] {
        world.create(group).await?;
        world.await_ready(group, "True", "Succeeded").await?;
    }
    first.stop().await?;
    let _second = world.run("b-system", &[]).await?;
    await_condition(&world, &shop, OVERLAP).await?;
    world.delete(&shop).await?;
    // The operator is alive, and has seen the deletion.
    let probe = group("red", "probe");
    world.create(&probe).await?;
    world.await_ready(&probe, "True", "Succeeded").await?;
    let found = world.read(&shop).await?.unwrap();
    assert_eq!(found["metadata"]["finalizers"], json!([FINALIZER]));
    assert_eq!(found["metadata"]["annotations"][OPERATOR], "a-system");
    assert_eq!(senders(&world.azure, "DELETE", &id("red", "shop")).len(), 0);
    for object in [&shop, &kept] {
        release(&world, object).await?;
    }
    world.await_gone(&shop).await?;
    assert_eq!(senders(&world.azure, "DELETE", &id("red", "shop")), ["red"]);
    let taken = eventually("taken over", async || {
        let found = world.read(&kept).await?.unwrap();
        let is_taken = found["metadata"]["annotations"][OPERATOR] == "b-system";
        Ok((is_taken && condition(&found, OVERLAP).is_none()).then_some(found))
    })
    .await?;
    assert_eq!(taken["status"]["id"], id("red", "kept"));
    world
        .patch(&kept, json!({"spec": {"tags": {"a": "b"}}}))
        .await?;
    world.azure.await_puts(&id("red", "kept"), 2).await?;
    Ok(())
}

#[tokio::test]
async fn r07_resource_has_one_writer_when_operators_race() -> anyhow::Result<()> {
    let races = std::env::var("INSULA_AZURE_RACES").ok();
    let races: usize = races.map_or(Ok(60), |races| races.parse())?;
    let world = World::start().await?;
    world.team("red");
    world
        .azure
        .add_secret(crate::world::TENANT, "blue", "blue-s3cret");
    world.azure.grant("blue", "sub-red");
    world.namespace("shared").await?;
    let _red = run_for(&world, "red-system", "red", "shared").await?;
    let own = [
        ("AZURE_SUBSCRIPTION_ID", "sub-red"),
        ("AZURE_TENANT_ID", crate::world::TENANT),
        ("AZURE_CLIENT_ID", "blue"),
        ("AZURE_CLIENT_SECRET", "blue-s3cret"),
        ("AZURE_TARGET_NAMESPACES", "shared"),
    ];
    let _blue = world.run("blue-system", &own).await?;
    let groups: Vec<_> = (0..races)
        .map(|n| group("shared", &format!("g{n}")))
        .collect();
    stream::iter(&groups)
        .map(|group| world.create(group))
        .buffer_unordered(32)
        .try_collect::<Vec<_>>()
        .await?;
    let mut claimed = std::collections::BTreeMap::<String, usize>::new();
    for (n, group) in groups.iter().enumerate() {
        let made = world.await_ready(group, "True", "Succeeded").await;
        let sent = world.azure.resource_ids().len();
        let made = made.with_context(|| format!("{n}: {sent} of {races} are in Azure"))?;
        await_condition(&world, group, OVERLAP).await?;
        let operator = made["metadata"]["annotations"][OPERATOR].as_str().unwrap();
        let team = operator.trim_end_matches("-system");
        let senders = senders(&world.azure, "PUT", &id("red", &format!("g{n}")));
        assert!(
            senders.iter().all(|sender| sender == team),
            "{n}: {senders:?} of {team}"
        );
        assert!(!senders.is_empty(), "{n}");
        *claimed.entry(team.to_owned()).or_default() += 1;
    }
    assert_eq!(claimed.values().sum::<usize>(), races);
    Ok(())
}

/// Returns an operator whose claims on namespaces expire after some seconds.
fn operator(world: &World, namespace: &str, targets: &str) -> anyhow::Result<Operator> {
    let own = credential("red");
    let mut settings: Vec<_> = own.iter().map(|(k, v)| (*k, v.as_str())).collect();
    settings.push(("AZURE_TARGET_NAMESPACES", targets));
    let mut operator = world.operator(namespace, &settings)?;
    operator.shell.times = Times {
        duration: Duration::from_secs(1),
        renew: Duration::from_millis(100),
        give_up: Duration::from_millis(800),
        look: Duration::from_millis(50),
    };
    Ok(operator)
}

/// Waits until the claim on a namespace has a holder, and returns it.
async fn await_holder(world: &World, namespace: &str, holder: &str) -> anyhow::Result<Lease> {
    let leases: Api<Lease> = Api::namespaced(world.client.clone(), namespace);
    eventually(holder, async || {
        let found = leases.get_opt("azure-operator-claim").await?;
        Ok(found.filter(|found| {
            let spec = found.spec.as_ref();
            spec.and_then(|spec| spec.holder_identity.as_deref()) == Some(holder)
        }))
    })
    .await
}

#[tokio::test]
async fn r07_second_operator_of_a_namespace_is_reported_at_start() -> anyhow::Result<()> {
    let world = World::start().await?;
    world.team("red");
    for namespace in ["a-system", "b-system", "shared", "alone"] {
        world.namespace(namespace).await?;
    }
    let run = |namespace, targets| -> anyhow::Result<Running> {
        let operator = operator(&world, namespace, targets)?;
        Ok(Running::new(world.client.clone(), operator))
    };
    let first = run("a-system", "shared")?;
    let held = await_holder(&world, "shared", "a-system").await?;
    let second = run("b-system", "shared,alone")?;
    await_holder(&world, "alone", "b-system").await?;
    let expected = "Operators in \"b-system\" and \"a-system\" are both configured to manage this \
                    namespace";
    let note = eventually("event", async || {
        let notes = world.events("shared", "Overlap").await?;
        Ok(notes
            .into_iter()
            .find(|note| note.ends_with("this namespace")))
    })
    .await?;
    assert_eq!(note, expected);
    assert_eq!(
        world.events("alone", "Overlap").await?,
        Vec::<String>::new()
    );
    // It is renewed as long as the first operator runs.
    let renewed_at = |lease: &Lease| lease.spec.as_ref().and_then(|spec| spec.renew_time.clone());
    eventually("renewal", async || {
        let lease = await_holder(&world, "shared", "a-system").await?;
        Ok((renewed_at(&lease) > renewed_at(&held)).then_some(()))
    })
    .await?;
    // A crashed operator does not hold it for ever, and a stopped one releases it.
    first.kill().await;
    await_holder(&world, "shared", "b-system").await?;
    second.stop().await?;
    await_holder(&world, "shared", "").await?;
    let _third = run("a-system", "shared")?;
    await_holder(&world, "shared", "a-system").await?;
    // An operator for all namespaces claims none.
    let leases: Api<Lease> = Api::namespaced(world.client.clone(), "b-system");
    assert_eq!(leases.get_opt("azure-operator-claim").await?, None);
    Ok(())
}

/// Waits until the clock shows a later second than that of an object's creation.
async fn await_next_second(lease: &Lease) -> anyhow::Result<()> {
    let created = lease.creation_timestamp().context("a time")?.0;
    eventually("next second", async || {
        let elapsed = Timestamp::now().duration_since(created);
        Ok((elapsed > SignedDuration::from_millis(1100)).then_some(()))
    })
    .await
}

#[tokio::test]
async fn r07_operator_of_all_namespaces_leaves_a_claimed_namespace_alone() -> anyhow::Result<()> {
    let world = World::start().await?;
    for team in ["red", "wide"] {
        world.team(team);
    }
    for namespace in ["red-dev", "free"] {
        world.namespace(namespace).await?;
    }
    let global = run_for(&world, "global-system", "wide", "").await?;
    let old = group("red-dev", "old");
    world.create(&old).await?;
    world.await_ready(&old, "True", "Succeeded").await?;
    let red = run_for(&world, "red-system", "red", "red-dev").await?;
    let lease = await_holder(&world, "red-dev", "red-system").await?;
    await_next_second(&lease).await?;
    // The claim counts while its holder is restarted, and for an object that says otherwise.
    red.stop().await?;
    let new = group("red-dev", "new");
    let mut forged = group("red-dev", "forged");
    forged["metadata"]["annotations"] =
        json!({OPERATOR: "global-system", OPERATOR_V2: "global-system"});
    forged["metadata"]["finalizers"] = json!([FINALIZER]);
    for object in [&new, &forged] {
        world.create(object).await?;
        let expected = message("global-system", "red-system");
        assert_eq!(await_condition(&world, object, OVERLAP).await?, expected);
    }
    let _red = run_for(&world, "red-system", "red", "red-dev").await?;
    let made = world.await_ready(&new, "True", "Succeeded").await?;
    assert_eq!(made["metadata"]["annotations"][OPERATOR], "red-system");
    assert_eq!(senders(&world.azure, "PUT", &id("red", "new")), ["red"]);
    // What the other one has accepted before stays with it.
    world
        .patch(&old, json!({"spec": {"tags": {"a": "b"}}}))
        .await?;
    world.azure.await_puts(&id("wide", "old"), 2).await?;
    let free = group("free", "free");
    world.create(&free).await?;
    world.await_ready(&free, "True", "Succeeded").await?;
    let wide = [id("wide", "free"), id("wide", "old")];
    let mut ids = world.azure.resource_ids();
    ids.retain(|id| id.starts_with("/subscriptions/sub-wide/"));
    assert_eq!(ids, wide);
    // The namespace is reported when the operator starts.
    global.stop().await?;
    let _global = run_for(&world, "global-system", "wide", "").await?;
    let note = eventually("event", async || {
        let notes = world.events("red-dev", "Overlap").await?;
        Ok(notes
            .into_iter()
            .find(|note| note.ends_with("this namespace")))
    })
    .await?;
    let expected = "Operators in \"global-system\" and \"red-system\" are both configured to \
                    manage this namespace";
    assert_eq!(note, expected);
    Ok(())
}

#[tokio::test]
async fn r07_operator_of_a_tenant_is_told_from_the_systems_one_in_a_namespace_of_its_name()
-> anyhow::Result<()> {
    const NAME: &str = "azureoperator-system";
    let world = World::start_for_tenants().await?;
    world.team("red");
    let space = world.tenant("t1").await?;
    let values = credential("red");
    let values: Vec<_> = values.iter().map(|(k, v)| (*k, v.as_str())).collect();
    for namespace in [NAME, "team"] {
        space.namespace(namespace).await?;
    }
    space.secret("team", "aso-credential", &values).await?;
    world.namespace(NAME).await?;
    let mut system = world.operator(NAME, &[])?;
    system.shell.tenants = true;
    let _system = Running::new(world.client.clone(), system);
    let first = group("team", "first");
    space.create(&first).await?;
    let made = space.await_ready(&first, "True", "Succeeded").await?;
    let of_system = format!("system/{NAME}");
    for annotation in [OPERATOR, OPERATOR_V2] {
        assert_eq!(made["metadata"]["annotations"][annotation], of_system);
    }
    let _own = Running::new(space.client.clone(), world.operator(NAME, &[])?);
    let found = await_condition(&space, &first, OVERLAP).await?;
    assert_eq!(found, message(NAME, &of_system));
    let mut second = group("team", "second");
    second["metadata"]["annotations"] = json!({OPERATOR: NAME, OPERATOR_V2: NAME});
    space.create(&second).await?;
    let found = await_condition(&space, &second, OVERLAP).await?;
    assert_eq!(found, message(&of_system, NAME));
    let made = space.await_ready(&second, "True", "Succeeded").await?;
    assert_eq!(made["metadata"]["annotations"][OPERATOR], NAME);
    for name in ["first", "second"] {
        assert_eq!(world.azure.puts(&id("red", name)), 1, "{name}");
    }
    Ok(())
}
