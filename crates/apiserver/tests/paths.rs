//! Request paths: which object a path addresses, and that all spellings address the same object.

use http::Method;
use insula_apiserver::pipeline::route::{Target, route};
use insula_core::{SYSTEM, Spaces};
use insula_testkit::server::TestServer;
use serde_json::json;

/// Describes a route as `verb space namespace resource name subresource`, with `-` for absent
/// parts; or the document; or the error code, with `text` if the body is no `Status`.
fn describe_route(method: &str, path: &str, watch: bool) -> String {
    let method: Method = method.parse().expect("a method");
    let route = match route(&method, path, watch) {
        Ok(route) => route,
        Err(refusal) => {
            let text = if refusal.plain.is_some() { " text" } else { "" };
            return format!("{}{text}", refusal.code);
        }
    };
    let space = match &route.named {
        None => "-".to_owned(),
        Some(Spaces::All) => "ALL".to_owned(),
        Some(Spaces::One(space)) if space.is_system() => SYSTEM.to_owned(),
        Some(Spaces::One(space)) => space.to_string(),
    };
    match route.target {
        Target::Document(document) => format!("{document:?} {space}"),
        Target::Resource(path) => {
            let or = |part: &Option<String>| part.clone().unwrap_or_else(|| "-".to_owned());
            let kind = path.of();
            let group = match kind.group.as_str() {
                "" => String::new(),
                group => format!(".{group}"),
            };
            format!(
                "{} {space} {} {}{group} {} {}",
                path.verb,
                or(&path.namespace),
                kind.resource,
                or(&path.name),
                or(&path.subresource)
            )
        }
    }
}

/// Checks lines of `METHOD path => route`.
#[track_caller]
fn check(table: &str) {
    let lines = table.lines().map(str::trim);
    for line in lines.filter(|line| !line.is_empty() && !line.starts_with('#')) {
        let (request, expected) = line.split_once(" => ").expect("an arrow");
        let (method, path) = request.split_once(' ').expect("a method and a path");
        assert_eq!(describe_route(method, path, false), expected, "{request}");
    }
}

#[test]
fn every_documented_path_is_routed() {
    check(
        r#"
        GET /api/v1/tenants/t1/namespaces/default/pods/pod1 => get t1 default pods pod1 -
        GET /api/v1/tenants/t1/persistentvolumes/pv1 => get t1 - persistentvolumes pv1 -
        GET /api/v1/namespaces/default/pods/pod1 => get - default pods pod1 -
        GET /api/v1/persistentvolumes/pv1 => get - - persistentvolumes pv1 -
        GET /api/v1/namespaces/ns-1/pods/pod1 => get - ns-1 pods pod1 -
        GET /api/v1/tenants/t1/namespaces/ns-1/pods/pod1 => get t1 ns-1 pods pod1 -
        GET /api/v1/tenants/xxx => get - - tenants xxx -
        "#,
    );
    // The spelling that the document decided against also addresses the system space.
    check(
        r#"
        GET /apis/rbac.authorization.k8s.io/v1/tenants/system/clusterroles/cls1 => get system - clusterroles.rbac.authorization.k8s.io cls1 -
        # Without its group, as the document abbreviates it, it is not a resource.
        GET /api/v1/tenants/system/clusterroles/cls1 => 404
        GET /api/v1/clusterroles/cls1 => 404
        "#,
    );
}

