//! Object count quotas.

use hyper::Method;
use insula_testkit::server::{TestServer, definition};
use serde_json::json;

use crate::{MAPS, QUOTAS, create, create_quota, forbidden, map, used};

#[tokio::test]
async fn exceeding_object_is_refused_with_the_reason() -> anyhow::Result<()> {
    let server = TestServer::start().await?;
    let client = server.tenant("t1").await?;
    create_quota(
        &client,
        "q1",
        json!({"configmaps": "2", "count/secrets": "1"}),
    )
    .await?;
    for name in ["c1", "c2"] {
        create(&client, MAPS, &map(name)).await?;
    }
    assert_eq!(
        used(&client, "q1").await?,
        json!({"configmaps": "2", "count/secrets": "0"})
    );
    let answer = client.post(MAPS, &map("c3")).await?;
    forbidden(
        &answer,
        "configmaps \"c3\" is forbidden: exceeded quota: q1, requested: configmaps=1, used: \
         configmaps=2, limited: configmaps=2",
    );
    let details = &answer.json()["details"];
    assert_eq!(*details, json!({"name": "c3", "kind": "configmaps"}));
    Ok(())
}

#[tokio::test]
async fn new_quota_counts_existing_objects() -> anyhow::Result<()> {
    let server = TestServer::start().await?;
    let client = server.tenant("t1").await?;
    create(&client, MAPS, &map("c1")).await?;
    create(&client, MAPS, &map("c2")).await?;
    create_quota(&client, "q1", json!({"count/configmaps": "2"})).await?;
    forbidden(
        &client.post(MAPS, &map("c3")).await?,
        "configmaps \"c3\" is forbidden: exceeded quota: q1, requested: count/configmaps=1, \
         used: count/configmaps=2, limited: count/configmaps=2",
    );
    Ok(())
}

#[tokio::test]
async fn deletion_frees_quota_at_once() -> anyhow::Result<()> {
    let server = TestServer::start().await?;
    let client = server.tenant("t1").await?;
    create_quota(&client, "q1", json!({"configmaps": "1"})).await?;
    for _ in 0..5 {
        create(&client, MAPS, &map("c1")).await?;
        assert_eq!(client.post(MAPS, &map("c2")).await?.status, 403);
        assert_eq!(client.delete(&format!("{MAPS}/c1")).await?.status, 200);
    }
    Ok(())
}

#[tokio::test]
async fn changed_quota_applies_at_once() -> anyhow::Result<()> {
    let server = TestServer::start().await?;
    let client = server.tenant("t1").await?;
    create_quota(&client, "q1", json!({"configmaps": "1"})).await?;
    create(&client, MAPS, &map("c1")).await?;
    let path = format!("{QUOTAS}/q1");
    let more = json!({"spec": {"hard": {"configmaps": "2", "secrets": "0"}}});
    assert_eq!(client.patch(&path, "merge", &more).await?.status, 200);
    create(&client, MAPS, &map("c2")).await?;
    assert_eq!(client.post(MAPS, &map("c3")).await?.status, 403);
    let secrets = "/api/v1/namespaces/default/secrets";
    forbidden(
        &client
            .post(secrets, &json!({"metadata": {"name": "s"}}))
            .await?,
        "secrets \"s\" is forbidden: exceeded quota: q1, requested: secrets=1, used: secrets=0, \
         limited: secrets=0",
    );
    // Deleting the quota removes the limit.
    assert_eq!(client.delete(&path).await?.status, 200);
    create(&client, MAPS, &map("c3")).await?;
    Ok(())
}

#[tokio::test]
async fn every_create_verb_is_counted() -> anyhow::Result<()> {
    let server = TestServer::start().await?;
    let client = server.tenant("t1").await?;
    create_quota(
        &client,
        "q1",
        json!({"count/configmaps": "1", "count/leases.coordination.k8s.io": "0"}),
    )
    .await?;
    create(&client, MAPS, &json!({"metadata": {"generateName": "c-"}})).await?;
    let generated = client
        .post(MAPS, &json!({"metadata": {"generateName": "c-"}}))
        .await?;
    assert_eq!(generated.status, 403);
    assert!(
        generated.message().starts_with("configmaps \"c-"),
        "{}",
        generated.message()
    );
    // A PUT that creates.
    let leases = "/apis/coordination.k8s.io/v1/namespaces/default/leases";
    let lease = json!({"metadata": {"name": "l"}});
    forbidden(
        &client.put(&format!("{leases}/l"), &lease).await?,
        "leases.coordination.k8s.io \"l\" is forbidden: exceeded quota: q1, requested: \
         count/leases.coordination.k8s.io=1, used: count/leases.coordination.k8s.io=0, limited: \
         count/leases.coordination.k8s.io=0",
    );
    Ok(())
}

#[tokio::test]
async fn dry_run_is_checked_but_not_charged() -> anyhow::Result<()> {
    let server = TestServer::start().await?;
    let client = server.tenant("t1").await?;
    create_quota(&client, "q1", json!({"configmaps": "1"})).await?;
    let dry = format!("{MAPS}?dryRun=All");
    for _ in 0..3 {
        assert_eq!(client.post(&dry, &map("c1")).await?.status, 201);
    }
    create(&client, MAPS, &map("c1")).await?;
    forbidden(
        &client.post(&dry, &map("c2")).await?,
        "configmaps \"c2\" is forbidden: exceeded quota: q1, requested: configmaps=1, used: \
         configmaps=1, limited: configmaps=1",
    );
    Ok(())
}

