//! What every cluster has beside its roles: the Service `kubernetes`, its endpoints, the range of
//! cluster IPs and the priority classes of system pods. No space stores them before it changes one.

use anyhow::Context;
use http::Method;
use insula_testkit::server::{Answer, Client, Setup, TestServer};
use serde_json::{Value, json};

const SERVICE: &str = "/api/v1/namespaces/default/services/kubernetes";
const ENDPOINTS: &str = "/api/v1/namespaces/default/endpoints/kubernetes";
const SLICE: &str = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices/kubernetes";
const RANGE: &str = "/apis/networking.k8s.io/v1/servicecidrs/kubernetes";
const ADDRESS: &str = "/apis/networking.k8s.io/v1/ipaddresses/10.96.0.1";
const CRITICAL: &str = "/apis/scheduling.k8s.io/v1/priorityclasses/system-node-critical";

/// The objects, each with what its collection lists in a new space.
const OBJECTS: [(&str, &[&str]); 6] = [
    (SERVICE, &["kubernetes"]),
    (ENDPOINTS, &["kubernetes"]),
    (SLICE, &["kubernetes"]),
    (RANGE, &["kubernetes"]),
    (ADDRESS, &["10.96.0.1"]),
    (
        CRITICAL,
        &["system-cluster-critical", "system-node-critical"],
    ),
];

async fn item(client: &Client, path: &str) -> anyhow::Result<Value> {
    let answer = client.get(path).await?;
    anyhow::ensure!(answer.status == 200, "{path}: {}", answer.text());
    Ok(answer.json())
}

fn uid(object: &Value) -> &str {
    object["metadata"]["uid"].as_str().unwrap_or_default()
}

fn collection(path: &str) -> &str {
    path.rsplit_once('/')
        .map_or("", |(collection, _)| collection)
}

async fn names(client: &Client, path: &str) -> anyhow::Result<Vec<String>> {
    let list = item(client, path).await?;
    let items = list["items"].as_array().context("a list has items")?;
    let name = |one: &Value| one["metadata"]["name"].as_str().map(str::to_owned);
    Ok(items.iter().filter_map(name).collect())
}

async fn delete(client: &Client, path: &str, options: &Value) -> anyhow::Result<Answer> {
    let headers = [("content-type", "application/json")];
    client
        .send(Method::DELETE, path, &headers, options.to_string())
        .await
}

fn service(name: &str) -> Value {
    json!({"metadata": {"name": name}, "spec": {"ports": [{"port": 80}]}})
}

#[tokio::test]
async fn every_space_has_the_api_servers_service_and_stores_none() -> anyhow::Result<()> {
    let server = TestServer::start().await?;
    let port: u16 = server.url().rsplit(':').next().context("a port")?.parse()?;
    let clients = [
        server.system().await?,
        server.tenant("t1").await?,
        server.tenant("t2").await?,
    ];
    let mut uids = std::collections::BTreeSet::new();
    for client in &clients {
        for (path, listed) in OBJECTS {
            let object = item(client, path).await?;
            assert!(uids.insert(uid(&object).to_owned()), "{path}: {object}");
            assert_eq!(names(client, collection(path)).await?, listed, "{path}");
            assert_eq!(item(client, path).await?, object, "{path}");
        }
        let service = item(client, SERVICE).await?;
        assert_eq!(service["spec"]["clusterIP"], "10.96.0.1");
        let ports = json!([{"name": "https", "port": 443, "protocol": "TCP", "targetPort": port}]);
        assert_eq!(service["spec"]["ports"], ports);
        let subset = json!({
            "addresses": [{"ip": "127.0.0.1"}],
            "ports": [{"name": "https", "port": port, "protocol": "TCP"}],
        });
        assert_eq!(item(client, ENDPOINTS).await?["subsets"], json!([subset]));
        let slice = item(client, SLICE).await?;
        assert_eq!(slice["addressType"], "IPv4");
        assert_eq!(slice["endpoints"][0]["addresses"], json!(["127.0.0.1"]));
        assert_eq!(slice["ports"][0]["port"], port);
        let range = item(client, RANGE).await?;
        assert_eq!(range["spec"]["cidrs"], json!(["10.96.0.0/12"]));
        let ready = &range["status"]["conditions"][0];
        assert_eq!(ready["status"], "True");
        assert_eq!(
            ready["lastTransitionTime"],
            range["metadata"]["creationTimestamp"]
        );
        let parent = &item(client, ADDRESS).await?["spec"]["parentRef"];
        assert_eq!(
            [&parent["namespace"], &parent["name"]],
            ["default", "kubernetes"]
        );
        assert_eq!(item(client, CRITICAL).await?["value"], 2_000_001_000);
    }
    let stored = server.keys().await?.into_iter();
    let stored: Vec<_> = stored.filter(|key| key.ends_with("/kubernetes")).collect();
    assert_eq!(stored, [""; 0]);
    Ok(())
}

