//! Tenants: created with their whole content, with a fixed name, and removed completely.

use crate::fixtures::names;
use http::Method;
use insula_testkit::server::{Answer, Client, Engine, Setup, TestServer};
use serde_json::{Value, json};

const TENANTS: &str = "/api/v1/tenants";
const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1/tenants";

fn tenant(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Tenant", "metadata": {"name": name}})
}

async fn yaml(client: &Client, path: &str, text: &str) -> anyhow::Result<Answer> {
    let headers = [("content-type", "application/yaml")];
    client
        .send(Method::POST, path, &headers, text.to_owned())
        .await
}

fn items(list: &Value) -> &[Value] {
    list["items"].as_array().map_or(&[], Vec::as_slice)
}

/// The list without the objects that every space has.
fn without_defaults(mut list: Value) -> Value {
    if let Some(items) = list["items"].as_array_mut() {
        let label = "kubernetes.io/bootstrapping";
        items.retain(|item| item["metadata"]["labels"][label].is_null());
    }
    list
}

/// Asserts the content of a new space, read at exactly this revision.
async fn assert_whole(system: &Client, name: &str, revision: &str) -> anyhow::Result<()> {
    let exact = format!("?resourceVersion={revision}&resourceVersionMatch=Exact");
    let list = async |path: String| -> anyhow::Result<Value> {
        let found = system.get(&format!("{path}{exact}")).await?;
        anyhow::ensure!(found.status == 200, "{path}: {}", found.text());
        Ok(found.json())
    };
    let namespaces = list(format!("{TENANTS}/{name}/namespaces")).await?;
    assert_eq!(
        names(&namespaces),
        ["default", "kube-public", "kube-system"]
    );
    for namespace in items(&namespaces) {
        let called = namespace["metadata"]["name"].as_str().unwrap_or("");
        let link = format!("{TENANTS}/{name}/namespaces/{called}");
        assert_eq!(namespace["metadata"]["selfLink"], link.as_str());
        assert_eq!(namespace["status"]["phase"], "Active");
        assert_eq!(namespace["spec"]["finalizers"], json!(["kubernetes"]));
    }
    let accounts = list(format!("{TENANTS}/{name}/serviceaccounts")).await?;
    assert_eq!(names(&accounts), ["default", "default", "default"]);
    let roles = without_defaults(list(format!("{RBAC}/{name}/clusterroles")).await?);
    assert_eq!(names(&roles), ["admin-role"]);
    let link = format!("{RBAC}/{name}/clusterroles/admin-role");
    assert_eq!(items(&roles)[0]["metadata"]["selfLink"], link.as_str());
    let bindings = without_defaults(list(format!("{RBAC}/{name}/clusterrolebindings")).await?);
    assert_eq!(names(&bindings), ["admin-role-binding"]);
    let group = "rbac.authorization.k8s.io";
    assert_eq!(
        items(&bindings)[0]["subjects"],
        json!([{"kind": "User", "apiGroup": group, "name": "admin"}])
    );
    for list in [&namespaces, &accounts, &roles, &bindings] {
        for item in items(list) {
            assert_eq!(item["metadata"]["tenant"], name);
            assert_eq!(item["metadata"]["resourceVersion"], revision, "{item}");
        }
    }
    Ok(())
}

