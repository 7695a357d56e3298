//! An operator that is killed at any write, or misses any response, leaves exactly one virtual
//! machine, and none after the deletion.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::{StreamExt, TryStreamExt, stream};
use http::{Method, Request};
use insula_testkit::vcenter::{FakeVCenter, Fault};
use insula_vsphere::kinds::{VSphereMachine, VSphereVM};
use kube::client::Body;
use kube::{Client, ResourceExt};
use serde_json::json;
use tokio::sync::Notify;
use tower::{BoxError, service_fn};

use crate::world::{Running, World, eventually, settings};

const ACCOUNT: (&str, &str) = ("team", "secret");
/// How many scenarios run at the same time.
const CONCURRENCY: usize = 8;

/// Where an operator is killed.
#[derive(Clone, Copy, Debug)]
enum KillPoint {
    /// Before this write reaches the server.
    Before(usize),
    /// After it, and before the response arrives.
    After(usize),
    Never,
}

/// The record of an operator that may be killed.
struct KillRecord {
    vcenter: Arc<FakeVCenter>,
    /// The number of started vCenter tasks before each write.
    begun: Mutex<Vec<usize>>,
    ended: Notify,
}

impl KillRecord {
    /// Counts a write, and returns its number.
    fn count(&self) -> usize {
        let calls = self.vcenter.calls();
        let begun = calls.iter().filter(|call| call.method.ends_with("_Task"));
        let mut all = self.begun.lock().expect("no panic");
        all.push(begun.count());
        all.len()
    }
}

/// Returns whether a request writes to a machine or a virtual machine.
fn is_write(request: &Request<Body>) -> bool {
    let path = request.uri().path();
    let is_theirs = path.contains("/vspheremachines") || path.contains("/vspherevms");
    is_theirs && !matches!(*request.method(), Method::GET | Method::HEAD)
}

/// Returns a client that kills its operator at a certain write.
fn killing_client(client: &Client, end: KillPoint, record: &Arc<KillRecord>) -> Client {
    let (client, record) = (client.clone(), Arc::clone(record));
    let (at, reaches) = match end {
        KillPoint::Before(at) => (at, false),
        KillPoint::After(at) => (at, true),
        KillPoint::Never => (usize::MAX, true),
    };
    let service = service_fn(move |request: Request<Body>| {
        let (client, record) = (client.clone(), Arc::clone(&record));
        async move {
            let nth = match is_write(&request) {
                true => record.count(),
                false => 0,
            };
            if nth < at {
                return Ok::<_, BoxError>(client.send(request).await?);
            }
            if nth == at {
                if reaches {
                    client.send(request).await?;
                }
                record.ended.notify_one();
            }
            std::future::pending().await
        }
    });
    Client::new(service, "default")
}

/// Runs the whole life of a machine with an operator that is killed, and its successors. Returns
/// the number of started vCenter tasks before each write.
async fn run_life(
    world: &World,
    vcenter: &Arc<FakeVCenter>,
    name: &str,
    end: KillPoint,
) -> anyhow::Result<Vec<usize>> {
    world.team(name, vcenter, ACCOUNT).await?;
    let record = Arc::new(KillRecord {
        vcenter: Arc::clone(vcenter),
        begun: Mutex::default(),
        ended: Notify::new(),
    });
    let first = Running::new(
        killing_client(&world.admin, end, &record),
        settings(&[name]),
    );
    let mut operator = Some(first);
    world.machine(name, name, json!({})).await?;
    tokio::select! {
        ready = world.wait_until_ready(name, name) => drop(ready?),
        () = record.ended.notified() => {
            replace(world, &mut operator, name).await;
            world.wait_until_ready(name, name).await?;
        }
    }
    let vm = world.api::<VSphereVM>(name).get(name).await?;
    let there = vcenter.machines();
    let there: Vec<_> = there.iter().filter(|vm| vm.name == name).collect();
    anyhow::ensure!(there.len() == 1, "there are {there:?}");
    anyhow::ensure!(
        Some(&there[0].instance_uuid) == vm.uid().as_ref(),
        "it is another"
    );
    anyhow::ensure!(there[0].powered_on, "it does not run");
    world.delete::<VSphereMachine>(name, name).await?;
    tokio::select! {
        gone = world.wait_until_gone::<VSphereMachine>(name, name) => gone?,
        () = record.ended.notified() => {
            replace(world, &mut operator, name).await;
            world.wait_until_gone::<VSphereMachine>(name, name).await?;
        }
    }
    world.wait_until_gone::<VSphereVM>(name, name).await?;
    anyhow::ensure!(left(vcenter, name) == 0, "something is left");
    Ok(record.begun.lock().expect("no panic").clone())
}

/// Starts the next operator.
async fn replace(world: &World, operator: &mut Option<Running>, name: &str) {
    if let Some(ended) = operator.take() {
        ended.kill().await;
    }
    *operator = Some(world.start(&[name]));
}

fn left(vcenter: &FakeVCenter, name: &str) -> usize {
    let machines = vcenter.machines();
    machines.iter().filter(|vm| vm.name == name).count()
}

