//! Verification of server certificates.

use std::net::Ipv4Addr;
use std::sync::atomic::Ordering;

use crate::LogInAt;
use insula_identity::endpoint::Trust;
use insula_identity::reason::Reason;
use insula_identity::session::LoginError;
use insula_vsphere::vcenter::{Session, VCenters};
use tokio::net::TcpListener;

use super::stub::{ServerCertificate, Stub, valid_reply};
use super::{SHORT_TIMEOUT, TIMEOUT, credential, endpoint};

async fn ask(
    stub: &Stub,
    roots: &[&ServerCertificate],
    trust: &Trust,
) -> Result<Session, LoginError> {
    let roots = roots.iter().map(|shown| shown.root.clone()).collect();
    let vcenters = VCenters::new(TIMEOUT, roots);
    vcenters
        .log_in_at(&endpoint(&stub.address()), trust, &credential("u", "p"))
        .await
}

#[tokio::test]
async fn signed_or_pinned_certificate_is_trusted() {
    let good = ServerCertificate::new("127.0.0.1", false);
    let expired = ServerCertificate::new("127.0.0.1", true);
    let elsewhere = ServerCertificate::new("vc.example.com", false);
    let pinned = |text: String| Trust::Pinned(text);
    let without_colons = good.sha256().replace(':', "");
    let table: Vec<(&ServerCertificate, Vec<&ServerCertificate>, Trust)> = vec![
        (&good, vec![&good], Trust::Verified),
        // A certificate of a known authority is trusted, whatever is pinned: it may be renewed.
        (&good, vec![&good], pinned(elsewhere.sha1())),
        (&good, vec![], pinned(good.sha1())),
        (&good, vec![], pinned(good.sha256())),
        (&good, vec![], pinned(good.sha1().to_lowercase())),
        (&good, vec![], pinned(without_colons.to_lowercase())),
        (&elsewhere, vec![&elsewhere], pinned(elsewhere.sha256())),
        (&expired, vec![&expired], pinned(expired.sha1())),
        (&good, vec![], Trust::AnyCertificate),
        (&expired, vec![], Trust::AnyCertificate),
        (&elsewhere, vec![], Trust::AnyCertificate),
    ];
    for (shown, roots, trust) in table {
        let stub = Stub::start(shown, valid_reply).await;
        let session = ask(&stub, &roots, &trust).await.expect("believed");
        assert_eq!(session.about().version, "8.0.2");
    }
}

#[tokio::test]
async fn untrusted_server_gets_no_request_and_its_fingerprint_is_reported() {
    let good = ServerCertificate::new("127.0.0.1", false);
    let expired = ServerCertificate::new("127.0.0.1", true);
    let elsewhere = ServerCertificate::new("vc.example.com", false);
    let unknown = "it is not signed by a known authority";
    let wrong = good
        .sha1()
        .replace(|digit: char| digit.is_ascii_digit(), "F");
    let table: Vec<(&ServerCertificate, Vec<&ServerCertificate>, Trust, &str)> = vec![
        (&good, vec![], Trust::Verified, unknown),
        (&good, vec![&elsewhere], Trust::Verified, unknown),
        (
            &elsewhere,
            vec![&elsewhere],
            Trust::Verified,
            "it is for another name",
        ),
        (&expired, vec![&expired], Trust::Verified, "it has expired"),
        (&good, vec![], Trust::Pinned(wrong), unknown),
        (&good, vec![], Trust::Pinned(elsewhere.sha256()), unknown),
        (
            &good,
            vec![],
            Trust::Pinned(good.sha256()[..59].to_owned()),
            unknown,
        ),
        (&good, vec![], Trust::Pinned(String::new()), unknown),
        (
            &expired,
            vec![&expired],
            Trust::Pinned(good.sha1()),
            "it has expired",
        ),
    ];
    for (shown, roots, trust, why) in table {
        let stub = Stub::start(shown, valid_reply).await;
        let refused = ask(&stub, &roots, &trust).await.expect_err("not believed");
        let expected = match &trust {
            Trust::Pinned(pin) => format!("and {pin:?} is expected"),
            _ => "and none is expected".to_owned(),
        };
        let message = format!(
            "the certificate of {} is not trusted: {why}; its fingerprints are {} (SHA-1) and {} \
             (SHA-256), {expected}",
            stub.address(),
            shown.sha1(),
            shown.sha256(),
        );
        assert_eq!(
            refused,
            LoginError {
                reason: Reason::CertificateNotTrusted,
                message,
                answered: false,
            }
        );
        assert_eq!(stub.methods(), Vec::<String>::new());
        assert_eq!(stub.connections.load(Ordering::SeqCst), 1);
    }
}

#[tokio::test]
async fn x6_server_that_never_answers_times_out() {
    let silent = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))
        .await
        .expect("a port");
    let deaf = silent.local_addr().expect("an address").to_string();
    let shown = ServerCertificate::new("127.0.0.1", false);
    let mute = Stub::start(&shown, |_| super::stub::Reply::Silence).await;
    for address in [deaf, mute.address()] {
        let vcenters = VCenters::new(SHORT_TIMEOUT, Vec::new());
        let place = endpoint(&address);
        let refused = vcenters
            .log_in_at(&place, &Trust::AnyCertificate, &credential("u", "p"))
            .await;
        let message = format!("{address} cannot be used: no answer within 0.3 s");
        assert_eq!(
            refused.expect_err("silence"),
            LoginError {
                reason: Reason::Unreachable,
                message,
                answered: false,
            }
        );
    }
}

#[tokio::test]
async fn closed_port_or_plain_text_server_is_unreachable() {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))
        .await
        .expect("a port");
    let closed = listener.local_addr().expect("an address").to_string();
    drop(listener);
    let plain = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))
        .await
        .expect("a port");
    let rude = plain.local_addr().expect("an address").to_string();
    let serving = tokio::spawn(async move {
        use tokio::io::AsyncWriteExt;
        while let Ok((mut stream, _)) = plain.accept().await {
            stream
                .write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n")
                .await
                .ok();
        }
    });
    let vcenters = VCenters::new(TIMEOUT, Vec::new());
    for (address, start) in [
        (closed, "cannot connect ("),
        (rude, "TLS handshake failed ("),
    ] {
        let place = endpoint(&address);
        let refused = vcenters
            .log_in_at(&place, &Trust::AnyCertificate, &credential("u", "p"))
            .await;
        let refused = refused.expect_err("no server");
        assert_eq!(refused.reason, Reason::Unreachable);
        let expected = format!("{address} cannot be used: {start}");
        assert!(refused.message.starts_with(&expected), "{refused}");
    }
    serving.abort();
}