#[tokio::test]
async fn tenants_are_created_atomically_on_every_engine() -> anyhow::Result<()> {
    for engine in [Engine::Memory, Engine::Embedded, Engine::Etcd] {
        let Some(server) = TestServer::start_on(engine, Setup::default()).await? else {
            continue;
        };
        let system = server.system().await?;
        let before = server.registry().store().revision().await?;
        let created = system.post(TENANTS, &tenant("tenant-a")).await?;
        assert_eq!(created.status, 201, "{}", created.text());
        let created = created.json();
        assert_eq!(created["status"]["phase"], "Active");
        assert_eq!(created["spec"]["finalizers"], json!(["arktos"]));
        assert_eq!(created["metadata"]["selfLink"], "/api/v1/tenants/tenant-a");
        assert!(created["metadata"].get("tenant").is_none(), "{created}");
        let revision = created["metadata"]["resourceVersion"]
            .as_str()
            .unwrap_or("");
        assert_eq!(revision, before.next().to_string(), "one transaction");
        assert_whole(&system, "tenant-a", revision).await?;
        // Also after further writes, when the cache cannot answer.
        let admin = server.client("tenant-a").await?;
        let more = json!({"metadata": {"name": "more"}});
        assert_eq!(admin.post("/api/v1/namespaces", &more).await?.status, 201);
        let gone = "/apis/rbac.authorization.k8s.io/v1/clusterroles/admin-role";
        assert_eq!(admin.delete(gone).await?.status, 200);
        assert_whole(&system, "tenant-a", revision).await?;
    }
    Ok(())
}

#[tokio::test]
async fn system_tenant_exists_and_cannot_be_deleted() -> anyhow::Result<()> {
    let server = TestServer::start().await?;
    let system = server.system().await?;
    let found = system.get("/api/v1/tenants/system").await?;
    assert_eq!(found.json()["status"]["phase"], "Active");
    let again = system.post(TENANTS, &tenant("system")).await?;
    assert_eq!(
        (again.status, again.message().as_str()),
        (409, "tenants \"system\" already exists")
    );
    let gone = system.delete("/api/v1/tenants/system").await?;
    let why = "tenants \"system\" is forbidden: this tenant may not be deleted";
    assert_eq!((gone.status, gone.message().as_str()), (403, why));
    for namespace in ["default", "kube-system", "kube-public"] {
        for client in [&system, &server.tenant("t1").await?] {
            let gone = client
                .delete(&format!("/api/v1/namespaces/{namespace}"))
                .await?;
            let why = format!(
                "namespaces \"{namespace}\" is forbidden: this namespace may not be deleted"
            );
            assert_eq!((gone.status, gone.message()), (403, why));
        }
    }
    Ok(())
}

#[tokio::test]
async fn invalid_tenant_names_are_refused_with_kubernetes_messages() -> anyhow::Result<()> {
    const LABEL: &str = "a lowercase RFC 1123 label must consist of lower case alphanumeric \
        characters or '-', and must start and end with an alphanumeric character (e.g. \
        'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')";
    let server = TestServer::start().await?;
    let system = server.system().await?;
    let before = server.keys().await?;
    let long = "x".repeat(64);
    for (name, why) in [
        ("all", "is not an acceptable tenant name"),
        ("Upper", LABEL),
        ("a.b", "must not contain dots"),
        ("a.b", "must not contain dots"),
        ("..", LABEL),
        ("-a", LABEL),
        ("a-", LABEL),
        ("a.b", "must not contain dots"),
        ("a\u{0}", LABEL),
        ("ä", LABEL),
        ("a%2Fb", LABEL),
        (&long, "must be no more than 63 characters"),
    ] {
        let refused = system.post(TENANTS, &tenant(name)).await?;
        let quoted = insula_gotext::quote(name);
        let message = format!("metadata.name: Invalid value: {quoted}: {why}");
        assert_eq!(refused.status, 422, "{name}: {}", refused.text());
        assert!(
            refused.message().contains(&message),
            "{}",
            refused.message()
        );
    }
    let nameless = system.post(TENANTS, &json!({"metadata": {}})).await?;
    assert_eq!(nameless.status, 422);
    assert_eq!(
        nameless.message(),
        "Tenant \"\" is invalid: metadata.name: Required value: name or generateName is required"
    );
    for prefix in ["Upper-", "a/", "../", "a."] {
        let body = json!({"metadata": {"generateName": prefix}});
        let refused = system.post(TENANTS, &body).await?;
        assert_eq!(refused.status, 422, "{prefix}: {}", refused.text());
    }
    assert_eq!(server.keys().await?, before);
    Ok(())
}

