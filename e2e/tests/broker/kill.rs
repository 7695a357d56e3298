//! Killed at any moment, started again, and in the end everything is as it should be.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, SystemTime};

use http::Method;
use serde_json::Value;

use crate::api::Api;
use crate::cast::tenant;
use crate::cluster::{Cluster, Operator, TENANTS, is_kubernetes};
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
fn an_operator_that_is_killed_again_and_again_loses_nothing() {
    let Some(cluster) = Cluster::with_axon(Operator::Apart) else {
        return;
    };
    disturbed(&cluster, || {
        cluster.kill_operator();
        cluster.start_operator();
    });
}

#[test]
fn a_server_with_its_operator_that_is_killed_again_and_again_loses_nothing() {
    if is_kubernetes() {
        return;
    }
    let cluster = Cluster::with_axon(Operator::Inside).unwrap();
    disturbed(&cluster, || cluster.kill_server());
}

/// Makes and deletes many while this happens at random moments.
fn disturbed(cluster: &Cluster, disturb: impl Fn() + Sync) {
    let (done, seed) = (AtomicBool::new(false), seed());
    thread::scope(|scope| {
        scope.spawn(|| {
            let mut moments = Moments(seed);
            while !done.load(Ordering::SeqCst) {
                thread::sleep(moments.next());
                disturb();
            }
        });
        let hands: Vec<_> = (0..HANDS)
            .map(|hand| scope.spawn(move || make(cluster, hand)))
            .collect();
        for hand in hands {
            hand.join().unwrap();
        }
        done.store(true, Ordering::SeqCst);
    });
    let root = cluster.root();
    for number in 0..MANY {
        let (id, there) = (id(number), format!("submariner-broker-{}", id(number)));
        if number % 2 == 1 {
            until(&format!("{id} goes (INSULA_KILL_SEED={seed})"), || {
                root.find(&format!("{TENANTS}/{id}"))
                    .is_none()
                    .then_some(())
            });
            assert_eq!(root.find(&namespace(&there)), None, "{id} {seed}");
        } else {
            until(
                &format!("{id} is provisioned (INSULA_KILL_SEED={seed})"),
                || {
                    let tenant = root.get(&format!("{TENANTS}/{id}"));
                    (tenant["status"]["phase"] == "Provisioned").then_some(())
                },
            );
            assert_eq!(names(&root, &there), PARTS, "{id} {seed}");
        }
    }
    let spaces = root.names("/api/v1/namespaces");
    let ours = spaces
        .iter()
        .filter(|name| name.starts_with("submariner-broker-"));
    assert_eq!(ours.count(), MANY / 2, "{spaces:?}");
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

/// What the pauses are made from. A failure tells it, so that they can be had again.
fn seed() -> u64 {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    let given = std::env::var("INSULA_KILL_SEED");
    let given = given.ok().and_then(|seed| seed.parse().ok());
    given.unwrap_or(u64::from(now.unwrap().subsec_nanos()) | 1)
}

/// Random pauses.
struct Moments(u64);

impl Moments {
    fn next(&mut self) -> Duration {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        Duration::from_millis(20 + self.0 % 400)
    }
}
