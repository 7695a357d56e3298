//! POST: what the server adds, removes and refuses.

use crate::fixtures::{assert_refused, start_tenant};
use http::Method;
use insula_testkit::server::Client;
use serde_json::{Value, json};

const MAPS: &str = "/api/v1/namespaces/default/configmaps";

async fn list_names(client: &Client, path: &str) -> anyhow::Result<Vec<String>> {
    let list = client.get(path).await?.json();
    let items = list["items"].as_array().cloned().unwrap_or_default();
    let name = |item: &Value| item["metadata"]["name"].as_str().unwrap_or("").to_owned();
    Ok(items.iter().map(name).collect())
}

#[tokio::test]
async fn server_owned_metadata_overrides_the_clients_values() -> anyhow::Result<()> {
    let (_server, client) = start_tenant().await?;
    let sent = json!({"metadata": {
        "name": "a", "uid": "mine", "creationTimestamp": "2001-01-01T00:00:00Z",
        "deletionTimestamp": "2001-01-01T00:00:00Z", "deletionGracePeriodSeconds": 5,
        "generation": 7, "managedFields": [{"manager": "m", "operation": "Update"}],
    }});
    let created = client.post(MAPS, &sent).await?;
    assert_eq!(created.status, 201, "{}", created.text());
    let object = created.json();
    let metadata = &object["metadata"];
    assert_eq!(object["kind"], "ConfigMap");
    assert_eq!(object["apiVersion"], "v1");
    assert_eq!(metadata["namespace"], "default");
    assert_eq!(metadata["tenant"], "t1");
    assert_eq!(
        metadata["selfLink"],
        "/api/v1/tenants/t1/namespaces/default/configmaps/a"
    );
    assert_eq!(metadata["uid"].as_str().map(str::len), Some(36));
    assert!(metadata["creationTimestamp"].as_str() > Some("2024"));
    assert!(metadata["resourceVersion"].as_str() > Some("0"));
    // A kind without a counted generation keeps the value it was sent.
    assert_eq!(metadata["generation"], 7);
    for wiped in [
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
        "managedFields",
    ] {
        assert_eq!(metadata[wiped], Value::Null, "{wiped}");
    }
    assert_eq!(client.get(&format!("{MAPS}/a")).await?.json(), object);
    Ok(())
}

#[tokio::test]
async fn generation_starts_at_one() -> anyhow::Result<()> {
    let (_server, client) = start_tenant().await?;
    let pod = json!({"metadata": {"name": "p", "generation": 9},
        "spec": {"containers": [{"name": "c", "image": "i"}]}});
    let created = client.post("/api/v1/namespaces/default/pods", &pod).await?;
    assert_eq!(created.status, 201, "{}", created.text());
    assert_eq!(created.json()["metadata"]["generation"], 1);
    Ok(())
}

#[tokio::test]
async fn object_must_match_the_namespace_of_the_path() -> anyhow::Result<()> {
    let (_server, client) = start_tenant().await?;
    for (member, value, message) in [
        (
            "namespace",
            "other",
            "the namespace of the provided object does not match the namespace sent on the request",
        ),
        (
            "namespace",
            "default/other",
            "the namespace of the provided object does not match the namespace sent on the request",
        ),
    ] {
        let answer = client
            .post(MAPS, &json!({"metadata": {"name": "a", member: value}}))
            .await?;
        assert_refused(&answer, 400, "BadRequest", message);
    }
    // The namespace is compared before it is looked up.
    let answer = client
        .post(
            "/api/v1/namespaces/nons/configmaps",
            &json!({"metadata": {"name": "a", "namespace": "default"}}),
        )
        .await?;
    assert_eq!(answer.status, 400, "{}", answer.text());
    let own = json!({"metadata": {"name": "a", "namespace": "default", "tenant": "t1",
        "selfLink": "/api/v1/tenants/t1/namespaces/default/configmaps/a"}});
    assert_eq!(client.post(MAPS, &own).await?.status, 201);
    Ok(())
}

