//! Certificate signing requests.

use anyhow::Context;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use insula_access::{CertificateRequest, Credential, Subject, certificate};
use insula_core::{Space, TenantBinding};
use insula_testkit::server::{Client, Identity, TestServer};
use rcgen::{CertificateParams, KeyPair, SanType};
use serde_json::{Value, json};

use super::{condition, create, servers, until};

const REQUESTS: &str = "/apis/certificates.k8s.io/v1/certificatesigningrequests";

fn subject(groups: &[&str], tenant: Option<&str>) -> Subject {
    Subject {
        user: "alice".to_owned(),
        groups: groups.iter().map(|&group| group.to_owned()).collect(),
        tenant: tenant.and_then(|name| Space::parse(name).ok()),
        tenant_uid: None,
    }
}

/// The credential in a certificate in PEM.
fn credential(pem: &str) -> anyhow::Result<Credential> {
    Ok(certificate::read(pem::parse(pem)?.contents())?)
}

async fn uid(system: &Client, tenant: &str) -> anyhow::Result<String> {
    let found = system.get(&format!("/api/v1/tenants/{tenant}")).await?;
    let found = found.json();
    let uid = found["metadata"]["uid"].as_str().context("no uid")?;
    Ok(uid.to_owned())
}

async fn request(
    client: &Client,
    name: &str,
    subject: &Subject,
    spec: Value,
) -> anyhow::Result<KeyPair> {
    let key = KeyPair::generate()?;
    let pem = CertificateRequest::create_pem(subject, &key)?;
    let mut whole = json!({
        "request": STANDARD.encode(pem),
        "signerName": "kubernetes.io/kube-apiserver-client",
        "usages": ["client auth"],
    });
    for (member, value) in spec.as_object().into_iter().flatten() {
        whole[member] = value.clone();
    }
    let object = json!({"metadata": {"name": name}, "spec": whole});
    create(client, REQUESTS, object).await?;
    Ok(key)
}

/// The subject of a node's certificate.
fn node(name: &str, groups: &[&str]) -> Subject {
    Subject {
        user: format!("system:node:{name}"),
        ..subject(groups, None)
    }
}

/// What a kubelet requests beside its subject.
fn for_kubelets() -> Value {
    json!({
        "signerName": "kubernetes.io/kube-apiserver-client-kubelet",
        "usages": ["digital signature", "client auth"],
    })
}

async fn approve(client: &Client, name: &str) -> anyhow::Result<()> {
    let path = format!("{REQUESTS}/{name}/approval");
    let approved = json!({"type": "Approved", "status": "True", "reason": "x", "message": "y"});
    let patch = json!({"status": {"conditions": [approved]}});
    let answer = client.patch(&path, "merge", &patch).await?;
    anyhow::ensure!(answer.status == 200, "{}", answer.text());
    Ok(())
}

/// The certificate in DER.
async fn issued(client: &Client, name: &str) -> anyhow::Result<String> {
    let path = format!("{REQUESTS}/{name}");
    let signed = until(client, &path, |answer| {
        answer.json()["status"]["certificate"].is_string()
    })
    .await?
    .json();
    let pem = signed["status"]["certificate"].as_str().unwrap_or_default();
    Ok(String::from_utf8(STANDARD.decode(pem)?)?)
}

async fn failure(client: &Client, name: &str) -> anyhow::Result<Value> {
    let path = format!("{REQUESTS}/{name}");
    let failed = until(client, &path, |answer| {
        !condition(&answer.json(), "Failed").is_null()
    })
    .await?
    .json();
    assert!(failed["status"]["certificate"].is_null(), "{failed}");
    assert!(!condition(&failed, "Approved").is_null(), "{failed}");
    Ok(condition(&failed, "Failed"))
}

#[tokio::test]
async fn approved_request_is_signed_for_its_own_space() -> anyhow::Result<()> {
    for server in servers().await? {
        for (client, space) in [
            (server.tenant("t1").await?, "t1"),
            (server.system().await?, "system"),
        ] {
            for (name, tenant) in [("silent", None), ("outspoken", Some(space))] {
                let requested = subject(&["dev", "ops"], tenant);
                request(
                    &client,
                    name,
                    &requested,
                    json!({"expirationSeconds": 3600}),
                )
                .await?;
                approve(&client, name).await?;
                let pem = issued(&client, name).await?;
                let credential = credential(&pem)?;
                assert_eq!(credential.user, "alice");
                assert_eq!(credential.groups, ["dev", "ops"]);
                assert_eq!(credential.tenant, Some(Space::parse(space)?));
                let tenant_binding = match space {
                    "system" => TenantBinding::Name,
                    tenant => {
                        TenantBinding::Uid(uid(&server.system().await?, tenant).await?.into())
                    }
                };
                assert_eq!(credential.tenant_binding, tenant_binding);
                let issued = server.authority().recognise(&pem).unwrap();
                let left = issued.until.duration_since(std::time::SystemTime::now())?;
                assert!((3500..=3600).contains(&left.as_secs()), "{left:?}");
            }
        }
    }
    Ok(())
}

