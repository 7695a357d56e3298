//! Discovery documents, version, health and metrics.

use http::Method;
use insula_kinds::{protobuf, types};
use insula_testkit::server::{Client, TestServer};
use serde_json::{Value, json};

const RECORDED: &str = include_str!("../../kinds/tests/data/discovery/aggregated.json");
const V2: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";

/// The resources of one group version in an aggregated document.
fn resources<'a>(document: &'a Value, group: &str, version: &str) -> Vec<&'a str> {
    let groups = document["items"].as_array().into_iter().flatten();
    let named = |item: &&Value| item["metadata"]["name"].as_str().unwrap_or("") == group;
    let versions = groups
        .filter(named)
        .filter_map(|item| item["versions"].as_array());
    versions
        .flatten()
        .filter(|found| found["version"] == version)
        .filter_map(|found| found["resources"].as_array())
        .flatten()
        .filter_map(|resource| resource["resource"].as_str())
        .collect()
}

#[tokio::test]
async fn aggregated_discovery_is_that_of_kubernetes_plus_tenants_and_their_credentials()
-> anyhow::Result<()> {
    let server = TestServer::start().await?;
    let client = server.system().await?;
    let recorded: Value = serde_json::from_str(RECORDED)?;
    for path in ["/api", "/apis"] {
        let answer = client.accept(path, V2).await?;
        assert_eq!(answer.status, 200);
        assert_eq!(answer.header("content-type"), V2);
        assert_eq!(answer.header("vary"), "Accept");
        assert_eq!(answer.header("cache-control"), "public");
        let mut found = answer.json();
        if path == "/api" {
            let core = found["items"][0]["versions"][0]["resources"].as_array_mut();
            let core = core.map(|of| {
                of.iter()
                    .position(|one| one["resource"] == "tenants")
                    .map(|at| of.remove(at))
            });
            let tenants = core.flatten().unwrap_or_default();
            assert_eq!(tenants["scope"], "Cluster");
            assert_eq!(tenants["singularResource"], "tenant");
        }
        if path == "/apis" {
            let groups = found["items"].as_array_mut();
            let last = groups.and_then(Vec::pop).unwrap_or_default();
            assert_eq!(last["metadata"]["name"], "access.insula.dev");
            let resources = last["versions"][0]["resources"].as_array().cloned();
            let resources = resources.unwrap_or_default();
            let names: Vec<_> = resources.iter().map(|one| &one["resource"]).collect();
            assert_eq!(names, ["credentialrevocations", "tenantaccesses"]);
        }
        assert_eq!(found, recorded[path], "{path}");
    }
    Ok(())
}

#[tokio::test]
async fn tenants_discover_only_their_own_resources() -> anyhow::Result<()> {
    let server = TestServer::start().await?;
    let (tenant, system) = (server.tenant("t1").await?, server.system().await?);
    let found = tenant.accept("/api", V2).await?.json();
    let core = resources(&found, "", "v1");
    for there in [
        "configmaps",
        "namespaces",
        "nodes",
        "pods",
        "serviceaccounts",
    ] {
        assert!(core.contains(&there), "{there}");
    }
    assert!(!core.contains(&"tenants"));
    assert_eq!(tenant.get("/api/v1/tenants").await?.status, 403);
    // The system sees a tenant's resources under the tenant's prefix, and its own without a prefix.
    for (path, tenants) in [("/tenants/t1/api", false), ("/api", true)] {
        let found = system.accept(path, V2).await?.json();
        assert_eq!(
            resources(&found, "", "v1").contains(&"tenants"),
            tenants,
            "{path}"
        );
    }
    let groups = tenant.get("/apis").await?.json();
    let names: Vec<_> = groups["groups"]
        .as_array()
        .into_iter()
        .flatten()
        .map(|group| &group["name"])
        .collect();
    for there in ["apps", "flowcontrol.apiserver.k8s.io"] {
        assert!(names.contains(&&json!(there)), "{there}");
    }
    let own = tenant.get("/apis/access.insula.dev/v1").await?.json();
    let own = own["resources"].as_array().cloned().unwrap_or_default();
    let own: Vec<_> = own.iter().map(|one| &one["name"]).collect();
    assert_eq!(own, ["credentialrevocations"]);
    Ok(())
}

