//! The identity that a token grants.

use http::Method;
use insula_testkit::server::TestServer;
use serde_json::{Value, json};

use super::{
    MAPS, PODS, RBAC, SECRETS, WHOAMI, bound_to, claims, create, issuer_of, pod, review, robot,
    sign, token, unauthenticated, whoami,
};

#[tokio::test]
async fn tokens_identify_the_account_and_its_bound_object() -> anyhow::Result<()> {
    let server = TestServer::start().await?;
    let (system, tenant) = (server.system().await?, server.tenant("t1").await?);
    for (client, space) in [(tenant, "t1"), (system, "system")] {
        let uid = robot(&client).await?["metadata"]["uid"].clone();
        let node = json!({"metadata": {"name": "n"}});
        let node = create(&client, "/api/v1/nodes", node).await?["metadata"]["uid"].clone();
        let pod = create(&client, PODS, pod()).await?["metadata"]["uid"].clone();
        create(&client, SECRETS, json!({"metadata": {"name": "s"}})).await?;
        let message = |name: &str, value: &Value| {
            let key = format!("authentication.kubernetes.io/{name}");
            (key, json!([value]))
        };
        let on_node = [
            message("node-name", &json!("n")),
            message("node-uid", &node),
        ];
        let of_pod = [message("pod-name", &json!("p")), message("pod-uid", &pod)];
        let mut cases = vec![(json!({}), vec![]), (bound_to("Secret", "s"), vec![])];
        cases.push((bound_to("Pod", "p"), [&of_pod[..], &on_node].concat()));
        cases.push((bound_to("Node", "n"), on_node.to_vec()));
        for (spec, lives_with) in cases {
            let token = token(&client, spec.clone()).await?;
            let id = format!("JTI={}", claims(&token)["jti"].as_str().unwrap_or_default());
            let mut extra = json!({"insula.dev/tenant": [space],
                "authentication.kubernetes.io/credential-id": [id]});
            for (key, value) in lives_with {
                extra[key] = value;
            }
            let (status, user) = whoami(&server, &token).await?;
            assert_eq!(status, 201, "{spec}");
            assert_eq!(
                user,
                json!({
                    "username": "system:serviceaccount:default:robot", "uid": uid,
                    "groups": ["system:serviceaccounts", "system:serviceaccounts:default",
                        "system:authenticated"],
                    "extra": extra,
                }),
                "{spec}"
            );
        }
    }
    Ok(())
}

#[tokio::test]
async fn tokens_are_valid_in_their_own_space_only() -> anyhow::Result<()> {
    let server = TestServer::start().await?;
    let (one, two) = (server.tenant("t1").await?, server.tenant("t2").await?);
    let system = server.system().await?;
    let everything = json!({"metadata": {"name": "all"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole",
            "name": "cluster-admin"},
        "subjects": [{"kind": "ServiceAccount", "namespace": "default", "name": "robot"}]});
    let mut tokens = Vec::new();
    for client in [&one, &two, &system] {
        robot(client).await?;
        create(
            client,
            &format!("{RBAC}/clusterrolebindings"),
            everything.clone(),
        )
        .await?;
        tokens.push(token(client, json!({})).await?);
    }
    let holder = server.client(&tokens[0]).await?;
    create(&holder, MAPS, json!({"metadata": {"name": "mine"}})).await?;
    let named = "/api/v1/tenants/t1/namespaces/default/configmaps/mine";
    assert_eq!(holder.get(named).await?.status, 200);
    assert_eq!(two.get(&format!("{MAPS}/mine")).await?.status, 404);
    // All authenticated users are bound to cluster-admin, in each space separately.
    let mut answers = Vec::new();
    for space in ["t2", "ghost", "system"] {
        for path in [
            format!("/api/v1/tenants/{space}/namespaces/default/configmaps"),
            format!("/tenants/{space}/api/v1/namespaces/default/configmaps"),
            format!("/api/v1/tenants/{space}/namespaces/default/serviceaccounts/robot/token"),
        ] {
            let method = match path.ends_with("/token") {
                true => Method::POST,
                false => Method::GET,
            };
            let answer = holder.send(method, &path, &[], "{}").await?;
            assert_eq!(answer.status, 403, "{path}: {}", answer.text());
            answers.push(answer.message().replace(&format!("\"{space}\""), "@"));
        }
    }
    // A missing space is refused like any other.
    assert_eq!(answers[0..3], answers[3..6]);
    assert_eq!(answers[0..3], answers[6..9]);
    assert_eq!(holder.get("/api/v1/tenants").await?.status, 403);
    // Token reviews in other spaces do not know it, in any state.
    let mut expired = claims(&tokens[0]);
    expired["exp"] = 1.into();
    let expired = sign(&server, &expired);
    let issuer = issuer_of(&server, "t1").await?;
    for (client, known) in [(&one, true), (&two, false), (&system, false)] {
        let status = review(client, &tokens[0], &[]).await?;
        assert_eq!(status["authenticated"] == true, known, "{status}");
        let expected = match known {
            true => "[invalid bearer token, service account token has expired]",
            false => "invalid bearer token",
        };
        assert_eq!(
            review(client, &expired, &[]).await?,
            unauthenticated(expected)
        );
        let other = review(client, &tokens[0], &["zzz"]).await?;
        let expected = match known {
            true => format!(
                "[invalid bearer token, token audiences [{issuer:?}] is invalid for the target \
                 audiences [\"zzz\"]]"
            ),
            false => "invalid bearer token".to_owned(),
        };
        assert_eq!(other, unauthenticated(&expected));
    }
    Ok(())
}

#[tokio::test]
async fn tokens_must_be_sent_in_a_single_bearer_header() -> anyhow::Result<()> {
    let server = TestServer::start().await?;
    let client = server.tenant("t1").await?;
    robot(&client).await?;
    let token = token(&client, json!({})).await?;
    let anonymous = server.client("").await?;
    let good = format!("Bearer {token}");
    let ask = |values: Vec<String>| {
        let anonymous = anonymous.clone();
        async move {
            let mut headers = vec![("content-type", "application/json")];
            headers.extend(values.iter().map(|value| ("authorization", value.as_str())));
            anonymous.send(Method::POST, WHOAMI, &headers, "{}").await
        }
    };
    for accepted in [
        good.clone(),
        format!("bearer {token}"),
        format!("BEARER {token}"),
    ] {
        assert_eq!(ask(vec![accepted.clone()]).await?.status, 201, "{accepted}");
    }
    for values in [
        vec![],
        vec![String::new()],
        vec!["Bearer".to_owned()],
        vec!["Bearer ".to_owned()],
        vec!["Bearer  ".to_owned()],
        vec![format!("Bearer  {token}")],
        vec![format!("Bearer\t{token}")],
        vec![format!("Bearer {token} {token}")],
        vec![format!("Bearer {token},")],
        vec![format!("Bearer,{token}")],
        vec![format!("Basic {token}")],
        vec![format!("Token {token}")],
        vec![token.clone()],
        vec![good.clone(), good.clone()],
        vec![good.clone(), String::new()],
        vec![good.clone(), "Bearer t1".to_owned()],
        vec!["Bearer t1".to_owned(), good.clone()],
    ] {
        let answer = ask(values.clone()).await?;
        assert_eq!(answer.status, 401, "{values:?}: {}", answer.text());
        assert_eq!(answer.message(), "Unauthorized");
    }
    Ok(())
}
