//! --raw and proxy.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use insula_e2e::kubectl::Kubectl;
use insula_e2e::two_tenants::TwoTenants;
use serde_json::Value;

const MAPS: &str = "/api/v1/namespaces/default/configmaps";

#[test]
fn raw_requests_are_sent_unchanged() {
    let Some(two_tenants) = TwoTenants::start() else {
        return;
    };
    two_tenants.both(|tenant| {
        let map = r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"m"},"data":{"k":"VALUE"}}"#;
        let answered = |line: &str, value: &str| -> Value {
            let given = tenant.given(&map.replace("VALUE", value));
            serde_json::from_str(&given.get(line)).expect("answers are JSON")
        };
        let made = answered(&format!("create --raw {MAPS} -f -"), "1");
        assert_eq!(made["metadata"]["tenant"], tenant.name());
        let changed = answered(&format!("replace --raw {MAPS}/m -f -"), "2");
        assert_eq!(changed["data"]["k"], "2");
        let list = answered(&format!("get --raw '{MAPS}?limit=1&fieldSelector=metadata.name%3Dm'"), "");
        assert_eq!(list["items"][0]["data"]["k"], "2");
        let gone = answered(&format!("delete --raw {MAPS}/m"), "");
        assert_eq!((&gone["status"], &gone["details"]["name"]), (&"Success".into(), &"m".into()));
        tenant.refuses(&format!("get --raw {MAPS}/m"), "configmaps \"m\" not found");
        let groups = tenant.get("get --raw /apis");
        assert!(groups.starts_with(r#"{"kind":"APIGroupList""#), "{groups}");
        tenant.shows("get --raw /openapi/v3", &["apis/apps/v1"]);
        tenant.shows("get --raw /version", &["\"minor\": \"36\""]);
        tenant.refuses("get --raw /nonsense", "the server could not find the requested resource");
    });
}

/// Sends one plain HTTP request and returns everything received until the connection closes.
fn http_get(address: &str, path: &str) -> String {
    let mut stream = TcpStream::connect(address).expect("the proxy listens");
    stream
        .set_read_timeout(Some(Duration::from_secs(30)))
        .expect("it is a time");
    let request = format!("GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
    stream
        .write_all(request.as_bytes())
        .expect("it is connected");
    let mut text = String::new();
    stream
        .read_to_string(&mut text)
        .expect("it answers and closes");
    text
}

/// Lines of a watch over plain HTTP.
fn http_watch(address: &str, path: &str) -> impl Iterator<Item = String> + use<> {
    let mut stream = TcpStream::connect(address).expect("the proxy listens");
    stream
        .set_read_timeout(Some(Duration::from_secs(30)))
        .expect("it is a time");
    let request = format!("GET {path} HTTP/1.1\r\nHost: {address}\r\n\r\n");
    stream
        .write_all(request.as_bytes())
        .expect("it is connected");
    let lines = BufReader::new(stream).lines();
    lines
        .map(|line| line.expect("it is not over"))
        .filter(|line| line.starts_with('{'))
}

fn configmap(tenant: &Kubectl, name: &str) {
    tenant.get(&format!(
        "create configmap {name} --from-literal=owner={}",
        tenant.name()
    ));
}

#[test]
fn proxy_uses_its_users_identity() {
    let Some(two_tenants) = TwoTenants::start() else {
        return;
    };
    two_tenants.both(|tenant| {
        configmap(tenant, "first");
        let mut proxy = tenant.start("proxy --port=0");
        let line = proxy.await_line("Starting to serve on ");
        let address = line.trim_end().trim_start_matches("Starting to serve on ");
        let answer = http_get(address, &format!("{MAPS}/first"));
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
        assert!(
            answer.contains(&format!(r#""owner":"{}""#, tenant.name())),
            "{answer}"
        );
        let missing = http_get(address, &format!("{MAPS}/none"));
        assert!(missing.starts_with("HTTP/1.1 404"), "{missing}");
        let mut events = http_watch(
            address,
            &format!("{MAPS}?watch=1&fieldSelector=metadata.name!=kube-root-ca.crt"),
        );
        let first = events.next().expect("what is there");
        assert!(first.contains(r#""name":"first""#), "{first}");
        configmap(tenant, "second");
        let second = events.next().expect("what comes");
        assert!(
            second.contains(r#""name":"second""#),
            "it is not held back: {second}"
        );
        // kubectl itself refuses this path.
        let exec = http_get(address, "/api/v1/namespaces/default/pods/p/exec");
        assert!(exec.starts_with("HTTP/1.1 403"), "{exec}");
    });
}