#[tokio::test]
async fn unchanged_documents_are_answered_with_304() -> anyhow::Result<()> {
    let server = TestServer::start().await?;
    let (tenant, system) = (server.tenant("t1").await?, server.system().await?);
    for path in ["/api", "/apis"] {
        let first = tenant.accept(path, V2).await?;
        let etag = first.header("etag").to_owned();
        let quoted = etag.starts_with('"') && etag.ends_with('"') && etag.len() == 130;
        assert!(quoted, "{etag}");
        let again = async |client: &Client, etag: &str| {
            let headers = [("accept", V2), ("if-none-match", etag)];
            client.send(Method::GET, path, &headers, "").await
        };
        let same = again(&tenant, &etag).await?;
        assert_eq!((same.status, same.body.len()), (304, 0));
        assert_eq!(same.header("etag"), etag);
        assert_eq!(same.header("vary"), "Accept");
        assert_eq!(same.header("cache-control"), "public");
        assert_eq!(again(&tenant, etag.trim_matches('"')).await?.status, 200);
        // The system's discovery is a different document.
        assert_eq!(again(&system, &etag).await?.status, 200);
    }
    Ok(())
}

#[tokio::test]
async fn first_supported_media_type_is_chosen() -> anyhow::Result<()> {
    let server = TestServer::start().await?;
    let client = server.tenant("t1").await?;
    let beta = V2.replace("v=v2", "v=v2beta1");
    let client_go = format!("{V2},{beta},application/json");
    let answer = client.accept("/apis", &client_go).await?;
    assert_eq!(answer.json()["kind"], "APIGroupDiscoveryList");
    let answer = client
        .accept("/apis", &format!("{beta},application/json"))
        .await?;
    assert_eq!(answer.json()["kind"], "APIGroupList");
    assert_eq!(answer.header("content-type"), "application/json");
    let answer = client.accept("/apis", &beta).await?;
    assert_eq!(answer.status, 406);
    assert_eq!(
        answer.message(),
        "only the following media types are accepted: application/json, application/yaml, \
         application/vnd.kubernetes.protobuf"
    );
    let protobuf = V2.replace("application/json", "application/vnd.kubernetes.protobuf");
    let answer = client.accept("/apis", &protobuf).await?;
    assert_eq!(answer.header("content-type"), protobuf);
    let envelope = protobuf::open(&answer.body)?;
    assert_eq!(
        (envelope.api_version, envelope.kind),
        ("apidiscovery.k8s.io/v2", "APIGroupDiscoveryList")
    );
    let plain = client.accept("/apis", V2).await?;
    assert_eq!(answer.header("etag"), plain.header("etag"));
    Ok(())
}

#[tokio::test]
async fn unaggregated_discovery_is_served() -> anyhow::Result<()> {
    let server = TestServer::start().await?;
    let client = server.tenant("t1").await?;
    let address = server.url().replace("https://", "");
    let wanted = json!({
        "kind": "APIVersions",
        "versions": ["v1"],
        "serverAddressByClientCIDRs": [{"clientCIDR": "0.0.0.0/0", "serverAddress": address}],
    });
    let answer = client.get("/api").await?;
    assert_eq!(answer.json(), wanted);
    assert_eq!(answer.header("cache-control"), "no-cache, private");
    let wanted = json!({
        "kind": "APIGroup",
        "apiVersion": "v1",
        "name": "autoscaling",
        "versions": [
            {"groupVersion": "autoscaling/v2", "version": "v2"},
            {"groupVersion": "autoscaling/v1", "version": "v1"},
        ],
        "preferredVersion": {"groupVersion": "autoscaling/v2", "version": "v2"},
    });
    assert_eq!(client.get("/apis/autoscaling").await?.json(), wanted);
    let list = client.get("/apis/apps/v1").await?.json();
    assert_eq!(
        (&list["kind"], &list["groupVersion"]),
        (&json!("APIResourceList"), &json!("apps/v1"))
    );
    let of = |list: &Value, name: &str| {
        let mut all = list["resources"].as_array().into_iter().flatten();
        let found = all.find(|one| one["name"] == name);
        found.cloned().unwrap_or_default()
    };
    assert_eq!(
        of(&list, "daemonsets")["storageVersionHash"],
        "dd7pWHUlMKQ="
    );
    let scale = of(&list, "deployments/scale");
    assert_eq!(
        (&scale["singularName"], &scale["group"]),
        (&json!(""), &json!("autoscaling"))
    );
    let core = client.get("/api/v1").await?.json();
    assert_eq!(core.get("apiVersion"), None);
    assert_eq!(
        of(&core, "configmaps")["storageVersionHash"],
        "qFsyl6wFWjQ="
    );
    let protobuf = client
        .accept("/apis/apps/v1", "application/vnd.kubernetes.protobuf")
        .await?;
    let envelope = protobuf::open(&protobuf.body)?;
    assert_eq!(envelope.kind, "APIResourceList");
    let of_list = types().find("apimachinery.pkg.apis.meta.v1.APIResourceList");
    let tree = of_list
        .map(|of| protobuf::decode(of, envelope.raw))
        .transpose()?;
    assert_eq!(tree.unwrap_or_default()["groupVersion"], "apps/v1");
    for path in ["/apis/none", "/apis/none/v1"] {
        let missing = client.get(path).await?;
        let found = (missing.status, missing.text());
        assert_eq!(found, (404, "404 page not found\n".to_owned()), "{path}");
    }
    for path in [
        "/apis/apps/v2",
        "/apis/apps/v2/deployments",
        "/api/v2",
        "/api/v2/pods",
    ] {
        let missing = client.get(path).await?;
        let wanted = "the server could not find the requested resource";
        assert_eq!((missing.status, missing.message().as_str()), (404, wanted));
    }
    Ok(())
}

