//! The server is killed while kubectl writes, and restarted.
#![expect(clippy::unwrap_used, reason = "a failed step fails the test")]

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use insula_e2e::insula::Insula;
use insula_e2e::kubectl::Kubectl;
use insula_e2e::two_tenants::TwoTenants;
use serde_json::Value;

/// Acknowledged writes before the server is killed.
const WRITES: usize = 24;

#[test]
fn acknowledged_writes_and_kubeconfigs_survive_a_kill() {
    let Some(mut two_tenants) = TwoTenants::start() else {
        return;
    };
    let (address, data) = (
        two_tenants.server.address().to_owned(),
        two_tenants.folder().join("data"),
    );
    let [one, _] = &two_tenants.tenants;
    one.get("create configmap before --from-literal=state=old");
    let seen = list(one);
    let waiting = one.start("wait --for=jsonpath='{.data.state}'=new cm/before --timeout=50s");
    let server = &mut two_tenants.server;
    let acknowledged = write_until_enough(&two_tenants.tenants, || server.kill());
    let again = Insula::start_at(&address, &data, &[]);
    for (tenant, names) in two_tenants.tenants.iter().zip(&acknowledged) {
        let there = tenant.get("get cm -o jsonpath='{.items[*].metadata.name}'");
        let there: Vec<&str> = there.split(' ').collect();
        for name in names {
            assert!(there.contains(&name.as_str()), "{name} is lost: {there:?}");
        }
        let lists = tenant.get("get ns -o name");
        assert!(lists.contains("namespace/default"), "{lists}");
    }
    assert_eq!(again.url(), two_tenants.server.url());
    two_tenants
        .system
        .shows("get tenants", &["acme Active", "globex Active"]);
    // A watch from before the kill gets every missed event or an expiry error, never silence.
    if let WatchResult::Names(delivered) = watch_from(one, &seen) {
        for name in &acknowledged[0] {
            assert!(
                delivered.contains(name),
                "{name} was not delivered: {delivered:?}"
            );
        }
    }
    let seen = list(one);
    one.get("create configmap after");
    assert_eq!(
        watch_from(one, &seen),
        WatchResult::Names(vec!["after".to_owned()])
    );
    // A client that waited through the restart sees later events.
    one.get(r#"patch cm before -p '{"data":{"state":"new"}}'"#);
    assert_eq!(
        waiting.finish().succeeds(),
        "configmap/before condition met\n"
    );
    let stopped = again.stop();
    assert_eq!(
        (stopped.code, stopped.err.as_str()),
        (Some(0), ""),
        "{stopped}"
    );
}

/// Each tenant creates objects until the server is gone; returns the names of acknowledged ones.
fn write_until_enough(tenants: &[Kubectl; 2], kill: impl FnOnce()) -> [Vec<String>; 2] {
    let acknowledged = [(); 2].map(|()| Mutex::new(Vec::new()));
    let gone = AtomicBool::new(false);
    let enough = || {
        acknowledged
            .iter()
            .all(|names| names.lock().unwrap().len() >= WRITES / 2)
    };
    thread::scope(|scope| {
        let (delivered, tell) = std::sync::mpsc::channel();
        for (tenant, names) in tenants.iter().zip(&acknowledged) {
            let (gone, delivered) = (&gone, delivered.clone());
            scope.spawn(move || {
                for number in 0.. {
                    let name = format!("load-{number}");
                    let said = tenant.run(&format!("create configmap {name}"));
                    if said.code != Some(0) {
                        assert!(gone.load(Ordering::SeqCst), "before it was killed: {said}");
                        return;
                    }
                    names.lock().unwrap().push(name);
                    delivered.send(()).ok();
                }
            });
        }
        while !enough() {
            tell.recv().expect("the tenants go on");
        }
        gone.store(true, Ordering::SeqCst);
        kill();
    });
    acknowledged.map(|names| names.into_inner().unwrap())
}

/// The revision of a list.
fn list(tenant: &Kubectl) -> String {
    let text = tenant.get("get --raw /api/v1/namespaces/default/configmaps");
    let list: Value = serde_json::from_str(&text).unwrap();
    list["metadata"]["resourceVersion"]
        .as_str()
        .unwrap()
        .to_owned()
}

/// The result of a watch from a past revision.
#[derive(Debug, PartialEq)]
enum WatchResult {
    /// The names added since.
    Names(Vec<String>),
    /// The revision has expired: list again.
    Expired,
}

fn watch_from(tenant: &Kubectl, revision: &str) -> WatchResult {
    let query = format!("watch=true&resourceVersion={revision}&timeoutSeconds=1");
    let text = tenant.get(&format!(
        "get --raw '/api/v1/namespaces/default/configmaps?{query}'"
    ));
    let event = |line: &str| -> Value { serde_json::from_str(line).unwrap() };
    let events: Vec<Value> = text.lines().map(event).collect();
    if let [event] = &events[..]
        && event["type"] == "ERROR"
    {
        assert_eq!(event["object"]["code"], 410, "{text}");
        assert_eq!(event["object"]["reason"], "Expired", "{text}");
        return WatchResult::Expired;
    }
    let name = |event: &Value| {
        assert_eq!(event["type"], "ADDED", "{text}");
        event["object"]["metadata"]["name"]
            .as_str()
            .unwrap()
            .to_owned()
    };
    WatchResult::Names(events.iter().map(name).collect())
}
