//! Service accounts: their tokens, whom they are believed to be, and when no longer.

use std::time::{Duration, Instant};

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http::Method;
use insula_access::jwt::{KeySet, Signed};
use insula_testkit::server::{Client, TestServer};
use ring::hmac;
use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair};
use serde_json::{Value, json};

const ACCOUNTS: &str = "/api/v1/namespaces/default/serviceaccounts";
const TOKEN: &str = "/api/v1/namespaces/default/serviceaccounts/robot/token";
const SECRETS: &str = "/api/v1/namespaces/default/secrets";
const PODS: &str = "/api/v1/namespaces/default/pods";
const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1";
const WHOAMI: &str = "/apis/authentication.k8s.io/v1/selfsubjectreviews";
const REVIEWS: &str = "/apis/authentication.k8s.io/v1/tokenreviews";
const ISSUER: &str = "https://insula.test";

async fn made(client: &Client, path: &str, object: Value) -> anyhow::Result<Value> {
    let made = client.post(path, &object).await?;
    anyhow::ensure!(made.status == 201, "{path}: {}", made.text());
    Ok(made.json())
}

async fn gone(client: &Client, path: &str) -> anyhow::Result<()> {
    let deleted = client.delete(path).await?;
    anyhow::ensure!(deleted.status == 200, "{path}: {}", deleted.text());
    Ok(())
}

/// The account `robot`, as it was made.
async fn robot(client: &Client) -> anyhow::Result<Value> {
    made(client, ACCOUNTS, json!({"metadata": {"name": "robot"}})).await
}

async fn token(client: &Client, spec: Value) -> anyhow::Result<String> {
    let request = made(client, TOKEN, json!({"spec": spec})).await?;
    Ok(request["status"]["token"]
        .as_str()
        .unwrap_or_default()
        .to_owned())
}

fn bound_to(kind: &str, name: &str) -> Value {
    json!({"boundObjectRef": {"apiVersion": "v1", "kind": kind, "name": name}})
}

fn pod() -> Value {
    json!({"metadata": {"name": "p"}, "spec": {"serviceAccountName": "robot", "nodeName": "n",
        "containers": [{"name": "c", "image": "i"}]}})
}

fn claims(token: &str) -> Value {
    let part = token.split('.').nth(1).unwrap_or_default();
    let part = URL_SAFE_NO_PAD.decode(part).unwrap_or_default();
    serde_json::from_slice(&part).unwrap_or_default()
}

/// Who the server says the holder is, with the code of the answer.
async fn whoami(server: &TestServer, token: &str) -> anyhow::Result<(u16, Value)> {
    let answer = server.client(token).await?.post(WHOAMI, &json!({})).await?;
    Ok((answer.status, answer.json()["status"]["userInfo"].clone()))
}

async fn reviewed(client: &Client, token: &str, audiences: &[&str]) -> anyhow::Result<Value> {
    let review = json!({"spec": {"token": token, "audiences": audiences}});
    Ok(made(client, REVIEWS, review).await?["status"].clone())
}

fn refused(why: &str) -> Value {
    json!({"user": {}, "error": why})
}

/// What the server itself signs, whatever it says.
fn signed(server: &TestServer, claims: &Value) -> String {
    server.accounts().issuer.sign(claims).unwrap_or_default()
}