#[tokio::test]
async fn failed_writes_are_not_charged() -> anyhow::Result<()> {
    let server = TestServer::start().await?;
    let client = server.tenant("t1").await?;
    create_quota(&client, "q1", json!({"configmaps": "3"})).await?;
    create(&client, MAPS, &map("c1")).await?;
    for _ in 0..3 {
        assert_eq!(client.post(MAPS, &map("c1")).await?.status, 409);
        let wrong = json!({"metadata": {"name": "NO"}});
        assert_eq!(client.post(MAPS, &wrong).await?.status, 422);
    }
    assert_eq!(used(&client, "q1").await?, json!({"configmaps": "1"}));
    Ok(())
}

#[tokio::test]
async fn custom_resources_are_counted() -> anyhow::Result<()> {
    let server = TestServer::start_with_controllers().await?;
    let client = server.tenant("t1").await?;
    // The quota may exist before the kind.
    create_quota(&client, "q1", json!({"count/widgets.example.com": "1"})).await?;
    let schema = json!({"type": "object"});
    client
        .define(&definition("example.com", "widgets", "Widget", schema))
        .await?;
    let widgets = "/apis/example.com/v1/namespaces/default/widgets";
    let widget = |name: &str| json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": name}});
    create(&client, widgets, &widget("w1")).await?;
    forbidden(
        &client.post(widgets, &widget("w2")).await?,
        "widgets.example.com \"w2\" is forbidden: exceeded quota: q1, requested: \
         count/widgets.example.com=1, used: count/widgets.example.com=1, limited: \
         count/widgets.example.com=1",
    );
    Ok(())
}

#[tokio::test]
async fn first_exceeded_quota_by_name_is_reported() -> anyhow::Result<()> {
    let server = TestServer::start().await?;
    let client = server.tenant("t1").await?;
    create_quota(&client, "q3", json!({"configmaps": "0"})).await?;
    create_quota(
        &client,
        "q2",
        json!({"configmaps": "0", "count/configmaps": "0"}),
    )
    .await?;
    create_quota(&client, "q1", json!({"configmaps": "5"})).await?;
    forbidden(
        &client.post(MAPS, &map("c")).await?,
        "configmaps \"c\" is forbidden: exceeded quota: q2, requested: \
         configmaps=1,count/configmaps=1, used: configmaps=0,count/configmaps=0, limited: \
         configmaps=0,count/configmaps=0",
    );
    // The quota with room is not charged.
    assert_eq!(used(&client, "q1").await?, json!(null));
    Ok(())
}

#[tokio::test]
async fn quotas_are_counted_but_events_and_reviews_are_not() -> anyhow::Result<()> {
    let server = TestServer::start().await?;
    let client = server.tenant("t1").await?;
    let hard = json!({"resourcequotas": "1", "count/events": "0",
        "count/localsubjectaccessreviews.authorization.k8s.io": "0"});
    create_quota(&client, "q1", hard).await?;
    forbidden(
        &client
            .post(QUOTAS, &json!({"metadata": {"name": "q2"}}))
            .await?,
        "resourcequotas \"q2\" is forbidden: exceeded quota: q1, requested: resourcequotas=1, \
         used: resourcequotas=1, limited: resourcequotas=1",
    );
    let about = json!({"kind": "Pod", "name": "p", "namespace": "default"});
    let event = json!({"metadata": {"name": "e"}, "involvedObject": about});
    create(&client, "/api/v1/namespaces/default/events", &event).await?;
    let review = json!({"metadata": {"namespace": "default"}, "spec": {"user": "u",
        "resourceAttributes": {"verb": "get", "resource": "pods", "namespace": "default"}}});
    let path = "/apis/authorization.k8s.io/v1/namespaces/default/localsubjectaccessreviews";
    create(&client, path, &review).await?;
    Ok(())
}

#[tokio::test]
async fn quotas_are_per_namespace_and_tenant() -> anyhow::Result<()> {
    let server = TestServer::start().await?;
    let (one, other) = (server.tenant("t1").await?, server.tenant("t2").await?);
    for client in [&one, &other] {
        create_quota(client, "q1", json!({"configmaps": "1"})).await?;
    }
    create(&one, MAPS, &map("c1")).await?;
    create(&other, MAPS, &map("c1")).await?;
    assert_eq!(one.post(MAPS, &map("c2")).await?.status, 403);
    assert_eq!(other.post(MAPS, &map("c2")).await?.status, 403);
    create(
        &one,
        "/api/v1/namespaces/kube-public/configmaps",
        &map("c2"),
    )
    .await?;
    assert_eq!(one.delete(&format!("{MAPS}/c1")).await?.status, 200);
    assert_eq!(other.post(MAPS, &map("c2")).await?.status, 403);
    Ok(())
}

#[tokio::test]
async fn forged_quota_status_is_corrected() -> anyhow::Result<()> {
    let server = TestServer::start().await?;
    let client = server.tenant("t1").await?;
    create_quota(&client, "q1", json!({"configmaps": "1"})).await?;
    create(&client, MAPS, &map("c1")).await?;
    // Overstated usage is corrected by the next request that it would refuse.
    let status = json!({"status": {"hard": {"configmaps": "1"}, "used": {"configmaps": "7"}}});
    let path = format!("{QUOTAS}/q1/status");
    let written = client
        .send(
            Method::PATCH,
            &path,
            &[("content-type", "application/merge-patch+json")],
            status.to_string(),
        )
        .await?;
    assert_eq!(written.status, 200, "{}", written.text());
    assert_eq!(client.delete(&format!("{MAPS}/c1")).await?.status, 200);
    create(&client, MAPS, &map("c2")).await?;
    assert_eq!(used(&client, "q1").await?, json!({"configmaps": "1"}));
    Ok(())
}
