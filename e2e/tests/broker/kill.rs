//! Killed at any moment, started again, and in the end everything is as it should be.

use std::thread;
use std::time::{Duration, SystemTime};

use http::Method;
use serde_json::Value;

use crate::api::Api;
use crate::cast::tenant;
use crate::cluster::{Cluster, Operator, TENANTS, lacks};
use crate::content::{names, namespace};
use crate::waiting::until;

/// How many tenants are made; every second one is deleted again.
const MANY: usize = 100;
/// Who makes them.
const HANDS: usize = 4;

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
    disturbed(&cluster, 12, || {
        cluster.kill_operator();
        cluster.start_lone_operator();
    });
}

/// Each time another operator works only when nothing was heard of the one before for as
/// long as its lease lasts: twice is what there is time for.
#[test]
fn repeatedly_killed_server_with_operator_loses_nothing() {
    if lacks("operator in its process") {
        return;
    }
    let cluster = Cluster::with_axon(Operator::Inside).unwrap();
    disturbed(&cluster, 2, || cluster.kill_server());
}

/// Makes and deletes many while this happens at random moments, so many times.
fn disturbed(cluster: &Cluster, times: usize, disturb: impl Fn() + Sync) {
    let seed = seed();
    thread::scope(|scope| {
        scope.spawn(|| {
            let mut random = Random(seed);
            for _ in 0..times {
                // After so many more were begun, and some milliseconds into the next.
                let more = random.below(MANY / times);
                let enough = begun(cluster) + more;
                until("it works", || {
                    (begun(cluster) >= enough.min(MANY / 2)).then_some(())
                });
                thread::sleep(Duration::from_millis(random.below(100) as u64));
                disturb();
            }
        });
        for hand in 0..HANDS {
            scope.spawn(move || make(cluster, hand));
        }
    });
    judge(cluster, seed);
}

/// How many of those that stay the operator has begun to work on.
fn begun(cluster: &Cluster) -> usize {
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

/// Everything is there that should be, and nothing else.
fn judge(cluster: &Cluster, seed: u64) {
    let root = cluster.root();
    for number in 0..MANY {
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
    assert_eq!(ours.count(), MANY / 2, "{all:?} {seed}");
}

fn id(number: usize) -> String {
    format!("kill-{number}")
}

/// One hand makes its share, and deletes every second one.
fn make(cluster: &Cluster, hand: usize) {
    let mut api = None;
    for number in (hand..MANY).step_by(HANDS) {
        let body = tenant(&id(number));
        insist(
            cluster,
            &mut api,
            &Method::POST,
            TENANTS,
            Some(&body),
            &[201, 409],
        );
        if number % 2 == 1 {
            let path = format!("{TENANTS}/{}", id(number));
            insist(
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

/// Asks until it is answered: the server may be away.
fn insist(
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

/// What the moments are made from. A failure tells it, so that they can be had again.
fn seed() -> u64 {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    let given = std::env::var("INSULA_KILL_SEED");
    let given = given.ok().and_then(|seed| seed.parse().ok());
    given.unwrap_or(u64::from(now.unwrap().subsec_nanos()) | 1)
}

/// Random numbers.
struct Random(u64);

impl Random {
    fn below(&mut self, most: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % most as u64).unwrap()
    }
}
