//! Calls to a fake plugin over a real socket.

use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use insula_kms::wire::EncryptResponse;
use insula_kms::{Encrypted, ErrorKind, KmsPlugin, Result, Status};
use insula_testkit::kms::{Call, FIRST_KEY, FakeKms};
use tokio::net::UnixListener;

const TIMEOUT: Duration = Duration::from_secs(10);
const SHORT: Duration = Duration::from_millis(300);
const DATA_KEY: &[u8] = b"0123456789abcdef0123456789abcdef";

fn client(plugin: &FakeKms, timeout: Duration) -> KmsPlugin {
    KmsPlugin::new("vault", &plugin.endpoint(), timeout).expect("the endpoint is valid")
}

fn kind<T: std::fmt::Debug>(result: Result<T>) -> ErrorKind {
    result.expect_err("the call fails").kind().clone()
}

#[tokio::test]
async fn encrypted_key_decrypts_and_each_request_carries_its_uid() {
    let plugin = FakeKms::start().unwrap();
    let client = client(&plugin, TIMEOUT);
    let status = client.status().await.unwrap();
    let expected = Status {
        version: "v2".to_owned(),
        healthz: "ok".to_owned(),
        key_id: FIRST_KEY.to_owned(),
    };
    assert_eq!(status, expected);

    let encrypted = client.encrypt("uid-1", DATA_KEY).await.unwrap();
    assert_eq!(encrypted.key_id, FIRST_KEY);
    assert_eq!(encrypted.annotations.len(), 1);
    let hidden = |window: &[u8]| window != &DATA_KEY[..8];
    assert!(encrypted.ciphertext.windows(8).all(hidden));
    let decrypted = client.decrypt("uid-2", &encrypted).await.unwrap();
    assert_eq!(decrypted, DATA_KEY);

    let call = |method, uid: &str| Call {
        method,
        uid: uid.to_owned(),
    };
    let calls = [
        call("Status", ""),
        call("Encrypt", "uid-1"),
        call("Decrypt", "uid-2"),
    ];
    assert_eq!(plugin.calls(), calls);
}

#[tokio::test]
async fn rotated_key_encrypts_and_the_earlier_one_still_decrypts() {
    let plugin = FakeKms::start().unwrap();
    let client = client(&plugin, TIMEOUT);
    let old = client.encrypt("1", DATA_KEY).await.unwrap();
    plugin.rotate("key-2").unwrap();
    assert_eq!(client.status().await.unwrap().key_id, "key-2");
    let new = client.encrypt("2", DATA_KEY).await.unwrap();
    assert_eq!(new.key_id, "key-2");
    assert_eq!(client.decrypt("3", &old).await.unwrap(), DATA_KEY);

    plugin.destroy_key(FIRST_KEY);
    let refused = client.decrypt("4", &old).await;
    let why = ErrorKind::Refused("there is no key \"key-1\"".to_owned());
    assert_eq!(kind(refused), why);
    assert_eq!(client.decrypt("5", &new).await.unwrap(), DATA_KEY);
}

