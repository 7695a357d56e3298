//! Which credential a resource gets.

use std::time::{Duration, Instant};

use anyhow::Context as _;
use insula_testkit::azure::Fault;
use serde_json::{Value, json};

use crate::scene::{
    ALLOW_WIDER, CREDENTIAL_FROM, IN_USE, annotated, group, id, namespace, rotate, run_for, secret,
    senders,
};
use crate::world::{TENANT, World, credential, eventually, ready, secret_of, subscription};

/// How soon a change of a credential takes effect.
const SOON: Duration = Duration::from_secs(15);

/// Adds a client that may use the subscription of a team.
fn add_client(world: &World, name: &str, team: &str) {
    world.azure.add_secret(TENANT, name, &secret_of(name));
    world.azure.grant(name, &subscription(team));
}

/// Returns the credential of a client for the subscription of a team.
fn credential_for(client: &str, team: &str) -> [(&'static str, String); 4] {
    let mut values = credential(client);
    values[0].1 = subscription(team);
    values
}

fn texts<'a>(values: &'a [(&'static str, String)]) -> Vec<(&'a str, &'a str)> {
    values.iter().map(|(k, v)| (*k, v.as_str())).collect()
}

async fn annotate(
    world: &World,
    object: &Value,
    name: &str,
    value: impl Into<Value>,
) -> anyhow::Result<()> {
    let annotations = json!({name: value.into()});
    world
        .patch(object, json!({"metadata": {"annotations": annotations}}))
        .await
}

/// Changes a tag, and waits until the resource was sent with it. Returns the client.
async fn send_again(world: &World, object: &Value, id: &str) -> anyhow::Result<String> {
    let before = senders(&world.azure, "PUT", id).len();
    let tag = format!("{before}");
    world
        .patch(object, json!({"spec": {"tags": {"tag": tag}}}))
        .await?;
    let all = eventually("PUT", async || {
        let all = senders(&world.azure, "PUT", id);
        Ok((all.len() > before).then_some(all))
    })
    .await;
    let found = world.read(object).await?.unwrap_or_default();
    let all = all.with_context(|| format!("{:?}", ready(&found)))?;
    world.await_ready(object, "True", "Succeeded").await?;
    Ok(all[before].clone())
}

#[tokio::test]
async fn r23_narrowest_scope_decides() -> anyhow::Result<()> {
    let world = World::start().await?;
    for team in ["red", "blue", "green"] {
        world.team(team);
    }
    world.namespace_of("team", "red").await?;
    world.credential("team", "special", "blue").await?;
    world.namespace("others").await?;
    let _operator = run_for(&world, "azureoperator-system", "green", "").await?;
    for (object, team, scope) in [
        (group("team", "one"), "red", "namespace"),
        (
            annotated("team", "two", (CREDENTIAL_FROM, "special")),
            "blue",
            "resource",
        ),
        (group("others", "three"), "green", "global"),
    ] {
        world.create(&object).await?;
        let made = world.await_ready(&object, "True", "Succeeded").await?;
        let name = object["metadata"]["name"].as_str().unwrap();
        assert_eq!(made["status"]["id"], id(team, name));
        assert_eq!(senders(&world.azure, "PUT", &id(team, name)), [team]);
        let annotations = &made["metadata"]["annotations"];
        assert_eq!(annotations["azure.insula.dev/credential-scope"], scope);
    }
    Ok(())
}

#[tokio::test]
async fn r23_unusable_credential_is_reported_and_never_replaced_by_a_wider_one()
-> anyhow::Result<()> {
    let world = World::start().await?;
    for team in ["red", "green"] {
        world.team(team);
    }
    world.namespace("team").await?;
    world.namespace_of("other", "red").await?;
    world.namespace("broken").await?;
    let short = [
        ("AZURE_SUBSCRIPTION_ID", "sub-red"),
        ("AZURE_CLIENT_SECRET", "x"),
    ];
    world.secret("broken", "aso-credential", &short).await?;
    let mut wrong = credential("red");
    wrong[3].1 = "wrong-one".to_owned();
    world.secret("team", "wrong", &texts(&wrong)).await?;
    world.secret("team", "short", &short).await?;
    let _operator = run_for(&world, "azureoperator-system", "green", "").await?;
    let from = |name: &str, value: &str| annotated("team", name, (CREDENTIAL_FROM, value));
    let keys = ["AZURE_TENANT_ID", "AZURE_CLIENT_ID"];
    for (object, reason, parts) in [
        (
            from("a", "missing"),
            "SecretNotAvailable",
            vec!["the Secret missing does not exist in namespace team"],
        ),
        (
            from("b", "other/aso-credential"),
            "SecretNotAvailable",
            vec!["other/aso-credential"],
        ),
        (
            from("c", "aso-credential"),
            "SecretNotAvailable",
            vec!["aso-credential", "team"],
        ),
        (
            from("d", "short"),
            "InvalidCredentials",
            vec!["the Secret short", keys[0], keys[1]],
        ),
        (
            group("broken", "e"),
            "InvalidCredentials",
            vec!["the Secret aso-credential", keys[0], keys[1]],
        ),
        (
            from("f", "wrong"),
            "InvalidCredentials",
            vec![
                "AADSTS7000215",
                "AZURE_CLIENT_SECRET is wrong",
                "correct the Secret",
            ],
        ),
    ] {
        world.create(&object).await?;
        let found = world.await_ready(&object, "False", reason).await?;
        let [_, severity, _, message] = ready(&found).unwrap();
        assert_eq!(severity, "Warning", "{message}");
        for part in parts {
            assert!(message.contains(part), "{part:?} in {message}");
        }
        assert!(!message.contains("wrong-one"), "{message}");
    }
    assert_eq!(world.azure.requests(), []);
    // Each is created as soon as its credential is.
    let begun = Instant::now();
    world.credential("team", "missing", "red").await?;
    world.credential("team", "aso-credential", "red").await?;
    rotate(&world, "team", "short", &credential("red")).await?;
    rotate(&world, "team", "wrong", &credential("red")).await?;
    rotate(&world, "broken", "aso-credential", &credential("red")).await?;
    for object in [
        from("a", ""),
        from("c", ""),
        from("d", ""),
        from("f", ""),
        group("broken", "e"),
    ] {
        world.await_ready(&object, "True", "Succeeded").await?;
    }
    assert!(begun.elapsed() < SOON, "{:?}", begun.elapsed());
    let created = world.azure.resource_ids();
    assert_eq!(
        created,
        ["a", "c", "d", "e", "f"].map(|name| id("red", name))
    );
    Ok(())
}

#[tokio::test]
async fn r23_rotated_secret_is_used_by_the_next_request() -> anyhow::Result<()> {
    let world = World::start().await?;
    world.team("red");
    add_client(&world, "red2", "red");
    world.namespace_of("red", "red").await?;
    let _operator = world.run("azureoperator-system", &[]).await?;
    let (shop, id) = (group("red", "shop"), id("red", "shop"));
    world.create(&shop).await?;
    world.await_ready(&shop, "True", "Succeeded").await?;
    rotate(
        &world,
        "red",
        "aso-credential",
        &credential_for("red2", "red"),
    )
    .await?;
    let begun = Instant::now();
    assert_eq!(send_again(&world, &shop, &id).await?, "red2");
    assert!(begun.elapsed() < SOON, "{:?}", begun.elapsed());
    // A rotated secret of the same client is used too.
    world.azure.add_secret(TENANT, "red2", "second");
    world
        .azure
        .remove_secret(TENANT, "red2", &secret_of("red2"));
    world.azure.revoke_tokens();
    let mut second = credential_for("red2", "red");
    second[3].1 = "second".to_owned();
    rotate(&world, "red", "aso-credential", &second).await?;
    assert_eq!(send_again(&world, &shop, &id).await?, "red2");
    Ok(())
}

#[tokio::test]
async fn r23_failed_resource_recovers_as_soon_as_its_credential_changes() -> anyhow::Result<()> {
    let world = World::start().await?;
    world.team("red");
    add_client(&world, "red2", "red");
    world.namespace_of("red", "red").await?;
    let fault = Fault::arm("PUT", "*").of_client("red");
    let fault = fault.error(403, "AuthorizationFailed", "no role");
    world.azure.inflict(fault.header("Retry-After", "600"));
    let _operator = world.run("azureoperator-system", &[]).await?;
    let groups: Vec<_> = (0..3).map(|n| group("red", &format!("g{n}"))).collect();
    for group in &groups {
        world.create(group).await?;
        world
            .await_ready(group, "False", "AuthorizationFailed")
            .await?;
        // Further triggers do not make it forget what it depends on.
        annotate(&world, group, "example.com/touched", "yes").await?;
    }
    let probe = crate::scene::namespace("probe");
    world.create(&probe).await?;
    rotate(
        &world,
        "red",
        "aso-credential",
        &credential_for("red2", "red"),
    )
    .await?;
    let begun = Instant::now();
    for group in &groups {
        world.await_ready(group, "True", "Succeeded").await?;
    }
    assert!(begun.elapsed() < SOON, "{:?}", begun.elapsed());
    for n in 0..3 {
        assert_eq!(
            senders(&world.azure, "PUT", &id("red", &format!("g{n}"))),
            ["red", "red2"]
        );
    }
    Ok(())
}

/// A world with a resource that uses the Secret of its namespace, and an operator with a wider
/// credential for the same subscription.
async fn world_with_wider() -> anyhow::Result<(World, crate::world::Running, Value)> {
    let world = World::start().await?;
    world.team("red");
    add_client(&world, "wide", "red");
    world.namespace_of("red", "red").await?;
    let own = credential_for("wide", "red");
    let running = world.run("azureoperator-system", &texts(&own)).await?;
    let shop = group("red", "shop");
    world.create(&shop).await?;
    world.await_ready(&shop, "True", "Succeeded").await?;
    Ok((world, running, shop))
}

#[tokio::test]
async fn r23_deleted_secret_stays_in_use_and_is_never_replaced_silently() -> anyhow::Result<()> {
    let (world, _running, shop) = world_with_wider().await?;
    let id = id("red", "shop");
    let held = secret("red", "aso-credential");
    world.delete(&held).await?;
    let found = world.read(&held).await?.unwrap();
    assert_eq!(found["metadata"]["finalizers"], json!([IN_USE]));
    assert_eq!(send_again(&world, &shop, &id).await?, "red");
    // An administrator removes it by force.
    world
        .patch(&held, json!({"metadata": {"finalizers": null}}))
        .await?;
    world.await_gone(&held).await?;
    world
        .patch(&shop, json!({"spec": {"tags": {"tag": "forced"}}}))
        .await?;
    let found = world
        .await_ready(&shop, "False", "SecretNotAvailable")
        .await?;
    let message = ready(&found).unwrap()[3];
    let expected = "the Secret aso-credential, which it used before, does not exist";
    assert!(message.contains(expected), "{message}");
    assert_eq!(world.azure.requests_by("wide"), []);
    // Deletion does not use a wider one either.
    world.delete(&shop).await?;
    eventually("deletion reported", async || {
        let found = world.read(&shop).await?.unwrap();
        Ok(found["metadata"]["deletionTimestamp"]
            .is_string()
            .then_some(()))
    })
    .await?;
    assert_eq!(world.azure.requests_by("wide"), []);
    annotate(&world, &shop, ALLOW_WIDER, "true").await?;
    world.await_gone(&shop).await?;
    assert_eq!(senders(&world.azure, "DELETE", &id), ["wide"]);
    Ok(())
}

#[tokio::test]
async fn r23_deleted_secret_is_replaced_by_a_wider_credential_where_that_is_allowed()
-> anyhow::Result<()> {
    for on_namespace in [false, true] {
        let (world, _running, shop) = world_with_wider().await?;
        let of_namespace = namespace("red");
        let annotated = if on_namespace { &of_namespace } else { &shop };
        annotate(&world, annotated, ALLOW_WIDER, "true").await?;
        let held = secret("red", "aso-credential");
        world.delete(&held).await?;
        world.await_gone(&held).await?;
        let sender = send_again(&world, &shop, &id("red", "shop")).await?;
        assert_eq!(sender, "wide", "{on_namespace}");
    }
    Ok(())
}

#[tokio::test]
async fn r23_secret_is_held_while_one_resource_needs_it_that_must_not_use_a_wider_one()
-> anyhow::Result<()> {
    let (world, _running, shop) = world_with_wider().await?;
    let strict = group("red", "strict");
    world.create(&strict).await?;
    world.await_ready(&strict, "True", "Succeeded").await?;
    annotate(&world, &shop, ALLOW_WIDER, "true").await?;
    let held = secret("red", "aso-credential");
    world.delete(&held).await?;
    assert_eq!(
        send_again(&world, &strict, &id("red", "strict")).await?,
        "red"
    );
    let found = world.read(&held).await?.unwrap();
    assert_eq!(found["metadata"]["finalizers"], json!([IN_USE]));
    world.delete(&strict).await?;
    world.await_gone(&strict).await?;
    world.await_gone(&held).await?;
    assert_eq!(
        senders(&world.azure, "DELETE", &id("red", "strict")),
        ["red"]
    );
    assert_eq!(send_again(&world, &shop, &id("red", "shop")).await?, "wide");
    Ok(())
}

#[tokio::test]
async fn r23_strict_modes_use_their_scopes_only() -> anyhow::Result<()> {
    let world = World::start().await?;
    for team in ["red", "blue", "green"] {
        world.team(team);
    }
    world.namespace_of("team", "red").await?;
    world.credential("team", "special", "blue").await?;
    world.namespace("bare").await?;
    for (mode, of_resource, of_namespace, of_operator) in [
        ("namespace", None, Some("red"), None),
        ("resource", Some("blue"), Some("red"), None),
        ("global", None, Some("green"), Some("green")),
    ] {
        let own = credential("green");
        let mut settings = texts(&own);
        settings.push(("AZURE_OPERATOR_AUTH_SOURCE_MODE", mode));
        let running = world.run("azureoperator-system", &settings).await?;
        for (object, team) in [
            (
                annotated("team", "a", (CREDENTIAL_FROM, "special")),
                of_resource,
            ),
            (group("team", "b"), of_namespace),
            (group("bare", "c"), of_operator),
        ] {
            world.create(&object).await?;
            let name = object["metadata"]["name"].as_str().unwrap();
            match team {
                Some(team) => {
                    let made = world.await_ready(&object, "True", "Succeeded").await?;
                    assert_eq!(made["status"]["id"], id(team, name), "{mode}");
                    assert_eq!(
                        senders(&world.azure, "PUT", &id(team, name)),
                        [team],
                        "{mode}"
                    );
                }
                None => {
                    world.await_ready(&object, "False", "NoCredentials").await?;
                }
            }
            world.delete(&object).await?;
            world.await_gone(&object).await?;
        }
        running.stop().await?;
        world.azure.clear_journal();
    }
    Ok(())
}

#[tokio::test]
async fn r23_changed_reference_takes_effect_and_releases_the_secret_before() -> anyhow::Result<()> {
    let world = World::start().await?;
    world.team("red");
    for client in ["one", "two"] {
        add_client(&world, client, "red");
    }
    world.namespace_of("red", "red").await?;
    for client in ["one", "two"] {
        let values = credential_for(client, "red");
        world.secret("red", client, &texts(&values)).await?;
    }
    let _operator = world.run("azureoperator-system", &[]).await?;
    let (shop, id) = (
        annotated("red", "shop", (CREDENTIAL_FROM, "one")),
        id("red", "shop"),
    );
    world.create(&shop).await?;
    world.await_ready(&shop, "True", "Succeeded").await?;
    assert_eq!(senders(&world.azure, "PUT", &id), ["one"]);
    annotate(&world, &shop, CREDENTIAL_FROM, "two").await?;
    assert_eq!(send_again(&world, &shop, &id).await?, "two");
    let one = secret("red", "one");
    world.delete(&one).await?;
    world.await_gone(&one).await?;
    // The credential of the namespace is a wider one.
    annotate(&world, &shop, CREDENTIAL_FROM, Value::Null).await?;
    world
        .patch(&shop, json!({"spec": {"tags": {"tag": "wider"}}}))
        .await?;
    let found = world
        .await_ready(&shop, "False", "SecretNotAvailable")
        .await?;
    let message = ready(&found).unwrap()[3];
    let expected = "the credential that it used before is not referenced any more";
    assert!(message.starts_with(expected), "{message}");
    annotate(&world, &shop, ALLOW_WIDER, "true").await?;
    world.await_ready(&shop, "True", "Succeeded").await?;
    assert_eq!(senders(&world.azure, "PUT", &id), ["one", "two", "red"]);
    annotate(&world, &shop, ALLOW_WIDER, Value::Null).await?;
    assert_eq!(send_again(&world, &shop, &id).await?, "red");
    let two = secret("red", "two");
    world.delete(&two).await?;
    world.await_gone(&two).await?;
    let held = world.read(&secret("red", "aso-credential")).await?.unwrap();
    assert_eq!(held["metadata"]["finalizers"], json!([IN_USE]));
    world.delete(&shop).await?;
    world.await_gone(&shop).await?;
    let released = world.read(&secret("red", "aso-credential")).await?.unwrap();
    assert_eq!(released["metadata"]["finalizers"], json!(null));
    Ok(())
}

#[tokio::test]
async fn r23_credential_of_another_subscription_is_reported_until_it_is_corrected()
-> anyhow::Result<()> {
    let world = World::start().await?;
    for team in ["red", "blue"] {
        world.team(team);
    }
    world.namespace_of("red", "red").await?;
    let _operator = world.run("azureoperator-system", &[]).await?;
    let shop = group("red", "shop");
    world.create(&shop).await?;
    world.await_ready(&shop, "True", "Succeeded").await?;
    rotate(&world, "red", "aso-credential", &credential("blue")).await?;
    world
        .patch(&shop, json!({"spec": {"tags": {"a": "b"}}}))
        .await?;
    let found = world
        .await_ready(&shop, "False", "SubscriptionMismatch")
        .await?;
    let [_, severity, _, message] = ready(&found).unwrap();
    assert_eq!(severity, "Error");
    let expected = "SubscriptionID \"sub-red\" for \"/subscriptions/sub-red/resourceGroups/shop\" \
                    resource does not match with Client Credential: \"sub-blue\"";
    assert_eq!(message, expected);
    assert_eq!(world.azure.requests_by("blue"), []);
    rotate(&world, "red", "aso-credential", &credential("red")).await?;
    let begun = Instant::now();
    world.await_ready(&shop, "True", "Succeeded").await?;
    assert!(begun.elapsed() < SOON, "{:?}", begun.elapsed());
    Ok(())
}

#[tokio::test]
async fn r23_corrected_subscription_is_noticed_after_a_restart() -> anyhow::Result<()> {
    let world = World::start().await?;
    for team in ["red", "blue"] {
        world.team(team);
    }
    world.namespace_of("red", "red").await?;
    let often = [("AZURE_SYNC_PERIOD", "1s")];
    let running = world.run("azureoperator-system", &often).await?;
    let shop = group("red", "shop");
    world.create(&shop).await?;
    world.await_ready(&shop, "True", "Succeeded").await?;
    rotate(&world, "red", "aso-credential", &credential("blue")).await?;
    world
        .await_ready(&shop, "False", "SubscriptionMismatch")
        .await?;
    running.stop().await?;
    rotate(&world, "red", "aso-credential", &credential("red")).await?;
    let _running = world.run("azureoperator-system", &[]).await?;
    world.await_ready(&shop, "True", "Succeeded").await?;
    assert_eq!(world.azure.requests_by("blue"), []);
    Ok(())
}
