//! Logins and sessions, against vcsim and the testkit's vCenter.

use crate::LogInAt;
use insula_identity::endpoint::Trust;
use insula_identity::reason::Reason;
use insula_identity::session::Connector;
use insula_testkit::vcenter::FakeVCenter;
use insula_testkit::vcsim::{Settings, VcSim};
use insula_vsphere::vcenter::{Error, VCenters};

use super::{SHORT_TIMEOUT, TIMEOUT, credential, endpoint, log_in, log_out};

const AGENT: &str = concat!("insula-vsphere/", env!("CARGO_PKG_VERSION"));

#[tokio::test]
async fn g1_session_belongs_to_its_account_and_ends_with_the_logout() {
    let Some(vcsim) = VcSim::start("tenant-a", "p&<a") else {
        return;
    };
    let pinned = Trust::Pinned(vcsim.thumbprint().await.expect("a certificate"));
    // The password has characters that XML must escape.
    let session = log_in(&vcsim.address(), &pinned, "tenant-a", "p&<a").await;
    let session = session.expect("logged in");
    assert_eq!(session.about().api_type, "VirtualCenter");
    assert!(!session.about().version.is_empty());
    assert!(
        VCenters::new(TIMEOUT, Vec::new())
            .is_alive(&session)
            .await
            .expect("answered")
    );
    log_out(&session).await;
    assert!(
        !VCenters::new(TIMEOUT, Vec::new())
            .is_alive(&session)
            .await
            .expect("answered")
    );
    assert_eq!(
        session.find_by_path("/DC0").await,
        Err(Error::NotAuthenticated)
    );
}

#[tokio::test]
async fn administrator_sees_the_session_and_can_end_it() {
    let Some(vcsim) = VcSim::start("tenant-a", "pa") else {
        return;
    };
    let vcenters = VCenters::new(TIMEOUT, Vec::new());
    let session = log_in(&vcsim.address(), &Trust::AnyCertificate, "tenant-a", "pa").await;
    let session = session.expect("logged in");
    let seen = vcsim.sessions().await.expect("listed");
    let [ours] = &seen[..] else {
        panic!("{seen:?}");
    };
    assert_eq!(
        (ours.username.as_str(), ours.agent.as_str()),
        ("tenant-a", AGENT)
    );
    vcsim.terminate(&ours.key).await.expect("ended");
    assert_eq!(
        session.find_by_path("/DC0").await,
        Err(Error::NotAuthenticated)
    );
    assert!(!vcenters.is_alive(&session).await.expect("answered"));
    let again = log_in(&vcsim.address(), &Trust::AnyCertificate, "tenant-a", "pa").await;
    let again = again.expect("logged in again");
    assert_eq!(vcsim.sessions().await.expect("listed").len(), 1);
    log_out(&again).await;
    assert_eq!(vcsim.sessions().await.expect("listed"), []);
}

#[tokio::test]
async fn wrong_password_and_wrong_certificate_are_distinct() {
    let Some(vcsim) = VcSim::start("tenant-a", "pa") else {
        return;
    };
    let refused = log_in(&vcsim.address(), &Trust::AnyCertificate, "tenant-a", "pb").await;
    let refused = refused.expect_err("a wrong password");
    assert_eq!(refused.reason, Reason::InvalidCredentials);
    let message = format!(
        "{} does not accept the credential (InvalidLogin)",
        vcsim.address()
    );
    assert_eq!(refused.message, message);
    let refused = log_in(&vcsim.address(), &Trust::Verified, "tenant-a", "pa").await;
    let refused = refused.expect_err("unknown authority");
    assert_eq!(refused.reason, Reason::CertificateNotTrusted);
    let shown = vcsim.thumbprint().await.expect("a certificate");
    assert!(refused.message.contains(&shown), "{refused}");
    assert_eq!(vcsim.sessions().await.expect("listed"), []);
}

#[tokio::test]
async fn simulator_supports_certificates_and_delays() {
    let key = rcgen::KeyPair::generate().expect("a key");
    let parameters = rcgen::CertificateParams::new(vec!["127.0.0.1".to_owned()]).expect("names");
    let certificate = parameters.self_signed(&key).expect("a certificate");
    let settings = Settings {
        certificate: Some((certificate.pem(), key.serialize_pem())),
        flags: vec!["-method-delay".to_owned(), "Login:400".to_owned()],
        ..Settings::default()
    };
    let Some(vcsim) = VcSim::start_with(settings) else {
        return;
    };
    let place = endpoint(&vcsim.address());
    let roots = vec![certificate.der().to_vec()];
    let with_short_timeout = VCenters::new(SHORT_TIMEOUT, roots.clone());
    let slow = with_short_timeout
        .log_in_at(&place, &Trust::Verified, &credential("user", "pass"))
        .await;
    assert_eq!(slow.expect_err("too slow").reason, Reason::Unreachable);
    let with_long_timeout = VCenters::new(TIMEOUT, roots);
    let session = with_long_timeout
        .log_in_at(&place, &Trust::Verified, &credential("user", "pass"))
        .await;
    log_out(&session.expect("logged in")).await;
}