#[tokio::test]
async fn calls_continue_after_a_restart_of_the_plugin() {
    let mut plugin = FakeKms::start().unwrap();
    let client = client(&plugin, TIMEOUT);
    let encrypted = client.encrypt("1", DATA_KEY).await.unwrap();
    for _ in 0..5 {
        plugin.restart().unwrap();
        assert_eq!(client.decrypt("2", &encrypted).await.unwrap(), DATA_KEY);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn call_waits_for_a_plugin_that_starts_within_the_timeout() {
    let mut plugin = FakeKms::start().unwrap();
    let client = client(&plugin, TIMEOUT);
    client.status().await.unwrap();
    plugin.stop();
    let starting = std::thread::spawn(move || {
        std::thread::sleep(SHORT);
        plugin.restart().unwrap();
        plugin
    });
    assert_eq!(client.status().await.unwrap().key_id, FIRST_KEY);
    starting.join().unwrap();
}

#[tokio::test]
async fn abstract_socket_is_an_endpoint() {
    let name = format!("\0insula-kms-{}", std::process::id());
    let plugin = FakeKms::start_at(&PathBuf::from(name)).unwrap();
    let client = client(&plugin, TIMEOUT);
    assert_eq!(client.status().await.unwrap().key_id, FIRST_KEY);
}

#[tokio::test]
async fn slow_plugin_fails_the_call_at_its_timeout_and_not_the_next_one() {
    let plugin = FakeKms::start().unwrap();
    let client = client(&plugin, SHORT);
    plugin.set_delay(TIMEOUT);
    let begun = Instant::now();
    assert_eq!(kind(client.status().await), ErrorKind::Timeout(SHORT));
    assert!(begun.elapsed() >= SHORT && begun.elapsed() < TIMEOUT);
    plugin.set_delay(Duration::ZERO);
    assert_eq!(client.status().await.unwrap().key_id, FIRST_KEY);
}

#[tokio::test]
async fn missing_and_abandoned_sockets_are_told_apart() {
    let mut plugin = FakeKms::start().unwrap();
    let client = client(&plugin, SHORT);
    plugin.stop();
    let missing = client.status().await.unwrap_err();
    assert_eq!(missing.kind(), &ErrorKind::SocketMissing);
    let socket = plugin.socket().display();
    let text = format!("KMS plugin \"vault\" at unix://{socket}: the socket does not exist");
    assert_eq!(missing.to_string(), text);
    let hint = "start the plugin, and compare its socket with the endpoint";
    assert_eq!(missing.hint(), hint);

    // A plugin that was killed leaves its socket behind.
    drop(UnixListener::bind(plugin.socket()).unwrap());
    assert_eq!(kind(client.status().await), ErrorKind::NotListening);
}

#[tokio::test]
async fn socket_without_permission_is_reported_as_such() {
    let plugin = FakeKms::start().unwrap();
    let locked = std::fs::Permissions::from_mode(0o000);
    std::fs::set_permissions(plugin.socket(), locked).unwrap();
    // Root may connect all the same.
    if std::os::unix::net::UnixStream::connect(plugin.socket()).is_ok() {
        insula_testkit::peer::skipped("this user may connect to every socket");
        return;
    }
    let client = client(&plugin, SHORT);
    assert_eq!(kind(client.status().await), ErrorKind::PermissionDenied);
}

#[tokio::test]
async fn unhealthy_plugin_and_unknown_version_are_reported() {
    let plugin = FakeKms::start().unwrap();
    let client = client(&plugin, TIMEOUT);
    plugin.set_healthz("the HSM is sealed");
    let unhealthy = ErrorKind::Unhealthy("the HSM is sealed".to_owned());
    assert_eq!(kind(client.status().await), unhealthy);
    plugin.set_healthz("ok");
    plugin.set_version("v2beta1");
    assert_eq!(client.status().await.unwrap().version, "v2beta1");
    plugin.set_version("v3");
    let unsupported = ErrorKind::UnsupportedVersion("v3".to_owned());
    assert_eq!(kind(client.status().await), unsupported);
}

#[tokio::test]
async fn responses_that_break_a_rule_are_refused() {
    let plugin = FakeKms::start().unwrap();
    let client = client(&plugin, TIMEOUT);
    let response = |ciphertext: usize, annotations: usize| EncryptResponse {
        ciphertext: vec![1; ciphertext],
        key_id: FIRST_KEY.to_owned(),
        annotations: BTreeMap::from([("a.test".to_owned(), vec![0; annotations])]),
    };
    for (response, why) in [
        (response(0, 0), "the ciphertext is empty"),
        (
            response(1025, 0),
            "the ciphertext is 1025 bytes, which exceeds the max size of 1024",
        ),
        (
            response(1, 40_000),
            "the total size of annotations is 40006, which exceeds the max size of 32768",
        ),
    ] {
        plugin.set_encrypt_response(Some(response));
        let invalid = ErrorKind::InvalidResponse(why.to_owned());
        assert_eq!(kind(client.encrypt("1", DATA_KEY).await), invalid);
    }
    // Larger messages are not even read.
    plugin.set_encrypt_response(Some(response(1, 200_000)));
    let refused = kind(client.encrypt("1", DATA_KEY).await);
    assert!(
        matches!(refused, ErrorKind::InvalidResponse(_)),
        "{refused}"
    );
}

#[tokio::test]
async fn data_that_no_plugin_returned_is_not_sent_to_it() {
    let plugin = FakeKms::start().unwrap();
    let client = client(&plugin, TIMEOUT);
    let forged = Encrypted {
        ciphertext: vec![1],
        key_id: String::new(),
        annotations: BTreeMap::new(),
    };
    let invalid = ErrorKind::InvalidResponse("the keyID is empty".to_owned());
    assert_eq!(kind(client.decrypt("1", &forged).await), invalid);
    assert_eq!(plugin.calls(), []);
}

#[tokio::test]
async fn peer_without_grpc_is_a_failed_connection() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("kms.sock");
    let listener = UnixListener::bind(&socket).unwrap();
    let server = tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let text = b"HTTP/1.1 400 Bad Request\r\n\r\n";
            let _ = stream.writable().await;
            let _ = stream.try_write(text);
        }
    });
    let endpoint = format!("unix://{}", socket.display());
    let client = KmsPlugin::new("vault", &endpoint, SHORT).unwrap();
    let failed = kind(client.status().await);
    assert!(matches!(failed, ErrorKind::Connection(_)), "{failed}");
    server.abort();
}

#[test]
fn endpoint_that_is_no_unix_socket_is_refused_with_a_hint() {
    let error = KmsPlugin::new("vault", "https://127.0.0.1:8200", TIMEOUT).unwrap_err();
    let text = "KMS plugin \"vault\" at https://127.0.0.1:8200: invalid endpoint: unsupported scheme \"https\"";
    assert_eq!(error.to_string(), text);
    assert!(
        error
            .hint()
            .starts_with("write the endpoint as unix:///PATH")
    );
}