#[tokio::test]
async fn resource_version_on_create_is_an_error_without_a_reason() -> anyhow::Result<()> {
    let (_server, client) = start_tenant().await?;
    let answer = client
        .post(
            MAPS,
            &json!({"metadata": {"name": "a", "resourceVersion": "5"}}),
        )
        .await?;
    assert_refused(
        &answer,
        500,
        "",
        "resourceVersion should not be set on objects to be created",
    );
    assert_eq!(answer.json()["details"], Value::Null);
    for none in ["", "0"] {
        let name = format!("a{none}");
        let sent = json!({"metadata": {"name": name, "resourceVersion": none}});
        assert_eq!(client.post(MAPS, &sent).await?.status, 201);
    }
    Ok(())
}

#[tokio::test]
async fn generated_name_is_the_prefix_and_five_characters() -> anyhow::Result<()> {
    let (_server, client) = start_tenant().await?;
    let long = "x".repeat(70);
    for (prefix, kept) in [("web-", "web-"), (long.as_str(), &long[..58])] {
        let sent = json!({"metadata": {"generateName": prefix}});
        let created = client.post(MAPS, &sent).await?;
        assert_eq!(created.status, 201, "{}", created.text());
        let object = created.json();
        let name = object["metadata"]["name"].as_str().unwrap_or("");
        let end = name.strip_prefix(kept).unwrap_or("");
        assert_eq!(end.len(), 5, "{name}");
        assert!(
            end.chars()
                .all(|letter| "bcdfghjklmnpqrstvwxz2456789".contains(letter)),
            "{name}"
        );
        assert_eq!(object["metadata"]["generateName"], prefix);
    }
    let named = json!({"metadata": {"name": "a", "generateName": "web-"}});
    assert_eq!(
        client.post(MAPS, &named).await?.json()["metadata"]["name"],
        "a"
    );
    Ok(())
}

