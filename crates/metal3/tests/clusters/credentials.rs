//! Credentials that cannot be used, their repair, and their replacement.

use std::time::Duration;

use futures_util::future::try_join_all;
use insula_capi::Cluster;
use insula_metal3::kinds::cluster::Metal3Cluster;
use k8s_openapi::api::core::v1::ServiceAccount;
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::basics::{INFRASTRUCTURE, identity, problem, ready};
use crate::world::{Entry, Gate, World, condition, kubeconfig};

/// How long a repaired Secret may take to be noticed. The server is not asked again before ten
/// minutes if it does not change.
const REPAIR_TIMEOUT: Duration = Duration::from_secs(30);

/// A Secret that cannot be used, and what is reported about it.
struct Row {
    name: &'static str,
    /// Key and text, unless there is no Secret.
    secret: Option<(&'static str, String)>,
    context: Option<&'static str>,
    reason: &'static str,
    message: String,
}

fn row(name: &'static str, text: impl ToString, reason: &'static str, message: &str) -> Row {
    Row {
        name,
        secret: Some(("kubeconfig", text.to_string())),
        context: None,
        reason,
        message: message.to_owned(),
    }
}

/// Returns the table of Secrets that cannot be used.
fn rows(world: &World, silent: &Gate, closed: &str) -> anyhow::Result<Vec<Row>> {
    const INVALID: &str = "IdentityKubeconfigInvalid";
    const UNREACHABLE: &str = "IdentityUnreachable";
    let good = world.hosts.kubeconfig("user-a", "pool-a")?;
    let server = world.hosts.server.address();
    let with = |change: &dyn Fn(&mut Value)| {
        let mut changed = good.clone();
        change(&mut changed);
        changed
    };
    let at = |url: &str| with(&|file| file["clusters"][0]["cluster"]["server"] = url.into());
    let may_not = |what: &str, namespace: &str| {
        format!(
            "the kubeconfig's user may not {what} in namespace {namespace}: apply the output of \
             `insula operator metal3 manifests --host-access {namespace}` there"
        )
    };
    let secret =
        |name: &str, problem: &str| format!("the Secret {name} {problem}: correct the Secret");
    let elsewhere = world.management.server.address();
    let no_hosts = kubeconfig(
        &world.management.server,
        &[Entry::new("hosts", "system", "pool-a")],
    );
    let mut rows = vec![
        Row {
            secret: None,
            ..row(
                "missing",
                "",
                "IdentitySecretNotFound",
                "the Secret missing does not exist in namespace team-a: create it there, with a \
                kubeconfig under the key kubeconfig; Secrets of other namespaces are never used",
            )
        },
        Row {
            secret: Some(("config", good.to_string())),
            ..row(
                "other-key",
                "",
                INVALID,
                &secret("other-key", "lacks kubeconfig"),
            )
        },
        Row {
            secret: Some(("token", world.hosts.token("user-a")?.to_owned())),
            ..row(
                "bare-token",
                "",
                INVALID,
                &secret("bare-token", "lacks kubeconfig"),
            )
        },
        row(
            "garbage",
            "{",
            INVALID,
            &secret("garbage", "has a kubeconfig that is not valid"),
        ),
        Row {
            context: Some("other"),
            ..row(
                "unknown-context",
                &good,
                INVALID,
                &secret("unknown-context", r#"has no context "other""#),
            )
        },
        row(
            "no-context",
            with(&|file| file["current-context"] = Value::Null),
            INVALID,
            &secret(
                "no-context",
                "has a kubeconfig without current-context, and identityRef names no context",
            ),
        ),
        row(
            "no-cluster",
            with(&|file| file["clusters"] = json!([])),
            INVALID,
            &secret(
                "no-cluster",
                r#"names an unknown cluster in context "hosts""#,
            ),
        ),
        row(
            "no-user",
            with(&|file| file["users"][0]["user"] = json!({})),
            INVALID,
            &secret(
                "no-user",
                "has no token, client-certificate-data or username in the user of context \"hosts\"",
            ),
        ),
        row(
            "unauthorized",
            with(&|file| file["users"][0]["user"]["token"] = "wrong".into()),
            "IdentityUnauthorized",
            &format!("{server} does not accept the credential"),
        ),
        row(
            "forbidden",
            world.hosts.kubeconfig("user-none", "pool-a")?,
            "IdentityForbidden",
            &may_not("list baremetalhosts", "pool-a"),
        ),
        row(
            "other-pool",
            world.hosts.kubeconfig("user-a", "pool-b")?,
            "IdentityForbidden",
            &may_not("list baremetalhosts", "pool-b"),
        ),
        row(
            "default-pool",
            with(&|file| file["contexts"][0]["context"]["namespace"] = Value::Null),
            "IdentityForbidden",
            &may_not("list baremetalhosts", "default"),
        ),
        row(
            "not-served",
            no_hosts,
            "BareMetalHostAPINotFound",
            &format!(
                "{elsewhere} does not serve BareMetalHosts: install the Bare Metal Operator's \
                 definitions there"
            ),
        ),
        row(
            "refused",
            at(&format!("https://{closed}")),
            UNREACHABLE,
            &format!(
                "{closed} cannot be used: cannot connect ({closed}: Connection refused (os error \
                 111))"
            ),
        ),
        row(
            "unknown-host",
            at("https://hosts.invalid"),
            UNREACHABLE,
            "hosts.invalid cannot be used: cannot connect (no such host, or its address is not \
                allowed)",
        ),
        row(
            "silent",
            at(&silent.url()),
            UNREACHABLE,
            "no response within 3s",
        ),
    ];
    let untrusted = no_authority(&good);
    rows.push(row(
        "untrusted",
        untrusted,
        UNREACHABLE,
        &format!(
            "the certificate of {server} is not trusted: it is not signed by a known authority"
        ),
    ));
    Ok(rows)
}

fn no_authority(kubeconfig: &Value) -> Value {
    let mut changed = kubeconfig.clone();
    if let Some(cluster) = changed["clusters"][0]["cluster"].as_object_mut() {
        cluster.remove("certificate-authority-data");
    }
    changed
}

#[tokio::test]
async fn x01_r05_r28_unusable_credential_is_reported_until_it_is_repaired() -> anyhow::Result<()> {
    let world = World::new().await?;
    let _running = world.start();
    let management = &world.management;
    let silent = Gate::closed(world.hosts.server.address()).await?;
    // A port that was free a moment ago.
    let closed = std::net::TcpListener::bind("127.0.0.1:0")?.local_addr()?;
    let rows = rows(&world, &silent, &closed.to_string())?;
    for row in &rows {
        if let Some((key, text)) = &row.secret {
            let texts = [(*key, text.as_str())];
            management.secret("team-a", row.name, &texts).await?;
        }
        let reference = json!({"name": row.name, "context": row.context});
        let spec = json!({"identityRef": reference});
        management.cluster("team-a", row.name, spec).await?;
    }
    for row in &rows {
        let message = problem(management, "team-a", row.name, row.reason).await?;
        assert_eq!(message, row.message);
        let event = management.event("team-a", row.name, row.reason).await?;
        assert_eq!(event.type_.as_deref(), Some("Warning"), "{}", row.name);
        let cluster = management
            .api::<Metal3Cluster>("team-a")
            .get(row.name)
            .await?;
        let status = cluster.status.unwrap();
        assert_eq!(status.initialization, None, "{}", row.name);
        let older = status.deprecated.unwrap().v1beta1.unwrap();
        assert_eq!(older.failure.failure_reason, None, "{}", row.name);
        let owner = management.api::<Cluster>("team-a").get(row.name).await?;
        assert!(!owner.is_infrastructure_provisioned(), "{}", row.name);
    }

    // The Secret is repaired, and nothing is restarted.
    let token = world.hosts.token("user-a")?;
    let entries = ["hosts", "other"].map(|context| Entry::new(context, token, "pool-a"));
    let good = kubeconfig(&world.hosts.server, &entries);
    let begun = Instant::now();
    for row in &rows {
        management
            .replace_identity("team-a", row.name, &good)
            .await?;
    }
    let repaired = rows.iter().map(async |row| {
        let cluster = ready(management, "team-a", row.name).await?;
        let ready = condition(&cluster, "Ready");
        assert_eq!(ready, Some(["True", "Ready", ""]), "{}", row.name);
        management
            .wait_until("team-a", row.name, Cluster::is_infrastructure_provisioned)
            .await
    });
    try_join_all(repaired).await?;
    assert!(begun.elapsed() < REPAIR_TIMEOUT, "{:?}", begun.elapsed());
    Ok(())
}

#[tokio::test]
async fn x02_replaced_credential_is_used_without_a_restart() -> anyhow::Result<()> {
    let world = World::new().await?;
    let (management, hosts) = (&world.management, &world.hosts);
    let old = hosts.user("pool-a", "old").await?;
    let new = hosts.user("pool-a", "new").await?;
    let file = |token: &str| kubeconfig(&hosts.server, &[Entry::new("hosts", token, "pool-a")]);
    management.identity("team-a", "hosts", &file(&old)).await?;
    let _running = world.start();
    management
        .cluster("team-a", "prod", identity("hosts"))
        .await?;
    ready(management, "team-a", "prod").await?;

    // A revoked credential is noticed through the watch. What was provisioned stays so.
    hosts.delete::<ServiceAccount>("pool-a", "old").await?;
    let message = problem(management, "team-a", "prod", "IdentityUnauthorized").await?;
    let server = hosts.server.address();
    assert_eq!(message, format!("{server} does not accept the credential"));
    let owner = management.api::<Cluster>("team-a").get("prod").await?;
    assert!(owner.is_infrastructure_provisioned());

    management
        .replace_identity("team-a", "hosts", &file(&new))
        .await?;
    ready(management, "team-a", "prod").await?;
    let user = "system:serviceaccount:pool-a:new";
    let requests = hosts.requests()?;
    let is_watched = requests
        .iter()
        .any(|request| request.user == user && request.verb == "watch");
    assert!(is_watched, "{requests:?}");

    // A credential that is replaced before it is revoked is never missed.
    let newest = hosts.user("pool-a", "newest").await?;
    management
        .replace_identity("team-a", "hosts", &file(&newest))
        .await?;
    let user = "system:serviceaccount:pool-a:newest";
    crate::world::eventually(async || {
        let requests = hosts.requests()?;
        let mut requests = requests.iter();
        let watched = requests.find(|request| request.user == user && request.verb == "watch");
        Ok(watched.cloned())
    })
    .await?;
    hosts.delete::<ServiceAccount>("pool-a", "new").await?;
    let cluster: Metal3Cluster = ready(management, "team-a", "prod").await?;
    assert_eq!(condition(&cluster, "Ready"), Some(["True", "Ready", ""]));
    Ok(())
}

#[tokio::test]
async fn x03_r06_r07_context_selects_user_and_namespace() -> anyhow::Result<()> {
    let world = World::new().await?;
    let (management, hosts) = (&world.management, &world.hosts);
    let entries = [
        Entry::new("a", hosts.token("user-a")?, "pool-a"),
        Entry::new("s", hosts.token("user-s1")?, "shared"),
    ];
    let mut file = kubeconfig(&hosts.server, &entries);
    management.identity("team-a", "hosts", &file).await?;
    file["current-context"] = Value::Null;
    management.identity("team-a", "no-current", &file).await?;
    let _running = world.start();
    let reference =
        |name: &str, context: &str| json!({"identityRef": {"name": name, "context": context}});
    for (name, spec) in [
        ("current", identity("hosts")),
        ("named", reference("hosts", "s")),
        ("only-named", reference("no-current", "s")),
    ] {
        management.cluster("team-a", name, spec).await?;
        ready(management, "team-a", name).await?;
    }
    for (user, namespace) in [("user-a", "pool-a"), ("user-s1", "shared")] {
        let requests = hosts.requests_by(user)?;
        let requests: Vec<_> = requests.iter().map(String::as_str).collect();
        let expected = [
            "create selfsubjectaccessreviews ",
            &format!("list baremetalhosts {namespace}"),
            &format!("watch baremetalhosts {namespace}"),
        ];
        assert_eq!(requests, expected);
    }
    // A cluster that selects another context uses that one.
    let patch = json!({"spec": {"identityRef": {"context": "none"}}});
    management
        .patch::<Metal3Cluster>("team-a", "current", patch)
        .await?;
    let message = problem(management, "team-a", "current", "IdentityKubeconfigInvalid").await?;
    let expected = r#"the Secret hosts has no context "none": correct the Secret"#;
    assert_eq!(message, expected);
    let cluster = management
        .api::<Metal3Cluster>("team-a")
        .get("named")
        .await?;
    assert_eq!(
        condition(&cluster, INFRASTRUCTURE),
        Some(["True", "Ready", ""])
    );
    Ok(())
}
