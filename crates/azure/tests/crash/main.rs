//! An operator that is killed at any write has exactly one resource in Azure, and leaves nothing
//! behind after the object is deleted.

#[path = "../world/world.rs"]
mod world;

mod killing;

use std::sync::Arc;

use anyhow::Context as _;
use futures_util::future::try_join_all;
use insula_testkit::azure::{DeleteManner, FakeAzure};
use kube::Client;
use serde_json::{Value, json};
use tokio::time::timeout;

use killing::{Kill, KillRecord, killing_client};
use world::{Running, World, eventually, subscription};

/// Waits until an object is gone, and says in which state it stays if it does not go.
async fn await_gone(world: &World, object: &Value) -> anyhow::Result<()> {
    let gone = world.await_gone(object).await;
    if gone.is_err() {
        let left = world.read(object).await?.unwrap_or_default();
        let resume = "serviceoperator.azure.com/poller-resume-token";
        let is_operation = left["metadata"]["annotations"].get(resume).is_some();
        let name = &object["metadata"]["name"];
        anyhow::bail!(
            "{name} stays: {:?}, operation: {is_operation}",
            world::ready(&left)
        );
    }
    Ok(())
}

/// A resource with an operator that is killed, and a successor.
struct Life<'a> {
    world: &'a World,
    /// The namespace, which has a team of its own.
    name: String,
    operator: Option<Running>,
    record: Arc<KillRecord>,
}