#[tokio::test]
async fn missing_and_invalid_names_are_field_errors() -> anyhow::Result<()> {
    let (_server, client) = start_tenant().await?;
    let answer = client.post(MAPS, &json!({"metadata": {}})).await?;
    assert_refused(
        &answer,
        422,
        "Invalid",
        "ConfigMap \"\" is invalid: metadata.name: Required value: name or generateName is required",
    );
    assert_eq!(
        answer.json()["details"],
        json!({"kind": "ConfigMap", "causes": [{
            "reason": "FieldValueRequired",
            "message": "Required value: name or generateName is required",
            "field": "metadata.name",
        }]})
    );
    let subdomain = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric \
        characters, '-' or '.', and must start and end with an alphanumeric character (e.g. \
        'example.com', regex used for validation is \
        '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";
    let answer = client
        .post(MAPS, &json!({"metadata": {"name": "A_b"}}))
        .await?;
    assert_refused(
        &answer,
        422,
        "Invalid",
        &format!(
            "ConfigMap \"A_b\" is invalid: metadata.name: Invalid value: \"A_b\": {subdomain}"
        ),
    );
    let answer = client
        .post(MAPS, &json!({"metadata": {"generateName": "A_"}}))
        .await?;
    let causes = answer.json()["details"]["causes"].clone();
    assert_eq!(causes[0]["field"], "metadata.generateName");
    assert_eq!(causes[1]["field"], "metadata.name");
    Ok(())
}

#[tokio::test]
async fn names_are_validated_by_kind() -> anyhow::Result<()> {
    let (_server, client) = start_tenant().await?;
    let roles = "/apis/rbac.authorization.k8s.io/v1/namespaces/default/roles";
    let dotted = json!({"metadata": {"name": "a.b"}, "spec": {"ports": [{"port": 1}]}});
    let answer = client
        .post("/api/v1/namespaces/default/services", &dotted)
        .await?;
    assert_refused(
        &answer,
        422,
        "Invalid",
        "Service \"a.b\" is invalid: metadata.name: Invalid value: \"a.b\": must not contain dots",
    );
    let free = json!({"metadata": {"name": "A:b_c"}});
    assert_eq!(client.post(roles, &free).await?.status, 201);
    let answer = client
        .post(roles, &json!({"metadata": {"name": "a/b"}}))
        .await?;
    assert_refused(
        &answer,
        422,
        "Invalid",
        "Role.rbac.authorization.k8s.io \"a/b\" is invalid: metadata.name: Invalid value: \
         \"a/b\": may not contain '/'",
    );
    let long = "x".repeat(254);
    let answer = client
        .post(MAPS, &json!({"metadata": {"name": long}}))
        .await?;
    assert_eq!(answer.status, 422);
    assert!(
        answer
            .message()
            .ends_with("must be no more than 253 characters"),
        "{}",
        answer.message()
    );
    // Kubernetes does not limit the length of a role's name; the store limits the key length.
    let answer = client
        .post(roles, &json!({"metadata": {"name": "r".repeat(3000)}}))
        .await?;
    assert_eq!(answer.status, 422, "{}", answer.text());
    assert_eq!(
        answer.json()["details"]["causes"][0]["field"],
        "metadata.name"
    );
    Ok(())
}

#[tokio::test]
async fn dry_run_returns_no_resource_version_and_stores_nothing() -> anyhow::Result<()> {
    let (_server, client) = start_tenant().await?;
    let sent = json!({"metadata": {"name": "a"}, "data": {"k": "v"}});
    let dry = format!("{MAPS}?dryRun=All");
    let answer = client.post(&dry, &sent).await?;
    assert_eq!(answer.status, 201, "{}", answer.text());
    let metadata = answer.json()["metadata"].clone();
    assert_eq!(metadata["resourceVersion"], Value::Null);
    assert_eq!(metadata["uid"].as_str().map(str::len), Some(36));
    assert_eq!(client.get(&format!("{MAPS}/a")).await?.status, 404);
    assert_eq!(client.post(MAPS, &sent).await?.status, 201);
    let answer = client.post(&dry, &sent).await?;
    assert_refused(
        &answer,
        409,
        "AlreadyExists",
        "configmaps \"a\" already exists",
    );
    let tenant = json!({"metadata": {"name": "fresh"}});
    let answer = client
        .post("/api/v1/namespaces?dryRun=All", &tenant)
        .await?;
    assert_eq!(answer.status, 201, "{}", answer.text());
    let accounts = client
        .get("/api/v1/namespaces/fresh/serviceaccounts")
        .await?;
    assert_eq!(accounts.json()["items"], json!([]));
    Ok(())
}

#[tokio::test]
async fn namespace_of_a_cluster_scoped_object_is_cleared() -> anyhow::Result<()> {
    let (_server, client) = start_tenant().await?;
    let sent = json!({"metadata": {"name": "n1", "namespace": "default"}});
    let created = client.post("/api/v1/namespaces", &sent).await?;
    assert_eq!(created.status, 201, "{}", created.text());
    assert_eq!(created.json()["metadata"]["namespace"], Value::Null);
    Ok(())
}

#[tokio::test]
async fn existing_names_and_missing_namespaces_are_reported() -> anyhow::Result<()> {
    let (_server, client) = start_tenant().await?;
    let sent = json!({"metadata": {"name": "a"}});
    assert_eq!(client.post(MAPS, &sent).await?.status, 201);
    let answer = client.post(MAPS, &sent).await?;
    assert_refused(
        &answer,
        409,
        "AlreadyExists",
        "configmaps \"a\" already exists",
    );
    assert_eq!(
        answer.json()["details"],
        json!({"name": "a", "kind": "configmaps"})
    );
    let missing = "/apis/apps/v1/namespaces/nons/deployments";
    let answer = client.post(missing, &sent).await?;
    assert_refused(&answer, 404, "NotFound", "namespaces \"nons\" not found");
    assert_eq!(
        answer.json()["details"],
        json!({"name": "nons", "kind": "namespaces"})
    );
    for path in [
        "/api/v1/configmaps",
        "/api/v1/namespaces/default/configmaps/a",
    ] {
        let answer = client.post(path, &sent).await?;
        assert_eq!(answer.status, 405, "{path}");
    }
    Ok(())
}

#[tokio::test]
async fn object_metadata_is_validated_for_every_kind() -> anyhow::Result<()> {
    let (_server, client) = start_tenant().await?;
    let mut long = json!({"metadata": {"name": "a", "annotations": {"a": ""}}});
    long["metadata"]["annotations"]["a"] = "x".repeat(262_144).into();
    for (metadata, message) in [
        (
            json!({"labels": {"k": "y".repeat(64)}}),
            format!(
                "metadata.labels: Invalid value: \"{}\": must be no more than 63 bytes",
                "y".repeat(64)
            ),
        ),
        (
            long["metadata"].clone(),
            "metadata.annotations: Too long: may not be more than 262144 bytes".to_owned(),
        ),
        (
            json!({"finalizers": ["plain"]}),
            "metadata.finalizers[0]: Invalid value: \"plain\": name is neither a standard \
             finalizer name nor is it fully qualified"
                .to_owned(),
        ),
        (
            json!({"ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": ""}]}),
            "metadata.ownerReferences.uid: Invalid value: \"\": must not be empty".to_owned(),
        ),
    ] {
        let mut metadata = metadata;
        metadata["name"] = "a".into();
        let answer = client.post(MAPS, &json!({"metadata": metadata})).await?;
        let message = format!("ConfigMap \"a\" is invalid: {message}");
        assert_refused(&answer, 422, "Invalid", &message);
    }
    assert_eq!(
        list_names(&client, MAPS).await?,
        Vec::<String>::new(),
        "nothing is left behind"
    );
    Ok(())
}

