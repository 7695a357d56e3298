//! DELETE: immediate and deferred deletion, and the responses.

use crate::fixtures::{assert_refused, create, named, start_tenant};
use http::Method;
use insula_testkit::server::{Answer, Client};
use serde_json::{Value, json};

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const MAP: &str = "/api/v1/namespaces/default/configmaps/a";
const PODS: &str = "/api/v1/namespaces/default/pods";

async fn delete(client: &Client, path: &str, options: &Value) -> anyhow::Result<Answer> {
    let headers = [("content-type", "application/json")];
    client
        .send(Method::DELETE, path, &headers, options.to_string())
        .await
}

fn pod(name: &str) -> Value {
    json!({"metadata": {"name": name}, "spec": {"nodeName": "n1",
        "containers": [{"name": "c", "image": "i"}]}})
}

#[tokio::test]
async fn deleted_objects_are_answered_with_status_or_object_by_kind() -> anyhow::Result<()> {
    let (_server, client) = start_tenant().await?;
    let object = create(&client, MAPS, named("a")).await?;
    let answer = client.delete(MAP).await?;
    assert_eq!(answer.status, 200);
    assert_eq!(
        answer.json(),
        json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success",
            "details": {"name": "a", "kind": "configmaps", "uid": object["metadata"]["uid"]}})
    );
    assert_eq!(client.get(MAP).await?.status, 404);
    let roles = "/apis/rbac.authorization.k8s.io/v1/namespaces/default/roles";
    let role = create(&client, roles, named("r")).await?;
    let answer = client.delete(&format!("{roles}/r")).await?.json();
    assert_eq!(
        answer["details"],
        json!({"name": "r", "group": "rbac.authorization.k8s.io", "kind": "roles",
            "uid": role["metadata"]["uid"]})
    );
    let accounts = "/api/v1/namespaces/default/serviceaccounts";
    let account = create(&client, accounts, named("s")).await?;
    let answer = client.delete(&format!("{accounts}/s")).await?;
    assert_eq!((answer.status, answer.json()), (200, account));
    let answer = client.delete(&format!("{accounts}/s")).await?;
    assert_refused(&answer, 404, "NotFound", "serviceaccounts \"s\" not found");
    Ok(())
}

#[tokio::test]
async fn failed_preconditions_keep_the_object() -> anyhow::Result<()> {
    let (_server, client) = start_tenant().await?;
    let object = create(&client, MAPS, named("a")).await?;
    let metadata = &object["metadata"];
    let (uid, version) = (
        metadata["uid"].as_str().unwrap_or(""),
        metadata["resourceVersion"].as_str().unwrap_or(""),
    );
    let answer = delete(&client, MAP, &json!({"preconditions": {"uid": "x"}})).await?;
    assert_refused(
        &answer,
        409,
        "Conflict",
        &format!(
            "Operation cannot be fulfilled on ConfigMap \"a\": the UID in the precondition (x) \
             does not match the UID in record ({uid}). The object might have been deleted and then \
             recreated"
        ),
    );
    assert_eq!(
        answer.json()["details"],
        json!({"name": "a", "kind": "ConfigMap"})
    );
    let wrong = json!({"preconditions": {"resourceVersion": "1"}});
    let answer = delete(&client, MAP, &wrong).await?;
    assert_refused(
        &answer,
        409,
        "Conflict",
        &format!(
            "Operation cannot be fulfilled on ConfigMap \"a\": the ResourceVersion in the \
             precondition (1) does not match the ResourceVersion in record ({version}). The object \
             might have been modified"
        ),
    );
    let right = json!({"preconditions": {"uid": uid, "resourceVersion": version}});
    assert_eq!(delete(&client, MAP, &right).await?.status, 200);
    assert_eq!(client.get(MAP).await?.status, 404);
    Ok(())
}

#[tokio::test]
async fn body_options_take_precedence_over_query_options() -> anyhow::Result<()> {
    let (_server, client) = start_tenant().await?;
    create(&client, MAPS, named("a")).await?;
    let dry = format!("{MAP}?dryRun=All");
    assert_eq!(client.delete(&dry).await?.status, 200);
    assert_eq!(client.get(MAP).await?.status, 200);
    let answer = delete(&client, MAP, &json!({"dryRun": ["All"]})).await?;
    assert_eq!(answer.status, 200);
    assert_eq!(client.get(MAP).await?.status, 200);
    let body = json!({"kind": "DeleteOptions", "apiVersion": "v1"});
    assert_eq!(delete(&client, &dry, &body).await?.status, 200);
    assert_eq!(client.get(MAP).await?.status, 404);
    Ok(())
}