#[tokio::test]
async fn generated_tenant_names_get_their_own_space() -> anyhow::Result<()> {
    let server = TestServer::start().await?;
    let system = server.system().await?;
    let body = json!({"metadata": {"generateName": "team-"}});
    let created = system.post(TENANTS, &body).await?.json();
    let name = created["metadata"]["name"].as_str().unwrap_or("");
    assert!(name.starts_with("team-") && name.len() == 10, "{created}");
    let revision = created["metadata"]["resourceVersion"]
        .as_str()
        .unwrap_or("");
    assert_whole(&system, name, revision).await
}

#[tokio::test]
async fn finalize_and_status_are_separate_subresources() -> anyhow::Result<()> {
    let server = TestServer::start().await?;
    let system = server.system().await?;
    let created = system.post(TENANTS, &tenant("t1")).await?.json();
    let path = "/api/v1/tenants/t1";
    // A plain update: labels change, everything else is ignored.
    let mut wanted = created.clone();
    wanted["metadata"]["labels"] = json!({"team": "a"});
    wanted["spec"]["finalizers"] = json!([]);
    wanted["status"] = json!({"phase": "Terminating"});
    let updated = system.put(path, &wanted).await?;
    assert_eq!(updated.status, 200, "{}", updated.text());
    let updated = updated.json();
    assert_eq!(updated["metadata"]["labels"]["team"], "a");
    assert_eq!(updated["spec"]["finalizers"], json!(["arktos"]));
    assert_eq!(updated["status"]["phase"], "Active");
    let patch = json!({"spec": {"finalizers": ["x"]}, "status": {"phase": "Terminating"}});
    let patched = system.patch(path, "merge", &patch).await?.json();
    assert_eq!(patched["spec"]["finalizers"], json!(["arktos"]));
    assert_eq!(patched["status"]["phase"], "Active");
    // The status subresource changes neither metadata nor finalizers.
    let mut wanted = patched.clone();
    wanted["spec"]["finalizers"] = json!([]);
    let status = system.put(&format!("{path}/status"), &wanted).await?;
    assert_eq!(status.status, 200, "{}", status.text());
    assert_eq!(status.json()["spec"]["finalizers"], json!(["arktos"]));
    wanted["status"]["phase"] = "Terminating".into();
    let status = system.put(&format!("{path}/status"), &wanted).await?;
    assert_eq!(
        status.status,
        422,
        "a tenant that is not going: {}",
        status.text()
    );
    // The finalize subresource changes the finalizers only.
    let mut wanted = system.get(path).await?.json();
    wanted["spec"]["finalizers"] = json!(["arktos", "example.com/mine"]);
    wanted["status"]["phase"] = "Terminating".into();
    let finalized = system.put(&format!("{path}/finalize"), &wanted).await?;
    assert_eq!(finalized.status, 200, "{}", finalized.text());
    let finalized = finalized.json();
    assert_eq!(
        finalized["spec"]["finalizers"],
        wanted["spec"]["finalizers"]
    );
    assert_eq!(finalized["status"]["phase"], "Active");
    Ok(())
}

#[tokio::test]
async fn dry_run_creates_nothing_and_validates() -> anyhow::Result<()> {
    let server = TestServer::start().await?;
    let system = server.system().await?;
    let before = server.keys().await?;
    let dry = "/api/v1/tenants?dryRun=All";
    let created = system.post(dry, &tenant("t1")).await?;
    assert_eq!(
        (created.status, &created.json()["status"]["phase"]),
        (201, &json!("Active"))
    );
    assert_eq!(system.post(dry, &tenant("all")).await?.status, 422);
    assert_eq!(system.post(dry, &tenant("system")).await?.status, 409);
    let taken = system.post(dry, &tenant("kube-node-lease")).await?;
    assert_eq!(taken.status, 409, "{}", taken.text());
    assert_eq!(server.keys().await?, before);
    assert_eq!(system.get("/api/v1/tenants/t1").await?.status, 404);
    system.post(TENANTS, &tenant("t1")).await?;
    let namespace = json!({"metadata": {"name": "t1"}});
    let dry = "/api/v1/namespaces?dryRun=All";
    assert_eq!(system.post(dry, &namespace).await?.status, 409);
    Ok(())
}