#[tokio::test]
async fn size_limits_of_object_store_and_request_are_enforced() -> anyhow::Result<()> {
    let (_server, client) = start_tenant().await?;
    let text = |size: usize| "x".repeat(size);
    let large = json!({"metadata": {"name": "a"}, "data": {"k": text((1 << 20) + 1)}});
    let answer = client.post(MAPS, &large).await?;
    assert_refused(
        &answer,
        422,
        "Invalid",
        "ConfigMap \"a\" is invalid: []: Too long: may not be more than 1048576 bytes",
    );
    let mut limits = json!({"metadata": {"name": "big"}, "data": {"a": text(1_600_000)}});
    let revisions = "/apis/apps/v1/namespaces/default/controllerrevisions";
    limits["revision"] = 1.into();
    let answer = client.post(revisions, &limits).await?;
    assert_refused(&answer, 500, "", "etcdserver: request is too large");
    let body = text(3 * (1 << 20) + 1);
    let json = [("content-type", "application/json")];
    let answer = client.send(Method::POST, MAPS, &json, body).await?;
    assert_refused(
        &answer,
        413,
        "RequestEntityTooLarge",
        "Request entity too large: limit is 3145728",
    );
    assert_eq!(list_names(&client, MAPS).await?, Vec::<String>::new());
    assert_eq!(list_names(&client, revisions).await?, Vec::<String>::new());
    Ok(())
}

#[tokio::test]
async fn string_data_of_a_secret_is_stored_as_data() -> anyhow::Result<()> {
    let (_server, client) = start_tenant().await?;
    let secret = json!({"metadata": {"name": "s"}, "data": {"a": "MQ==", "b": "Mg=="},
        "stringData": {"b": "zwei"}});
    let created = client
        .post("/api/v1/namespaces/default/secrets", &secret)
        .await?;
    assert_eq!(created.status, 201, "{}", created.text());
    let object = created.json();
    assert_eq!(object["data"], json!({"a": "MQ==", "b": "endlaQ=="}));
    assert_eq!(object["stringData"], Value::Null);
    assert_eq!(object["type"], "Opaque");
    Ok(())
}

#[tokio::test]
async fn create_options_are_validated_first() -> anyhow::Result<()> {
    let (_server, client) = start_tenant().await?;
    let sent = json!({"metadata": {"name": "a"}});
    for (query, message) in [
        (
            "dryRun=Foo",
            "CreateOptions.meta.k8s.io \"\" is invalid: dryRun: Unsupported value: [\"Foo\"]: \
             supported values: \"All\"",
        ),
        (
            "fieldValidation=Foo",
            "CreateOptions.meta.k8s.io \"\" is invalid: fieldValidation: Unsupported value: \
             \"Foo\": supported values: \"\", \"Ignore\", \"Strict\", \"Warn\"",
        ),
    ] {
        let answer = client.post(&format!("{MAPS}?{query}"), &sent).await?;
        assert_refused(&answer, 422, "Invalid", message);
        assert_eq!(answer.json()["details"]["kind"], "CreateOptions");
        assert_eq!(answer.json()["details"]["group"], "meta.k8s.io");
    }
    assert_eq!(list_names(&client, MAPS).await?, Vec::<String>::new());
    Ok(())
}