#[tokio::test]
async fn delete_options_are_accepted_in_every_group_and_format() -> anyhow::Result<()> {
    let (_server, client) = start_tenant().await?;
    for (content_type, body) in [
        (
            "application/json",
            r#"{"kind":"DeleteOptions","apiVersion":"apps/v1","gracePeriodSeconds":0}"#,
        ),
        ("application/yaml", "propagationPolicy: Background\n"),
        ("application/json", r#"{"orphanDependents":false}"#),
        ("application/json", "{}"),
    ] {
        create(&client, MAPS, named("a")).await?;
        let headers = [("content-type", content_type)];
        let answer = client.send(Method::DELETE, MAP, &headers, body).await?;
        assert_eq!(answer.status, 200, "{body}: {}", answer.text());
        assert_eq!(client.get(MAP).await?.status, 404, "{body}");
    }
    Ok(())
}

#[tokio::test]
async fn invalid_options_are_refused_with_kubernetes_messages() -> anyhow::Result<()> {
    let (_server, client) = start_tenant().await?;
    create(&client, MAPS, named("a")).await?;
    for (options, message) in [
        (
            json!({"propagationPolicy": "Foo"}),
            "propagationPolicy: Unsupported value: \"Foo\": supported values: \"Foreground\", \
             \"Background\", \"Orphan\", \"nil\"",
        ),
        (
            json!({"propagationPolicy": "Orphan", "orphanDependents": true}),
            "propagationPolicy: Invalid value: \"Orphan\": orphanDependents and \
             deletionPropagation cannot be both set",
        ),
        (
            json!({"dryRun": ["Foo"]}),
            "dryRun: Unsupported value: [\"Foo\"]: supported values: \"All\"",
        ),
    ] {
        let answer = delete(&client, MAP, &options).await?;
        let message = format!("DeleteOptions.meta.k8s.io \"\" is invalid: {message}");
        assert_refused(&answer, 422, "Invalid", &message);
        assert_eq!(answer.json()["details"]["kind"], "DeleteOptions");
    }
    let answer = client
        .delete(&format!("{MAP}?gracePeriodSeconds=abc"))
        .await?;
    assert_refused(
        &answer,
        400,
        "BadRequest",
        "strconv.ParseInt: parsing \"abc\": invalid syntax",
    );
    let answer = delete(&client, MAP, &json!({"kind": "Foo", "apiVersion": "v1"})).await?;
    assert_refused(
        &answer,
        400,
        "BadRequest",
        "no kind \"Foo\" is registered for version \"v1\" in scheme \
         \"k8s.io/apimachinery/pkg/apis/meta/internalversion/scheme/register.go:27\"",
    );
    assert_eq!(client.get(MAP).await?.status, 200);
    Ok(())
}

#[tokio::test]
async fn object_with_finalizers_gets_a_deletion_timestamp() -> anyhow::Result<()> {
    let (_server, client) = start_tenant().await?;
    let sent = json!({"metadata": {"name": "a", "finalizers": ["x.io/y"], "generation": 7}});
    create(&client, MAPS, sent).await?;
    let answer = client.delete(&format!("{MAP}?dryRun=All")).await?;
    assert_ne!(answer.json()["metadata"]["deletionTimestamp"], Value::Null);
    let read = client.get(MAP).await?.json();
    assert_eq!(read["metadata"]["deletionTimestamp"], Value::Null);
    let answer = client.delete(MAP).await?;
    assert_eq!(answer.status, 200);
    let marked = answer.json();
    assert_eq!(marked["kind"], "ConfigMap");
    assert_ne!(marked["metadata"]["deletionTimestamp"], Value::Null);
    assert_eq!(marked["metadata"]["deletionGracePeriodSeconds"], 0);
    assert_eq!(marked["metadata"]["generation"], 8);
    assert_eq!(client.get(MAP).await?.json(), marked);
    let again = client.delete(MAP).await?;
    assert_eq!((again.status, again.json()), (200, marked));
    Ok(())
}

#[tokio::test]
async fn running_pods_get_a_grace_period() -> anyhow::Result<()> {
    let (_server, client) = start_tenant().await?;
    let path = format!("{PODS}/p");
    create(&client, PODS, pod("p")).await?;
    let marked = client.delete(&path).await?.json();
    assert_eq!(marked["metadata"]["deletionGracePeriodSeconds"], 30);
    assert_eq!(marked["metadata"]["generation"], 2);
    let shorter = client
        .delete(&format!("{path}?gracePeriodSeconds=5"))
        .await?
        .json();
    assert_eq!(shorter["metadata"]["deletionGracePeriodSeconds"], 5);
    assert!(
        shorter["metadata"]["deletionTimestamp"].as_str()
            < marked["metadata"]["deletionTimestamp"].as_str()
    );
    for longer in ["60", "5"] {
        let answer = client
            .delete(&format!("{path}?gracePeriodSeconds={longer}"))
            .await?;
        assert_eq!(answer.json(), shorter, "{longer}");
    }
    let answer = client
        .delete(&format!("{path}?gracePeriodSeconds=0"))
        .await?;
    assert_eq!(answer.json()["kind"], "Pod");
    assert_eq!(client.get(&path).await?.status, 404);
    Ok(())
}

#[tokio::test]
async fn any_grace_period_is_accepted() -> anyhow::Result<()> {
    let (_server, client) = start_tenant().await?;
    for (name, seconds, kept) in [
        ("negative", -1, 1),
        ("least", i64::MIN, 1),
        ("most", i64::MAX, i64::MAX),
    ] {
        create(&client, PODS, pod(name)).await?;
        let options = json!({"gracePeriodSeconds": seconds});
        let answer = delete(&client, &format!("{PODS}/{name}"), &options).await?;
        assert_eq!(answer.status, 200, "{}", answer.text());
        let marked = answer.json();
        assert_eq!(marked["metadata"]["deletionGracePeriodSeconds"], kept);
        assert_ne!(marked["metadata"]["deletionTimestamp"], Value::Null);
    }
    Ok(())
}

#[tokio::test]
async fn pods_that_do_not_run_are_deleted_at_once() -> anyhow::Result<()> {
    let (_server, client) = start_tenant().await?;
    let mut waiting = pod("waiting");
    waiting["spec"]["nodeName"] = Value::Null;
    create(&client, PODS, waiting).await?;
    create(&client, PODS, pod("done")).await?;
    let status = json!({"status": {"phase": "Succeeded"}});
    let path = format!("{PODS}/done/status");
    assert_eq!(client.patch(&path, "merge", &status).await?.status, 200);
    for name in ["waiting", "done"] {
        let path = format!("{PODS}/{name}");
        assert_eq!(client.delete(&path).await?.json()["kind"], "Pod");
        assert_eq!(client.get(&path).await?.status, 404, "{name}");
    }
    Ok(())
}

#[tokio::test]
async fn built_in_namespaces_cannot_be_deleted() -> anyhow::Result<()> {
    let (server, client) = start_tenant().await?;
    for client in [client, server.system().await?] {
        for name in ["default", "kube-system", "kube-public"] {
            let answer = client.delete(&format!("/api/v1/namespaces/{name}")).await?;
            let message =
                format!("namespaces \"{name}\" is forbidden: this namespace may not be deleted");
            assert_refused(&answer, 403, "Forbidden", &message);
            assert_eq!(
                answer.json()["details"],
                json!({"name": name, "kind": "namespaces"})
            );
        }
    }
    Ok(())
}

#[tokio::test]
async fn terminating_namespaces_refuse_new_objects() -> anyhow::Result<()> {
    let (_server, client) = start_tenant().await?;
    create(&client, "/api/v1/namespaces", named("n")).await?;
    let mut marked = client.delete("/api/v1/namespaces/n").await?.json();
    assert_eq!(marked["status"]["phase"], "Terminating");
    assert_ne!(marked["metadata"]["deletionTimestamp"], Value::Null);
    assert_eq!(
        marked["metadata"]["deletionGracePeriodSeconds"],
        Value::Null
    );
    let answer = client
        .post("/api/v1/namespaces/n/configmaps", &named("a"))
        .await?;
    assert_refused(
        &answer,
        403,
        "Forbidden",
        "configmaps \"a\" is forbidden: unable to create new content in namespace n because it is \
         being terminated",
    );
    assert_eq!(
        answer.json()["details"]["causes"],
        json!([{"reason": "NamespaceTerminating",
            "message": "namespace n is being terminated", "field": "metadata.namespace"}])
    );
    marked["spec"]["finalizers"] = json!([]);
    let plain = client.put("/api/v1/namespaces/n", &marked).await?.json();
    assert_eq!(plain["spec"]["finalizers"], json!(["kubernetes"]));
    let answer = client.put("/api/v1/namespaces/n/finalize", &marked).await?;
    assert_eq!(answer.status, 200, "{}", answer.text());
    assert_eq!(client.get("/api/v1/namespaces/n").await?.status, 404);
    Ok(())
}

#[tokio::test]
async fn delete_collection_honours_selectors() -> anyhow::Result<()> {
    let (_server, client) = start_tenant().await?;
    let mut objects = Vec::new();
    for (name, color) in [("a", "red"), ("b", "blue"), ("c", "red")] {
        let object = json!({"metadata": {"name": name, "labels": {"color": color}}});
        objects.push(create(&client, MAPS, object).await?);
    }
    let selected = format!("{MAPS}?labelSelector=color%3Dred");
    let dry = client
        .delete(&format!("{selected}&dryRun=All"))
        .await?
        .json();
    assert_eq!(dry["items"].as_array().map(Vec::len), Some(2));
    let list = client.get(MAPS).await?.json();
    assert_eq!(list["items"].as_array().map(Vec::len), Some(3));
    let answer = client.delete(&selected).await?;
    assert_eq!(answer.status, 200, "{}", answer.text());
    let gone = answer.json();
    assert_eq!(gone["kind"], "ConfigMapList");
    assert_eq!(gone["items"][0]["metadata"], objects[0]["metadata"]);
    assert_eq!(gone["items"][1]["metadata"], objects[2]["metadata"]);
    let left = client.get(MAPS).await?.json();
    assert_eq!(left["items"].as_array().map(Vec::len), Some(1));
    assert_eq!(left["items"][0]["metadata"]["name"], "b");
    let options = json!({"preconditions": {"resourceVersion": "1"}});
    let answer = delete(&client, MAPS, &options).await?;
    assert_eq!(answer.status, 409, "{}", answer.text());
    assert_eq!(client.delete("/api/v1/configmaps").await?.status, 405);
    let gone = client
        .delete(&format!("{MAPS}?fieldSelector=metadata.name%3Db"))
        .await?;
    assert_eq!(gone.json()["items"].as_array().map(Vec::len), Some(1));
    Ok(())
}

#[tokio::test]
async fn recreated_object_has_a_new_uid() -> anyhow::Result<()> {
    let (_server, client) = start_tenant().await?;
    let before = create(&client, MAPS, named("a")).await?;
    assert_eq!(client.delete(MAP).await?.status, 200);
    let after = create(&client, MAPS, named("a")).await?;
    assert_ne!(before["metadata"]["uid"], after["metadata"]["uid"]);
    Ok(())
}

/// No garbage collector runs on this server, so objects that wait for one stay.
#[tokio::test]
async fn propagation_policy_is_recorded_as_finalizers() -> anyhow::Result<()> {
    let (_server, client) = start_tenant().await?;
    let (foreground, orphan) = (json!(["foregroundDeletion"]), json!(["orphan"]));
    let (nothing, held) = (json!([]), json!(["x.io/y"]));
    let held_orphan = json!(["x.io/y", "orphan"]);
    let policy = |policy: &str| json!({"propagationPolicy": policy});
    let old = |orphan: bool| json!({"orphanDependents": orphan});
    for (has, options, code, becomes) in [
        (&nothing, json!({}), 200, None),
        (&nothing, policy("Background"), 200, None),
        (&nothing, old(false), 200, None),
        (&nothing, policy("Foreground"), 200, Some(&foreground)),
        (&nothing, policy("Orphan"), 200, Some(&orphan)),
        (&nothing, old(true), 200, Some(&orphan)),
        // Without a policy in the request, the object's finalizers decide.
        (&foreground, json!({}), 200, Some(&foreground)),
        (&orphan, json!({}), 200, Some(&orphan)),
        (&orphan, policy("Foreground"), 200, Some(&foreground)),
        (&orphan, policy("Background"), 200, None),
        (&held, policy("Background"), 200, Some(&held)),
        (&held, policy("Orphan"), 200, Some(&held_orphan)),
        (&held, old(true), 200, Some(&held_orphan)),
        // `orphanDependents` works, with a deprecation warning.
        (&held, old(false), 202, Some(&held)),
    ] {
        let sent = json!({"metadata": {"name": "a", "finalizers": has}});
        create(&client, MAPS, sent).await?;
        let mut dry = options.clone();
        dry["dryRun"] = json!(["All"]);
        let shown = delete(&client, MAP, &dry).await?;
        let before = client.get(MAP).await?.json();
        assert_eq!(before["metadata"]["deletionTimestamp"], Value::Null);
        let answer = delete(&client, MAP, &options).await?;
        for answer in [&shown, &answer] {
            assert_eq!(answer.status, code, "{has} {options}: {}", answer.text());
        }
        let Some(becomes) = becomes else {
            assert_eq!(answer.json()["kind"], "Status", "{has} {options}");
            assert_eq!(client.get(MAP).await?.status, 404);
            continue;
        };
        let marked = answer.json();
        assert_eq!(marked["metadata"]["finalizers"], *becomes, "{options}");
        assert_eq!(shown.json()["metadata"]["finalizers"], *becomes);
        assert_ne!(marked["metadata"]["deletionTimestamp"], Value::Null);
        assert_eq!(marked["metadata"]["deletionGracePeriodSeconds"], 0);
        // A second deletion without options changes nothing.
        let again = client.delete(MAP).await?;
        assert_eq!((again.status, again.json()), (200, marked));
        let free = json!({"metadata": {"finalizers": null}});
        client.patch(MAP, "merge", &free).await?;
        assert_eq!(client.get(MAP).await?.status, 404);
    }
    Ok(())
}

#[tokio::test]
async fn second_deletion_can_change_the_propagation_policy() -> anyhow::Result<()> {
    let (_server, client) = start_tenant().await?;
    let sent = json!({"metadata": {"name": "a", "finalizers": ["x.io/y"], "generation": 1}});
    create(&client, MAPS, sent).await?;
    let policy = |policy: &str| json!({"propagationPolicy": policy});
    let first = delete(&client, MAP, &policy("Foreground")).await?.json();
    assert_eq!(first["metadata"]["generation"], 2);
    for (asked, finalizers) in [
        ("Orphan", json!(["x.io/y", "orphan"])),
        ("Foreground", json!(["x.io/y", "foregroundDeletion"])),
        ("Background", json!(["x.io/y"])),
    ] {
        let next = delete(&client, MAP, &policy(asked)).await?.json();
        let mut wanted = first["metadata"].clone();
        wanted["finalizers"] = finalizers;
        wanted["resourceVersion"] = next["metadata"]["resourceVersion"].clone();
        assert_eq!(next["metadata"], wanted, "{asked}");
    }
    create(&client, MAPS, named("b")).await?;
    let path = format!("{MAPS}/b");
    delete(&client, &path, &policy("Foreground")).await?;
    let gone = delete(&client, &path, &policy("Background")).await?;
    assert_eq!(gone.json()["kind"], "Status", "{}", gone.text());
    assert_eq!(client.get(&path).await?.status, 404);
    Ok(())
}

#[tokio::test]
async fn default_propagation_policy_depends_on_the_kind() -> anyhow::Result<()> {
    let (_server, client) = start_tenant().await?;
    let template = json!({"metadata": {"labels": {"a": "b"}}, "spec": {"restartPolicy": "Always",
        "containers": [{"name": "c", "image": "i"}]}});
    let mut once = template.clone();
    once["spec"]["restartPolicy"] = "Never".into();
    let jobs = "/apis/batch/v1/namespaces/default/jobs";
    let controllers = "/api/v1/namespaces/default/replicationcontrollers";
    let deployments = "/apis/apps/v1/namespaces/default/deployments";
    let warning = "299 - \"child pods are preserved by default when jobs are deleted; set \
                   propagationPolicy=Background to remove them or set \
                   propagationPolicy=Orphan to suppress this warning\"";
    let selecting = json!({"selector": {"a": "b"}, "template": template});
    let matching = json!({"selector": {"matchLabels": {"a": "b"}}, "template": template});
    for (path, spec, becomes, warned) in [
        (jobs, json!({"template": once}), Some("orphan"), warning),
        (controllers, selecting, Some("orphan"), ""),
        (deployments, matching, None, ""),
    ] {
        let object = json!({"metadata": {"name": "a"}, "spec": spec});
        let one = format!("{path}/a");
        create(&client, path, object.clone()).await?;
        let answer = client.delete(&one).await?;
        assert_eq!(answer.status, 200, "{}", answer.text());
        assert_eq!(answer.header("warning"), warned);
        let finalizers = answer.json()["metadata"]["finalizers"].clone();
        match becomes {
            None => assert_eq!(client.get(&one).await?.status, 404, "{path}"),
            Some(name) => assert_eq!(finalizers, json!([name]), "{path}"),
        }
        let options = json!({"propagationPolicy": "Background"});
        let answer = delete(&client, &one, &options).await?;
        assert_eq!(answer.header("warning"), "");
        assert_eq!(client.get(&one).await?.status, 404, "{path}");
        create(&client, path, object).await?;
        let all = client.delete(path).await?;
        assert_eq!(all.header("warning"), warned);
        let left = client.get(&one).await?;
        assert_eq!(left.status == 200, becomes.is_some(), "{path}");
    }
    // Events have no dependents, so the policy is ignored.
    let events = "/api/v1/namespaces/default/events";
    let event = json!({"metadata": {"name": "a"}, "involvedObject": {"namespace": "default"}});
    create(&client, events, event).await?;
    let options = json!({"propagationPolicy": "Foreground"});
    delete(&client, &format!("{events}/a"), &options).await?;
    assert_eq!(client.get(&format!("{events}/a")).await?.status, 404);
    Ok(())
}

#[tokio::test]
async fn delete_collection_applies_the_propagation_policy() -> anyhow::Result<()> {
    let (_server, client) = start_tenant().await?;
    for name in ["a", "b"] {
        create(&client, MAPS, named(name)).await?;
    }
    let options = json!({"propagationPolicy": "Foreground"});
    let gone = delete(&client, MAPS, &options).await?.json();
    // The objects are as before.
    assert_eq!(gone["items"][0]["metadata"]["finalizers"], Value::Null);
    for name in ["a", "b"] {
        let marked = client.get(&format!("{MAPS}/{name}")).await?.json();
        let finalizers = &marked["metadata"]["finalizers"];
        assert_eq!(*finalizers, json!(["foregroundDeletion"]), "{name}");
    }
    Ok(())
}

#[tokio::test]
async fn terminating_namespaces_keep_their_propagation_policy() -> anyhow::Result<()> {
    let (_server, client) = start_tenant().await?;
    create(&client, "/api/v1/namespaces", named("n")).await?;
    let path = "/api/v1/namespaces/n";
    let policy = |policy: &str| json!({"propagationPolicy": policy});
    let marked = delete(&client, path, &policy("Foreground")).await?.json();
    let finalizers = &marked["metadata"]["finalizers"];
    assert_eq!(*finalizers, json!(["foregroundDeletion"]));
    let again = delete(&client, path, &policy("Background")).await?.json();
    assert_eq!(again, marked);
    let mut empty = marked;
    empty["spec"]["finalizers"] = json!([]);
    client.put(&format!("{path}/finalize"), &empty).await?;
    delete(&client, path, &policy("Background")).await?;
    assert_eq!(client.get(path).await?.status, 404);
    Ok(())
}

#[tokio::test]
async fn terminating_pods_accept_shorter_grace_periods_only() -> anyhow::Result<()> {
    let (_server, client) = start_tenant().await?;
    let path = format!("{PODS}/p");
    create(&client, PODS, pod("p")).await?;
    let options = json!({"gracePeriodSeconds": 60});
    let marked = delete(&client, &path, &options).await?.json();
    for options in [json!({}), json!({"propagationPolicy": "Foreground"})] {
        let again = delete(&client, &path, &options).await?;
        assert_eq!(again.json(), marked, "{options}");
    }
    let options = json!({"gracePeriodSeconds": 0, "propagationPolicy": "Foreground"});
    let waiting = delete(&client, &path, &options).await?.json();
    assert_eq!(waiting["metadata"]["deletionGracePeriodSeconds"], 0);
    let finalizers = &waiting["metadata"]["finalizers"];
    assert_eq!(*finalizers, json!(["foregroundDeletion"]));
    let options = json!({"propagationPolicy": "Background"});
    delete(&client, &path, &options).await?;
    assert_eq!(client.get(&path).await?.status, 404);
    Ok(())
}