#[tokio::test]
async fn a_token_is_believed_to_be_its_accounts_and_says_what_it_lives_with() -> anyhow::Result<()>
{
    let server = TestServer::start().await?;
    let (system, tenant) = (server.system().await?, server.tenant("t1").await?);
    let node = json!({"metadata": {"name": "n"}});
    let node = made(&system, "/api/v1/nodes", node).await?["metadata"]["uid"].clone();
    for (client, space) in [(tenant, "t1"), (system, "system")] {
        let uid = robot(&client).await?["metadata"]["uid"].clone();
        let pod = made(&client, PODS, pod()).await?["metadata"]["uid"].clone();
        made(&client, SECRETS, json!({"metadata": {"name": "s"}})).await?;
        let said = |name: &str, value: &Value| {
            let key = format!("authentication.kubernetes.io/{name}");
            (key, json!([value]))
        };
        let on_node = [said("node-name", &json!("n")), said("node-uid", &node)];
        let of_pod = [said("pod-name", &json!("p")), said("pod-uid", &pod)];
        let mut cases = vec![(json!({}), vec![]), (bound_to("Secret", "s"), vec![])];
        // Nodes are the system's, so a tenant's pod is on one that nothing is known of.
        let seen = if space == "system" { 2 } else { 1 };
        let pods = [&of_pod[..], &on_node[..seen]].concat();
        cases.push((bound_to("Pod", "p"), pods));
        match space {
            "system" => cases.push((bound_to("Node", "n"), on_node.to_vec())),
            _ => {
                let asked = json!({"spec": bound_to("Node", "n")});
                assert_eq!(client.post(TOKEN, &asked).await?.status, 404);
            }
        }
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
async fn a_token_is_good_in_its_own_space_and_nowhere_else() -> anyhow::Result<()> {
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
        made(
            client,
            &format!("{RBAC}/clusterrolebindings"),
            everything.clone(),
        )
        .await?;
        tokens.push(token(client, json!({})).await?);
    }
    let holder = server.client(&tokens[0]).await?;
    made(&holder, MAPS, json!({"metadata": {"name": "mine"}})).await?;
    let named = "/api/v1/tenants/t1/namespaces/default/configmaps/mine";
    assert_eq!(holder.get(named).await?.status, 200);
    assert_eq!(two.get(&format!("{MAPS}/mine")).await?.status, 404);
    // Everybody's rights are those of a cluster administrator, each at home.
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
    // A space that is not there is refused like any other.
    assert_eq!(answers[0..3], answers[3..6]);
    assert_eq!(answers[0..3], answers[6..9]);
    assert_eq!(holder.get("/api/v1/tenants").await?.status, 403);
    // Nobody else's reviews know it, whatever is wrong with it.
    let mut expired = claims(&tokens[0]);
    expired["exp"] = 1.into();
    let expired = signed(&server, &expired);
    for (client, known) in [(&one, true), (&two, false), (&system, false)] {
        let status = reviewed(client, &tokens[0], &[]).await?;
        assert_eq!(status["authenticated"] == true, known, "{status}");
        let expected = match known {
            true => "[invalid bearer token, service account token has expired]",
            false => "invalid bearer token",
        };
        assert_eq!(reviewed(client, &expired, &[]).await?, refused(expected));
        let other = reviewed(client, &tokens[0], &["zzz"]).await?;
        let expected = match known {
            true => {
                "[invalid bearer token, token audiences [\"https://insula.test\"] is invalid for \
                 the target audiences [\"zzz\"]]"
            }
            false => "invalid bearer token",
        };
        assert_eq!(other, refused(expected));
    }
    Ok(())
}

#[tokio::test]
async fn what_the_server_would_not_sign_is_nobody() -> anyhow::Result<()> {
    let server = TestServer::start().await?;
    let (one, two) = (server.tenant("t1").await?, server.tenant("t2").await?);
    let system = server.system().await?;
    robot(&one).await?;
    let theirs = robot(&two).await?["metadata"]["uid"].clone();
    let of_system = robot(&system).await?["metadata"]["uid"].clone();
    let good = claims(&token(&one, json!({})).await?);
    let now = good["iat"].as_i64().unwrap_or_default();
    // What this test signs is believed: only what is changed below makes the difference.
    assert_eq!(whoami(&server, &signed(&server, &good)).await?.0, 201);
    let own = "kubernetes.io";
    let with = |edit: &dyn Fn(&mut Value)| {
        let mut edited = good.clone();
        edit(&mut edited);
        edited
    };
    let fine = [
        with(&|all| all["exp"] = (now - 30).into()),
        with(&|all| all["nbf"] = (now + 30).into()),
        with(&|all| all["aud"] = ISSUER.into()),
    ];
    for claims in fine {
        let (status, _) = whoami(&server, &signed(&server, &claims)).await?;
        assert_eq!(status, 201, "{claims}");
    }
    let without = |all: &mut Value, name: &str| {
        all.as_object_mut().and_then(|all| all.remove(name));
    };
    for (why, claims) in [
        ("expired", with(&|all| all["exp"] = (now - 90).into())),
        ("early", with(&|all| all["nbf"] = (now + 120).into())),
        (
            "from the future",
            with(&|all| all["iat"] = (now + 120).into()),
        ),
        ("for ever", with(&|all| without(all, "exp"))),
        (
            "times as text",
            with(&|all| all["exp"] = "9999999999".into()),
        ),
        ("for nobody", with(&|all| all["aud"] = json!([]))),
        ("for whom it does not say", with(&|all| without(all, "aud"))),
        ("for others", with(&|all| all["aud"] = json!(["vault"]))),
        (
            "from elsewhere",
            with(&|all| all["iss"] = "https://elsewhere".into()),
        ),
        ("from nobody", with(&|all| without(all, "iss"))),
        (
            "from a kept one",
            with(&|all| all["iss"] = "kubernetes/serviceaccount".into()),
        ),
        ("of another user", with(&|all| all["sub"] = "admin".into())),
        (
            "of another name",
            with(&|all| {
                all["sub"] = "system:serviceaccount:default:default".into();
            }),
        ),
        (
            "of another account",
            with(&|all| {
                all["sub"] = "system:serviceaccount:default:default".into();
                all[own]["serviceaccount"]["name"] = "default".into();
            }),
        ),
        ("of no account", with(&|all| without(all, own))),
        (
            "without a uid",
            with(&|all| all[own]["serviceaccount"]["uid"] = "".into()),
        ),
        (
            "of another uid",
            with(&|all| {
                all[own]["serviceaccount"]["uid"] = theirs.clone();
            }),
        ),
        (
            "of another tenant",
            with(&|all| all[own]["tenant"] = "t2".into()),
        ),
        (
            "of another tenant's account",
            with(&|all| {
                all[own]["tenant"] = "t2".into();
                all[own]["serviceaccount"]["uid"] = theirs.clone();
            }),
        ),
        (
            "of a former tenant",
            with(&|all| {
                all[own]["tenantUid"] = "11111111-1111-4111-8111-111111111111".into();
            }),
        ),
        (
            "of no certain tenant",
            with(&|all| without(&mut all[own], "tenantUid")),
        ),
        (
            "of a tenant that is not there",
            with(&|all| all[own]["tenant"] = "ghost".into()),
        ),
        (
            "of the system, called so",
            with(&|all| {
                all[own]["tenant"] = "system".into();
                all[own]["serviceaccount"]["uid"] = of_system.clone();
            }),
        ),
        (
            "of a tenant that is no text",
            with(&|all| {
                all[own]["tenant"] = json!(["t1"]);
                all[own]["serviceaccount"]["uid"] = of_system.clone();
            }),
        ),
        (
            "of a tenant without a name",
            with(&|all| {
                all[own]["tenant"] = "".into();
                all[own]["serviceaccount"]["uid"] = of_system.clone();
            }),
        ),
        (
            "of the system by silence",
            with(&|all| without(&mut all[own], "tenant")),
        ),
        (
            "bound to nothing",
            with(&|all| all[own]["pod"] = json!({"name": "p", "uid": "u"})),
        ),
        (
            "bound to what it does not say",
            with(&|all| all[own]["pod"] = json!({})),
        ),
    ] {
        let (status, user) = whoami(&server, &signed(&server, &claims)).await?;
        assert_eq!((status, user), (401, Value::Null), "{why}: {claims}");
    }
    Ok(())
}

/// A token with any header and signature.
fn forged(header: &Value, claims: &Value, sign: impl Fn(&[u8]) -> Vec<u8>) -> String {
    let part = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
    let message = format!("{}.{}", part(header), part(claims));
    let signature = URL_SAFE_NO_PAD.encode(sign(message.as_bytes()));
    format!("{message}.{signature}")
}

#[tokio::test]
async fn a_token_that_somebody_else_signed_is_nobodys() -> anyhow::Result<()> {
    let server = TestServer::start().await?;
    let client = server.tenant("t1").await?;
    robot(&client).await?;
    let good = token(&client, json!({})).await?;
    let said = claims(&good);
    let jwks = client.get("/openid/v1/jwks").await?;
    let kid = jwks.json()["keys"][0]["kid"].clone();
    let public = URL_SAFE_NO_PAD.encode(server.token_key());
    let mut forgeries: Vec<(&str, String)> = vec![
        (
            "none",
            forged(&json!({"alg": "none"}), &said, |_| Vec::new()),
        ),
        (
            "None",
            forged(&json!({"alg": "None", "kid": kid}), &said, |_| Vec::new()),
        ),
        (
            "no algorithm",
            forged(&json!({"kid": kid}), &said, |_| Vec::new()),
        ),
        (
            "no signature",
            forged(&json!({"alg": "ES256", "kid": kid}), &said, |_| Vec::new()),
        ),
        (
            "zeros",
            forged(&json!({"alg": "ES256", "kid": kid}), &said, |_| vec![0; 64]),
        ),
    ];
    // What is public is no secret.
    for secret in [server.token_key(), public.as_bytes(), &jwks.body, b""] {
        let key = hmac::Key::new(hmac::HMAC_SHA256, secret);
        let sign = |message: &[u8]| hmac::sign(&key, message).as_ref().to_vec();
        for kid in [
            kid.clone(),
            json!("../../../../dev/null"),
            json!("/dev/null"),
            json!(null),
        ] {
            let header = json!({"alg": "HS256", "kid": kid});
            forgeries.push(("HS256", forged(&header, &said, sign)));
        }
    }
    // A key that the token brings along is not asked.
    let random = SystemRandom::new();
    let algorithm = &ECDSA_P256_SHA256_FIXED_SIGNING;
    let pkcs8 = EcdsaKeyPair::generate_pkcs8(algorithm, &random).expect("there is randomness");
    let pair = EcdsaKeyPair::from_pkcs8(algorithm, pkcs8.as_ref(), &random).expect("made above");
    let sign = |message: &[u8]| {
        let signature = pair.sign(&random, message).expect("there is randomness");
        signature.as_ref().to_vec()
    };
    let point = pair.public_key().as_ref();
    let jwk = json!({"kty": "EC", "crv": "P-256", "kid": kid, "alg": "ES256", "use": "sig",
        "x": URL_SAFE_NO_PAD.encode(&point[1..33]), "y": URL_SAFE_NO_PAD.encode(&point[33..])});
    for header in [
        json!({"alg": "ES256", "kid": kid}),
        json!({"alg": "ES256"}),
        json!({"alg": "ES256", "kid": kid, "jwk": jwk}),
        json!({"alg": "ES256", "jwk": jwk, "crit": ["jwk"]}),
        json!({"alg": "ES256", "kid": kid, "jku": "https://elsewhere/keys"}),
        json!({"alg": "ES256", "kid": "../../../etc/insula/other.key"}),
    ] {
        forgeries.push(("another key", forged(&header, &said, sign)));
    }
    // The right signature, of something else.
    let (message, signature) = good.rsplit_once('.').unwrap_or_default();
    let (header, _) = message.split_once('.').unwrap_or_default();
    for (member, value) in [
        ("tenant", "t2"),
        ("tenantUid", "x"),
        ("namespace", "kube-system"),
    ] {
        let mut edited = said.clone();
        edited["kubernetes.io"][member] = value.into();
        let edited = URL_SAFE_NO_PAD.encode(edited.to_string());
        forgeries.push(("edited", format!("{header}.{edited}.{signature}")));
    }
    forgeries.push(("padded", format!("{good}=")));
    forgeries.push(("cut", good[..good.len() - 1].to_owned()));
    forgeries.push(("four parts", format!("{good}.{signature}")));
    forgeries.push(("two parts", message.to_owned()));
    assert_eq!(whoami(&server, &good).await?.0, 201);
    for (why, token) in forgeries {
        let (status, user) = whoami(&server, &token).await?;
        assert_eq!((status, user), (401, Value::Null), "{why}: {token}");
        let expected = refused("invalid bearer token");
        assert_eq!(reviewed(&client, &token, &[]).await?, expected, "{why}");
    }
    Ok(())
}

#[tokio::test]
async fn a_token_is_sent_once_and_in_one_way() -> anyhow::Result<()> {
    let server = TestServer::start().await?;
    let client = server.tenant("t1").await?;
    robot(&client).await?;
    let token = token(&client, json!({})).await?;
    let nobody = server.client("").await?;
    let good = format!("Bearer {token}");
    let ask = |values: Vec<String>| {
        let nobody = nobody.clone();
        async move {
            let mut headers = vec![("content-type", "application/json")];
            headers.extend(values.iter().map(|value| ("authorization", value.as_str())));
            nobody.send(Method::POST, WHOAMI, &headers, "{}").await
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

#[tokio::test]
async fn a_token_ends_at_once_with_what_it_lives_with() -> anyhow::Result<()> {
    let server = TestServer::start().await?;
    let (system, client) = (server.system().await?, server.tenant("t1").await?);
    robot(&system).await?;
    let old = robot(&client).await?["metadata"]["uid"].clone();
    let free = token(&client, json!({})).await?;
    let invalidated = "[invalid bearer token, service account token has been invalidated]";
    let secret = json!({"metadata": {"name": "s"}});
    let node = json!({"metadata": {"name": "n"}});
    for (client, kind, name, path, object) in [
        (&client, "Secret", "s", SECRETS, secret),
        (&client, "Pod", "p", PODS, pod()),
        (&system, "Node", "n", "/api/v1/nodes", node),
    ] {
        made(client, path, object.clone()).await?;
        let bound = token(client, bound_to(kind, name)).await?;
        assert_eq!(whoami(&server, &bound).await?.0, 201, "{kind}");
        gone(client, &format!("{path}/{name}?gracePeriodSeconds=0")).await?;
        assert_eq!(whoami(&server, &bound).await?.0, 401, "{kind}");
        let status = reviewed(client, &bound, &[]).await?;
        assert_eq!(status, refused(invalidated), "{kind}");
        made(client, path, object).await?;
        assert_eq!(
            whoami(&server, &bound).await?.0,
            401,
            "another {kind} of its name"
        );
    }
    assert_eq!(whoami(&server, &free).await?.0, 201);
    // One that is only on its way out is not believed either.
    let hold = json!({"metadata": {"finalizers": ["x.io/y"]}});
    let path = format!("{ACCOUNTS}/robot");
    assert_eq!(client.patch(&path, "merge", &hold).await?.status, 200);
    gone(&client, &path).await?;
    let said = |why: &str| refused(&format!("[invalid bearer token, {why}]"));
    assert_eq!(whoami(&server, &free).await?.0, 401);
    let deleted = said("service account default/robot has been deleted");
    assert_eq!(reviewed(&client, &free, &[]).await?, deleted);
    let free_it = json!({"metadata": {"finalizers": null}});
    assert_eq!(client.patch(&path, "merge", &free_it).await?.status, 200);
    assert_eq!(whoami(&server, &free).await?.0, 401);
    let missing = said("serviceaccounts \"robot\" not found");
    assert_eq!(reviewed(&client, &free, &[]).await?, missing);
    let new = robot(&client).await?["metadata"]["uid"].clone();
    assert_eq!(whoami(&server, &free).await?.0, 401);
    let text = |uid: &Value| uid.as_str().unwrap_or_default().to_owned();
    let other = format!(
        "service account UID ({}) does not match claim ({})",
        text(&new),
        text(&old)
    );
    assert_eq!(reviewed(&client, &free, &[]).await?, said(&other));
    assert_eq!(
        whoami(&server, &token(&client, json!({})).await?).await?.0,
        201
    );
    Ok(())
}

#[tokio::test]
async fn the_next_tenant_of_a_name_does_not_know_the_tokens_of_the_last() -> anyhow::Result<()> {
    let server = TestServer::start_whole().await?;
    let (system, client) = (server.system().await?, server.tenant("t1").await?);
    robot(&client).await?;
    let (old, certain) = (token(&client, json!({})).await?, system.clone());
    assert_eq!(whoami(&server, &old).await?.0, 201);
    gone(&certain, "/api/v1/tenants/t1").await?;
    let deadline = Instant::now() + Duration::from_secs(20);
    while system.get("/api/v1/tenants/t1").await?.status != 404 {
        anyhow::ensure!(Instant::now() < deadline, "the tenant does not go");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert_eq!(whoami(&server, &old).await?.0, 401);
    let again = server.tenant("t1").await?;
    robot(&again).await?;
    assert_eq!(whoami(&server, &old).await?.0, 401);
    let new = token(&again, json!({})).await?;
    assert_eq!(whoami(&server, &new).await?.0, 201);
    // Even if an account could have the same UID, the tenant has not.
    let mut mixed = claims(&new);
    mixed["kubernetes.io"]["tenantUid"] = claims(&old)["kubernetes.io"]["tenantUid"].clone();
    assert_eq!(whoami(&server, &signed(&server, &mixed)).await?.0, 401);
    Ok(())
}

#[tokio::test]
async fn a_token_is_for_whom_it_was_asked() -> anyhow::Result<()> {
    let server = TestServer::start().await?;
    let client = server.tenant("t1").await?;
    robot(&client).await?;
    let own = token(&client, json!({})).await?;
    let vault = token(&client, json!({"audiences": ["vault"]})).await?;
    let both = token(&client, json!({"audiences": ["vault", ISSUER]})).await?;
    let mut codes = Vec::new();
    for token in [&own, &vault, &both] {
        codes.push(whoami(&server, token).await?.0);
    }
    assert_eq!(codes, [201, 401, 201]);
    let known = |audiences: &[&str]| Ok(json!(audiences));
    let not = |is: &str, wanted: &str| {
        Err(format!(
            "[invalid bearer token, token audiences [{is}] is invalid for the target audiences \
             [{wanted}]]"
        ))
    };
    for (token, audiences, expected) in [
        (&own, &[][..], known(&[ISSUER])),
        (&own, &[ISSUER], known(&[ISSUER])),
        (&own, &["zzz", ISSUER], known(&[ISSUER])),
        (&own, &["zzz"], not("\"https://insula.test\"", "\"zzz\"")),
        (&vault, &["vault", "zzz"], known(&["vault"])),
        (&vault, &[], not("\"vault\"", "\"https://insula.test\"")),
        (&vault, &["a", "b"], not("\"vault\"", "\"a\" \"b\"")),
        (&both, &[], known(&[ISSUER])),
        (&both, &[ISSUER, "vault"], known(&["vault", ISSUER])),
    ] {
        let status = reviewed(&client, token, audiences).await?;
        match expected {
            Err(why) => assert_eq!(status, refused(&why), "{audiences:?}"),
            Ok(audiences) => {
                assert_eq!(status["authenticated"], true, "{status}");
                assert_eq!(status["audiences"], audiences);
                let name = "system:serviceaccount:default:robot";
                assert_eq!(status["user"]["username"], name);
            }
        }
    }
    // A token of the token file is for this server.
    let status = reviewed(&client, "t1", &[]).await?;
    assert_eq!(status["audiences"], json!([ISSUER]));
    let status = reviewed(&client, "t1", &["zzz"]).await?;
    assert_eq!(status, refused("invalid bearer token"));
    Ok(())
}

#[tokio::test]
async fn tokens_are_given_within_limits_and_to_who_may_ask() -> anyhow::Result<()> {
    let server = TestServer::start().await?;
    let (one, two) = (server.tenant("t1").await?, server.tenant("t2").await?);
    robot(&one).await?;
    let theirs = made(&two, SECRETS, json!({"metadata": {"name": "s"}})).await?;
    // An account has no rights of its own, not even to more of its own tokens.
    let holder = server.client(&token(&one, json!({})).await?).await?;
    for path in [TOKEN, &TOKEN.replace("robot", "default")] {
        let answer = holder.post(path, &json!({})).await?;
        assert_eq!(answer.status, 403, "{}", answer.text());
    }
    // Objects of other spaces are not there to be bound to.
    let secret = |uid: &Value| {
        json!({"spec": {"boundObjectRef": {"apiVersion": "v1", "kind": "Secret", "name": "s",
            "uid": uid}}})
    };
    let bound = secret(&theirs["metadata"]["uid"]);
    let answer = one.post(TOKEN, &bound).await?;
    assert_eq!(
        (answer.status, answer.message()),
        (404, "secrets \"s\" not found".to_owned())
    );
    let own = made(&one, SECRETS, json!({"metadata": {"name": "s"}})).await?;
    let answer = one.post(TOKEN, &bound).await?;
    assert_eq!(answer.status, 409, "{}", answer.text());
    let bound = secret(&own["metadata"]["uid"]);
    assert_eq!(one.post(TOKEN, &bound).await?.status, 201);
    // More than a year is cut to a year.
    let long = json!({"spec": {"expirationSeconds": 4_294_967_296_i64}});
    let answer = one.post(TOKEN, &long).await?;
    assert_eq!(answer.status, 201);
    assert_eq!(
        answer.header("warning"),
        "299 - \"requested expiration of 4294967296 seconds shortened to 31536000 seconds\""
    );
    let said = claims(
        answer.json()["status"]["token"]
            .as_str()
            .unwrap_or_default(),
    );
    let seconds = |name: &str| said[name].as_i64().unwrap_or_default();
    assert_eq!(seconds("exp") - seconds("iat"), 31_536_000);
    for (asked, why) in [
        (599, "599: may not specify a duration less than 10 minutes"),
        (-1, "-1: may not specify a duration less than 10 minutes"),
        (
            4_294_967_297_i64,
            "4294967297: may not specify a duration larger than 2^32 seconds",
        ),
    ] {
        let answer = one
            .post(TOKEN, &json!({"spec": {"expirationSeconds": asked}}))
            .await?;
        let start = "TokenRequest.authentication.k8s.io \"\" is invalid: spec.expirationSeconds";
        let expected = format!("{start}: Invalid value: {why}");
        assert_eq!((answer.status, answer.message()), (422, expected));
    }
    // A pod's token is the pod's account's.
    let mut other = pod();
    other["spec"]["serviceAccountName"] = "default".into();
    made(&one, PODS, other).await?;
    let answer = one
        .post(TOKEN, &json!({"spec": bound_to("Pod", "p")}))
        .await?;
    let why = "cannot bind token for serviceaccount \"robot\" to pod running with different \
               serviceaccount name.";
    assert_eq!((answer.status, answer.message()), (400, why.to_owned()));
    Ok(())
}

fn reader() -> Value {
    json!({"metadata": {"name": "reader"},
        "rules": [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "list", "watch"]}]})
}

fn binding(subject: Value) -> Value {
    json!({"metadata": {"name": "reader"}, "subjects": [subject],
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "reader"}})
}

#[tokio::test]
async fn a_binding_gives_rights_to_the_accounts_of_its_own_space() -> anyhow::Result<()> {
    let server = TestServer::start().await?;
    let group = |name: &str| json!({"kind": "Group", "apiGroup": "rbac.authorization.k8s.io", "name": name});
    let account = json!({"kind": "ServiceAccount", "name": "robot"});
    let user = json!({"kind": "User", "apiGroup": "rbac.authorization.k8s.io",
        "name": "system:serviceaccount:default:robot"});
    let (one, two) = (server.tenant("t1").await?, server.tenant("t2").await?);
    let mut holders = Vec::new();
    for client in [&one, &two] {
        robot(client).await?;
        holders.push(server.client(&token(client, json!({})).await?).await?);
    }
    let roles = format!("{RBAC}/namespaces/default/roles");
    let bindings = format!("{RBAC}/namespaces/default/rolebindings");
    made(&one, &roles, reader()).await?;
    made(&two, &roles, reader()).await?;
    for (subject, may) in [
        (account, true),
        (user, true),
        (group("system:serviceaccounts"), true),
        (group("system:serviceaccounts:default"), true),
        (group("system:serviceaccounts:kube-system"), false),
        (
            json!({"kind": "ServiceAccount", "name": "robot", "namespace": "kube-system"}),
            false,
        ),
        (json!({"kind": "ServiceAccount", "name": "default"}), false),
    ] {
        let mut subject = subject;
        if subject["kind"] == "ServiceAccount" && subject["namespace"].is_null() {
            subject["namespace"] = "default".into();
        }
        assert_eq!(holders[0].get(MAPS).await?.status, 403, "{subject}");
        made(&one, &bindings, binding(subject.clone())).await?;
        let expected = if may { 200 } else { 403 };
        assert_eq!(holders[0].get(MAPS).await?.status, expected, "{subject}");
        // Elsewhere in the same space, and elsewhere altogether, it gives nothing.
        let elsewhere = "/api/v1/namespaces/kube-system/configmaps";
        assert_eq!(holders[0].get(elsewhere).await?.status, 403, "{subject}");
        assert_eq!(holders[0].get("/api/v1/configmaps").await?.status, 403);
        assert_eq!(holders[1].get(MAPS).await?.status, 403, "{subject}");
        gone(&one, &format!("{bindings}/reader")).await?;
    }
    Ok(())
}

#[tokio::test]
async fn a_watch_ends_with_the_account_or_the_right_that_it_stands_on() -> anyhow::Result<()> {
    let server = TestServer::start().await?;
    let client = server.tenant("t1").await?;
    let roles = format!("{RBAC}/namespaces/default/roles");
    let bindings = format!("{RBAC}/namespaces/default/rolebindings");
    made(&client, &roles, reader()).await?;
    let path = format!("{ACCOUNTS}/robot");
    for (why, code) in [("binding", 403), ("mark", 401), ("account", 401)] {
        robot(&client).await.ok();
        let subject = json!({"kind": "ServiceAccount", "name": "robot", "namespace": "default"});
        made(&client, &bindings, binding(subject)).await?;
        let holder = server.client(&token(&client, json!({})).await?).await?;
        let mut watch = holder.watch(&format!("{MAPS}?watch=true")).await?;
        assert_eq!(watch.status, 200);
        made(&client, MAPS, json!({"metadata": {"name": why}})).await?;
        while watch.next().await?.unwrap_or_default()["object"]["metadata"]["name"] != why {}
        let begun = Instant::now();
        match why {
            "binding" => gone(&client, &format!("{bindings}/reader")).await?,
            "mark" => {
                let hold = json!({"metadata": {"finalizers": ["x.io/y"]}});
                assert_eq!(client.patch(&path, "merge", &hold).await?.status, 200);
                gone(&client, &path).await?;
            }
            _ => gone(&client, &path).await?,
        }
        let last = watch.next().await?.unwrap_or_default();
        assert!(begun.elapsed() < Duration::from_secs(2), "{why}");
        assert_eq!(
            (&last["type"], &last["object"]["code"]),
            (&json!("ERROR"), &json!(code))
        );
        assert_eq!(watch.next().await?, None, "{why}");
        client.delete(&format!("{bindings}/reader")).await?;
        let free = json!({"metadata": {"finalizers": null}});
        client.patch(&path, "merge", &free).await?;
    }
    Ok(())
}

#[tokio::test]
async fn others_verify_tokens_with_what_the_server_publishes() -> anyhow::Result<()> {
    let server = TestServer::start().await?;
    for client in [server.tenant("t1").await?, server.system().await?] {
        robot(&client).await?;
        let token = token(&client, json!({"audiences": ["vault"]})).await?;
        let own = made(&client, TOKEN, json!({})).await?["status"]["token"].clone();
        let holder = server.client(own.as_str().unwrap_or_default()).await?;
        let found = holder.get("/.well-known/openid-configuration").await?;
        assert_eq!(found.status, 200, "{}", found.text());
        assert_eq!(found.header("content-type"), "application/json");
        assert_eq!(found.header("cache-control"), "public, max-age=3600");
        assert_eq!(
            found.json(),
            json!({
                "issuer": ISSUER,
                "jwks_uri": format!("{}/openid/v1/jwks", server.url()),
                "response_types_supported": ["id_token"],
                "subject_types_supported": ["public"],
                "id_token_signing_alg_values_supported": ["ES256"],
            })
        );
        let keys = holder.get("/openid/v1/jwks").await?;
        assert_eq!(keys.status, 200);
        assert_eq!(keys.header("content-type"), "application/jwk-set+json");
        assert_eq!(keys.header("cache-control"), "public, max-age=3600");
        let public = server.token_key();
        let published = &keys.json()["keys"][0];
        assert_eq!(
            *published,
            json!({"use": "sig", "kty": "EC", "crv": "P-256", "alg": "ES256",
                "kid": published["kid"],
                "x": URL_SAFE_NO_PAD.encode(&public[1..33]),
                "y": URL_SAFE_NO_PAD.encode(&public[33..])})
        );
        assert_eq!(keys.json()["keys"].as_array().map(Vec::len), Some(1));
        let keys = KeySet::from_jwks(&keys.body)?;
        let signed = Signed::parse(&token)?;
        assert_eq!(signed.key_id(), published["kid"].as_str());
        let verified = signed.verify(&keys)?;
        assert_eq!(verified.audiences()?, ["vault"]);
        assert_eq!(
            verified.text("sub"),
            Some("system:serviceaccount:default:robot")
        );
        // Whoever verifies a token need not be known here.
        let nobody = server.client("").await?;
        for path in ["/.well-known/openid-configuration", "/openid/v1/jwks"] {
            let (known, unknown) = (holder.get(path).await?, nobody.get(path).await?);
            assert_eq!((unknown.status, unknown.body), (200, known.body), "{path}");
        }
    }
    Ok(())
}
