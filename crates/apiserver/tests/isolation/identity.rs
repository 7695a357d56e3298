//! Authentication: the caller's identity comes from the credential and from nothing else in the
//! request.

use std::sync::Arc;

use insula_testkit::server::{Client, TestServer};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use super::MAPS;
use super::principals::subject;

/// Sends this text over HTTP/1.1 and reads the response to its end.
async fn send_raw(server: &TestServer, text: &str) -> anyhow::Result<String> {
    let url = server.url();
    let address: std::net::SocketAddr = url.trim_start_matches("https://").parse()?;
    let mut roots = RootCertStore::empty();
    let ca = server.authority().certificate_pem();
    roots.add(CertificateDer::from_pem_slice(ca.as_bytes())?)?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots)
        .with_no_client_auth();
    let stream = TcpStream::connect(address).await?;
    let name = ServerName::from(address.ip());
    let mut stream = TlsConnector::from(Arc::new(config))
        .connect(name, stream)
        .await?;
    stream.write_all(text.as_bytes()).await?;
    let mut answer = Vec::new();
    let read = stream.read_to_end(&mut answer);
    // Some servers close the connection without a TLS close_notify.
    drop(tokio::time::timeout(std::time::Duration::from_secs(20), read).await?);
    Ok(String::from_utf8_lossy(&answer).into_owned())
}

fn status(answer: &str) -> u16 {
    let code = answer.split_whitespace().nth(1);
    code.and_then(|code| code.parse().ok()).unwrap_or(0)
}

#[tokio::test]
async fn i23_no_request_header_changes_the_identity() -> anyhow::Result<()> {
    let server = TestServer::start().await?;
    server.tenant("t1").await?;
    let t1 = "Authorization: Bearer t1\r\n";
    for (headers, expected) in [
        (
            "X-Remote-User: admin\r\nX-Remote-Group: system:masters\r\n",
            401,
        ),
        (
            "x-rEmOtE-gRoUp: system:masters\r\nX-REMOTE-USER: admin\r\n",
            401,
        ),
        (
            "X-Remote-Extra-Tenant: system\r\nX-Remote-Group: a\r\nX-Remote-Group: system:masters\r\n",
            401,
        ),
        ("Connection: X-Remote-User\r\nX-Remote-User: admin\r\n", 401),
        ("X-A: b\r\n Authorization: Bearer system\r\n", 400),
        ("X-A: b\r\n\tX-Remote-Group: system:masters\r\n", 400),
        ("Authorization : Bearer system\r\n", 400),
        (
            &format!("{t1}X-Remote-User: admin\r\nX-Remote-Group: system:masters\r\n"),
            403,
        ),
        (
            &format!("{t1}X-Remote-Group: system:masters\r\nX-Remote-Group: b\r\n"),
            403,
        ),
        // A header named in `Connection` still counts: dropping one must not change the caller's
        // identity.
        (&format!("{t1}Connection: Authorization\r\n"), 403),
        (
            &format!("{t1}Connection: Impersonate-User\r\nImpersonate-User: admin\r\n"),
            403,
        ),
        (&format!("{t1}Authorization: Bearer system\r\n"), 401),
        (&format!("{t1}AUTHORIZATION: Bearer system\r\n"), 401),
        (
            &format!("{t1}X-Forwarded-Client-Cert: Subject=\"O=system:masters\"\r\n"),
            403,
        ),
        (
            &format!("{t1}X-Original-URL: /api/v1/nodes\r\nX-Tenant: system\r\n"),
            403,
        ),
    ] {
        let text = format!(
            "GET /api/v1/tenants HTTP/1.1\r\nHost: insula.test\r\n{headers}Connection: close\r\n\r\n"
        );
        let answer = send_raw(&server, &text).await?;
        assert_eq!(status(&answer), expected, "{headers:?}: {answer}");
        assert!(!answer.contains("\"items\""), "{headers:?}: {answer}");
    }
    Ok(())
}