#[tokio::test]
async fn x5_restricted_account_can_check_its_session() {
    let fake = FakeVCenter::start(&[("low", "p")])
        .await
        .expect("a vCenter");
    fake.limit("low");
    let vcenters = VCenters::new(TIMEOUT, vec![fake.ca_der().expect("a root")]);
    let place = endpoint(&fake.address());
    let session = vcenters
        .log_in_at(&place, &Trust::Verified, &credential("low", "p"))
        .await;
    let session = session.expect("logged in");
    assert!(vcenters.is_alive(&session).await.expect("answered"));
    fake.terminate_all("low");
    assert!(!vcenters.is_alive(&session).await.expect("answered"));
    assert_eq!(fake.called("SessionIsActive"), 0);
}

#[tokio::test]
async fn requests_of_one_session_run_concurrently() {
    let fake = FakeVCenter::start(&[("a", "p")]).await.expect("a vCenter");
    let session = log_in(&fake.address(), &Trust::AnyCertificate, "a", "p")
        .await
        .expect("logged in");
    let many = (0..50).map(|_| session.find_by_path("/DC0"));
    for found in futures_util::future::join_all(many).await {
        assert!(found.expect("answered").is_some());
    }
    assert_eq!(fake.logins().len(), 1);
    let connections = fake.connections();
    for _ in 0..20 {
        session.find_by_path("/DC0").await.expect("answered");
    }
    assert_eq!(fake.connections(), connections);
}

#[tokio::test]
async fn x4_late_refusal_counts_and_delays_further_logins() {
    let fake = FakeVCenter::start(&[("a", "p")]).await.expect("a vCenter");
    fake.delay("Login", SHORT_TIMEOUT * 2);
    let vcenters = VCenters::new(SHORT_TIMEOUT, Vec::new());
    let place = endpoint(&fake.address());
    let wrong = credential("a", "wrong");
    let mut reasons = Vec::new();
    while reasons.last() != Some(&Reason::InvalidCredentials) && reasons.len() < 10 {
        let refused = vcenters
            .log_in_at(&place, &Trust::AnyCertificate, &wrong)
            .await;
        reasons.push(refused.expect_err("a wrong password").reason);
    }
    assert_eq!(reasons.first(), Some(&Reason::Unreachable));
    assert_eq!(reasons.last(), Some(&Reason::InvalidCredentials));
    assert_eq!(fake.logins().len(), 1);
    assert_eq!(fake.called("Login"), 1);
}

#[tokio::test]
async fn r1_late_session_is_closed_before_shutdown() {
    let fake = FakeVCenter::start(&[("a", "p")]).await.expect("a vCenter");
    fake.delay("Login", SHORT_TIMEOUT * 2);
    let vcenters = VCenters::new(SHORT_TIMEOUT, Vec::new());
    let place = endpoint(&fake.address());
    let late = vcenters
        .log_in_at(&place, &Trust::AnyCertificate, &credential("a", "p"))
        .await;
    assert_eq!(late.expect_err("too late").reason, Reason::Unreachable);
    vcenters.drain(TIMEOUT).await;
    assert_eq!((fake.logins().len(), fake.called("Logout")), (1, 1));
    assert_eq!(fake.open_sessions().len(), 0);
}

#[tokio::test]
async fn changed_certificate_is_reported_during_a_session() {
    let fake = FakeVCenter::start(&[("a", "p")]).await.expect("a vCenter");
    let pinned = Trust::Pinned(fake.thumbprint_sha256());
    let session = log_in(&fake.address(), &pinned, "a", "p").await;
    let session = session.expect("logged in");
    fake.renew_certificate().expect("another certificate");
    fake.drop_connection_after("FindByInventoryPath");
    let error = session.find_by_path("/DC0").await.expect_err("another");
    assert_eq!(error.reason(), Reason::CertificateNotTrusted);
    let start = "the certificate of the vCenter is not trusted: ";
    assert!(error.to_string().starts_with(start), "{error}");
    let vcenters = VCenters::new(TIMEOUT, Vec::new());
    let checked = vcenters.is_alive(&session).await.expect_err("another");
    assert_eq!(checked.reason, Reason::CertificateNotTrusted);
}