impl Life<'_> {
    fn start(&mut self, client: Client) -> anyhow::Result<()> {
        let settings = [("AZURE_TARGET_NAMESPACES", self.name.as_str())];
        // Each operator has a namespace with a Lease of its own.
        let operator = self.world.operator(&self.operator_namespace(), &settings)?;
        self.operator = Some(Running::new(client, operator));
        Ok(())
    }

    fn operator_namespace(&self) -> String {
        format!("of-{}", self.name)
    }

    /// Waits, and replaces the operator when it is killed.
    async fn wait<T>(
        &mut self,
        wait: impl AsyncFn(&Self) -> anyhow::Result<T>,
    ) -> anyhow::Result<T> {
        let record = Arc::clone(&self.record);
        tokio::select! {
            done = wait(self) => return done,
            () = record.killed.notified() => {}
        }
        self.operator.take().context("an operator")?.kill().await;
        self.start(self.world.client.clone())?;
        wait(self).await
    }

    fn group(&self) -> String {
        format!(
            "/subscriptions/{}/resourceGroups/shop",
            subscription(&self.name)
        )
    }

    fn id(&self) -> String {
        let group = self.group();
        format!(
            "{group}/providers/Microsoft.DBforPostgreSQL/flexibleServers/{}",
            self.name
        )
    }

    /// A server: its PUT and DELETE are long-running, and it has a password and an export.
    fn server(&self) -> Value {
        json!({
            "apiVersion": "dbforpostgresql.azure.com/v20250801", "kind": "FlexibleServer",
            "metadata": {"name": self.name, "namespace": self.name},
            "spec": {
                "location": "westus2", "owner": {"name": "shop"}, "version": "17",
                "administratorLogin": "admin",
                "administratorLoginPassword": {"name": "database", "key": "password"},
                "sku": {"name": "Standard_B1ms", "tier": "Burstable"},
                "storage": {"storageSizeGB": 32},
                "operatorSpec": {"configMaps": {
                    "fullyQualifiedDomainName": {"name": "address", "key": "host"},
                }},
            },
        })
    }

    fn resource_group(&self) -> Value {
        json!({
            "apiVersion": "resources.azure.com/v1api20200601", "kind": "ResourceGroup",
            "metadata": {"name": "shop", "namespace": self.name},
            "spec": {"location": "westus2"},
        })
    }

    fn secret(&self) -> Value {
        json!({
            "apiVersion": "v1", "kind": "Secret",
            "metadata": {"name": "database", "namespace": self.name},
        })
    }

    fn credential(&self) -> Value {
        json!({
            "apiVersion": "v1", "kind": "Secret",
            "metadata": {"name": "aso-credential", "namespace": self.name},
        })
    }

    /// Lives through creation, a change of the spec, one of the Secret, and deletion. Returns the
    /// number of writes of the operator.
    async fn live(&mut self, kill: (Kill, usize)) -> anyhow::Result<usize> {
        let (world, name) = (self.world, self.name.clone());
        world.team(&name);
        world.namespace(&self.operator_namespace()).await?;
        world.namespace_of(&name, &name).await?;
        world
            .secret(&name, "database", &[("password", "one")])
            .await?;
        self.start(killing_client(&world.client, &name, kill, &self.record))?;
        let (group, server) = (self.resource_group(), self.server());
        world.create(&server).await?;
        world.create(&group).await?;
        self.wait(async |_| world.await_ready(&server, "True", "Succeeded").await)
            .await?;
        let host = format!("{name}.postgres.database.azure.com");
        let map: Option<Value> = world.find("v1", "ConfigMap", &name, "address").await?;
        anyhow::ensure!(map.unwrap_or_default()["data"]["host"] == host, "no export");
        let tags = json!({"spec": {"tags": {"a": "b"}}});
        world.patch(&server, tags).await?;
        self.wait(async |life| life.await_sent("/tags/a", "b").await)
            .await?;
        self.wait(async |_| world.await_ready(&server, "True", "Succeeded").await)
            .await?;
        world
            .patch(&self.secret(), json!({"stringData": {"password": "two"}}))
            .await?;
        let password = "/properties/administratorLoginPassword";
        self.wait(async |life| life.await_sent(password, "two").await)
            .await?;
        self.wait(async |_| world.await_ready(&server, "True", "Succeeded").await)
            .await?;
        self.check_created()?;
        // The Secret stays as long as a resource needs it, and goes with the last one.
        world.delete(&self.credential()).await?;
        world.delete(&group).await?;
        self.wait(async |_| await_gone(world, &server).await)
            .await?;
        self.wait(async |_| await_gone(world, &group).await).await?;
        self.wait(async |life| life.await_released().await).await?;
        self.check_deleted()?;
        Ok(self.record.writes())
    }

    /// Waits until a value of the resource was sent and accepted.
    async fn await_sent(&self, path: &str, value: &str) -> anyhow::Result<()> {
        eventually(path, async || {
            let sent = self.world.azure.requests_for("PUT", &self.id());
            let sent = sent.iter().any(|call| {
                let is_accepted = call.status.is_some_and(|status| status < 300);
                is_accepted && call.body.pointer(path).is_some_and(|it| it == value)
            });
            Ok(sent.then_some(()))
        })
        .await
    }

    /// Checks that there is one resource, and that no operation was begun during another one.
    fn check_created(&self) -> anyhow::Result<()> {
        let azure = &self.world.azure;
        let own: Vec<_> = self.own_resources();
        anyhow::ensure!(own == [self.group(), self.id()], "{own:?}");
        let puts = azure.puts(&self.id());
        // One for each of three inputs. The killed one may be repeated: once because its token was
        // lost, and while Azure is busy with it.
        anyhow::ensure!((3..=6).contains(&puts), "{puts} PUTs");
        Ok(())
    }

    fn check_deleted(&self) -> anyhow::Result<()> {
        let own = self.own_resources();
        anyhow::ensure!(own.is_empty(), "{own:?}");
        Ok(())
    }

    fn own_resources(&self) -> Vec<String> {
        let begin = format!("/subscriptions/{}/", subscription(&self.name));
        let mut all = self.world.azure.resource_ids();
        all.retain(|id| id.starts_with(&begin));
        all
    }

    /// Waits until the credential is not held any more.
    async fn await_released(&self) -> anyhow::Result<()> {
        eventually("the hold on the credential ends", async || {
            let secret: Option<Value> = self
                .world
                .find("v1", "Secret", &self.name, "aso-credential")
                .await?;
            let finalizers = &secret.unwrap_or_default()["metadata"]["finalizers"];
            Ok(finalizers
                .as_array()
                .is_none_or(Vec::is_empty)
                .then_some(()))
        })
        .await
    }
}

