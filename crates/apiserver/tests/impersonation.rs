//! Impersonation: a request runs with exactly the impersonated user's permissions, and never with
//! more than the caller's own space has.

use http::Method;
use insula_testkit::server::{Answer, Audit, AuditLog, Client, TestServer, rule};
use serde_json::{Value, json};

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const WHOAMI: &str = "/apis/authentication.k8s.io/v1/selfsubjectreviews";

const USERS: &str = "alice,alice,7,\"dev,tenant:t1\"\n\
                      root,root,9,\"ops,tenant:system\"\n";

/// A server, the administrator of its tenant, and alice.
async fn start() -> anyhow::Result<(TestServer, Client, Client)> {
    let server = TestServer::with_tokens(USERS).await?;
    let admin = server.tenant("t1").await?;
    let alice = server.client("alice").await?;
    Ok((server, admin, alice))
}

async fn get(client: &Client, path: &str, headers: &[(&str, &str)]) -> anyhow::Result<Answer> {
    client.send(Method::GET, path, headers, "").await
}

/// The identity that the server reports for the caller.
async fn whoami(client: &Client, headers: &[(&str, &str)]) -> anyhow::Result<Value> {
    let mut headers = headers.to_vec();
    headers.push(("content-type", "application/json"));
    let answer = client.send(Method::POST, WHOAMI, &headers, "{}").await?;
    Ok(match answer.status {
        201 => answer.json()["status"]["userInfo"].clone(),
        _ => json!({"code": answer.status, "message": answer.message()}),
    })
}

fn impersonate(group: &str, resources: &str, names: &[&str]) -> Value {
    let mut rule = rule("impersonate", group, resources);
    if !names.is_empty() {
        rule["resourceNames"] = json!(names);
    }
    rule
}

#[tokio::test]
async fn each_part_of_an_identity_needs_its_own_permission() -> anyhow::Result<()> {
    let (_server, admin, alice) = start().await?;
    let user = ("impersonate-user", "x");
    let refused = |of: &str, name: &str, resource: &str, group: &str, scope: &str| {
        format!(
            "{of} \"{name}\" is forbidden: User \"alice\" cannot impersonate resource \
             \"{resource}\" in API group \"{group}\" {scope}"
        )
    };
    let cluster = "at the cluster scope";
    let authentication = "authentication.k8s.io";
    // In the order of the checks: each granted permission reveals the next missing one.
    let headers = [
        user,
        ("impersonate-uid", "u"),
        ("impersonate-group", "g"),
        ("impersonate-group", "h"),
        ("impersonate-extra-scopes", "view"),
        ("impersonate-extra-scopes", "edit"),
    ];
    for (step, message, given) in [
        (
            "user",
            refused("users", "x", "users", "", cluster),
            impersonate("", "users", &["x"]),
        ),
        (
            "uid",
            refused(
                "uids.authentication.k8s.io",
                "u",
                "uids",
                authentication,
                cluster,
            ),
            impersonate(authentication, "uids", &["u"]),
        ),
        (
            "group",
            refused("groups", "g", "groups", "", cluster),
            impersonate("", "groups", &["g"]),
        ),
        (
            "second-group",
            refused("groups", "h", "groups", "", cluster),
            impersonate("", "groups", &["h"]),
        ),
        (
            "extra",
            refused(
                "userextras.authentication.k8s.io",
                "view",
                "userextras/scopes",
                authentication,
                cluster,
            ),
            impersonate(authentication, "userextras/scopes", &["view"]),
        ),
        (
            "second-extra",
            refused(
                "userextras.authentication.k8s.io",
                "edit",
                "userextras/scopes",
                authentication,
                cluster,
            ),
            impersonate(authentication, "userextras/scopes", &["edit"]),
        ),
    ] {
        let answer = get(&alice, MAPS, &headers).await?;
        assert_eq!((answer.status, answer.message()), (403, message), "{step}");
        admin.grant(step, "User:alice", &[given]).await?;
    }
    assert_eq!(
        whoami(&alice, &headers).await?,
        json!({"username": "x", "uid": "u", "groups": ["g", "h", "system:authenticated"],
            "extra": {"scopes": ["view", "edit"], "insula.dev/tenant": ["t1"]}})
    );
    // Missing parts are not filled in from the caller's own identity.
    assert_eq!(
        whoami(&alice, &[user]).await?,
        json!({"username": "x", "groups": ["system:authenticated"],
            "extra": {"insula.dev/tenant": ["t1"]}})
    );
    let account = ("impersonate-user", "system:serviceaccount:default:robot");
    let answer = get(&alice, MAPS, &[account]).await?;
    assert_eq!(
        answer.message(),
        refused(
            "serviceaccounts",
            "robot",
            "serviceaccounts",
            "",
            "in the namespace \"default\""
        )
    );
    Ok(())
}

