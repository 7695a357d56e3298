//! Both versions of the kinds, in the system's space and in a tenant's.

use http::Method;
use serde_json::{Value, json};

use crate::objects::{Specification, infrastructure, statuses};
use crate::scene::{MERGE, Scene, create, path, success};

const OLD: &str = "v1beta1";
const NEW: &str = "v1beta2";

/// Returns the path of an object in this version.
fn one(version: &str, it: &Specification) -> String {
    format!("{}/{}", path(version, it.plural), it.name)
}

#[tokio::test]
async fn manifests_of_v1beta1_apply_unchanged() -> anyhow::Result<()> {
    let scene = Scene::new().await?;
    for (space, client) in scene.spaces() {
        for it in infrastructure() {
            let plural = it.plural;
            let made = success(create(client, OLD, plural, it.name, &it.old).await?);
            assert_eq!(made["spec"], it.old, "{space} {plural}");
            let read = success(client.get(&one(NEW, &it)).await?);
            assert_eq!(
                read["apiVersion"],
                "infrastructure.cluster.x-k8s.io/v1beta2"
            );
            assert_eq!(read["spec"], it.new, "{space} {plural}");
            // What was stored is valid, so that the operator can write it.
            let finalizer = json!({"metadata": {"finalizers": ["example.com/f"]}});
            success(client.patch(&one(NEW, &it), MERGE, &finalizer).await?);
            let read = success(client.get(&one(OLD, &it)).await?);
            assert_eq!(read["spec"], it.old, "{space} {plural}");
            // The same manifest again changes nothing.
            let patch = json!({"spec": it.old});
            let again = success(client.patch(&one(OLD, &it), MERGE, &patch).await?);
            assert_eq!(again["spec"], it.old, "{space} {plural}");
            let generation = |object: &Value| object["metadata"]["generation"].clone();
            assert_eq!(generation(&again), generation(&made), "{space} {plural}");
            let list = success(client.get(&path(OLD, plural)).await?);
            assert_eq!(list["items"][0]["spec"], it.old, "{space} {plural}");
        }
    }
    Ok(())
}

#[tokio::test]
async fn objects_of_v1beta2_survive_clients_of_v1beta1() -> anyhow::Result<()> {
    let scene = Scene::new().await?;
    for (space, client) in scene.spaces() {
        for mut it in infrastructure() {
            let plural = it.plural;
            if ["metal3clustertemplates", "metal3machinetemplates"].contains(&plural) {
                it.new["template"]["metadata"] =
                    json!({"labels": {"a": "b"}, "annotations": {"c": "d"}});
            }
            let made = success(create(client, NEW, plural, it.name, &it.new).await?);
            assert_eq!(made["spec"], it.new, "{space} {plural}");
            let old_one = one(OLD, &it);
            let mut old = success(client.get(&old_one).await?);
            assert_eq!(old["apiVersion"], "infrastructure.cluster.x-k8s.io/v1beta1");
            // An update of the whole object, a patch and an apply.
            old["metadata"]["labels"] = json!({"a": "1"});
            success(client.put(&old_one, &old).await?);
            let patch = json!({"metadata": {"labels": {"b": "2"}}});
            success(client.patch(&old_one, MERGE, &patch).await?);
            let apply = json!({
                "apiVersion": old["apiVersion"], "kind": old["kind"],
                "metadata": {"name": it.name, "labels": {"c": "3"}},
            });
            let answer = client
                .send(
                    Method::PATCH,
                    &format!("{old_one}?fieldManager=m"),
                    &[("content-type", "application/apply-patch+yaml")],
                    apply.to_string(),
                )
                .await?;
            success(answer);
            let new = success(client.get(&one(NEW, &it)).await?);
            assert_eq!(new["spec"], it.new, "{space} {plural}");
            assert_eq!(
                new["metadata"]["labels"],
                json!({"a": "1", "b": "2", "c": "3"})
            );
            assert_eq!(new["metadata"].get("annotations"), None, "{space} {plural}");
            assert_eq!(new["metadata"]["generation"], 1, "{space} {plural}");
        }
    }
    Ok(())
}