#[tokio::test]
async fn certificate_is_bound_to_the_tenant_uid() -> anyhow::Result<()> {
    let server = TestServer::start_with_controllers().await?;
    let system = server.system().await?;
    let mut bindings = Vec::new();
    for _ in 0..2 {
        let client = server.tenant("t1").await?;
        let own = uid(&system, "t1").await?;
        // The same request under the same name: the first one was deleted with its tenant.
        request(&client, "r", &subject(&["dev"], None), json!({})).await?;
        approve(&client, "r").await?;
        let found = credential(&issued(&client, "r").await?)?;
        assert_eq!(
            found.tenant_binding,
            TenantBinding::Uid(own.as_str().into())
        );
        assert!(found.tenant_binding.holds(&own, i64::MAX));
        bindings.push(found.tenant_binding);
        let path = "/api/v1/tenants/t1";
        assert_eq!(system.delete(path).await?.status, 200);
        until(&system, path, |answer| answer.status == 404).await?;
    }
    assert_ne!(bindings[0], bindings[1]);
    Ok(())
}

#[tokio::test]
async fn unapproved_request_or_other_signer_is_not_signed() -> anyhow::Result<()> {
    let server = TestServer::start_with_controllers().await?;
    let client = server.tenant("t1").await?;
    request(&client, "pending", &subject(&[], None), json!({})).await?;
    let elsewhere = json!({"signerName": "example.com/other"});
    request(&client, "elsewhere", &subject(&[], None), elsewhere).await?;
    approve(&client, "elsewhere").await?;
    // Clients of all tenants trust servers with a certificate of this CA.
    let serving = json!({
        "signerName": "kubernetes.io/kubelet-serving",
        "usages": ["digital signature", "server auth"],
    });
    request(&client, "serving", &node("n1", &["system:nodes"]), serving).await?;
    approve(&client, "serving").await?;
    // When a later request is signed, these were processed.
    request(&client, "later", &subject(&[], None), json!({})).await?;
    approve(&client, "later").await?;
    issued(&client, "later").await?;
    for name in ["pending", "elsewhere", "serving"] {
        let found = client.get(&format!("{REQUESTS}/{name}")).await?.json();
        assert!(found["status"]["certificate"].is_null(), "{found}");
        assert!(condition(&found, "Failed").is_null(), "{found}");
    }
    Ok(())
}

#[tokio::test]
async fn forbidden_request_fails_with_a_reason() -> anyhow::Result<()> {
    let server = TestServer::start_with_controllers().await?;
    let (tenant, system) = (server.tenant("t1").await?, server.system().await?);
    let signer = "use of kubernetes.io/kube-apiserver-client signer with";
    for (client, name, subject, spec, message) in [
        (
            &tenant,
            "other-tenant",
            subject(&[], Some("t2")),
            json!({}),
            "a certificate of this tenant must have the tenant \"t1\" or none".to_owned(),
        ),
        (
            &tenant,
            "system-tenant",
            subject(&[], Some("system")),
            json!({}),
            "a certificate of this tenant must have the tenant \"t1\" or none".to_owned(),
        ),
        (
            &tenant,
            "system-group",
            subject(&["dev", "system:nodes"], None),
            json!({}),
            format!("{signer} system:nodes group is not allowed"),
        ),
        (
            &tenant,
            "aggregators-group",
            subject(&["system:aggregators"], Some("t1")),
            json!({}),
            format!("{signer} system:aggregators group is not allowed"),
        ),
        (
            &tenant,
            "service-account",
            Subject {
                user: "system:serviceaccount:kube-system:default".to_owned(),
                ..subject(&[], None)
            },
            json!({}),
            format!("{signer} system:serviceaccount:kube-system:default user is not allowed"),
        ),
        (
            &tenant,
            "for-servers",
            subject(&[], None),
            json!({"usages": ["server auth"]}),
            "invalid usage for client certificate: server auth".to_owned(),
        ),
        (
            &tenant,
            "for-nobody",
            subject(&[], None),
            json!({"usages": ["digital signature"]}),
            "missing required usage for client certificate: client auth".to_owned(),
        ),
        (
            &system,
            "to-a-tenant",
            subject(&[], Some("t1")),
            json!({}),
            "a certificate of this tenant must have the tenant \"system\" or none".to_owned(),
        ),
    ] {
        request(client, name, &subject, spec).await?;
        approve(client, name).await?;
        let failed = failure(client, name).await?;
        assert_eq!(failed["status"], "True");
        assert_eq!(failed["reason"], "SignerValidationFailure");
        assert_eq!(failed["message"], message);
    }
    Ok(())
}