#[tokio::test]
async fn service_account_impersonation_is_authorized_in_its_namespace() -> anyhow::Result<()> {
    let (_server, admin, alice) = start().await?;
    let rules = [impersonate("", "serviceaccounts", &[])];
    admin
        .grant_in("default", "acts", "User:alice", &rules)
        .await?;
    let robot = ("impersonate-user", "system:serviceaccount:default:robot");
    // The service account need not exist: permissions are bound to its name.
    assert_eq!(
        whoami(&alice, &[robot]).await?,
        json!({"username": "system:serviceaccount:default:robot",
            "groups": ["system:serviceaccounts", "system:serviceaccounts:default",
                "system:authenticated"],
            "extra": {"insula.dev/tenant": ["t1"]}})
    );
    admin
        .grant_in(
            "default",
            "robots",
            "Group:system:serviceaccounts:default",
            &[rule("list,watch", "", "configmaps")],
        )
        .await?;
    assert_eq!(get(&alice, MAPS, &[robot]).await?.status, 200);
    let elsewhere = (
        "impersonate-user",
        "system:serviceaccount:kube-system:robot",
    );
    assert_eq!(get(&alice, MAPS, &[elsewhere]).await?.status, 403);
    // Explicit groups replace those of the service account.
    let other = ("impersonate-group", "dev");
    let answer = get(&admin, MAPS, &[robot, other]).await?;
    assert_eq!(answer.status, 403, "{}", answer.text());
    assert_eq!(
        whoami(&admin, &[robot, other]).await?["groups"],
        json!(["dev", "system:authenticated"])
    );
    Ok(())
}

#[tokio::test]
async fn impersonated_requests_have_only_the_impersonated_permissions() -> anyhow::Result<()> {
    let (_server, admin, alice) = start().await?;
    let bob = ("impersonate-user", "bob");
    admin
        .grant(
            "acts",
            "User:alice",
            &[
                impersonate("", "users", &["bob"]),
                rule("*", "", "secrets,configmaps"),
            ],
        )
        .await?;
    admin
        .grant_in(
            "default",
            "bob",
            "User:bob",
            &[rule("get,list,watch", "", "configmaps")],
        )
        .await?;
    let secrets = "/api/v1/namespaces/default/secrets";
    assert_eq!(alice.get(secrets).await?.status, 200);
    let answer = get(&alice, secrets, &[bob]).await?;
    assert_eq!(
        (answer.status, answer.message()),
        (
            403,
            "secrets is forbidden: User \"bob\" cannot list resource \"secrets\" in API group \
             \"\" in the namespace \"default\""
                .to_owned()
        )
    );
    assert_eq!(get(&alice, MAPS, &[bob]).await?.status, 200);
    // `system:masters` too have only the impersonated user's permissions.
    let answer = get(&admin, secrets, &[bob]).await?;
    assert_eq!(answer.status, 403);
    // Impersonation does not chain, even if the impersonated user may impersonate others.
    admin
        .grant("bob-acts", "User:bob", &[impersonate("", "users", &[])])
        .await?;
    let both = [bob, ("impersonate-user", "carol")];
    assert_eq!(get(&alice, MAPS, &both).await?.status, 400);
    let carol = [("impersonate-user", "carol")];
    assert_eq!(get(&alice, MAPS, &carol).await?.status, 403);
    // Self reviews are about the impersonated user.
    let question = json!({"spec": {"resourceAttributes": {"verb": "list",
        "resource": "secrets", "namespace": "default"}}});
    let path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";
    let headers = [bob, ("content-type", "application/json")];
    let answer = alice
        .send(Method::POST, path, &headers, question.to_string())
        .await?;
    assert_eq!(answer.json()["status"]["allowed"], false);
    // Impersonating oneself needs the permission too.
    let herself = [("impersonate-user", "alice")];
    assert_eq!(get(&alice, MAPS, &herself).await?.status, 403);
    Ok(())
}