#[tokio::test]
async fn deleted_service_of_the_api_server_comes_back_with_another_uid() -> anyhow::Result<()> {
    let server = TestServer::start().await?;
    let tenant = server.tenant("t1").await?;
    for path in [SERVICE, ENDPOINTS, SLICE] {
        let first = item(&tenant, path).await?;
        let mut uids = vec![uid(&first).to_owned()];
        let mut watch = tenant
            .watch(&format!("{}?watch=true", collection(path)))
            .await?;
        let added = watch.next().await?.context("the initial state")?;
        assert_eq!(uid(&added["object"]), uids[0], "{path}");
        // The first deletion is of the built-in object, the second of a stored one, the third of one
        // with a finalizer.
        for round in 0..3 {
            // The test server's endpoints are loopback addresses, so they cannot be changed.
            if round == 2 && path == SERVICE {
                let finalizer = json!({"metadata": {"finalizers": ["example.com/keep"]}});
                let changed = tenant.patch(path, "merge", &finalizer).await?;
                assert_eq!(changed.status, 200, "{}", changed.text());
                watch.next().await?.context("the change")?;
            }
            let wrong = json!({"preconditions": {"uid": "another"}});
            let refused = delete(&tenant, path, &wrong).await?;
            assert_eq!(refused.status, 409, "{}", refused.text());
            let foreground = json!({"propagationPolicy": "Foreground"});
            let deleted = delete(&tenant, path, &foreground).await?;
            assert_eq!(deleted.status, 200, "{}", deleted.text());
            let again = item(&tenant, path).await?;
            assert!(!uids.iter().any(|seen| seen == uid(&again)), "{path}");
            uids.push(uid(&again).to_owned());
            let mut expected = first.clone();
            for member in ["uid", "resourceVersion", "creationTimestamp"] {
                expected["metadata"][member] = again["metadata"][member].clone();
            }
            assert_eq!(again, expected, "{path}");
            let event = watch.next().await?.context("an event")?;
            assert_eq!(
                [&event["type"], &event["object"]],
                [&json!("MODIFIED"), &again]
            );
        }
    }
    for path in [RANGE, ADDRESS, CRITICAL] {
        let refused = tenant.delete(path).await?;
        assert_eq!(refused.status, 403, "{}", refused.text());
    }
    Ok(())
}

#[tokio::test]
async fn stored_services_and_built_in_ones_are_listed_in_one_order() -> anyhow::Result<()> {
    let server = TestServer::start().await?;
    let tenant = server.tenant("t1").await?;
    let services = "/api/v1/namespaces/default/services";
    for name in ["a", "k", "kubernetes-2", "z"] {
        let created = tenant.post(services, &service(name)).await?;
        assert_eq!(created.status, 201, "{}", created.text());
    }
    let all = ["a", "k", "kubernetes", "kubernetes-2", "z"];
    assert_eq!(names(&tenant, services).await?, all);
    assert_eq!(names(&tenant, "/api/v1/services").await?, all);
    let nowhere = "/api/v1/namespaces/kube-system/services";
    assert_eq!(names(&tenant, nowhere).await?, [""; 0]);
    for limit in 1..=all.len() {
        let first = item(&tenant, &format!("{services}?limit={limit}")).await?;
        // The rest comes from the store's history: the collection has changed.
        let touched = json!({"metadata": {"labels": {"limit": limit.to_string()}}});
        let path = format!("{services}/a");
        assert_eq!(tenant.patch(&path, "merge", &touched).await?.status, 200);
        let mut pages = vec![first];
        while let Some(token) = pages.last().and_then(|page| {
            let token = page["metadata"]["continue"].as_str();
            token.filter(|token| !token.is_empty()).map(str::to_owned)
        }) {
            let path = format!("{services}?limit={limit}&continue={token}");
            pages.push(item(&tenant, &path).await?);
        }
        let items = pages.iter().filter_map(|page| page["items"].as_array());
        let listed: Vec<_> = items
            .flatten()
            .map(|one| one["metadata"]["name"].clone())
            .collect();
        assert_eq!(listed, all, "{limit}");
        assert_eq!(pages.len(), all.len().div_ceil(limit), "{limit}");
    }
    let created = tenant.post(services, &service("kubernetes")).await?;
    assert_eq!(created.status, 409, "{}", created.text());
    Ok(())
}

#[tokio::test]
async fn collection_of_services_is_deleted_without_that_of_the_api_server() -> anyhow::Result<()> {
    let server = TestServer::start().await?;
    let tenant = server.tenant("t1").await?;
    let services = "/api/v1/namespaces/default/services";
    assert_eq!(tenant.post(services, &service("a")).await?.status, 201);
    let before = item(&tenant, SERVICE).await?;
    assert_eq!(tenant.delete(services).await?.status, 200);
    assert_eq!(names(&tenant, services).await?, ["kubernetes"]);
    assert_eq!(item(&tenant, SERVICE).await?, before);
    Ok(())
}