#[tokio::test]
async fn i23_trailers_do_not_change_the_identity() -> anyhow::Result<()> {
    let server = TestServer::start().await?;
    let tenant = server.tenant("t1").await?;
    let body = r#"{"metadata":{"name":"x"}}"#;
    let chunk = format!("{:x}\r\n{body}\r\n0\r\n", body.len());
    for (headers, trailers, expected) in [
        ("", "Authorization: Bearer system\r\n", 401),
        (
            "Authorization: Bearer t1\r\n",
            "Authorization: Bearer system\r\nX-Remote-Group: system:masters\r\nImpersonate-User: root\r\n",
            201,
        ),
    ] {
        let text = format!(
            "POST {MAPS} HTTP/1.1\r\nHost: insula.test\r\n{headers}Content-Type: application/json\r\n\
             Transfer-Encoding: chunked\r\nTrailer: Authorization\r\nConnection: close\r\n\r\n\
             {chunk}{trailers}\r\n"
        );
        let answer = send_raw(&server, &text).await?;
        assert_eq!(status(&answer), expected, "{answer}");
    }
    let created = tenant.get(&format!("{MAPS}/x")).await?.json();
    assert_eq!(created["metadata"]["tenant"], "t1");
    Ok(())
}

/// Asserts that this client is refused in every space except possibly its own.
async fn assert_outside(client: &Client, what: &str) -> anyhow::Result<()> {
    for path in [
        "/api/v1/tenants/t2/secrets",
        "/tenants/t2/api/v1/namespaces",
        "/tenants/system/api/v1/secrets",
        "/api/v1/tenants/all/secrets",
        "/api/v1/tenants",
        "/tenants/system/api/v1/nodes",
        "/tenants/t2/api/v1/nodes",
        "/api/v1/tenants/all/nodes",
        "/tenants/t2/api",
    ] {
        let refused = client.get(path).await?;
        assert_eq!(refused.status, 403, "{what} {path}: {}", refused.text());
    }
    Ok(())
}

#[tokio::test]
async fn i25_tenant_certificates_are_valid_in_their_tenant_only() -> anyhow::Result<()> {
    let server = TestServer::start().await?;
    server.tenant("t1").await?;
    server.tenant("t2").await?;
    for (user, groups, own) in [
        ("admin", &[][..], 200),
        ("admin", &["system:masters"], 200),
        // Names with a meaning to the server have none on a tenant's certificate.
        ("mallory", &["system:masters", "system:nodes"], 403),
        ("system:admin", &["system:masters"], 403),
        // The default roles of every space bind this group, so the caller has them in its own space
        // if the CA's owner signs such a certificate. The signer rejects such a name in a tenant's
        // signing request.
        ("system:kube-controller-manager", &[], 200),
        ("system:node:n1", &["system:nodes"], 403),
        ("system:apiserver", &["system:masters"], 403),
    ] {
        let client = server
            .client_with_certificate(&subject(user, groups, "t1")?, "")
            .await?;
        let what = format!("{user} {groups:?}");
        assert_outside(&client, &what).await?;
        let secrets = client.get("/api/v1/secrets").await?;
        assert_eq!(secrets.status, own, "{what}: {}", secrets.text());
    }
    Ok(())
}

#[tokio::test]
async fn i25_certificates_of_another_ca_are_rejected() -> anyhow::Result<()> {
    let (server, foreign) = (TestServer::start().await?, TestServer::start().await?);
    server.tenant("t1").await?;
    for (user, groups, tenant) in [
        ("admin", &["system:masters"][..], "system"),
        ("admin", &[], "t1"),
    ] {
        let identity = foreign.identity(&subject(user, groups, tenant)?).await?;
        let Ok(client) = server.client_with_identity(identity, "").await else {
            continue;
        };
        // A TLS 1.3 handshake completes on the client before the server has verified the
        // certificate.
        let answer = client.get("/api/v1/namespaces").await;
        let refused = answer.as_ref().map_or(401, |answer| answer.status);
        assert_eq!(refused, 401, "{answer:?}");
    }
    Ok(())
}