#[tokio::test]
async fn ambiguous_or_incomplete_headers_are_refused() -> anyhow::Result<()> {
    let (_server, admin, _alice) = start().await?;
    for (headers, code) in [
        (
            vec![("impersonate-user", "bob"), ("impersonate-user", "carol")],
            400,
        ),
        (
            vec![("Impersonate-User", "bob"), ("IMPERSONATE-USER", "carol")],
            400,
        ),
        (
            vec![("impersonate-user", ""), ("impersonate-user", "bob")],
            400,
        ),
        (
            vec![("impersonate-user", "bob"), ("impersonate-user", "")],
            400,
        ),
        (
            vec![
                ("impersonate-user", "bob"),
                ("impersonate-uid", "1"),
                ("impersonate-uid", "2"),
            ],
            400,
        ),
        (vec![("impersonate-user", "")], 400),
        (vec![("impersonate-group", "g")], 400),
        (vec![("impersonate-uid", "1")], 400),
        (vec![("impersonate-extra-a", "b")], 400),
        (
            vec![("impersonate-user", ""), ("impersonate-group", "g")],
            400,
        ),
        (vec![("impersonate-nonsense", "x")], 400),
        (
            vec![
                ("impersonate-user", "bob"),
                ("impersonate-group", "system:masters"),
            ],
            403,
        ),
    ] {
        let answer = get(&admin, "/api/v1/pods", &headers).await?;
        assert_eq!(answer.status, code, "{headers:?}: {}", answer.text());
        // The request is not answered as the caller's own either.
        assert_eq!(answer.json()["kind"], "Status", "{headers:?}");
    }
    Ok(())
}

/// A header listed in `Connection` is not dropped: the request never runs as the caller itself.
#[tokio::test]
async fn hop_by_hop_impersonation_headers_still_count() -> anyhow::Result<()> {
    let (server, _admin, _alice) = start().await?;
    for headers in [
        "Connection: close\r\nImpersonate-User: bob\r\n",
        "Connection: close, Impersonate-User\r\nImpersonate-User: bob\r\n",
        "Connection: impersonate-user, close\r\niMPERSONATE-uSER: bob\r\n",
        "Connection: close\r\nImpersonate-User:bob\r\nImpersonate-Group:\r\n",
        "Connection: close\r\nTE: trailers\r\nimpersonate-user:\tbob  \r\n",
    ] {
        let request = format!(
            "GET /api/v1/pods HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer t1\r\n{headers}\r\n"
        );
        let answer = server.send_raw(&request).await?;
        assert!(answer.starts_with("HTTP/1.1 403"), "{headers}: {answer}");
        assert!(answer.contains("User \\\"bob\\\""), "{headers}: {answer}");
    }
    // A name that only resembles the header is a different header or invalid.
    for (headers, code) in [
        ("Connection: close\r\nImpersonate_User: bob\r\n", "200"),
        ("Connection: close\r\nX-Impersonate-User: bob\r\n", "200"),
        ("Connection: close\r\nImpersonate-User : bob\r\n", "400"),
        ("Connection: close\r\nImpersonate-User: b\u{e9}\r\n", "400"),
    ] {
        let request = format!(
            "GET /api/v1/pods HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer t1\r\n{headers}\r\n"
        );
        let answer = server.send_raw(&request).await?;
        let start = format!("HTTP/1.1 {code}");
        assert!(answer.starts_with(&start), "{headers}: {answer}");
    }
    Ok(())
}

