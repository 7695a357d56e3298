//! Objects without the fields that name their tenant, as clients with strict decoding and other
//! clusters need them.

use anyhow::Context as _;
use http::Method;
use insula_apiserver::registry::tenant_fields::TenantFields;
use insula_kinds::cbor;
use insula_testkit::server::{Answer, Client, Lines, Setup, TestServer, definition};
use serde_json::{Value, json};

/// A name that nothing else in a response contains.
const TENANT: &str = "sample-tenant-1";

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/default/deployments";
const SCALERS: &str = "/apis/autoscaling/v1/namespaces/default/horizontalpodautoscalers";
const FOOS: &str = "/apis/ex.io/v1/namespaces/default/foos";

const FORMATS: [&str; 4] = [
    "application/json",
    "application/yaml",
    "application/vnd.kubernetes.protobuf",
    "application/cbor",
];

async fn server(tenant_fields: TenantFields) -> anyhow::Result<TestServer> {
    TestServer::start_with(Setup {
        tenant_fields,
        ..Setup::with_controllers()
    })
    .await
}

fn map(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name},
        "data": {"a": "b"}})
}

/// Creates one object of each sort: built in, with a scale, in a version that is not stored, and
/// custom. Returns their paths.
async fn create_objects(client: &Client) -> anyhow::Result<Vec<String>> {
    let template = json!({"metadata": {"labels": {"a": "b"}},
        "spec": {"containers": [{"name": "c", "image": "i"}]}});
    let spec = json!({"replicas": 1, "selector": {"matchLabels": {"a": "b"}},
        "template": template});
    let deployment = json!({"metadata": {"name": "one"}, "spec": spec});
    let scaler = json!({"metadata": {"name": "one"}, "spec": {"maxReplicas": 2,
        "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "one"}}});
    let foos = definition("ex.io", "foos", "Foo", json!({"type": "object"}));
    client.define(&foos).await?;
    let custom = json!({"apiVersion": "ex.io/v1", "kind": "Foo", "metadata": {"name": "one"}});
    let mut paths = Vec::new();
    for (path, object) in [
        (MAPS, map("one")),
        (DEPLOYMENTS, deployment),
        (SCALERS, scaler),
        (FOOS, custom),
    ] {
        let created = client.post(path, &object).await?;
        anyhow::ensure!(created.status == 201, "{path}: {}", created.text());
        paths.push(path.to_owned());
        paths.push(format!("{path}/one"));
    }
    // Templates, objects of all spaces, and definitions.
    paths.extend([
        "/api/v1/namespaces".to_owned(),
        "/api/v1/namespaces/default".to_owned(),
        "/api/v1/serviceaccounts?limit=2".to_owned(),
        "/apis/rbac.authorization.k8s.io/v1/clusterroles".to_owned(),
        "/apis/apiextensions.k8s.io/v1/customresourcedefinitions".to_owned(),
        format!("{DEPLOYMENTS}/one/status"),
        format!("{DEPLOYMENTS}/one/scale"),
    ]);
    Ok(paths)
}

/// Every media type for a path.
fn media_types(path: &str) -> Vec<String> {
    let is_one = ["/one", "/default", "/status", "/scale"];
    let is_one = is_one.iter().any(|end| path.ends_with(end));
    let metadata = if is_one {
        "PartialObjectMetadata"
    } else {
        "PartialObjectMetadataList"
    };
    let mut all = Vec::new();
    for format in FORMATS {
        // Custom objects and definitions' versions have no protobuf.
        if path.starts_with("/apis/ex.io/") && format.ends_with("protobuf") {
            continue;
        }
        all.push(format.to_owned());
        if format != "application/yaml" {
            all.push(format!("{format};as={metadata};g=meta.k8s.io;v=v1"));
        }
    }
    all.push("application/json;as=Table;g=meta.k8s.io;v=v1".to_owned());
    all
}

fn names_tenant(bytes: &[u8]) -> bool {
    let contains = |text: &str| {
        bytes
            .windows(text.len())
            .any(|part| part == text.as_bytes())
    };
    contains(TENANT) || contains("selfLink")
}

/// Asserts that a response does, or does not, contain the fields.
#[track_caller]
fn assert_fields(answer: &Answer, fields: TenantFields, about: &str) {
    assert!(
        (200..300).contains(&answer.status),
        "{about}: {}",
        answer.text()
    );
    let expected = fields == TenantFields::Full;
    assert_eq!(
        names_tenant(&answer.body),
        expected,
        "{about}: {}",
        answer.text()
    );
}

/// Removes the fields from all metadata, and what differs between two requests: the revision of a
/// list, and ages in rows.
fn comparable(mut answer: Value) -> Value {
    if answer["items"].is_array() || answer["rows"].is_array() {
        answer["metadata"] = Value::Null;
    }
    without_fields(&mut answer);
    answer
}

fn without_fields(value: &mut Value) {
    match value {
        Value::Object(members) => {
            members.remove("cells");
            if let Some(Value::Object(metadata)) = members.get_mut("metadata") {
                metadata.remove("tenant");
                metadata.remove("selfLink");
            }
            members.values_mut().for_each(without_fields);
        }
        Value::Array(items) => items.iter_mut().for_each(without_fields),
        _ => {}
    }
}

#[tokio::test]
async fn reads_have_neither_field_in_any_format() -> anyhow::Result<()> {
    let server = server(TenantFields::Full).await?;
    let (system, tenant) = (server.system().await?, server.tenant(TENANT).await?);
    let paths = create_objects(&tenant).await?;
    let get_all = async || {
        let mut answers = Vec::new();
        for path in &paths {
            for accept in media_types(path) {
                for query in ["", "includeObject=Object"] {
                    let mark = if path.contains('?') { '&' } else { '?' };
                    let path = format!("{path}{mark}{query}");
                    let answer = tenant.accept(&path, &accept).await?;
                    answers.push((format!("{accept} {path}"), answer));
                }
            }
        }
        anyhow::Ok(answers)
    };
    let full = get_all().await?;
    set(&system, json!("None")).await?;
    let none = get_all().await?;
    for ((about, full), (_, none)) in full.iter().zip(&none) {
        assert_fields(none, TenantFields::None, about);
        // The metadata of a scale has no link, and rows of names have no metadata.
        assert_fields(full, TenantFields::Full, about);
        if about.starts_with("application/json") {
            let (none, full) = (comparable(none.json()), comparable(full.json()));
            assert_eq!(none, full, "{about}");
        }
        if about.starts_with("application/yaml") {
            let read = |answer: &Answer| serde_saphyr::from_str(&answer.text());
            let (none, full) = (comparable(read(none)?), comparable(read(full)?));
            assert_eq!(none, full, "{about}");
        }
    }
    // The system sees the space in the same way, and all spaces with the fields.
    let path = format!("/tenants/{TENANT}{MAPS}");
    assert_fields(&system.get(&path).await?, TenantFields::None, &path);
    let all = system.get("/api/v1/tenants/all/configmaps").await?;
    assert_fields(&all, TenantFields::Full, "all");
    Ok(())
}

/// Sets the tenant's own setting.
async fn set(system: &Client, setting: Value) -> anyhow::Result<()> {
    let patch = json!({"spec": {"objectTenantFields": setting}});
    let path = format!("/api/v1/tenants/{TENANT}");
    let changed = system.patch(&path, "merge", &patch).await?;
    anyhow::ensure!(changed.status == 200, "{}", changed.text());
    Ok(())
}

#[tokio::test]
async fn writes_answer_with_neither_field_and_keep_both() -> anyhow::Result<()> {
    let server = server(TenantFields::None).await?;
    let (system, tenant) = (server.system().await?, server.tenant(TENANT).await?);
    let none = TenantFields::None;
    for (number, format) in FORMATS.iter().enumerate() {
        let name = format!("m{number}");
        let path = format!("{MAPS}/{name}");
        let headers = [("accept", *format), ("content-type", "application/json")];
        let body = map(&name).to_string();
        let created = tenant
            .send(Method::POST, MAPS, &headers, body.clone())
            .await?;
        assert_fields(&created, none, format);
        // What a client read it can write.
        let mut read = tenant.get(&path).await?.json();
        assert_eq!(read["metadata"].get("tenant"), None, "{read}");
        read["data"]["c"] = "d".into();
        let body = read.to_string();
        let updated = tenant.send(Method::PUT, &path, &headers, body).await?;
        assert_fields(&updated, none, format);
        assert_eq!(updated.header("warning"), "");
        for (sort, patch) in [
            ("merge-patch", r#"{"data":{"e":"f"}}"#.to_owned()),
            ("strategic-merge-patch", r#"{"data":{"g":"h"}}"#.to_owned()),
            (
                "json-patch",
                r#"[{"op":"remove","path":"/data/g"}]"#.to_owned(),
            ),
        ] {
            let kind = format!("application/{sort}+json");
            let headers = [("accept", *format), ("content-type", &*kind)];
            let patched = tenant.send(Method::PATCH, &path, &headers, patch).await?;
            assert_fields(&patched, none, sort);
        }
        let applied = format!("{path}?fieldManager=m&force=true");
        let kind = "application/apply-patch+yaml";
        let headers = [("accept", *format), ("content-type", kind)];
        let body = map(&name).to_string();
        let applied = tenant.send(Method::PATCH, &applied, &headers, body).await?;
        assert_fields(&applied, none, "apply");
        let kept = system.get("/api/v1/tenants/all/configmaps").await?.json();
        let items = kept["items"].as_array().cloned().unwrap_or_default();
        let kept = items.iter().find(|item| item["metadata"]["name"] == *name);
        let metadata = kept
            .map(|item| item["metadata"].clone())
            .unwrap_or_default();
        assert_eq!(metadata["tenant"], TENANT, "{items:?}");
        let link = format!("/api/v1/tenants/{TENANT}/namespaces/default/configmaps/{name}");
        assert_eq!(metadata["selfLink"], link);
        assert_eq!(
            tenant
                .get(&format!("/tenants/{TENANT}{path}"))
                .await?
                .status,
            200
        );
    }
    // The last object holds on, so that its deletion answers with it.
    let hold = json!({"metadata": {"finalizers": ["ex.io/hold"]}});
    let path = format!("{MAPS}/m0");
    assert_eq!(tenant.patch(&path, "merge", &hold).await?.status, 200);
    assert_fields(&tenant.delete(&path).await?, none, "delete");
    assert_fields(&tenant.delete(MAPS).await?, none, "deletecollection");
    // The system's own objects have a link only.
    system.post(MAPS, &map("own")).await?;
    let own = system.get(&format!("{MAPS}/own")).await?;
    assert!(!own.text().contains("selfLink"), "{}", own.text());
    Ok(())
}

#[tokio::test]
async fn scales_are_written_with_neither_field() -> anyhow::Result<()> {
    let server = server(TenantFields::None).await?;
    let tenant = server.tenant(TENANT).await?;
    create_objects(&tenant).await?;
    let path = format!("{DEPLOYMENTS}/one/scale");
    let mut scale = tenant.get(&path).await?.json();
    scale["spec"]["replicas"] = 3.into();
    let written = tenant.put(&path, &scale).await?;
    assert_fields(&written, TenantFields::None, "scale");
    assert_eq!(written.json()["spec"]["replicas"], 3);
    Ok(())
}

/// Returns the next event of a watch, in the format that it was opened with.
async fn next_event(watch: &mut Lines, about: &str) -> anyhow::Result<Vec<u8>> {
    let frame = if about.starts_with("application/cbor") {
        watch.frame_of(cbor::first_length).await?
    } else if about.contains("protobuf") {
        watch.frame().await?
    } else {
        watch.next().await?.map(|event| event.to_string().into())
    };
    Ok(frame.with_context(|| format!("{about} ended"))?.to_vec())
}

#[tokio::test]
async fn watches_have_neither_field_in_any_format() -> anyhow::Result<()> {
    let server = server(TenantFields::None).await?;
    let (system, tenant) = (server.system().await?, server.tenant(TENANT).await?);
    create_objects(&tenant).await?;
    let mut watches = Vec::new();
    for path in [MAPS, FOOS, SCALERS] {
        for accept in media_types(path) {
            if accept == "application/yaml" {
                continue;
            }
            // Twice, since the second watch gets what was encoded for the first.
            for _ in 0..2 {
                let from = tenant.get(path).await?.json();
                let from = &from["metadata"]["resourceVersion"];
                let from = from.as_str().unwrap_or_default();
                for query in [
                    "sendInitialEvents=true&resourceVersionMatch=NotOlderThan\
                               &allowWatchBookmarks=true"
                        .to_owned(),
                    format!("resourceVersion={from}"),
                ] {
                    let path = format!("{path}?watch=true&{query}");
                    let watch = tenant.watch_as(&path, &accept).await?;
                    watches.push((format!("{accept} {path}"), watch));
                }
            }
        }
        // Only published definitions are served in all spaces.
        if path != FOOS {
            let all = path.replacen("/namespaces/default", "/tenants/all", 1);
            let watch = system.watch(&format!("{all}?watch=true")).await?;
            watches.push((format!("json {all}"), watch));
        }
    }
    for path in [MAPS, FOOS, SCALERS] {
        let label = json!({"metadata": {"labels": {"last": "one"}}});
        let patched = tenant
            .patch(&format!("{path}/one"), "merge", &label)
            .await?;
        assert_eq!(patched.status, 200, "{}", patched.text());
    }
    for (about, mut watch) in watches {
        let is_full = about.contains("/tenants/all/");
        loop {
            let frame = next_event(&mut watch, &about).await?;
            let contains = |text: &str| {
                frame
                    .windows(text.len())
                    .any(|part| part == text.as_bytes())
            };
            // A bookmark names nothing.
            if contains("BOOKMARK") && !is_full {
                assert!(!names_tenant(&frame), "{about}: {frame:?}");
                continue;
            }
            assert_eq!(names_tenant(&frame), is_full, "{about}: {frame:?}");
            if contains("last") {
                break;
            }
        }
    }
    Ok(())
}

#[tokio::test]
async fn tenants_setting_wins_over_the_servers() -> anyhow::Result<()> {
    for (default, setting) in [(TenantFields::Full, "None"), (TenantFields::None, "Full")] {
        let server = server(default).await?;
        let (system, tenant) = (server.system().await?, server.tenant(TENANT).await?);
        let other = server.tenant("t2").await?;
        for client in [&tenant, &other] {
            assert_eq!(client.post(MAPS, &map("one")).await?.status, 201);
        }
        let own = match setting {
            "None" => TenantFields::None,
            _ => TenantFields::Full,
        };
        set(&system, json!(setting)).await?;
        assert_fields(&tenant.get(MAPS).await?, own, setting);
        let others = other.get(MAPS).await?.text();
        assert_eq!(others.contains("selfLink"), default == TenantFields::Full);
        set(&system, Value::Null).await?;
        assert_fields(&tenant.get(MAPS).await?, default, "unset");
    }
    Ok(())
}

#[tokio::test]
async fn setting_is_validated_and_only_the_systems_to_change() -> anyhow::Result<()> {
    let server = server(TenantFields::Full).await?;
    let (system, tenant) = (server.system().await?, server.tenant(TENANT).await?);
    let path = format!("/api/v1/tenants/{TENANT}");
    let patch = |setting: &str| json!({"spec": {"objectTenantFields": setting}});
    let refused = system.patch(&path, "merge", &patch("none")).await?;
    assert_eq!(refused.status, 422);
    assert_eq!(
        refused.message(),
        format!(
            "Tenant \"{TENANT}\" is invalid: spec.objectTenantFields: Unsupported value: \"none\": \
             supported values: \"Full\", \"None\""
        )
    );
    let refused = system
        .patch("/api/v1/tenants/system", "merge", &patch("None"))
        .await?;
    assert_eq!(refused.status, 422, "{}", refused.text());
    let why = "spec.objectTenantFields: Forbidden: the system space has the setting of the server";
    assert!(refused.message().ends_with(why), "{}", refused.message());
    assert_eq!(
        tenant.patch(&path, "merge", &patch("None")).await?.status,
        403
    );
    Ok(())
}