async fn live(world: &World, name: &str, kill: (Kill, usize)) -> anyhow::Result<usize> {
    let mut life = Life {
        world,
        name: name.to_owned(),
        operator: None,
        record: Arc::default(),
    };
    let lived = life.live(kill).await;
    lived.with_context(|| name.to_owned())
}

/// Kills the operator at each of its writes.
async fn kill_at_any_write(kill: Kill) -> anyhow::Result<()> {
    let world = World::start().await?;
    world.azure.set_polls(1);
    let writes = live(&world, "never", (kill, usize::MAX)).await?;
    anyhow::ensure!(writes > 10, "only {writes} writes");
    let word = if kill == Kill::Before {
        "before"
    } else {
        "after"
    };
    let (first, distance) = cases(kill);
    let at: Vec<_> = (first..=writes).step_by(distance).collect();
    // More at a time take longer than their waits on a busy machine.
    for pair in at.chunks(2) {
        let cases = pair.iter().map(|&at| {
            let world = &world;
            async move { live(world, &format!("{word}{at}"), (kill, at)).await }
        });
        try_join_all(cases).await?;
    }
    Ok(())
}

/// Returns the first write at which an operator is killed, and the distance to the next: all with
/// `INSULA_AZURE_KILLS=all` (`make azure`), otherwise every third, each time others.
fn cases(kill: Kill) -> (usize, usize) {
    match (std::env::var("INSULA_AZURE_KILLS").as_deref(), kill) {
        (Ok("all"), _) => (1, 1),
        (_, Kill::Before) => (1, 3),
        (_, Kill::After) => (2, 3),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn operator_killed_before_any_write_has_one_resource_and_leaves_none() -> anyhow::Result<()> {
    kill_at_any_write(Kill::Before).await
}

#[tokio::test(flavor = "multi_thread")]
async fn operator_killed_after_any_write_has_one_resource_and_leaves_none() -> anyhow::Result<()> {
    kill_at_any_write(Kill::After).await
}

/// Starts an operator, waits until it is killed after a write, and deletes the resource group and
/// its credential before a successor starts.
async fn delete_after_kill(world: &World, name: &str, at: usize) -> anyhow::Result<()> {
    let mut life = Life {
        world,
        name: name.to_owned(),
        operator: None,
        record: Arc::default(),
    };
    world.team(name);
    world.namespace(&life.operator_namespace()).await?;
    world.namespace_of(name, name).await?;
    let client = killing_client(&world.client, name, (Kill::After, at), &life.record);
    life.start(client)?;
    let group = life.resource_group();
    world.create(&group).await?;
    timeout(world::DEADLINE, life.record.killed.notified()).await?;
    life.operator.take().context("an operator")?.kill().await;
    world.delete(&group).await?;
    world.delete(&life.credential()).await?;
    life.start(world.client.clone())?;
    await_gone(world, &group).await?;
    world.await_gone(&life.credential()).await?;
    life.check_deleted()
}

#[tokio::test(flavor = "multi_thread")]
async fn credential_of_an_object_that_is_deleted_while_no_operator_runs_is_released()
-> anyhow::Result<()> {
    let world = World::start().await?;
    // The claims of the operator and of the object, the hold, and the start of the request.
    for at in [[1, 2], [3, 4]] {
        let names = at.map(|at| (format!("early{at}"), at));
        let lives = names
            .iter()
            .map(|(name, at)| delete_after_kill(&world, name, *at));
        try_join_all(lives).await?;
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn credential_that_was_recorded_is_released_after_a_kill() -> anyhow::Result<()> {
    let world = World::start().await?;
    let mut life = Life {
        world: &world,
        name: "shop".to_owned(),
        operator: None,
        record: Arc::default(),
    };
    world.team("shop");
    world.namespace("of-shop").await?;
    world.namespace("shop").await?;
    world.credential("shop", "special", "shop").await?;
    let mut group = life.resource_group();
    let from = "serviceoperator.azure.com/credential-from";
    group["metadata"]["annotations"] =
        json!({from: "special", "serviceoperator.azure.com/reconcile-policy": "detach-on-delete"});
    life.start(world.client.clone())?;
    world.create(&group).await?;
    world.await_ready(&group, "True", "Succeeded").await?;
    life.operator.take().context("an operator")?.kill().await;
    // The reference changes while no operator runs.
    let other = json!({"metadata": {"annotations": {from: "other"}}});
    world.patch(&group, other).await?;
    world.delete(&group).await?;
    let client = killing_client(&world.client, "shop", (Kill::After, 1), &life.record);
    life.start(client)?;
    timeout(world::DEADLINE, life.record.killed.notified()).await?;
    life.operator.take().context("an operator")?.kill().await;
    life.start(world.client.clone())?;
    await_gone(&world, &group).await?;
    let special = json!({
        "apiVersion": "v1", "kind": "Secret",
        "metadata": {"name": "special", "namespace": "shop"},
    });
    let held = world.read(&special).await?.context("a Secret")?;
    assert_eq!(held["metadata"].get("finalizers"), None);
    Ok(())
}

#[tokio::test]
async fn operation_is_resumed_from_its_annotation() -> anyhow::Result<()> {
    let world = World::start().await?;
    world
        .azure
        .set_manner("Microsoft.DBforPostgreSQL/flexibleServers", |manner| {
            (manner.polls, manner.retry_after) = (Some(2), Some(1));
            manner.delete = DeleteManner::Location;
        });
    let mut life = Life {
        world: &world,
        name: "shop".to_owned(),
        operator: None,
        record: Arc::default(),
    };
    world.team("shop");
    world.namespace("of-shop").await?;
    world.namespace_of("shop", "shop").await?;
    world
        .secret("shop", "database", &[("password", "one")])
        .await?;
    life.start(world.client.clone())?;
    let server = life.server();
    world.create(&life.resource_group()).await?;
    world.create(&server).await?;
    world.await_ready(&server, "False", "Reconciling").await?;
    life.operator.take().unwrap().kill().await;
    life.start(world.client.clone())?;
    world.await_ready(&server, "True", "Succeeded").await?;
    assert_eq!(world.azure.puts(&life.id()), 1);
    world.delete(&server).await?;
    world.await_ready(&server, "False", "Deleting").await?;
    life.operator.take().unwrap().kill().await;
    life.start(world.client.clone())?;
    await_gone(&world, &server).await?;
    assert_eq!(world.azure.requests_for("DELETE", &life.id()).len(), 1);
    assert_eq!(world.azure.puts(&life.id()), 1);
    assert_eq!(life.own_resources(), [life.group()]);
    // The URL of a deletion that is forgotten does not mean that the resource is gone.
    world
        .azure
        .set_manner("Microsoft.Resources/resourceGroups", |manner| {
            (manner.polls, manner.retry_after) = (Some(3), Some(1));
        });
    world.delete(&life.resource_group()).await?;
    world
        .await_ready(&life.resource_group(), "False", "Deleting")
        .await?;
    world.azure.forget_operations();
    let deletes = |azure: &FakeAzure| azure.requests_for("DELETE", &life.group()).len();
    world
        .azure
        .wait_for("a second DELETE", |azure| deletes(azure) >= 2)
        .await?;
    let left = world.read(&life.resource_group()).await?.unwrap();
    assert_eq!(world::ready(&left).unwrap()[2], "Deleting");
    // The deletion ends.
    world.azure.remove_resource(&life.group());
    await_gone(&world, &life.resource_group()).await?;
    Ok(())
}