#[tokio::test]
async fn extra_keys_are_decoded_before_authorization() -> anyhow::Result<()> {
    let (_server, admin, alice) = start().await?;
    let key = "impersonate-extra-Example.com%2fScopes";
    let headers = [("impersonate-user", "x"), (key, "view")];
    admin
        .grant("x", "User:alice", &[impersonate("", "users", &["x"])])
        .await?;
    let answer = get(&alice, MAPS, &headers).await?;
    assert_eq!(
        answer.message(),
        "userextras.authentication.k8s.io \"view\" is forbidden: User \"alice\" cannot \
         impersonate resource \"userextras/example.com/scopes\" in API group \
         \"authentication.k8s.io\" at the cluster scope"
    );
    let extras = "userextras/example.com/scopes";
    let rules = [impersonate("authentication.k8s.io", extras, &["view"])];
    admin.grant("extra", "User:alice", &rules).await?;
    assert_eq!(
        whoami(&alice, &headers).await?["extra"],
        json!({"example.com/scopes": ["view"], "insula.dev/tenant": ["t1"]})
    );
    // Two spellings of one key are the same key, and each value is authorized.
    let twice = [
        headers[0],
        headers[1],
        ("impersonate-extra-example.com%2Fscopes", "edit"),
    ];
    assert_eq!(get(&alice, MAPS, &twice).await?.status, 403);
    // Keys that the server sets itself, such as the tenant, cannot be impersonated.
    let forged = [
        ("impersonate-user", "x"),
        ("impersonate-extra-insula.dev%2Ftenant", "t2"),
    ];
    let found = whoami(&admin, &forged).await?;
    assert_eq!(found["extra"], json!({"insula.dev/tenant": ["t1"]}));
    Ok(())
}

/// Refused by the prefix of the name, not by a list, since new groups appear over time.
#[tokio::test]
async fn tenants_cannot_impersonate_server_assigned_identities() -> anyhow::Result<()> {
    let (server, admin, _alice) = start().await?;
    server.tenant("t2").await?;
    for user in [
        "system:admin",
        "system:kube-controller-manager",
        "system:node:n",
        "system:anonymous",
        "system:serviceaccount:default",
        "system:serviceaccount:a:b:c",
        "system:serviceaccount::x",
        "system:",
    ] {
        let answer = get(&admin, MAPS, &[("impersonate-user", user)]).await?;
        assert_eq!(answer.status, 403, "{user}: {}", answer.text());
        let text = answer.message();
        let start = format!("users \"{user}\" is forbidden: User \"admin\" cannot impersonate");
        assert!(text.starts_with(&start), "{text}");
    }
    for group in [
        "system:masters",
        "system:nodes",
        "system:unauthenticated",
        "system:serviceaccounts",
        "system:serviceaccounts:kube-system",
        "system:brand-new",
        "tenant:t1",
        "tenant:t2",
        "tenant:system",
        "tenant:",
    ] {
        let headers = [("impersonate-user", "bob"), ("impersonate-group", group)];
        let answer = get(&admin, MAPS, &headers).await?;
        assert_eq!(answer.status, 403, "{group}: {}", answer.text());
        let text = answer.message();
        let start = format!("groups \"{group}\" is forbidden: User \"admin\" cannot impersonate");
        assert!(text.starts_with(&start), "{text}");
        // Nor together with one of its own service accounts.
        let headers = [
            ("impersonate-user", "system:serviceaccount:default:default"),
            ("impersonate-group", group),
        ];
        assert_eq!(get(&admin, MAPS, &headers).await?.status, 403, "{group}");
    }
    // The impersonated user belongs to the caller's tenant, unlike users of the same name
    // elsewhere.
    let other = whoami(&admin, &[("impersonate-user", "root")]).await?;
    assert_eq!(other["extra"], json!({"insula.dev/tenant": ["t1"]}));
    let headers = [("impersonate-user", "admin")];
    for (path, code) in [
        ("/api/v1/tenants/t1/pods", 200),
        ("/api/v1/tenants/t2/pods", 403),
        ("/api/v1/tenants/system/pods", 403),
        ("/api/v1/tenants/all/pods", 403),
        ("/api/v1/tenants", 403),
    ] {
        assert_eq!(get(&admin, path, &headers).await?.status, code, "{path}");
    }
    Ok(())
}