#[tokio::test]
async fn version_and_health_are_public() -> anyhow::Result<()> {
    let server = TestServer::start().await?;
    let anonymous = server.client("").await?;
    let version = anonymous.get("/version").await?;
    assert_eq!(version.status, 200);
    let version = version.json();
    assert_eq!(
        (&version["major"], &version["minor"]),
        (&json!("1"), &json!("36"))
    );
    let git = version["gitVersion"].as_str().unwrap_or_default();
    assert!(git.starts_with("v1.36.4"), "{git}");
    for check in ["healthz", "livez", "readyz"] {
        for path in [format!("/{check}"), format!("/{check}/ping")] {
            let answer = anonymous.get(&path).await?;
            assert_eq!(
                (answer.status, answer.text().as_str()),
                (200, "ok"),
                "{path}"
            );
            assert_eq!(answer.header("content-type"), "text/plain; charset=utf-8");
        }
        // The names of kube-apiserver, for what is true here.
        let answer = anonymous.get(&format!("/{check}?verbose")).await?;
        let hooks = "[+]poststarthook/generic-apiserver-start-informers ok\n\
                     [+]poststarthook/crd-informer-synced ok\n\
                     [+]poststarthook/rbac/bootstrap-roles ok\n\
                     [+]poststarthook/scheduling/bootstrap-system-priority-classes ok\n";
        let (ready, shutdown) = match check {
            "readyz" => (
                "[+]etcd-readiness ok\n[+]informer-sync ok\n",
                "[+]shutdown ok\n",
            ),
            _ => ("", ""),
        };
        let wanted = |etcd: &str, warning: &str| {
            format!(
                "[+]ping ok\n[+]log ok\n[+]etcd {etcd}\n{hooks}{ready}[+]store ok\n{shutdown}\
                 {warning}{check} check passed\n"
            )
        };
        assert_eq!(answer.text(), wanted("ok", ""));
        let query = "verbose=true&exclude=etcd&exclude=nothing";
        let answer = anonymous.get(&format!("/{check}?{query}")).await?;
        let warning = "warn: some health checks cannot be excluded: no matches for \"nothing\"\n";
        assert_eq!(answer.text(), wanted("excluded: ok", warning));
        // A single check.
        for (path, code) in [
            ("etcd", 200),
            ("poststarthook/rbac/bootstrap-roles", 200),
            ("nothing", 404),
            ("poststarthook", 404),
            ("shutdown", if check == "readyz" { 200 } else { 404 }),
        ] {
            let answer = anonymous.get(&format!("/{check}/{path}")).await?;
            assert_eq!(answer.status, code, "{check}/{path}");
        }
        let head = anonymous
            .send(Method::HEAD, &format!("/{check}"), &[], "")
            .await?;
        assert_eq!((head.status, head.body.len()), (200, 0));
    }
    for path in [
        "/api",
        "/apis",
        "/openapi/v2",
        "/metrics",
        "/api/v1/pods",
        "/",
    ] {
        let answer = anonymous.get(path).await?;
        assert_eq!(answer.status, 401, "{path}");
        assert_eq!(answer.message(), "Unauthorized");
    }
    Ok(())
}

#[tokio::test]
async fn metrics_are_served_to_the_system_only() -> anyhow::Result<()> {
    let server = TestServer::start().await?;
    let (tenant, system) = (server.tenant("t1").await?, server.system().await?);
    tenant.get("/api/v1/pods").await?;
    let answer = system.get("/metrics").await?;
    assert_eq!(answer.status, 200);
    assert_eq!(
        answer.header("content-type"),
        "text/plain; version=0.0.4; charset=utf-8"
    );
    let text = answer.text();
    assert!(
        text.contains("# TYPE apiserver_request_total counter\n"),
        "{text}"
    );
    assert!(
        text.contains("apiserver_request_total{verb=\"GET\",code=\"2xx\"} 1\n"),
        "{text}"
    );
    let refused = tenant.get("/metrics").await?;
    assert!(matches!(refused.status, 403 | 404), "{}", refused.status);
    Ok(())
}