#[test]
fn paths_without_a_space_are_those_of_kubernetes() {
    check(
        r#"
        GET /api/v1/namespaces => list - - namespaces - -
        GET /api/v1/namespaces/other => get - - namespaces other -
        GET /api/v1/namespaces/other/pods => list - other pods - -
        GET /api/v1/namespaces/other/pods/foo => get - other pods foo -
        GET /api/v1/pods => list - - pods - -
        GET /api/v1/pods/foo => 404
        GET /api/v1/watch/pods => watch - - pods - -
        GET /api/v1/watch/namespaces => watch - - namespaces - -
        GET /api/v1/watch/namespaces/other => watch - - namespaces other -
        GET /api/v1/watch/namespaces/other/pods => watch - other pods - -
        GET /api/v1/watch/namespaces/other/pods/foo => watch - other pods foo -
        POST /api/v1/watch/namespaces/other/pods => 405
        GET /api/v1/watch => 404
        POST /api/v1/namespaces/other/pods => create - other pods - -
        POST /api/v1/namespaces/other/pods/foo => 405
        POST /api/v1/pods => 405
        PUT /api/v1/namespaces/other/pods/foo => update - other pods foo -
        PUT /api/v1/namespaces/other/pods => 405
        PATCH /api/v1/namespaces/other/pods/foo => patch - other pods foo -
        DELETE /api/v1/namespaces/other/pods/foo => delete - other pods foo -
        DELETE /api/v1/namespaces/other/pods => deletecollection - other pods - -
        DELETE /api/v1/pods => 405
        DELETE /api/v1/namespaces => 405
        DELETE /api/v1/nodes => deletecollection - - nodes - -
        HEAD /api/v1/pods => 405
        PUT /api/v1/namespaces/other/finalize => update - - namespaces other finalize
        PUT /api/v1/namespaces/other/status => update - - namespaces other status
        GET /api/v1/namespaces/other/status => get - - namespaces other status
        DELETE /api/v1/namespaces/other/status => 405
        GET /api/v1/namespaces/other/status/x => 404
        POST /api/v1/namespaces/n/pods/p/binding => create - n pods p binding
        POST /api/v1/namespaces/n/pods/p/eviction => create - n pods p eviction
        GET /api/v1/namespaces/n/pods/p/nothing => 404
        GET /api/v1/namespaces/n/persistentvolumes/pv1 => 404
        GET /apis/apps/v1/deployments => list - - deployments.apps - -
        GET /apis/apps/v1/namespaces/n/deployments/d/scale => get - n deployments.apps d scale
        GET /apis/apps/v1/namespaces/n => 404
        GET /apis/apps/v1/pods => 404
        GET /apis/apps/v2/deployments => 404
        GET /api/v2/pods => 404
        GET /api/v1/nothing => 404
        "#,
    );
    assert_eq!(
        describe_route("GET", "/api/v1/pods", true),
        "watch - - pods - -"
    );
    let one = "/api/v1/namespaces/n/pods/p";
    assert_eq!(describe_route("GET", one, true), "get - n pods p -");
    assert_eq!(
        describe_route("POST", "/api/v1/namespaces/n/pods", true),
        "create - n pods - -"
    );
}

#[test]
fn full_paths_name_the_space() {
    check(
        r#"
        GET /api/v1/tenants/t1/namespaces => list t1 - namespaces - -
        GET /api/v1/tenants/t1/namespaces/other => get t1 - namespaces other -
        PUT /api/v1/tenants/t1/namespaces/other/finalize => update t1 - namespaces other finalize
        PUT /api/v1/tenants/t1/namespaces/other/status => update t1 - namespaces other status
        GET /api/v1/tenants/t1/pods => list t1 - pods - -
        POST /api/v1/tenants/t1/namespaces/n/pods => create t1 n pods - -
        DELETE /api/v1/tenants/t1/persistentvolumes => deletecollection t1 - persistentvolumes - -
        GET /api/v1/tenants/t1/pods/x => 404
        GET /api/v1/watch/tenants/t1/pods => watch t1 - pods - -
        GET /api/v1/watch/tenants/t1/namespaces/n/pods => watch t1 n pods - -
        GET /api/v1/tenants/t1/watch/pods => 404
        GET /apis/apps/v1/tenants/t1/deployments => list t1 - deployments.apps - -
        GET /apis/apps/v1/tenants/t1/namespaces/n/deployments/d => get t1 n deployments.apps d -
        GET /apis/apps/v1/tenants/t1 => 404
        GET /api/v1/tenants/system/pods => list system - pods - -
        GET /api/v1/tenants/system/namespaces/n/pods/p => get system n pods p -
        GET /api/v1/tenants/system/tenants/t1 => get system - tenants t1 -
        GET /api/v1/tenants/t1/tenants/t2/pods => 404
        GET /api/v1/tenants/t1/tenants/t2 => get t1 - tenants t2 -
        "#,
    );
}

#[test]
fn all_spaces_support_list_and_watch_only() {
    check(
        r#"
        GET /api/v1/tenants/all/pods => list ALL - pods - -
        GET /api/v1/watch/tenants/all/pods => watch ALL - pods - -
        GET /api/v1/tenants/all/namespaces => list ALL - namespaces - -
        GET /api/v1/tenants/all/namespaces/n/pods => list ALL n pods - -
        GET /apis/apps/v1/tenants/all/deployments => list ALL - deployments.apps - -
        GET /api/v1/tenants/all/namespaces/n => 405
        GET /api/v1/watch/tenants/all/namespaces/n => 405
        GET /api/v1/tenants/all/namespaces/n/pods/p => 405
        POST /api/v1/tenants/all/namespaces/n/pods => 405
        POST /api/v1/tenants/all/namespaces => 405
        DELETE /api/v1/tenants/all/persistentvolumes => 405
        DELETE /api/v1/tenants/all/namespaces/n/pods/p => 405
        PATCH /api/v1/tenants/all/persistentvolumes/p => 405
        GET /tenants/all/api/v1/pods => 404 text
        GET /tenants/t1/api/v1/tenants/all/pods => 404
        # Nobody is called so, but the path is an object's.
        GET /api/v1/tenants/all => get - - tenants all -
        "#,
    );
}