/// What an operator needs that acts as one account of its tenants' namespaces, and no more.
#[tokio::test]
async fn right_to_a_tenant_gives_no_right_to_its_users_or_groups() -> anyhow::Result<()> {
    let server = TestServer::with_tokens("actor,actor,8,\"tenant:system\"\n").await?;
    let (admin, system) = (server.tenant("t1").await?, server.system().await?);
    server.tenant("t2").await?;
    let actor = server.client("actor").await?;
    let rules = [
        impersonate("", "serviceaccounts", &["robot"]),
        impersonate("", "tenants", &["t1"]),
    ];
    system.grant("acts", "User:actor", &rules).await?;
    let read = [rule("get,list", "", "configmaps")];
    admin
        .grant_in("default", "robot", "ServiceAccount:robot", &read)
        .await?;
    let maps = "/api/v1/tenants/t1/namespaces/default/configmaps";
    let robot = ("impersonate-user", "system:serviceaccount:default:robot");
    let tenant = ("impersonate-group", "tenant:t1");
    for (why, path, headers, code) in [
        ("the account", maps, &[robot, tenant][..], 200),
        ("without the account", maps, &[], 403),
        ("the system's account", maps, &[robot], 403),
        (
            "another account",
            maps,
            &[
                ("impersonate-user", "system:serviceaccount:default:other"),
                tenant,
            ],
            403,
        ),
        (
            "a user",
            maps,
            &[("impersonate-user", "admin"), tenant],
            403,
        ),
        (
            "a group besides",
            maps,
            &[robot, tenant, ("impersonate-group", "system:masters")],
            403,
        ),
        (
            "another tenant",
            "/api/v1/tenants/t2/namespaces/default/configmaps",
            &[robot, ("impersonate-group", "tenant:t2")],
            403,
        ),
        (
            "what the account may not",
            "/api/v1/tenants/t1/namespaces/default/secrets",
            &[robot, tenant],
            403,
        ),
    ] {
        let answer = get(&actor, path, headers).await?;
        assert_eq!(answer.status, code, "{why}: {}", answer.text());
    }
    Ok(())
}

#[tokio::test]
async fn system_users_impersonate_tenant_users_by_naming_the_tenant() -> anyhow::Result<()> {
    let (server, admin, _alice) = start().await?;
    let other = server.tenant("t2").await?;
    let system = server.system().await?;
    let inside = [
        ("impersonate-user", "admin"),
        ("impersonate-group", "tenant:t1"),
    ];
    assert_eq!(
        whoami(&system, &inside).await?,
        json!({"username": "admin", "groups": ["system:authenticated"],
            "extra": {"insula.dev/tenant": ["t1"]}})
    );
    // The request then runs in that tenant and is confined to it.
    let map = json!({"metadata": {"name": "m"}});
    assert_eq!(admin.post(MAPS, &map).await?.status, 201);
    for (path, code) in [
        (format!("{MAPS}/m"), 200),
        ("/api/v1/tenants/t1/pods".to_owned(), 200),
        ("/api/v1/tenants/t2/pods".to_owned(), 403),
        ("/api/v1/tenants/system/pods".to_owned(), 403),
        ("/api/v1/tenants/all/pods".to_owned(), 403),
        ("/api/v1/tenants".to_owned(), 403),
        ("/tenants/system/api/v1/nodes".to_owned(), 403),
        ("/tenants/t2/api/v1/pods".to_owned(), 403),
    ] {
        let answer = get(&system, &path, &inside).await?;
        assert_eq!(answer.status, code, "{path}: {}", answer.text());
    }
    // The caller's system groups are not carried over.
    let headers = [
        inside[0],
        inside[1],
        ("impersonate-group", "system:masters"),
    ];
    let groups = whoami(&system, &headers).await?["groups"].clone();
    assert_eq!(groups, json!(["system:authenticated"]));
    let unprivileged = [("impersonate-user", "carol"), inside[1], headers[2]];
    assert_eq!(get(&system, MAPS, &unprivileged).await?.status, 403);
    // A service account is that tenant's.
    let robot = [
        ("impersonate-user", "system:serviceaccount:default:robot"),
        ("impersonate-group", "tenant:t1"),
    ];
    assert_eq!(
        whoami(&system, &robot).await?["groups"],
        json!([
            "system:serviceaccounts",
            "system:serviceaccounts:default",
            "system:authenticated"
        ])
    );
    // Of its groups it has those that were named, if any.
    let fewer = [
        robot[0],
        robot[1],
        ("impersonate-group", "system:serviceaccounts"),
        ("impersonate-group", "system:serviceaccounts:kube-system"),
    ];
    let groups = whoami(&system, &fewer).await?["groups"].clone();
    assert_eq!(
        groups,
        json!(["system:serviceaccounts", "system:authenticated"])
    );
    for (headers, code) in [
        // Several tenants or an invalid one are refused.
        (
            vec![inside[0], inside[1], ("impersonate-group", "tenant:t2")],
            400,
        ),
        (vec![inside[0], ("impersonate-group", "tenant:")], 400),
        (vec![inside[0], ("impersonate-group", "tenant:all")], 400),
        (vec![inside[0], ("impersonate-group", "tenant:A/b")], 400),
        // A missing tenant has no users.
        (vec![inside[0], ("impersonate-group", "tenant:t9")], 403),
        // Without a tenant the request stays in the system space.
        (vec![inside[0]], 403),
    ] {
        let answer = get(&system, MAPS, &headers).await?;
        assert_eq!(answer.status, code, "{headers:?}: {}", answer.text());
    }
    assert_eq!(other.get(MAPS).await?.json()["items"], json!([]));
    Ok(())
}