/// Objects as clients in Go write them, with empty structures, and as `v1beta2` has them.
#[tokio::test]
async fn empty_fields_of_v1beta1_are_missing_in_v1beta2() -> anyhow::Result<()> {
    let scene = Scene::new().await?;
    for (plural, old, new) in [
        (
            "metal3clusters",
            json!({"controlPlaneEndpoint": {"host": "", "port": 0}, "noCloudProvider": true}),
            json!({"cloudProviderEnabled": false}),
        ),
        (
            "metal3clustertemplates",
            json!({"template": {"spec": {"controlPlaneEndpoint": {"host": "h", "port": 0}}}}),
            json!({"template": {"spec": {"controlPlaneEndpoint": {"host": "h", "port": 6443}}}}),
        ),
        (
            "metal3datas",
            json!({"index": 0, "claim": {}, "template": {"name": ""}, "metaData": {"name": ""}}),
            json!({"index": 0, "metaData": {}}),
        ),
        (
            "metal3machines",
            json!({
                "providerID": "", "failureDomain": "", "image": {"url": ""}, "hostSelector": {},
                "dataTemplate": {"name": "t", "namespace": ""}, "userData": {"name": ""},
            }),
            json!({"hostSelector": {}, "dataTemplate": {"name": "t"}, "userData": {}}),
        ),
        (
            "metal3remediations",
            json!({"strategy": {"type": "", "retryLimit": 0, "timeout": "0s"}}),
            json!({"strategy": {"type": "Reboot", "retryLimit": 1, "timeoutSeconds": 600}}),
        ),
    ] {
        let client = &scene.acme;
        success(create(client, OLD, plural, "x", &old).await?);
        let new_one = format!("{}/x", path(NEW, plural));
        let read = success(client.get(&new_one).await?);
        assert_eq!(read["spec"], new, "{plural}");
        let label = json!({"metadata": {"labels": {"a": "b"}}});
        success(client.patch(&new_one, MERGE, &label).await?);
        let read = success(client.get(&format!("{}/x", path(OLD, plural))).await?);
        assert_eq!(read["spec"], old, "{plural}");
    }
    Ok(())
}

#[tokio::test]
async fn status_has_the_form_of_each_version() -> anyhow::Result<()> {
    let scene = Scene::new().await?;
    for (space, client) in scene.spaces() {
        for it in statuses() {
            let specification = infrastructure().into_iter();
            let mut specification = specification.filter(|of| of.plural == it.plural);
            let of = specification.next().unwrap();
            success(create(client, NEW, of.plural, of.name, &of.new).await?);
            for (version, status) in [(NEW, &it.new), (OLD, &it.old)] {
                let path = format!("{}/status", one(version, &of));
                for patch in [json!({"status": null}), json!({"status": status})] {
                    success(client.patch(&path, MERGE, &patch).await?);
                }
                for (read, expected) in [(NEW, &it.new), (OLD, &it.old)] {
                    let found = success(client.get(&one(read, &of)).await?);
                    assert_eq!(
                        found["status"], *expected,
                        "{space} {}: {version} read as {read}",
                        it.plural
                    );
                }
            }
        }
    }
    Ok(())
}

#[tokio::test]
async fn annotation_of_the_conversion_is_no_way_around_the_rules() -> anyhow::Result<()> {
    let scene = Scene::new().await?;
    for (space, client) in scene.spaces() {
        let plural = "metal3machines";
        let spec = json!({"identityRef": {"name": "a"}});
        success(create(client, OLD, plural, "x", &spec).await?);
        let forged = json!({"version": NEW, "fields": [
            {"path": "/spec/identityRef/name", "converted": "a", "original": "b"},
            {"path": "/spec/userData", "original": {"name": "s", "namespace": "kube-system"}},
        ]});
        let key = "infrastructure.cluster.x-k8s.io/conversion-data";
        let forged = json!({"metadata": {"annotations": {key: forged.to_string()}}});
        let old_one = format!("{}/x", path(OLD, plural));
        success(client.patch(&old_one, MERGE, &forged).await?);
        let new = success(client.get(&format!("{}/x", path(NEW, plural))).await?);
        assert_eq!(new["spec"], spec, "{space}");
    }
    Ok(())
}

#[tokio::test]
async fn fields_of_a_status_that_only_v1beta1_has_survive_the_operator() -> anyhow::Result<()> {
    let scene = Scene::new().await?;
    for (space, client) in scene.spaces() {
        let plural = "metal3machines";
        success(create(client, OLD, plural, "x", &json!({})).await?);
        let old_one = format!("{}/x", path(OLD, plural));
        let new_one = format!("{}/x", path(NEW, plural));
        let rendered = json!({"kind": "Metal3Data", "name": "d", "uid": "u"});
        let status = json!({"status": {"phase": "Running", "renderedData": rendered}});
        let old_status = format!("{old_one}/status");
        success(client.patch(&old_status, MERGE, &status).await?);
        let read = success(client.get(&new_one).await?);
        assert_eq!(read["status"], json!({"renderedData": {"name": "d"}}));
        let ready = json!({"status": {"initialization": {"provisioned": true}}});
        let new_status = format!("{new_one}/status");
        success(client.patch(&new_status, MERGE, &ready).await?);
        let read = success(client.get(&old_one).await?);
        assert_eq!(
            read["status"],
            json!({"phase": "Running", "renderedData": rendered, "ready": true}),
            "{space}"
        );
    }
    Ok(())
}
