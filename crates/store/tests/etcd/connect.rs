//! Members, certificates, versions.

use std::net::TcpListener;

use insula_store::etcd::{ClientCertificate, ConnectError, Etcd, Options, Tls};
use insula_store::{KeyRange, Revision, Store, Transaction};
use insula_testkit::etcd::{Certificates, EtcdServer, Settings, Signed};

use super::fake::{Answer, FakeEtcd};
use super::{changes, committed, connect_to, within};

/// An address that nothing listens on.
fn dead() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let address = listener.local_addr().expect("it is bound");
    format!("http://{address}")
}

fn tls(certificates: &Certificates, client: Option<&Signed>) -> Tls {
    let client = client.map(|client| ClientCertificate {
        cert: client.cert.clone().into(),
        key: client.key.clone().into(),
    });
    Tls {
        ca: certificates.ca.clone().into(),
        client,
    }
}

/// The error of a connection that must fail.
async fn unreachable(options: Options) -> String {
    match within(Etcd::connect(options)).await {
        Err(ConnectError::Unreachable { reason, .. }) => reason,
        other => panic!("not unreachable: {other:?}"),
    }
}

#[tokio::test]
async fn member_that_is_down_from_the_start_is_skipped() {
    let Some(server) = EtcdServer::start() else {
        return;
    };
    for endpoints in [[dead(), server.endpoint()], [server.endpoint(), dead()]] {
        let store = Etcd::connect(Options::new(endpoints)).await.unwrap();
        let after = store.revision().await.unwrap();
        let mut watch = store.watch(KeyRange::all(), after).await.unwrap();
        let revision = committed(&store, Transaction::new().put("k", "v")).await;
        assert_eq!(changes(&mut *watch).await, (revision, vec!["k".to_owned()]));
        assert_eq!(
            store.get(&"k".into()).await.unwrap().unwrap().modified,
            revision
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_move_to_another_member_when_one_dies() {
    // Two single members are two stores, which tells who answered.
    let (Some(mut first), Some(second)) = (EtcdServer::start(), EtcdServer::start()) else {
        return;
    };
    let options = Options::new([first.endpoint(), second.endpoint()]);
    let store = Etcd::connect(options).await.unwrap();
    committed(&store, Transaction::create("k", "first")).await;
    first.kill();
    assert_eq!(within(store.get(&"k".into())).await, Ok(None));
    committed(&store, Transaction::create("k", "second")).await;
    let raw = connect_to(&second).await;
    let found = raw.get(&"k".into()).await.unwrap().unwrap();
    assert_eq!(found.value, "second");
}

#[tokio::test]
async fn connecting_without_a_listener_fails() {
    let reason = unreachable(Options::new([dead(), dead()])).await;
    assert!(reason.contains("refused"), "{reason}");
}

#[tokio::test]
async fn too_old_etcd_is_refused_with_a_reason() {
    let old = FakeEtcd::start("3.5.12", Answer::Silence).await;
    let error = Etcd::connect(Options::new([old.endpoint()])).await;
    let error = error.expect_err("it is too old").to_string();
    let expected = format!("etcd at {}/ has version 3.5.12", old.endpoint());
    assert!(error.starts_with(&expected), "{error}");
    assert!(error.contains("at least 3.5.13 is needed"), "{error}");
}

#[tokio::test]
async fn client_authenticates_with_its_certificate() {
    let certificates = Certificates::generate().unwrap();
    let tls = tls(&certificates, Some(&certificates.client));
    let Some(server) = EtcdServer::start_with(Settings {
        tls: Some(certificates),
        ..Settings::default()
    }) else {
        return;
    };
    let store = Etcd::connect(Options::new([server.endpoint()]).tls(tls))
        .await
        .unwrap();
    let mut watch = store.watch(KeyRange::all(), Revision::ZERO).await.unwrap();
    let revision = committed(&store, Transaction::create("k", "v")).await;
    assert_eq!(changes(&mut *watch).await, (revision, vec!["k".to_owned()]));
}

#[tokio::test]
async fn server_of_another_ca_and_client_without_certificate_are_refused() {
    let certificates = Certificates::generate().unwrap();
    let other = Certificates::generate().unwrap();
    let stranger = tls(&other, Some(&certificates.client));
    let nameless = tls(&certificates, None);
    let Some(server) = EtcdServer::start_with(Settings {
        tls: Some(certificates),
        ..Settings::default()
    }) else {
        return;
    };
    let options = |tls| Options::new([server.endpoint()]).tls(tls);
    let reason = unreachable(options(stranger)).await;
    assert!(reason.contains("invalid peer certificate"), "{reason}");
    let reason = unreachable(options(nameless)).await;
    // etcd closes the connection while sending the reason, so the observed error differs.
    assert!(reason.starts_with("etcd cannot be reached: "), "{reason}");
}