/// Permission to impersonate users of one tenant does not cover another tenant.
#[tokio::test]
async fn impersonation_can_be_limited_to_one_tenant() -> anyhow::Result<()> {
    let (server, _admin, _alice) = start().await?;
    server.tenant("t2").await?;
    let (system, root) = (server.system().await?, server.client("root").await?);
    let rules = [
        impersonate("", "users", &["admin"]),
        impersonate("", "groups", &["tenant:t1"]),
    ];
    system.grant("support", "Group:ops", &rules).await?;
    let of = |tenant| [("impersonate-user", "admin"), ("impersonate-group", tenant)];
    assert_eq!(get(&root, MAPS, &of("tenant:t1")).await?.status, 200);
    for group in ["tenant:t2", "tenant:system", "system:masters", "dev"] {
        let answer = get(&root, MAPS, &of(group)).await?;
        assert_eq!(answer.status, 403, "{group}");
        let start = format!(
            "groups \"{group}\" is forbidden: User \"root\" cannot impersonate resource \
             \"groups\" in API group \"\" at the cluster scope"
        );
        assert_eq!(answer.message(), start);
    }
    let outside = [of("tenant:t1")[0], ("impersonate-user", "x")];
    assert_eq!(get(&root, MAPS, &outside[..1]).await?.status, 403);
    Ok(())
}

fn on(mode: &str, verbs: &str, group: &str, resources: &str) -> Value {
    let verbs: Vec<_> = verbs
        .split(',')
        .map(|verb| format!("impersonate-on:{mode}:{verb}"))
        .collect();
    let mut rule = rule("", group, resources);
    rule["verbs"] = json!(verbs);
    rule
}

fn constrained(mode: &str, resources: &str, names: &[&str]) -> Value {
    let mut rule = impersonate("authentication.k8s.io", resources, names);
    rule["verbs"] = json!([format!("impersonate:{mode}")]);
    rule
}