#[tokio::test]
async fn range_of_cluster_ips_is_the_servers() -> anyhow::Result<()> {
    for (range, first, family) in [
        ("10.4.0.0/16", "10.4.0.1", "IPv4"),
        ("fd00:4::/108", "fd00:4::1", "IPv6"),
    ] {
        let setup = Setup {
            service_range: range.parse()?,
            ..Setup::default()
        };
        let server = TestServer::start_with(setup).await?;
        let tenant = server.tenant("t1").await?;
        let kubernetes = item(&tenant, SERVICE).await?;
        assert_eq!(kubernetes["spec"]["clusterIPs"], json!([first]));
        assert_eq!(kubernetes["spec"]["ipFamilies"], json!([family]));
        assert_eq!(item(&tenant, RANGE).await?["spec"]["cidrs"], json!([range]));
        let services = "/api/v1/namespaces/default/services";
        let created = tenant.post(services, &service("a")).await?.json();
        let address = created["spec"]["clusterIP"]
            .as_str()
            .context("an address")?;
        let range: ipnet::IpNet = range.parse()?;
        assert!(
            range.contains(&address.parse::<std::net::IpAddr>()?),
            "{created}"
        );
        assert_eq!(created["spec"]["ipFamilies"], json!([family]));
    }
    Ok(())
}

#[tokio::test]
async fn families_that_the_server_does_not_have_are_refused() -> anyhow::Result<()> {
    let server = TestServer::start().await?;
    let tenant = server.tenant("t1").await?;
    let services = "/api/v1/namespaces/default/services";
    let mut dual = service("a");
    dual["spec"]["ipFamilyPolicy"] = "RequireDualStack".into();
    let why = "spec.ipFamilyPolicy: Invalid value: \"RequireDualStack\": this cluster is not \
               configured for dual-stack services";
    let message = format!("Service \"a\" is invalid: {why}");
    let refused = tenant.post(services, &dual).await?;
    assert_eq!((refused.status, refused.message()), (422, message.clone()));
    assert_eq!(tenant.post(services, &service("a")).await?.status, 201);
    let policy = json!({"spec": {"ipFamilyPolicy": "RequireDualStack"}});
    let path = format!("{services}/a");
    let refused = tenant.patch(&path, "merge", &policy).await?;
    assert_eq!((refused.status, refused.message()), (422, message));
    // Without a selector a headless service may have endpoints of both families, or of one.
    let headless = json!({
        "metadata": {"name": "headless"},
        "spec": {"clusterIP": "None", "ports": [{"port": 80}]},
    });
    let created = tenant.post(services, &headless).await?.json();
    assert_eq!(created["spec"]["ipFamilies"], json!(["IPv4", "IPv6"]));
    let single = json!({"spec": {"ipFamilyPolicy": "SingleStack"}});
    let changed = tenant
        .patch(&format!("{services}/headless"), "merge", &single)
        .await?;
    assert_eq!(changed.status, 200, "{}", changed.text());
    assert_eq!(changed.json()["spec"]["ipFamilies"], json!(["IPv4"]));
    let prefer = json!({"spec": {"ipFamilyPolicy": "PreferDualStack"}});
    let changed = tenant.patch(&path, "merge", &prefer).await?;
    assert_eq!(changed.status, 200, "{}", changed.text());
    assert_eq!(changed.json()["spec"]["ipFamilies"], json!(["IPv4"]));
    Ok(())
}

#[tokio::test]
async fn full_range_of_cluster_ips_refuses_services_that_need_one() -> anyhow::Result<()> {
    let setup = Setup {
        service_range: "10.9.8.0/24".parse()?,
        ..Setup::default()
    };
    let server = TestServer::start_with(setup).await?;
    let tenant = server.tenant("t1").await?;
    let services = "/api/v1/namespaces/default/services";
    let mut addresses = std::collections::BTreeSet::new();
    for n in 0..253 {
        let created = tenant.post(services, &service(&format!("s{n}"))).await?;
        assert_eq!(created.status, 201, "{}", created.text());
        let address = created.json()["spec"]["clusterIP"].to_string();
        assert!(addresses.insert(address), "{}", created.text());
    }
    let refused = tenant.post(services, &service("more")).await?;
    let why = "failed to allocate a serviceIP for Service \"more\": range is full";
    assert_eq!(refused.status, 500);
    assert!(refused.message().ends_with(why), "{}", refused.text());
    let mut headless = service("headless");
    headless["spec"]["clusterIP"] = "None".into();
    assert_eq!(tenant.post(services, &headless).await?.status, 201);
    Ok(())
}

#[tokio::test]
async fn tenant_with_changed_cluster_objects_is_deleted() -> anyhow::Result<()> {
    let server = TestServer::start_with_controllers().await?;
    let (tenant, system) = (server.tenant("t1").await?, server.system().await?);
    for path in [SERVICE, RANGE, ADDRESS, CRITICAL] {
        let labelled = json!({"metadata": {"labels": {"a": "b"}}});
        let changed = tenant.patch(path, "merge", &labelled).await?;
        assert_eq!(changed.status, 200, "{path}: {}", changed.text());
    }
    let begun = std::time::Instant::now();
    assert_eq!(system.delete("/api/v1/tenants/t1").await?.status, 200);
    while system.get("/api/v1/tenants/t1").await?.status != 404 {
        anyhow::ensure!(begun.elapsed().as_secs() < 20, "the tenant does not go");
        tokio::task::yield_now().await;
    }
    Ok(())
}
