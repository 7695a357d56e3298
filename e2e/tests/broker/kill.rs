//! Operators and servers that are killed at random moments.

use std::thread;
use std::time::{Duration, SystemTime};

use http::Method;
use serde_json::Value;

use crate::api::Api;
use crate::cluster::{Cluster, Operator, TENANTS, lacks};
use crate::content::{names, namespace};
use crate::fixture::tenant;
use crate::wait::until;

/// The number of created tenants; every second one is deleted.
const TENANT_COUNT: usize = 100;
/// The number of concurrent clients.
const CLIENTS: usize = 4;

const PARTS: [&str; 7] = [
    "rolebindings/axon-admin",
    "rolebindings/submariner-k8s-broker-admin",
    "roles/axon-admin",
    "roles/submariner-k8s-broker-admin",
    "roles/submariner-k8s-broker-cluster",
    "secrets/submariner-k8s-broker-admin-token",
    "serviceaccounts/submariner-k8s-broker-admin",
];

#[test]
fn repeatedly_killed_operator_loses_nothing() {
    let Some(cluster) = Cluster::with_axon(Operator::Apart) else {
        return;
    };
    cluster.kill_operator();
    cluster.start_lone_operator();
    with_disturbance(&cluster, 12, || {
        cluster.kill_operator();
        cluster.start_lone_operator();
    });
}

/// Each new operator waits until the lease of the killed one has expired, so there is time for
/// two kills only.
#[test]
fn repeatedly_killed_server_with_operator_loses_nothing() {
    if lacks("operator in its process") {
        return;
    }
    let cluster = Cluster::with_axon(Operator::Inside).unwrap();
    with_disturbance(&cluster, 2, || cluster.kill_server());
}

/// Creates and deletes tenants while the disturbance happens at random moments.
fn with_disturbance(cluster: &Cluster, times: usize, disturb: impl Fn() + Sync) {
    let seed = seed();
    thread::scope(|scope| {
        scope.spawn(|| {
            let mut random = Random(seed);
            for _ in 0..times {
                // After some more tenants were created, and a random delay.
                let more = random.up_to(TENANT_COUNT / times);
                let enough = started(cluster) + more;
                until("it works", || {
                    (started(cluster) >= enough.min(TENANT_COUNT / 2)).then_some(())
                });
                thread::sleep(Duration::from_millis(random.up_to(100) as u64));
                disturb();
            }
        });
        for client in 0..CLIENTS {
            scope.spawn(move || create_share(cluster, client));
        }
    });
    check_converged(cluster, seed);
}

/// Returns how many remaining tenants the operator has started to provision.
fn started(cluster: &Cluster) -> usize {
    let list = || {
        let root = cluster.reach("system").ok()?;
        let answer = root.try_send(&Method::GET, TENANTS, None).ok()?;
        (answer.status == 200).then(|| answer.json())
    };
    let list = until("the server is there", list);
    let items = list["items"].as_array().cloned().unwrap_or_default();
    items
        .iter()
        .filter(|item| item["status"]["phase"].is_string())
        .count()
}

/// Checks that exactly the expected objects exist.
fn check_converged(cluster: &Cluster, seed: u64) {
    let root = cluster.root();
    for number in 0..TENANT_COUNT {
        let (id, there) = (id(number), format!("submariner-broker-{}", id(number)));
        let path = format!("{TENANTS}/{id}");
        if number % 2 == 1 {
            until(&format!("{id} goes (INSULA_KILL_SEED={seed})"), || {
                root.find(&path).is_none().then_some(())
            });
            assert_eq!(root.find(&namespace(&there)), None, "{id} {seed}");
            continue;
        }
        until(
            &format!("{id} is provisioned (INSULA_KILL_SEED={seed})"),
            || (root.get(&path)["status"]["phase"] == "Provisioned").then_some(()),
        );
        assert_eq!(names(&root, &there), PARTS, "{id} {seed}");
    }
    let all = root.names("/api/v1/namespaces");
    let ours = all
        .iter()
        .filter(|name| name.starts_with("submariner-broker-"));
    assert_eq!(ours.count(), TENANT_COUNT / 2, "{all:?} {seed}");
}

fn id(number: usize) -> String {
    format!("kill-{number}")
}

/// One client creates its share, and deletes every second tenant.
fn create_share(cluster: &Cluster, client: usize) {
    let mut api = None;
    for number in (client..TENANT_COUNT).step_by(CLIENTS) {
        let body = tenant(&id(number));
        retry(
            cluster,
            &mut api,
            &Method::POST,
            TENANTS,
            Some(&body),
            &[201, 409],
        );
        if number % 2 == 1 {
            let path = format!("{TENANTS}/{}", id(number));
            retry(
                cluster,
                &mut api,
                &Method::DELETE,
                &path,
                None,
                &[200, 202, 404],
            );
        }
    }
}

/// Retries until the server answers.
fn retry(
    cluster: &Cluster,
    api: &mut Option<Api>,
    method: &Method,
    path: &str,
    body: Option<&Value>,
    codes: &[u16],
) {
    until(&format!("{method} {path}"), || {
        let reached = match api.take() {
            Some(reached) => reached,
            None => cluster.reach("system").ok()?,
        };
        let answer = reached.try_send(method, path, body).ok()?;
        *api = Some(reached);
        codes.contains(&answer.status).then_some(())
    });
}

/// The seed of the random moments, printed on failure for reproduction.
fn seed() -> u64 {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    let given = std::env::var("INSULA_KILL_SEED");
    let given = given.ok().and_then(|seed| seed.parse().ok());
    given.unwrap_or(u64::from(now.unwrap().subsec_nanos()) | 1)
}

/// A random number generator.
struct Random(u64);

impl Random {
    fn up_to(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % limit as u64).unwrap()
    }
}