/// Constrained impersonation needs two permissions: for the user and for the action.
#[tokio::test]
async fn constrained_impersonation_is_limited_to_its_actions() -> anyhow::Result<()> {
    let (_server, admin, alice) = start().await?;
    for user in ["User:bob", "ServiceAccount:default/robot"] {
        let name = user.replace([':', '/'], "-").to_lowercase();
        let rules = [
            rule("*", "", "configmaps,secrets"),
            json!({"verbs": ["*"], "nonResourceURLs": ["*"]}),
        ];
        admin.grant(&name, user, &rules).await?;
    }
    let bob = ("impersonate-user", "bob");
    let robot = ("impersonate-user", "system:serviceaccount:default:robot");
    let refused = "users \"bob\" is forbidden: User \"alice\" cannot impersonate resource \
                   \"users\" in API group \"\" at the cluster scope";
    // Either permission alone is not enough.
    let subject = [constrained("user-info", "users", &["bob"])];
    admin.grant("whom", "User:alice", &subject).await?;
    let answer = get(&alice, MAPS, &[bob]).await?;
    assert_eq!((answer.status, answer.message()), (403, refused.to_owned()));
    admin
        .grant(
            "what",
            "User:alice",
            &[
                on("user-info", "list", "", "configmaps"),
                on("serviceaccount", "list", "", "configmaps"),
                json!({"verbs": ["impersonate-on:user-info:get"],
                    "nonResourceURLs": ["/nosuch"]}),
            ],
        )
        .await?;
    let secrets = "/api/v1/namespaces/default/secrets";
    let group = ("impersonate-group", "dev");
    for (path, headers, code) in [
        (MAPS, vec![bob], 200),
        ("/api/v1/configmaps", vec![bob], 200),
        ("/nosuch", vec![bob], 404),
        ("/other", vec![bob], 403),
        (&format!("{MAPS}?watch=1"), vec![bob], 403),
        (&format!("{MAPS}/m"), vec![bob], 403),
        (secrets, vec![bob], 403),
        ("/api/v1/nosuch", vec![bob], 403),
        // Each part of the identity needs its own permission.
        (MAPS, vec![bob, group], 403),
        (MAPS, vec![bob, ("impersonate-uid", "1")], 403),
        (MAPS, vec![bob, ("impersonate-extra-a", "b")], 403),
        (MAPS, vec![("impersonate-user", "carol")], 403),
        // One mode does not include the other.
        (MAPS, vec![robot], 403),
    ] {
        let answer = get(&alice, path, &headers).await?;
        assert_eq!(answer.status, code, "{path} {headers:?}: {}", answer.text());
    }
    // A service account is impersonated with its own groups.
    let accounts = [
        constrained("serviceaccount", "serviceaccounts", &[]),
        constrained("serviceaccount", "groups", &[]),
        constrained("user-info", "groups", &[]),
        constrained("user-info", "serviceaccounts", &[]),
    ];
    admin
        .grant_in("default", "accounts", "User:alice", &accounts[..1])
        .await?;
    admin.grant("groups", "User:alice", &accounts[1..]).await?;
    let elsewhere = (
        "impersonate-user",
        "system:serviceaccount:kube-system:robot",
    );
    for (path, headers, code) in [
        (MAPS, vec![robot], 200),
        (secrets, vec![robot], 403),
        (MAPS, vec![robot, group], 403),
        (MAPS, vec![elsewhere], 403),
        (MAPS, vec![bob, group], 200),
        (MAPS, vec![bob, ("impersonate-group", "")], 403),
        // Server-assigned identities cannot be impersonated this way either.
        (
            MAPS,
            vec![bob, ("impersonate-group", "system:masters")],
            403,
        ),
        (MAPS, vec![bob, ("impersonate-group", "system:nodes")], 403),
        (MAPS, vec![bob, ("impersonate-group", "tenant:t2")], 403),
        ("/api/v1/tenants/t2/configmaps", vec![bob], 403),
        ("/api/v1/tenants/all/configmaps", vec![bob], 403),
    ] {
        let answer = get(&alice, path, &headers).await?;
        assert_eq!(answer.status, code, "{path} {headers:?}: {}", answer.text());
    }
    // The request has the impersonated user's permissions and no more.
    let binding = format!("{}/user-bob", insula_testkit::server::CLUSTER_BINDINGS);
    assert_eq!(admin.delete(&binding).await?.status, 200);
    let answer = get(&alice, MAPS, &[bob]).await?;
    assert_eq!(
        answer.message(),
        "configmaps is forbidden: User \"bob\" cannot list resource \"configmaps\" in API group \
         \"\" in the namespace \"default\""
    );
    Ok(())
}

/// System users can be allowed to read one resource in a tenant as one of its users.
#[tokio::test]
async fn constrained_impersonation_into_a_tenant_is_limited_to_its_actions() -> anyhow::Result<()> {
    let (server, _admin, _alice) = start().await?;
    server.tenant("t2").await?;
    let (system, root) = (server.system().await?, server.client("root").await?);
    let rules = [
        constrained("user-info", "users", &["admin"]),
        constrained("user-info", "groups", &["tenant:t1", "system:masters"]),
        on("user-info", "list", "", "configmaps"),
    ];
    system.grant("support", "User:root", &rules).await?;
    let admin = ("impersonate-user", "admin");
    let of = |group| vec![admin, ("impersonate-group", group)];
    for (path, headers, code) in [
        (MAPS, of("tenant:t1"), 200),
        ("/api/v1/tenants/t1/configmaps", of("tenant:t1"), 200),
        ("/api/v1/tenants/t2/configmaps", of("tenant:t1"), 403),
        ("/api/v1/namespaces/default/secrets", of("tenant:t1"), 403),
        (MAPS, of("tenant:t2"), 403),
        (MAPS, of("tenant:system"), 403),
        (MAPS, of("system:masters"), 403),
    ] {
        let answer = get(&root, path, &headers).await?;
        assert_eq!(answer.status, code, "{path} {headers:?}: {}", answer.text());
    }
    Ok(())
}

