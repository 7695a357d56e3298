//! Servers with invalid responses, and servers that hang up.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::time::{Duration, Instant};

use crate::LogInAt;
use insula_identity::endpoint::Trust;
use insula_identity::reason::Reason;
use insula_identity::session::LoginError;
use insula_vsphere::vcenter::{Clone, Error, Object, Session, VCenters};

use super::stub::{
    Reply, ServerCertificate, Stub, answer, content, envelope, fault, http, method, valid_reply,
    welcome,
};
use super::{SHORT_TIMEOUT, TIMEOUT, credential, endpoint, log_in};

/// A scripted reply.
type ReplyScript = Box<dyn Fn() -> Reply + Send + Sync>;

const PASSWORD: &str = "s3cr&t<\"'>";

async fn enter(stub: &Stub) -> Result<Session, LoginError> {
    log_in(
        &stub.address(),
        &Trust::AnyCertificate,
        "me@vsphere.local",
        PASSWORD,
    )
    .await
}

/// Starts a server with this reply to one method, and valid responses to the others.
async fn stub_replying(
    to: &'static str,
    reply: impl Fn() -> Reply + Send + Sync + 'static,
) -> Stub {
    let shown = ServerCertificate::new("127.0.0.1", false);
    let script = move |request: &str| {
        if method(request) == to {
            reply()
        } else {
            valid_reply(request)
        }
    };
    Stub::start(&shown, script).await
}