#[tokio::test]
async fn documented_examples_work() -> anyhow::Result<()> {
    let server = TestServer::start().await?;
    let (system, user) = (
        server.system().await?,
        server.client("sample-tenant-1").await?,
    );
    let sample = "#sample-tenant.yaml \napiVersion: v1\nkind: Tenant\nmetadata:\n  name: \
                  sample-tenant-1  \n";
    let created = yaml(&system, TENANTS, sample).await?;
    assert_eq!(created.status, 201, "{}", created.text());
    let sample = "#sample-namespace.yaml \napiVersion: v1\nkind: Namespace\nmetadata:\n  name: \
                  sample-namespace-1 \n  tenant: sample-tenant-1 \n";
    let created = yaml(&user, "/api/v1/namespaces?fieldValidation=Strict", sample).await?;
    assert_eq!(created.status, 201, "{}", created.text());
    assert_eq!(created.json()["metadata"]["tenant"], "sample-tenant-1");
    let sample = "apiVersion: v1\nkind: Pod\nmetadata:\n  name: memory-demo\n  namespace: \
                  sample-namespace-1\n  tenant: sample-tenant-1 \nspec:\n  containers:\n";
    let pods = "/api/v1/namespaces/sample-namespace-1/pods";
    // The document omits the containers.
    let empty = format!("{sample}  # the following parts are ignored\n");
    let refused = yaml(&user, pods, &empty).await?;
    assert_eq!(
        (refused.status, refused.message().as_str()),
        (
            422,
            "Pod \"memory-demo\" is invalid: spec.containers: Required value"
        )
    );
    let whole = format!("{sample}  - name: memory-demo-ctr\n    image: polinux/stress\n");
    let full = "/api/v1/tenants/sample-tenant-1/namespaces/sample-namespace-1/pods";
    let created = yaml(&system, full, &whole).await?;
    assert_eq!(created.status, 201, "{}", created.text());
    let link = format!("{full}/memory-demo");
    assert_eq!(created.json()["metadata"]["selfLink"], link.as_str());
    assert_eq!(user.get(&format!("{pods}/memory-demo")).await?.status, 200);
    Ok(())
}

#[tokio::test]
async fn missing_tenants_are_not_found() -> anyhow::Result<()> {
    let server = TestServer::start().await?;
    let system = server.system().await?;
    let pod = json!({"metadata": {"name": "p"}});
    let base = "/api/v1/tenants/ghost";
    for (method, path) in [
        ("GET", format!("{base}/namespaces")),
        ("GET", format!("{base}/pods?watch=true")),
        ("GET", format!("{base}/namespaces/default/pods/p")),
        ("POST", format!("{base}/namespaces")),
        ("POST", format!("{base}/namespaces/default/pods")),
        ("PUT", format!("{base}/namespaces/default/pods/p")),
        ("PATCH", format!("{base}/namespaces/default/pods/p")),
        ("DELETE", format!("{base}/namespaces/default/pods/p")),
        ("DELETE", format!("{base}/namespaces/default/pods")),
        ("GET", "/tenants/ghost/api/v1/namespaces".to_owned()),
        ("GET", "/tenants/ghost/api/v1".to_owned()),
        ("GET", "/tenants/ghost/apis".to_owned()),
        ("GET", "/tenants/ghost/openapi/v2".to_owned()),
        ("GET", base.to_owned()),
    ] {
        let headers = [("content-type", "application/json")];
        let found = system
            .send(method.parse()?, &path, &headers, pod.to_string())
            .await?;
        let why = "tenants \"ghost\" not found".to_owned();
        assert_eq!(
            (found.status, found.message()),
            (404, why),
            "{method} {path}"
        );
    }
    // Once the tenant exists, both succeed at once.
    system.post(TENANTS, &tenant("ghost")).await?;
    let namespace = json!({"metadata": {"name": "n"}});
    let created = system
        .post(&format!("{base}/namespaces"), &namespace)
        .await?;
    assert_eq!(created.status, 201, "{}", created.text());
    Ok(())
}
