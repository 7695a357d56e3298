//! managedFields of plain creates, updates and patches.

use super::*;
use insula_testkit::server::TestServer;

#[tokio::test]
async fn creator_owns_sent_and_defaulted_fields() -> anyhow::Result<()> {
    let (_server, client) = start_tenant().await?;
    let path = format!("{DEPLOYMENTS}?fieldManager=me");
    let answer = client
        .post(&path, &deployment(&minimal_deployment()))
        .await?;
    assert_eq!(answer.status, 201, "{}", answer.text());
    let entries = &answer.json()["metadata"]["managedFields"];
    let entry = &entries[0];
    assert_eq!(entries.as_array().map(Vec::len), Some(1));
    assert_eq!(entry["manager"], "me");
    assert_eq!(entry["operation"], "Update");
    assert_eq!(entry["apiVersion"], "apps/v1");
    assert_eq!(entry["fieldsType"], "FieldsV1");
    assert_eq!(
        entry["time"],
        answer.json()["metadata"]["creationTimestamp"]
    );
    assert_eq!(
        entry["fieldsV1"],
        json!({"f:spec": {
            "f:progressDeadlineSeconds": {},
            "f:replicas": {},
            "f:revisionHistoryLimit": {},
            "f:selector": {},
            "f:strategy": {
                "f:rollingUpdate": {".": {}, "f:maxSurge": {}, "f:maxUnavailable": {}},
                "f:type": {},
            },
            "f:template": {
                "f:metadata": {"f:labels": {".": {}, "f:app": {}}},
                "f:spec": {
                    "f:containers": {"k:{\"name\":\"c\"}": {
                        ".": {},
                        "f:image": {},
                        "f:imagePullPolicy": {},
                        "f:name": {},
                        "f:resources": {},
                        "f:terminationMessagePath": {},
                        "f:terminationMessagePolicy": {},
                    }},
                    "f:dnsPolicy": {},
                    "f:restartPolicy": {},
                    "f:schedulerName": {},
                    "f:securityContext": {},
                    "f:terminationGracePeriodSeconds": {},
                },
            },
        }})
    );
    Ok(())
}

#[tokio::test]
async fn applied_defaults_have_no_manager() -> anyhow::Result<()> {
    let (_server, client) = start_tenant().await?;
    let answer = apply(
        &client,
        DEPLOYMENT,
        "me",
        &deployment(&minimal_deployment()),
    )
    .await?;
    assert_eq!(answer.status, 201, "{}", answer.text());
    assert_eq!(
        owners(&answer.json()),
        [(
            "me Apply".to_owned(),
            json!({"f:spec": {
                "f:selector": {},
                "f:template": {
                    "f:metadata": {"f:labels": {"f:app": {}}},
                    "f:spec": {"f:containers": {"k:{\"name\":\"c\"}":
                        {".": {}, "f:image": {}, "f:name": {}}}},
                },
            }})
        )]
    );
    Ok(())
}

#[tokio::test]
async fn default_manager_comes_from_the_user_agent() -> anyhow::Result<()> {
    let (_server, client) = start_tenant().await?;
    for (agent, name, called) in [
        ("my-ctl/v1.2 (linux)", "a", "my-ctl"),
        ("plain", "b", "plain"),
        ("", "c", "unknown"),
    ] {
        let headers = [("content-type", "application/json"), ("user-agent", agent)];
        let body = json!({"metadata": {"name": name}, "data": {"k": "v"}}).to_string();
        let answer = client.send(Method::POST, MAPS, &headers, body).await?;
        assert_eq!(answer.status, 201, "{}", answer.text());
        assert_eq!(owners(&answer.json())[0].0, format!("{called} Update"));
    }
    Ok(())
}

#[tokio::test]
async fn empty_writes_record_no_ownership() -> anyhow::Result<()> {
    let (_server, client) = start_tenant().await?;
    let answer = client
        .post(MAPS, &json!({"metadata": {"name": "m"}}))
        .await?;
    assert_eq!(answer.json()["metadata"].get("managedFields"), None);
    Ok(())
}

#[tokio::test]
async fn update_managers_are_capped_at_ten() -> anyhow::Result<()> {
    let (_server, client) = start_tenant().await?;
    client.post(MAPS, &map(&json!({"k": "v"}))).await?;
    for number in 0..30 {
        let path = format!("{MAP}?fieldManager=m{number}");
        let patch = json!({"data": {format!("k{number}"): "v"}});
        assert_eq!(client.patch(&path, "merge", &patch).await?.status, 200);
    }
    let object = client.get(MAP).await?.json();
    let owners = owners(&object);
    assert_eq!(owners.len(), 10, "{owners:?}");
    assert!(
        owners
            .iter()
            .any(|(name, _)| name == "ancient-changes Update")
    );
    Ok(())
}

#[tokio::test]
async fn valid_managed_fields_of_a_client_are_kept() -> anyhow::Result<()> {
    let (_server, client) = start_tenant().await?;
    let created = client.post(MAPS, &map(&json!({"k": "v"}))).await?.json();
    let mut sent = created.clone();
    sent["metadata"]["managedFields"][0]["operation"] = "Nonsense".into();
    let answer = client.put(MAP, &sent).await?;
    assert_eq!(answer.status, 200, "{}", answer.text());
    assert_eq!(owners(&answer.json()), owners(&created));
    sent["metadata"]["managedFields"][0]["operation"] = "Apply".into();
    sent["metadata"]["managedFields"][0]["manager"] = "other".into();
    let answer = client.put(MAP, &sent).await?;
    assert_eq!(owners(&answer.json())[0].0, "other Apply");
    Ok(())
}

#[tokio::test]
async fn ownership_is_tracked_per_space() -> anyhow::Result<()> {
    let server = TestServer::start().await?;
    let (one, two) = (server.tenant("t1").await?, server.tenant("t2").await?);
    for (client, value) in [(&one, "1"), (&two, "2")] {
        let answer = apply(client, MAP, "same", &map(&json!({"k": value}))).await?;
        assert_eq!(answer.status, 201, "{}", answer.text());
    }
    let answer = apply(&one, MAP, "same", &map(&json!({"k": "3"}))).await?;
    assert_eq!(answer.status, 200, "{}", answer.text());
    assert_eq!(two.get(MAP).await?.json()["data"], json!({"k": "2"}));
    Ok(())
}