#[tokio::test]
async fn login_is_two_requests_with_a_user_agent() {
    let stub = Stub::start(&ServerCertificate::new("127.0.0.1", false), valid_reply).await;
    let session = enter(&stub).await.expect("logged in");
    assert_eq!(
        format!("{session:?}"),
        format!("Session(\"{}\")", stub.address())
    );
    session.find_by_path("/DC0/vm/a&b").await.expect("answered");
    let heard = stub.heard.lock().expect("unpoisoned").clone();
    let agent = concat!("insula-vsphere/", env!("CARGO_PKG_VERSION"));
    let start = |version: &str| {
        format!(
            "POST /sdk HTTP/1.1\r\nhost: {}\r\ncontent-type: text/xml; charset=\"utf-8\"\r\n\
             user-agent: {agent}\r\nsoapaction: urn:vim25/{version}\r\n",
            stub.address()
        )
    };
    let cookie = "cookie: vmware_soap_session=\"s1\"\r\n";
    let expected = [
        (
            start("6.0"),
            "<RetrieveServiceContent xmlns=\"urn:vim25\"><_this type=\"ServiceInstance\">\
             ServiceInstance</_this></RetrieveServiceContent>",
        ),
        (
            start("8.0.2.0"),
            "<Login xmlns=\"urn:vim25\"><_this type=\"SessionManager\">sm</_this>\
             <userName>me@vsphere.local</userName>\
             <password>s3cr&amp;t&lt;&#34;&#39;&gt;</password></Login>",
        ),
        (
            start("8.0.2.0") + cookie,
            "<FindByInventoryPath xmlns=\"urn:vim25\"><_this type=\"SearchIndex\">si</_this>\
             <inventoryPath>/DC0/vm/a&amp;b</inventoryPath></FindByInventoryPath>",
        ),
    ];
    assert_eq!(heard.len(), expected.len());
    for (heard, (head, body)) in heard.iter().zip(expected) {
        assert!(
            heard.starts_with(&format!("{head}content-length: ")),
            "{heard}"
        );
        assert!(
            heard.contains(&format!("<soapenv:Body>{body}</soapenv:Body>")),
            "{heard}"
        );
    }
    assert_eq!(stub.connections.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn server_that_is_no_vcenter_gets_no_password() {
    let elsewhere = Stub::start(&ServerCertificate::new("127.0.0.1", false), valid_reply).await;
    let away = format!("location: https://{}/sdk\r\n", elsewhere.address());
    let odd = "it does not answer as a vCenter does: ";
    let table: Vec<(ReplyScript, String)> = vec![
        (
            Box::new(|| http("200 OK", "", "<html/>")),
            format!("{odd}it is no SOAP envelope"),
        ),
        (
            Box::new(|| http("200 OK", "", "no")),
            format!("{odd}it is no XML (at 1:1)"),
        ),
        (
            Box::new(|| http("404 Not Found", "", "")),
            format!("{odd}it answers HTTP 404"),
        ),
        (
            Box::new(move || http("307 Temporary Redirect", &away, "")),
            format!("{odd}it redirects the request (HTTP 307)"),
        ),
        (
            Box::new(|| http("503 Busy", "", "")),
            "it is overloaded (HTTP 503)".to_owned(),
        ),
        (
            Box::new(|| Reply::Bytes(b"SSH-2.0-x\r\n\r\n".to_vec())),
            format!("{odd}it is no HTTP"),
        ),
        (
            Box::new(|| {
                let head = b"HTTP/1.1 200 OK\r\ncontent-length: 99999999\r\n\r\n".to_vec();
                Reply::Bytes([head, vec![b' '; 17 << 20]].concat())
            }),
            format!("{odd}it is larger than 256 KiB"),
        ),
        (
            Box::new(|| {
                let head = b"HTTP/1.1 200 OK\r\ncontent-length: 1\r\n\r\n".to_vec();
                Reply::Bytes([head, vec![0xff]].concat())
            }),
            format!("{odd}it is no UTF-8"),
        ),
        (
            Box::new(|| content("HostAgent", "8.0.2")),
            "it is no vCenter".to_owned(),
        ),
        (
            Box::new(|| content("VirtualCenter", "5.5.0")),
            "it is not of version 6 or newer".to_owned(),
        ),
        (
            Box::new(|| content("VirtualCenter", "new")),
            "it is not of version 6 or newer".to_owned(),
        ),
        (
            Box::new(|| content("VirtualCenter", &format!("8.{}", "0".repeat(255)))),
            "its description is too long".to_owned(),
        ),
        (
            Box::new(|| answer("RetrieveServiceContent", &"<a/>".repeat(5_000))),
            format!("{odd}it is no XML (at 1:1)"),
        ),
        (
            Box::new(|| answer("RetrieveServiceContent", "")),
            "it does not say what it is".to_owned(),
        ),
        (
            Box::new(|| {
                let about = "<about><version>8.0</version><apiType>VirtualCenter</apiType></about>";
                answer(
                    "RetrieveServiceContent",
                    &format!("<returnval>{about}</returnval>"),
                )
            }),
            "it has no rootFolder".to_owned(),
        ),
        (
            Box::new(|| fault("RuntimeFault", "no")),
            "it refuses every login".to_owned(),
        ),
    ];
    for (reply, why) in table {
        let stub = stub_replying("RetrieveServiceContent", reply).await;
        let refused = enter(&stub).await.expect_err("no vCenter");
        let message = format!("{} cannot be used: {why}", stub.address());
        assert_eq!(
            refused,
            LoginError {
                reason: Reason::Unreachable,
                message,
                answered: why == "it refuses every login",
            }
        );
        assert_eq!(stub.methods(), ["RetrieveServiceContent"]);
    }
    assert_eq!(elsewhere.connections.load(Ordering::SeqCst), 0);
}

#[tokio::test]
async fn failed_login_reports_why_without_the_credential() {
    let echo = || envelope(&format!("<{}/>", "s3cret"));
    let table: Vec<(ReplyScript, Reason, &str)> = vec![
        (
            Box::new(|| fault("InvalidLogin", "s3cret is wrong")),
            Reason::InvalidCredentials,
            "does not accept the credential (InvalidLogin)",
        ),
        (
            Box::new(|| fault("NoPermission", "s3cret")),
            Reason::InvalidCredentials,
            "does not accept the credential (NoPermission)",
        ),
        (
            Box::new(|| fault("s3cret", "s3cret")),
            Reason::Unreachable,
            "cannot be used: it refuses every login",
        ),
        (
            Box::new(move || http("200 OK", "", &echo())),
            Reason::Unreachable,
            "cannot be used: it does not answer as a vCenter does: it answers something else",
        ),
        (
            Box::new(|| http("200 OK", "", "<a></s3cret>")),
            Reason::Unreachable,
            "cannot be used: it does not answer as a vCenter does: it is no XML (at 1:4)",
        ),
    ];
    for (reply, reason, why) in table {
        let stub = stub_replying("Login", reply).await;
        let refused = log_in(&stub.address(), &Trust::AnyCertificate, "me", "s3cret").await;
        let message = format!("{} {why}", stub.address());
        assert_eq!(
            refused.expect_err("refused"),
            LoginError {
                reason,
                message,
                // A server that refuses a login is reachable.
                answered: why.contains("does not accept") || why.ends_with("refuses every login"),
            }
        );
    }
}

#[tokio::test]
async fn incomplete_credential_is_not_sent() {
    let table = [
        ("", "p", "the credential has no username", 0),
        ("u", "", "the credential has no password", 0),
        (
            "u",
            "a\0b",
            "the credential has a character that cannot be sent",
            1,
        ),
    ];
    for (username, password, message, connections) in table {
        let stub = Stub::start(&ServerCertificate::new("127.0.0.1", false), valid_reply).await;
        let refused = log_in(&stub.address(), &Trust::AnyCertificate, username, password).await;
        let message = message.to_owned();
        let expected = LoginError {
            reason: Reason::InvalidCredentials,
            message,
            answered: false,
        };
        assert_eq!(refused.expect_err("refused"), expected);
        assert_eq!(stub.connections.load(Ordering::SeqCst), connections);
        assert!(!stub.methods().contains(&"Login".to_owned()));
    }
}

#[tokio::test]
async fn login_with_invalid_response_is_logged_out() {
    let cookie = "set-cookie: vmware_soap_session=s9\r\n";
    let replies: [fn(&str) -> Reply; 3] = [
        |cookie| http("200 OK", cookie, "<html/>"),
        |cookie| {
            let body = "<LoginResponse xmlns=\"urn:vim25\"/>";
            http("200 OK", cookie, &envelope(body))
        },
        |_| {
            let body = "<LoginResponse xmlns=\"urn:vim25\"><returnval><key>k</key></returnval>\
                        </LoginResponse>";
            http("200 OK", "", &envelope(body))
        },
    ];
    for reply in replies {
        let stub = stub_replying("Login", move || reply(cookie)).await;
        assert_eq!(
            enter(&stub).await.expect_err("no session").reason,
            Reason::Unreachable
        );
        assert_eq!(
            stub.methods(),
            ["RetrieveServiceContent", "Login", "Logout"]
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn r1_late_login_is_logged_out() {
    let (let_go, gate) = mpsc::channel::<()>();
    let gate = Mutex::new(gate);
    // It answers when the caller has left.
    let stub = stub_replying("Login", move || {
        tokio::task::block_in_place(|| {
            let _ = gate.lock().expect("unpoisoned").recv_timeout(TIMEOUT);
        });
        welcome()
    });
    let stub = stub.await;
    let vcenters = VCenters::new(SHORT_TIMEOUT, Vec::new());
    let place = endpoint(&stub.address());
    let refused = vcenters
        .log_in_at(&place, &Trust::AnyCertificate, &credential("u", "p"))
        .await;
    let refused = refused.expect_err("too late");
    assert!(
        refused.message.ends_with("no answer within 0.3 s"),
        "{refused}"
    );
    drop(let_go);
    let deadline = Instant::now() + TIMEOUT;
    while stub.methods().last().map(String::as_str) != Some("Logout") {
        assert!(Instant::now() < deadline, "{:?}", stub.methods());
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test]
async fn closed_connection_is_replaced_for_idempotent_calls_only() {
    let calls = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&calls);
    let shown = ServerCertificate::new("127.0.0.1", false);
    let stub = Stub::start(&shown, move |request| match method(request) {
        "FindByUuid" if counted.fetch_add(1, Ordering::SeqCst) == 0 => Reply::HangUp,
        "RetrievePropertiesEx" => answer(
            "RetrievePropertiesEx",
            "<returnval><objects><obj type=\"VirtualMachine\">vm-1</obj></objects></returnval>",
        ),
        "CloneVM_Task" | "PowerOnVM_Task" => Reply::HangUp,
        _ => valid_reply(request),
    });
    let stub = stub.await;
    let session = enter(&stub).await.expect("logged in");
    assert_eq!(session.find_vm_by_bios_uuid("u").await, Ok(None));
    assert_eq!(stub.connections.load(Ordering::SeqCst), 2);
    let vm = Object::new("VirtualMachine", "vm-1");
    let clone = Clone {
        folder: Some(Object::new("Folder", "f")),
        ..Clone::default()
    };
    let lost = session.clone_vm(&vm, &clone).await;
    assert!(matches!(&lost, Err(Error::Unreachable(_))), "{lost:?}");
    let lost = session.power_on(&vm).await;
    assert!(matches!(&lost, Err(Error::Unreachable(_))), "{lost:?}");
    let called = |method: &str| {
        stub.methods()
            .iter()
            .filter(|called| *called == method)
            .count()
    };
    assert_eq!(
        (
            called("CloneVM_Task"),
            called("PowerOnVM_Task"),
            called("FindByUuid")
        ),
        (1, 1, 2)
    );
}

#[tokio::test]
async fn pages_are_followed_up_to_a_limit() {
    let page = |token: &str, inside: &str| {
        let token = format!("<token>{token}</token>");
        let objects = format!("<objects><obj type=\"Task\">task-1</obj>{inside}</objects>");
        format!("<returnval>{token}{objects}</returnval>")
    };
    let shown = ServerCertificate::new("127.0.0.1", false);
    let stub = Stub::start(&shown, move |request| match method(request) {
        name @ "RetrievePropertiesEx" => answer(name, &page("1", "")),
        name @ "ContinueRetrievePropertiesEx" => answer(name, &page("1", "")),
        _ => valid_reply(request),
    });
    let stub = stub.await;
    let session = enter(&stub).await.expect("logged in");
    let endless = session.task(&Object::new("Task", "task-1")).await;
    let why = "it does not end".to_owned();
    let method = "ContinueRetrievePropertiesEx";
    assert_eq!(endless, Err(Error::Unexpected { method, why }));
}

#[tokio::test]
async fn long_vcenter_messages_are_shortened() {
    let long = "ä".repeat(5000);
    let said = long.clone();
    let stub = stub_replying("FindByUuid", move || fault("Odd", &said)).await;
    let session = enter(&stub).await.expect("logged in");
    let message = format!("{}…", "ä".repeat(1000));
    let expected = Error::Fault {
        method: "FindByUuid",
        fault: "Odd".to_owned(),
        message,
    };
    assert_eq!(session.find_vm_by_instance_uuid("u").await, Err(expected));
}

#[tokio::test]
async fn large_responses_are_read_only_where_expected() {
    let vm = Object::new("VirtualMachine", "vm-1");
    let said = |kib: usize| {
        let long = "x".repeat(kib << 10);
        let name = format!("<propSet><name>name</name><val>{long}</val></propSet>");
        let object = "<obj type=\"VirtualMachine\">vm-1</obj>";
        format!("<returnval><objects>{object}{name}</objects></returnval>")
    };
    let larger = |kib: usize| Error::Unexpected {
        method: "RetrievePropertiesEx",
        why: format!("it is larger than {kib} KiB"),
    };
    for (kib, of_task, of_machine) in [
        (300, Err(larger(256)), Ok(300 << 10)),
        (5000, Err(larger(256)), Err(larger(4096))),
    ] {
        let stub = stub_replying("RetrievePropertiesEx", move || {
            answer("RetrievePropertiesEx", &said(kib))
        });
        let stub = stub.await;
        let session = enter(&stub).await.expect("logged in");
        let task = Object::new("Task", "task-1");
        assert_eq!(session.task(&task).await.map(|_| ()), of_task);
        let machine = session.machine(&vm).await;
        assert_eq!(machine.map(|machine| machine.name.len()), of_machine);
    }
}