#[test]
fn tenant_objects_belong_to_the_system_space() {
    check(
        r#"
        GET /api/v1/tenants => list - - tenants - -
        POST /api/v1/tenants => create - - tenants - -
        GET /api/v1/watch/tenants => watch - - tenants - -
        GET /api/v1/watch/tenants/t1 => watch - - tenants t1 -
        DELETE /api/v1/tenants => 405
        GET /api/v1/tenants/t1 => get - - tenants t1 -
        PUT /api/v1/tenants/t1 => update - - tenants t1 -
        PATCH /api/v1/tenants/t1 => patch - - tenants t1 -
        DELETE /api/v1/tenants/t1 => delete - - tenants t1 -
        POST /api/v1/tenants/t1 => 405
        GET /api/v1/tenants/t1/status => get - - tenants t1 status
        PUT /api/v1/tenants/t1/status => update - - tenants t1 status
        PUT /api/v1/tenants/t1/finalize => update - - tenants t1 finalize
        GET /api/v1/tenants/t1/finalize => 405
        GET /api/v1/tenants/t1/status/x => 404
        GET /tenants/system/api/v1/tenants/t1 => get system - tenants t1 -
        GET /tenants/system/api/v1/tenants => list system - tenants - -
        "#,
    );
}

#[test]
fn tenant_prefix_applies_to_every_path_below() {
    check(
        r#"
        GET /tenants/t1 => Index t1
        GET /tenants/t1/ => Index t1
        GET /tenants/t1/api => Api t1
        GET /tenants/t1/apis => Apis t1
        GET /tenants/t1/apis/apps => Group("apps") t1
        GET /tenants/t1/api/v1 => Resources { group: "", version: "v1" } t1
        GET /tenants/t1/openapi/v2 => OpenApiV2 t1
        GET /tenants/t1/version => Version t1
        POST /tenants/t1/api => 405
        GET /tenants/t1/api/v1/namespaces/n/pods/p => get t1 n pods p -
        GET /tenants/t1/apis/apps/v1/deployments => list t1 - deployments.apps - -
        GET /tenants/t1/api/v1/watch/pods => watch t1 - pods - -
        GET /tenants/system/api/v1/pods => list system - pods - -
        # The full path agrees: kubectl --raw with a selfLink, for one.
        GET /tenants/t1/api/v1/tenants/t1/pods => list t1 - pods - -
        GET /tenants/system/api/v1/tenants/system/pods => list system - pods - -
        # It disagrees.
        GET /tenants/t1/api/v1/tenants/t2/pods => 404
        GET /tenants/t1/api/v1/tenants/system/pods => 404
        GET /tenants/system/api/v1/tenants/t1/pods => 404
        GET /tenants/t1/tenants/t1/api/v1/pods => 404 text
        GET /tenants/t1/nothing => 404 text
        GET /tenants => 404 text
        GET /api/tenants/t1/v1/pods => 404
        "#,
    );
}

#[test]
fn unserved_groups_are_not_found() {
    check(
        r#"
        GET /apis/submariner.io/v1alpha1/namespaces/axon-operator/tenants/x => 404 text
        GET /apis/submariner.io/v1alpha1/tenants/t1/namespaces/n/tenants/x => 404 text
        # What is there depends on the space.
        GET /apis/submariner.io/v1alpha1 => Resources { group: "submariner.io", version: "v1alpha1" } -
        GET /apis/submariner/v1alpha1 => 404 text
        GET /nothing => 404 text
        "#,
    );
}

#[test]
fn no_path_spelling_changes_the_target() {
    check(
        r#"
        GET /api/v1/tenants/t1%2Fnamespaces => 404
        GET /api/v1/tenants/t1%2fnamespaces%2Fdefault/pods => 404
        GET /api/v1/namespaces/default%2F..%2Fother/pods => 404
        GET /api/v1/namespaces/%2e%2e/pods => 404
        GET /api/v1/namespaces/../pods => 404
        GET /api/v1/tenants/t1/../t2/pods => 404
        GET /api/v1/tenants/%2E/pods => 404
        # What is encoded twice is decoded once, and nothing is called so.
        GET /api/v1/namespaces/%252e%252e/pods => list - %2e%2e pods - -
        GET /api/v1/tenants/%252e%252e/pods => 404
        GET /api/v1/tenants/T1/pods => 404
        GET /api/v1/tenants/t1%00/pods => 404
        GET /api/v1/tenants/t%31/pods => list t1 - pods - -
        GET /tenants/T1/api/v1/pods => 404 text
        GET /tenants/t1%2Fapi/v1/pods => 404
        GET /%74enants/t1/api/v1/pods => list t1 - pods - -
        GET /API/v1/pods => 404 text
        GET /api/V1/pods => 404
        GET /api/v1/Pods => 404
        GET /api/v1/TENANTS/t1/pods => 404
        GET /api/v1/namespaces/%ff/pods => 400
        GET /api/v1/pods/ => list - - pods - -
        GET /api/v1/ => Resources { group: "", version: "v1" } -
        GET / => Index -
        # An empty segment is never skipped: this is not the namespace called `pods`.
        DELETE /api/v1/namespaces//pods => 404 text
        DELETE /api/v1/tenants//pods => 404 text
        GET /tenants//api/v1/pods => 404 text
        GET //api/v1/pods => 404 text
        GET /api//v1/pods => 404 text
        GET /api/v1/pods// => 404 text
        "#,
    );
}