#[tokio::test(flavor = "multi_thread")]
async fn operator_killed_at_any_write_leaves_one_machine_and_none_after_deletion()
-> anyhow::Result<()> {
    let world = World::new().await?;
    let vcenter = Arc::new(FakeVCenter::start(&[ACCOUNT]).await?);
    vcenter.tasks_take(Duration::from_millis(30));
    let begun = run_life(&world, &vcenter, "never", KillPoint::Never).await?;
    assert!(begun.len() > 10, "only {begun:?}");
    let before = (1..=begun.len()).map(|at| (format!("before-{at}"), KillPoint::Before(at)));
    // Without a vCenter task in between, a kill after one write equals a kill before the next.
    let between = begun.windows(2).enumerate();
    let between = between.filter(|(_, pair)| pair[0] != pair[1]);
    let after = between.map(|(at, _)| (format!("after-{}", at + 1), KillPoint::After(at + 1)));
    let cases: Vec<_> = before.chain(after).collect();
    all(cases, |(name, end)| {
        let (world, vcenter) = (&world, &vcenter);
        async move {
            let lived = run_life(world, vcenter, &name, end).await;
            lived.map(drop).map_err(|error| error.context(name))
        }
    })
    .await?;
    // Late clones have appeared by now.
    let names: Vec<_> = vcenter.machines().into_iter().map(|vm| vm.name).collect();
    assert!(
        names
            .iter()
            .all(|name| !name.starts_with("before") && !name.starts_with("after")),
        "{names:?}"
    );
    Ok(())
}

/// A single failure of a vCenter.
#[derive(Clone, Copy, Debug)]
enum Failure {
    /// The call succeeds, and its response is lost.
    Lost,
    /// The call is refused with this fault.
    Refused(&'static str),
    /// The task fails with this fault.
    Failed(&'static str),
    /// The session has ended.
    Over,
}

#[tokio::test(flavor = "multi_thread")]
async fn any_single_vcenter_failure_leaves_one_machine_and_none_after_deletion()
-> anyhow::Result<()> {
    let world = World::new().await?;
    let mut cases = vec![
        ("PowerOnVM_Task", Failure::Refused("TaskInProgress")),
        ("CloneVM_Task", Failure::Over),
        ("Destroy_Task", Failure::Over),
        ("FindByUuid", Failure::Lost),
        ("RetrievePropertiesEx", Failure::Lost),
    ];
    for method in [
        "CloneVM_Task",
        "ReconfigVM_Task",
        "PowerOnVM_Task",
        "PowerOffVM_Task",
        "Destroy_Task",
    ] {
        cases.push((method, Failure::Lost));
        cases.push((method, Failure::Refused("NoPermission")));
        cases.push((method, Failure::Failed("GenericVmConfigFault")));
    }
    let cases = cases.into_iter().enumerate();
    all(cases, |(at, (method, failure))| {
        let world = &world;
        async move {
            let vcenter = Arc::new(FakeVCenter::start(&[ACCOUNT]).await?);
            // Longer than a retry takes, so that the clone is not visible yet.
            vcenter.tasks_take(Duration::from_millis(150));
            match failure {
                Failure::Lost => vcenter.drop_connection_after(method),
                Failure::Refused(fault) => vcenter.fault_next(method, Fault::new(fault, "no")),
                Failure::Failed(fault) => vcenter.fail_next_task(method, Fault::new(fault, "no")),
                Failure::Over => {
                    let fault = Fault::new("NotAuthenticated", "The session is not authenticated.");
                    vcenter.fault_next(method, fault);
                }
            }
            let lived = run_life(world, &vcenter, &format!("failure-{at}"), KillPoint::Never).await;
            lived
                .map(drop)
                .map_err(|error| error.context(format!("{method} {failure:?}")))
        }
    })
    .await?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn machine_deleted_at_any_time_leaves_nothing() -> anyhow::Result<()> {
    let world = World::new().await?;
    let vcenters = all((0..36_usize).step_by(3), |calls| {
        let world = &world;
        async move {
            let vcenter = Arc::new(FakeVCenter::start(&[ACCOUNT]).await?);
            vcenter.tasks_take(Duration::from_millis(100));
            let name = format!("deleted-{calls}");
            let gone = delete_after(world, &vcenter, &name, calls).await;
            gone.map(|()| (name.clone(), vcenter))
                .map_err(|error| error.context(name))
        }
    })
    .await?;
    for (name, vcenter) in vcenters {
        assert_eq!(left(&vcenter, &name), 0, "{name}");
    }
    Ok(())
}

/// Deletes a machine after its vCenter was called so often.
async fn delete_after(
    world: &World,
    vcenter: &FakeVCenter,
    name: &str,
    calls: usize,
) -> anyhow::Result<()> {
    world.team(name, vcenter, ACCOUNT).await?;
    let operator = world.start(&[name]);
    world.machine(name, name, json!({})).await?;
    let is_ready = async || {
        let machine = world.api::<VSphereMachine>(name).get(name).await?;
        anyhow::Ok(
            machine
                .status
                .is_some_and(|status| status.ready == Some(true)),
        )
    };
    eventually(async || {
        let so = vcenter.calls().len() >= calls || is_ready().await?;
        Ok(so.then_some(()))
    })
    .await?;
    world.delete::<VSphereMachine>(name, name).await?;
    world.wait_until_gone::<VSphereMachine>(name, name).await?;
    world.wait_until_gone::<VSphereVM>(name, name).await?;
    anyhow::ensure!(left(vcenter, name) == 0, "something is left");
    operator.stop().await
}

/// Runs this for all items, some at a time.
async fn all<C, T, F>(
    cases: impl IntoIterator<Item = C>,
    case: impl Fn(C) -> F,
) -> anyhow::Result<Vec<T>>
where
    F: Future<Output = anyhow::Result<T>>,
{
    let lives = stream::iter(cases).map(case);
    lives.buffer_unordered(CONCURRENCY).try_collect().await
}