#[tokio::test]
async fn approved_request_of_a_kubelet_makes_a_node_of_its_space() -> anyhow::Result<()> {
    let server = TestServer::start_with_controllers().await?;
    let nodes = "/api/v1/nodes";
    let object = |name: &str| json!({"metadata": {"name": name}});
    for (admin, space) in [
        (server.tenant("t1").await?, "t1"),
        (server.system().await?, "system"),
    ] {
        let subject = node("n1", &["system:nodes"]);
        let key = request(&admin, "n1", &subject, for_kubelets()).await?;
        approve(&admin, "n1").await?;
        let pem = issued(&admin, "n1").await?;
        let found = credential(&pem)?;
        assert_eq!(found.user, "system:node:n1");
        assert_eq!(found.groups, ["system:nodes"]);
        assert_eq!(found.tenant, Some(Space::parse(space)?));
        let identity = Identity::from_pem(&pem, &key.serialize_pem())?;
        let kubelet = server.client_with_identity(identity, "").await?;
        let created = kubelet.post(nodes, &object("n1")).await?;
        assert_eq!(created.status, 201, "{}", created.text());
        assert_eq!(kubelet.post(nodes, &object("n2")).await?.status, 403);
        assert_eq!(kubelet.get("/api/v1/secrets").await?.status, 403);
        let other = kubelet.get("/tenants/t2/api/v1/nodes/n1").await?;
        assert_eq!(other.status, 403, "{}", other.text());
        if space == "system" {
            continue;
        }
        // Void with its tenant: a later one of the name does not have this node.
        let (system, path) = (server.system().await?, "/api/v1/tenants/t1");
        assert_eq!(system.delete(path).await?.status, 200);
        until(&system, path, |answer| answer.status == 404).await?;
        server.tenant("t1").await?;
        let refused = kubelet.get(&format!("{nodes}/n1")).await?;
        assert_eq!(refused.status, 403, "{}", refused.text());
    }
    Ok(())
}

#[tokio::test]
async fn forbidden_request_of_a_kubelet_fails_with_a_reason() -> anyhow::Result<()> {
    let server = TestServer::start_with_controllers().await?;
    let admin = server.tenant("t1").await?;
    let nodes = &["system:nodes"][..];
    let mut servers = for_kubelets();
    servers["usages"] = json!(["digital signature", "server auth"]);
    let other_tenant = Subject {
        tenant: Some(Space::parse("t2")?),
        ..node("n1", nodes)
    };
    let user = subject(nodes, None);
    let organization = "subject organization is not system:nodes";
    let common_name = "subject common name does not begin with system:node:";
    for (name, subject, spec, message) in [
        ("no-group", node("n1", &[]), for_kubelets(), organization),
        (
            "two-groups",
            node("n1", &["system:nodes", "system:masters"]),
            for_kubelets(),
            organization,
        ),
        ("user", user, for_kubelets(), common_name),
        ("no-name", node("", nodes), for_kubelets(), common_name),
        (
            "servers",
            node("n1", nodes),
            servers,
            "usages did not match [client auth digital signature key encipherment]",
        ),
        (
            "other-tenant",
            other_tenant,
            for_kubelets(),
            "a certificate of this tenant must have the tenant \"t1\" or none",
        ),
    ] {
        request(&admin, name, &subject, spec).await?;
        approve(&admin, name).await?;
        let failed = failure(&admin, name).await?;
        assert_eq!(failed["reason"], "SignerValidationFailure", "{name}");
        assert_eq!(failed["message"], message, "{name}");
    }
    Ok(())
}

#[tokio::test]
async fn certificate_of_a_kubelet_has_no_alternative_names() -> anyhow::Result<()> {
    let server = TestServer::start_with_controllers().await?;
    let admin = server.tenant("t1").await?;
    let address = std::net::IpAddr::from([10, 0, 0, 1]);
    for (name, alternative, message) in [
        (
            "dns",
            SanType::DnsName("a.b".try_into()?),
            "DNS subjectAltNames are not allowed",
        ),
        (
            "ip",
            SanType::IpAddress(address),
            "IP subjectAltNames are not allowed",
        ),
        (
            "uri",
            SanType::URI("urn:insula:tenant:u-1".try_into()?),
            "URI subjectAltNames are not allowed",
        ),
    ] {
        let mut parameters = CertificateParams::default();
        let subject = &mut parameters.distinguished_name;
        subject.push(rcgen::DnType::CommonName, "system:node:n1");
        subject.push(rcgen::DnType::OrganizationName, "system:nodes");
        parameters.subject_alt_names = vec![alternative];
        let pem = parameters.serialize_request(&KeyPair::generate()?)?.pem()?;
        let mut spec = for_kubelets();
        spec["request"] = STANDARD.encode(pem).into();
        request(&admin, name, &node("n1", &["system:nodes"]), spec).await?;
        approve(&admin, name).await?;
        let failed = failure(&admin, name).await?;
        assert_eq!(failed["message"], message, "{name}");
    }
    Ok(())
}