#[tokio::test]
async fn impersonated_watch_ends_when_the_permission_is_revoked() -> anyhow::Result<()> {
    let (_server, admin, _alice) = start().await?;
    admin
        .grant(
            "bob",
            "ServiceAccount:default/robot",
            &[rule("watch,list", "", "configmaps")],
        )
        .await?;
    let headers = [("impersonate-user", "system:serviceaccount:default:robot")];
    let listed = get(&admin, MAPS, &headers).await?;
    assert_eq!(listed.status, 200);
    let mut watch = admin
        .watch_with(&format!("{MAPS}?watch=1"), &headers)
        .await?;
    assert_eq!(watch.status, 200);
    let map = json!({"metadata": {"name": "m"}});
    assert_eq!(admin.post(MAPS, &map).await?.status, 201);
    let event = watch.next().await?.unwrap_or_default();
    assert_eq!(event["object"]["metadata"]["name"], "m", "{event}");
    let binding = format!("{}/bob", insula_testkit::server::CLUSTER_BINDINGS);
    assert_eq!(admin.delete(&binding).await?.status, 200);
    let last = watch.next().await?.unwrap_or_default();
    assert_eq!(last["object"]["code"], 403, "{last}");
    Ok(())
}

#[tokio::test]
async fn audit_log_names_both_users() -> anyhow::Result<()> {
    let log = AuditLog::default();
    let server = TestServer::audited(Audit::Memory(log.clone())).await?;
    let admin = server.tenant("t1").await?;
    let headers = [
        ("impersonate-user", "bob"),
        ("impersonate-group", "dev"),
        ("impersonate-uid", "5"),
        ("impersonate-extra-scopes", "view"),
    ];
    let refused = get(&admin, "/api/v1/pods", &headers).await?;
    assert_eq!(refused.status, 403);
    let event: Value = serde_json::from_str(&log.event(refused.header("audit-id")).await?)?;
    assert_eq!(event["user"]["username"], "admin");
    assert_eq!(
        event["impersonatedUser"],
        json!({"username": "bob", "uid": "5", "groups": ["dev", "system:authenticated"],
            "extra": {"scopes": ["view"]}})
    );
    assert!(event.get("authenticationMetadata").is_none(), "{event}");
    // A constrained impersonation is logged as such.
    let rules = [
        constrained("serviceaccount", "serviceaccounts", &[]),
        on("serviceaccount", "list", "", "pods"),
    ];
    let defaults = "ServiceAccount:default/default";
    admin.grant("acts", defaults, &rules).await?;
    let path = "/api/v1/namespaces/default/serviceaccounts/default/token";
    let token = admin.post(path, &json!({})).await?.json();
    let account = server
        .client(token["status"]["token"].as_str().unwrap_or(""))
        .await?;
    let headers = [("impersonate-user", "system:serviceaccount:default:other")];
    let refused = get(&account, "/api/v1/pods", &headers).await?;
    let event: Value = serde_json::from_str(&log.event(refused.header("audit-id")).await?)?;
    assert_eq!(
        event["authenticationMetadata"],
        json!({"impersonationConstraint": "impersonate:serviceaccount"})
    );
    let (by, subject) = (&event["user"], &event["impersonatedUser"]);
    assert_eq!(by["username"], "system:serviceaccount:default:default");
    assert_eq!(subject["username"], "system:serviceaccount:default:other");
    // A refused impersonation is logged without an impersonated user.
    let headers = [("impersonate-user", "system:admin")];
    let refused = get(&admin, "/api/v1/pods", &headers).await?;
    let event: Value = serde_json::from_str(&log.event(refused.header("audit-id")).await?)?;
    assert_eq!(event["user"]["username"], "admin");
    assert!(event.get("impersonatedUser").is_none(), "{event}");
    assert_eq!(event["responseStatus"]["code"], 403);
    Ok(())
}