#[tokio::test]
async fn all_paths_of_an_object_return_the_same_bytes() -> anyhow::Result<()> {
    let server = TestServer::start().await?;
    let (system, tenant) = (server.system().await?, server.tenant("t1").await?);
    for (group, within, object) in [
        (
            "/api/v1",
            "namespaces/default/configmaps/one",
            json!({"metadata": {"name": "one"}}),
        ),
        (
            "/api/v1",
            "namespaces/ns-1",
            json!({"metadata": {"name": "ns-1"}}),
        ),
        (
            "/apis/rbac.authorization.k8s.io/v1",
            "clusterroles/cls1",
            json!({"metadata": {"name": "cls1"}, "rules": []}),
        ),
        (
            "/apis/coordination.k8s.io/v1",
            "namespaces/default/leases/lease",
            json!({"metadata": {"name": "lease"}}),
        ),
    ] {
        let collection = within.rsplit_once('/').map_or("", |(of, _)| of);
        let created = tenant
            .post(&format!("{group}/{collection}"), &object)
            .await?;
        assert_eq!(created.status, 201, "{}", created.text());
        let (full, short) = (
            format!("{group}/tenants/t1/{within}"),
            format!("{group}/{within}"),
        );
        let expected = tenant.get(&full).await?;
        assert_eq!(expected.json()["metadata"]["selfLink"], full.as_str());
        assert_eq!(expected.json()["metadata"]["tenant"], "t1");
        for (client, path) in [
            (&tenant, short.clone()),
            (&tenant, format!("/tenants/t1{short}")),
            (&tenant, format!("/tenants/t1{full}")),
            (&system, full.clone()),
            (&system, format!("/tenants/t1{short}")),
        ] {
            let found = client.get(&path).await?;
            assert_eq!((found.status, &found.body), (200, &expected.body), "{path}");
        }
        let absent = system.get(&short).await?;
        assert_eq!(absent.status, 404, "the system space has no {short}");
    }
    Ok(())
}

#[tokio::test]
async fn system_space_can_be_addressed_by_name() -> anyhow::Result<()> {
    let server = TestServer::start().await?;
    let system = server.system().await?;
    let short = "/api/v1/namespaces/default/configmaps";
    let created = system
        .post(short, &json!({"metadata": {"name": "one"}}))
        .await?;
    let metadata = &created.json()["metadata"];
    assert_eq!(metadata["selfLink"], format!("{short}/one"));
    assert!(metadata.get("tenant").is_none(), "{metadata}");
    let expected = system.get(&format!("{short}/one")).await?;
    for path in [
        "/api/v1/tenants/system/namespaces/default/configmaps/one",
        "/tenants/system/api/v1/namespaces/default/configmaps/one",
    ] {
        let found = system.get(path).await?;
        assert_eq!((found.status, &found.body), (200, &expected.body), "{path}");
    }
    Ok(())
}

#[tokio::test]
async fn deprecated_watch_path_of_one_object_watches_that_object() -> anyhow::Result<()> {
    let server = TestServer::start().await?;
    let tenant = server.tenant("t1").await?;
    let path = "/api/v1/namespaces/default/configmaps";
    for name in ["one", "one-more"] {
        tenant
            .post(path, &json!({"metadata": {"name": name}}))
            .await?;
    }
    let mut watch = tenant
        .watch("/api/v1/watch/namespaces/default/configmaps/one")
        .await?;
    let first = watch.next().await?.unwrap_or_default();
    assert_eq!(first["object"]["metadata"]["name"], "one");
    tenant.delete(&format!("{path}/one-more")).await?;
    tenant.delete(&format!("{path}/one")).await?;
    let second = watch.next().await?.unwrap_or_default();
    assert_eq!(second["type"], "DELETED");
    assert_eq!(second["object"]["metadata"]["name"], "one");
    Ok(())
}
