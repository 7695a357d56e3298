//! The fake vCenter answers as vCenters do, and fails on request.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context;
use http::header::{CONTENT_TYPE, COOKIE, HOST, SET_COOKIE, USER_AGENT};
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper_util::rt::TokioIo;
use insula_testkit::vcenter::{ConnectionMode, FakeVCenter, Fault};
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

const SESSIONS: &str = "<_this type=\"SessionManager\">SessionManager</_this>";
const SEARCH: &str = "<_this type=\"SearchIndex\">SearchIndex</_this>";
const COLLECTOR: &str = "<_this type=\"PropertyCollector\">propertyCollector</_this>";

/// A minimal client that sends and reads texts.
struct RawClient {
    sender: SendRequest<Full<bytes::Bytes>>,
    cookie: Option<String>,
}

/// A status code and a body, without the envelope.
#[derive(Debug, PartialEq)]
struct Answer(u16, String);

impl RawClient {
    async fn connect(vcenter: &FakeVCenter) -> anyhow::Result<Self> {
        Self::connect_to(vcenter.address(), vcenter.ca_der()?).await
    }

    async fn connect_to(address: String, ca: Vec<u8>) -> anyhow::Result<Self> {
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from(ca))?;
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_root_certificates(roots)
            .with_no_client_auth();
        let stream = TcpStream::connect(address).await?;
        let name = ServerName::try_from("127.0.0.1")?;
        let tls = TlsConnector::from(Arc::new(config));
        let stream = tls.connect(name, stream).await?;
        let (sender, connection) = handshake(TokioIo::new(stream)).await?;
        // It ends with the sender.
        tokio::spawn(connection);
        Ok(Self {
            sender,
            cookie: None,
        })
    }

    async fn logged_in(
        vcenter: &FakeVCenter,
        account: &str,
        password: &str,
    ) -> anyhow::Result<Self> {
        let mut raw = Self::connect(vcenter).await?;
        let answer = raw.log_in(account, password).await?;
        anyhow::ensure!(answer.0 == 200, "{answer:?}");
        Ok(raw)
    }

    async fn log_in(&mut self, account: &str, password: &str) -> anyhow::Result<Answer> {
        let inside =
            format!("{SESSIONS}<userName>{account}</userName><password>{password}</password>");
        self.call("Login", &inside).await
    }

    async fn call(&mut self, method: &str, inside: &str) -> anyhow::Result<Answer> {
        let body = format!(
            "<e:Envelope xmlns:e=\"http://schemas.xmlsoap.org/soap/envelope/\" \
             xmlns:xsi=\"http://www.w3.org/2001/XMLSchema-instance\" \
             xmlns:xsd=\"http://www.w3.org/2001/XMLSchema\"><e:Body>\
             <{method} xmlns=\"urn:vim25\">{inside}</{method}></e:Body></e:Envelope>"
        );
        let mut request = http::Request::post("/sdk")
            .header(HOST, "vcenter")
            .header(USER_AGENT, "raw/1")
            .header(CONTENT_TYPE, "text/xml; charset=\"utf-8\"")
            .header("SOAPAction", "urn:vim25/6.7");
        if let Some(cookie) = &self.cookie {
            request = request.header(COOKIE, cookie);
        }
        self.sender.ready().await?;
        let response = self
            .sender
            .send_request(request.body(Full::from(body))?)
            .await?;
        if let Some(cookie) = response.headers().get(SET_COOKIE) {
            let cookie = cookie.to_str()?.split(';').next().unwrap_or_default();
            self.cookie = Some(cookie.to_owned());
        }
        let code = response.status().as_u16();
        let body = response.into_body().collect().await?.to_bytes();
        let body = String::from_utf8(body.to_vec())?;
        let body = body.split_once("<soapenv:Body>").context("a body")?.1;
        let body = body.split_once("</soapenv:Body>").context("a body")?.0;
        Ok(Answer(code, body.to_owned()))
    }

    /// A property of an object, as XML.
    async fn property(&mut self, kind: &str, id: &str, path: &str) -> anyhow::Result<Answer> {
        let inside = format!(
            "{COLLECTOR}<specSet><propSet><type>{kind}</type><pathSet>{path}</pathSet></propSet>\
             <objectSet><obj type=\"{kind}\">{id}</obj></objectSet></specSet><options/>"
        );
        self.call("RetrievePropertiesEx", &inside).await
    }

    /// The result of a task.
    async fn task(&mut self, answer: &Answer) -> anyhow::Result<String> {
        let id = between(&answer.1, "<returnval type=\"Task\">", "</returnval>");
        Ok(self.property("Task", &id, "info").await?.1)
    }

    async fn find(&mut self, path: &str) -> anyhow::Result<String> {
        let inside = format!("{SEARCH}<inventoryPath>{path}</inventoryPath>");
        let answer = self.call("FindByInventoryPath", &inside).await?;
        Ok(between(&answer.1, "\">", "</returnval>")
            .rsplit('>')
            .next()
            .unwrap_or_default()
            .to_owned())
    }

    async fn clone_vm(&mut self, name: &str, uuid: &str) -> anyhow::Result<Answer> {
        let template = self.find("/DC0/vm/ubuntu").await?;
        let folder = self.find("/DC0/vm").await?;
        let pool = self.find("/DC0/host/DC0_C0/Resources").await?;
        let inside = format!(
            "<_this type=\"VirtualMachine\">{template}</_this><folder type=\"Folder\">{folder}</folder>\
             <name>{name}</name><spec><location><pool type=\"ResourcePool\">{pool}</pool></location>\
             <template>false</template><config><instanceUuid>{uuid}</instanceUuid>\
             <numCPUs>4</numCPUs><memoryMB>4096</memoryMB><extraConfig xsi:type=\"OptionValue\">\
             <key>guestinfo.userdata</key><value xsi:type=\"xsd:string\">a &amp; b</value>\
             </extraConfig></config><powerOn>false</powerOn></spec>"
        );
        self.call("CloneVM_Task", &inside).await
    }
}

fn between(text: &str, from: &str, to: &str) -> String {
    let after = text.split_once(from).map(|(_, after)| after);
    let inside = after.and_then(|after| after.split_once(to));
    inside
        .map(|(inside, _)| inside.to_owned())
        .unwrap_or_default()
}

fn fault(answer: &Answer) -> String {
    assert_eq!(answer.0, 500, "{answer:?}");
    between(&answer.1, "xsi:type=\"", "\"")
}

async fn vcenter() -> anyhow::Result<FakeVCenter> {
    FakeVCenter::start(&[("tenant-a", "pa"), ("tenant-b", "pb")]).await
}

#[tokio::test]
async fn service_content_needs_no_login() -> anyhow::Result<()> {
    let vcenter = vcenter().await?;
    let mut raw = RawClient::connect(&vcenter).await?;
    let this = "<_this type=\"ServiceInstance\">ServiceInstance</_this>";
    let Answer(code, body) = raw.call("RetrieveServiceContent", this).await?;
    assert_eq!(code, 200);
    assert!(
        body.contains("<rootFolder type=\"Folder\">group-d1</rootFolder>"),
        "{body}"
    );
    assert!(body.contains("<apiType>VirtualCenter</apiType>"), "{body}");
    assert!(body.contains("<version>8.0.2</version>"), "{body}");
    Ok(())
}

#[tokio::test]
async fn login_needs_the_password_and_a_fresh_cookie() -> anyhow::Result<()> {
    let vcenter = vcenter().await?;
    let mut raw = RawClient::connect(&vcenter).await?;
    assert_eq!(fault(&raw.log_in("tenant-a", "pb").await?), "InvalidLogin");
    assert_eq!(fault(&raw.log_in("nobody", "pa").await?), "InvalidLogin");
    raw.cookie = Some("vmware_soap_session=\"stale\"".to_owned());
    assert_eq!(raw.log_in("tenant-a", "pa").await?.0, 200);
    assert_eq!(fault(&raw.log_in("tenant-a", "pa").await?), "InvalidLogin");
    let logins: Vec<_> = vcenter
        .logins()
        .iter()
        .map(|it| (it.account.clone(), it.ok))
        .collect();
    let logins: Vec<_> = logins
        .iter()
        .map(|(account, ok)| (account.as_str(), *ok))
        .collect();
    let wanted = [
        ("tenant-a", false),
        ("nobody", false),
        ("tenant-a", true),
        ("tenant-a", false),
    ];
    assert_eq!(logins, wanted);
    let open = vcenter.open_sessions();
    assert_eq!(open.len(), 1);
    assert_eq!(
        (open[0].account.as_str(), open[0].user_agent.as_str()),
        ("tenant-a", "raw/1")
    );
    Ok(())
}

#[tokio::test]
async fn ended_session_is_not_authenticated() -> anyhow::Result<()> {
    type Way = (&'static str, fn(&FakeVCenter));
    let ways: [Way; 3] = [
        ("terminated", |vcenter| {
            let key = &vcenter.open_sessions()[0].key;
            assert!(vcenter.terminate(key));
        }),
        ("idle", |vcenter| vcenter.idle_timeout(Duration::ZERO)),
        ("old", |vcenter| vcenter.lifetime(Duration::ZERO)),
    ];
    for (way, end) in ways {
        let vcenter = vcenter().await?;
        let mut raw = RawClient::logged_in(&vcenter, "tenant-a", "pa").await?;
        let current = raw
            .property("SessionManager", "SessionManager", "currentSession")
            .await?;
        assert!(
            current.1.contains("<val xsi:type=\"UserSession\">"),
            "{way}: {current:?}"
        );
        end(&vcenter);
        let current = raw
            .property("SessionManager", "SessionManager", "currentSession")
            .await?;
        assert_eq!(current.0, 200, "{way}");
        assert!(
            current
                .1
                .contains("<missingSet><path>currentSession</path>"),
            "{way}"
        );
        assert!(
            current.1.contains("xsi:type=\"NotAuthenticated\""),
            "{way}: {current:?}"
        );
        let path = format!("{SEARCH}<inventoryPath>/DC0</inventoryPath>");
        let answer = raw.call("FindByInventoryPath", &path).await?;
        assert_eq!(fault(&answer), "NotAuthenticated", "{way}");
        assert_eq!(vcenter.open_sessions(), [], "{way}");
    }
    Ok(())
}

#[tokio::test]
async fn logout_ends_the_session() -> anyhow::Result<()> {
    let vcenter = vcenter().await?;
    let mut raw = RawClient::logged_in(&vcenter, "tenant-b", "pb").await?;
    assert_eq!(raw.call("Logout", SESSIONS).await?.0, 200);
    assert_eq!(vcenter.open_sessions(), []);
    assert_eq!(
        fault(&raw.call("Logout", SESSIONS).await?),
        "NotAuthenticated"
    );
    Ok(())
}

#[tokio::test]
async fn account_is_locked_after_failures_in_a_row() -> anyhow::Result<()> {
    let vcenter = vcenter().await?;
    vcenter.lock_out_after(2);
    let mut raw = RawClient::connect(&vcenter).await?;
    raw.log_in("tenant-a", "no").await?;
    assert!(!vcenter.is_locked("tenant-a"));
    raw.log_in("tenant-a", "no").await?;
    assert!(vcenter.is_locked("tenant-a"));
    assert_eq!(fault(&raw.log_in("tenant-a", "pa").await?), "InvalidLogin");
    assert_eq!(raw.log_in("tenant-b", "pb").await?.0, 200);
    vcenter.unlock("tenant-a");
    raw.cookie = None;
    assert_eq!(raw.log_in("tenant-a", "pa").await?.0, 200);
    Ok(())
}

#[tokio::test]
async fn limited_account_sees_only_its_own_session() -> anyhow::Result<()> {
    let vcenter = vcenter().await?;
    vcenter.limit("tenant-a");
    let mut raw = RawClient::logged_in(&vcenter, "tenant-a", "pa").await?;
    let active = format!("{SESSIONS}<sessionID>x</sessionID><userName>tenant-a</userName>");
    assert_eq!(
        fault(&raw.call("SessionIsActive", &active).await?),
        "NoPermission"
    );
    let current = raw
        .property("SessionManager", "SessionManager", "currentSession")
        .await?;
    assert!(
        current.1.contains("<userName>tenant-a</userName>"),
        "{current:?}"
    );
    let list = raw
        .property("SessionManager", "SessionManager", "sessionList")
        .await?;
    assert!(
        list.1.contains("<missingSet>") && list.1.contains("NoPermission"),
        "{list:?}"
    );
    let mut other = RawClient::logged_in(&vcenter, "tenant-b", "pb").await?;
    let list = other
        .property("SessionManager", "SessionManager", "sessionList")
        .await?;
    assert!(
        list.1.contains("xsi:type=\"ArrayOfUserSession\""),
        "{list:?}"
    );
    assert_eq!(list.1.matches("<UserSession ").count(), 2, "{list:?}");
    Ok(())
}

#[tokio::test]
async fn missing_object_is_an_empty_answer_and_a_deleted_one_a_fault() -> anyhow::Result<()> {
    let vcenter = vcenter().await?;
    let mut raw = RawClient::logged_in(&vcenter, "tenant-a", "pa").await?;
    let cases = [
        (
            "FindByInventoryPath",
            format!("{SEARCH}<inventoryPath>/DC1</inventoryPath>"),
        ),
        (
            "FindByUuid",
            format!(
                "{SEARCH}<uuid>x</uuid><vmSearch>true</vmSearch><instanceUuid>true</instanceUuid>"
            ),
        ),
    ];
    for (method, inside) in cases {
        let answer = raw.call(method, &inside).await?;
        let empty = format!("<{method}Response xmlns=\"urn:vim25\"></{method}Response>");
        assert_eq!(answer, Answer(200, empty));
    }
    let gone = raw.property("VirtualMachine", "vm-999", "name").await?;
    assert_eq!(fault(&gone), "ManagedObjectNotFound");
    for path in ["DC0/vm", "/DC0/vm"] {
        assert!(raw.find(path).await?.starts_with("group-v"), "{path}");
    }
    let unknown = raw.property("Folder", "group-d1", "colour").await?;
    assert_eq!(fault(&unknown), "InvalidProperty");
    Ok(())
}

#[tokio::test]
async fn elements_out_of_order_are_refused() -> anyhow::Result<()> {
    let vcenter = vcenter().await?;
    let mut raw = RawClient::logged_in(&vcenter, "tenant-a", "pa").await?;
    let vm = "<_this type=\"VirtualMachine\">vm-1</_this>";
    let cases = [
        (
            "FindByUuid",
            format!("{SEARCH}<vmSearch>true</vmSearch><uuid>x</uuid>"),
            "\"uuid\" is out of order in \"FindByUuid\"",
        ),
        (
            "ReconfigVM_Task",
            format!("{vm}<spec><memoryMB>1</memoryMB><numCPUs>1</numCPUs></spec>"),
            "\"numCPUs\" is out of order in \"spec\"",
        ),
        (
            "ReconfigVM_Task",
            format!("{vm}<spec><cpus>1</cpus></spec>"),
            "\"cpus\" is unknown in \"spec\"",
        ),
        (
            "CloneVM_Task",
            format!(
                "{vm}<folder type=\"Folder\">x</folder><name>x</name><spec><powerOn>false</powerOn><template>false</template></spec>"
            ),
            "\"template\" is out of order in \"spec\"",
        ),
        (
            "CloneVM_Task",
            format!(
                "{vm}<folder type=\"Folder\">x</folder><name>x</name><spec><location><pool type=\"ResourcePool\">x</pool><datastore type=\"Datastore\">x</datastore></location></spec>"
            ),
            "\"datastore\" is out of order in \"location\"",
        ),
        (
            "ReconfigVM_Task",
            format!(
                "{vm}<spec><deviceChange><operation>add</operation><device xsi:type=\"VirtualVmxnet3\"><addressType>x</addressType><key>1</key></device></deviceChange></spec>"
            ),
            "\"key\" is out of order in \"device\"",
        ),
    ];
    for (method, inside, why) in cases {
        let answer = raw.call(method, &inside).await?;
        assert_eq!(fault(&answer), "InvalidRequest");
        let why = why.replace('"', "&quot;");
        assert_eq!(between(&answer.1, "<faultstring>", "</faultstring>"), why);
    }
    assert_eq!(
        raw.call(
            "Login",
            &format!("{SESSIONS}<password>pb</password><userName>tenant-b</userName>")
        )
        .await?
        .0,
        500
    );
    assert_eq!(vcenter.machines().len(), 2);
    Ok(())
}

#[tokio::test]
async fn virtual_machine_is_cloned_configured_and_destroyed() -> anyhow::Result<()> {
    let vcenter = vcenter().await?;
    let mut raw = RawClient::logged_in(&vcenter, "tenant-a", "pa").await?;
    let answer = raw.clone_vm("web", "u-1").await?;
    let info = raw.task(&answer).await?;
    assert!(info.contains("<state>success</state>"), "{info}");
    assert!(info.contains("<userName>tenant-a</userName>"), "{info}");
    let id = between(
        &info,
        "<result type=\"VirtualMachine\" xsi:type=\"ManagedObjectReference\">",
        "<",
    );
    let machine = vcenter.machine("/DC0/vm/web").context("the clone")?;
    assert_eq!(
        (machine.id.as_str(), machine.created_by.as_str()),
        (id.as_str(), "tenant-a")
    );
    assert_eq!(
        (machine.cpus, machine.memory_mib, machine.powered_on),
        (4, 4096, false)
    );
    assert_eq!(machine.extra["guestinfo.userdata"], "a & b");
    let wanted = format!(
        "{SEARCH}<uuid>u-1</uuid><vmSearch>true</vmSearch><instanceUuid>true</instanceUuid>"
    );
    let found = raw.call("FindByUuid", &wanted).await?;
    assert!(found.1.contains(&format!(
        "<returnval type=\"VirtualMachine\">{id}</returnval>"
    )));

    let this = format!("<_this type=\"VirtualMachine\">{id}</_this>");
    vcenter.addresses_after(Duration::MAX / 4);
    let on = raw.call("PowerOnVM_Task", &this).await?;
    assert!(raw.task(&on).await?.contains("<state>success</state>"));
    let guest = raw
        .property("VirtualMachine", &id, "guest.ipAddress")
        .await?;
    assert!(!guest.1.contains("<val"), "{guest:?}");
    vcenter.addresses_after(Duration::ZERO);
    let guest = raw
        .property("VirtualMachine", &id, "guest.ipAddress")
        .await?;
    assert!(
        guest
            .1
            .contains("<val xsi:type=\"xsd:string\">10.0.0.1</val>"),
        "{guest:?}"
    );
    let cards = raw.property("VirtualMachine", &id, "guest.net").await?;
    assert!(
        cards.1.contains("<val xsi:type=\"ArrayOfGuestNicInfo\">"),
        "{cards:?}"
    );
    assert!(
        cards.1.contains("<ipAddress>10.0.0.1</ipAddress>"),
        "{cards:?}"
    );

    for (method, state) in [
        ("PowerOnVM_Task", "poweredOn"),
        ("Destroy_Task", "poweredOff"),
    ] {
        let answer = raw.call(method, &this).await?;
        let info = raw.task(&answer).await?;
        assert!(
            info.contains("<fault xsi:type=\"InvalidPowerState\">"),
            "{method}: {info}"
        );
        assert!(
            info.contains(&format!("<requestedState>{state}</requestedState>")),
            "{info}"
        );
    }
    raw.call("ShutdownGuest", &this).await?;
    assert_eq!(
        fault(&raw.call("ShutdownGuest", &this).await?),
        "InvalidPowerState"
    );
    raw.call("Destroy_Task", &this).await?;
    assert_eq!(vcenter.machine("/DC0/vm/web"), None);
    assert_eq!(
        fault(&raw.call("PowerOnVM_Task", &this).await?),
        "ManagedObjectNotFound"
    );
    Ok(())
}

#[tokio::test]
async fn name_is_reserved_by_a_running_clone() -> anyhow::Result<()> {
    let vcenter = vcenter().await?;
    let mut raw = RawClient::logged_in(&vcenter, "tenant-a", "pa").await?;
    vcenter.tasks_take(Duration::from_millis(50));
    let first = raw.clone_vm("web", "u-1").await?;
    let info = raw.task(&first).await?;
    assert!(info.contains("<state>running</state>"), "{info}");
    let second = raw.clone_vm("web", "u-1").await?;
    let info = raw.task(&second).await?;
    assert!(
        info.contains("<fault xsi:type=\"DuplicateName\">"),
        "{info}"
    );
    vcenter
        .wait_for("the clone", |it| it.machine("/DC0/vm/web").is_some())
        .await?;
    assert_eq!(vcenter.machines().len(), 3);
    let third = raw.clone_vm("web", "u-1").await?;
    assert!(raw.task(&third).await?.contains("DuplicateName"));
    Ok(())
}

#[tokio::test]
async fn lost_answer_takes_effect_and_a_fault_does_not() -> anyhow::Result<()> {
    let vcenter = vcenter().await?;
    let mut raw = RawClient::logged_in(&vcenter, "tenant-a", "pa").await?;
    let busy = Fault::new("TaskInProgress", "busy");
    vcenter.fault_next("CloneVM_Task", busy);
    assert_eq!(fault(&raw.clone_vm("web", "u-1").await?), "TaskInProgress");
    assert_eq!(vcenter.machines().len(), 2);
    vcenter.drop_connection_after("CloneVM_Task");
    assert!(raw.clone_vm("web", "u-1").await.is_err());
    assert_eq!(vcenter.machines().len(), 3);
    let full = Fault::new("InsufficientResourcesFault", "full");
    vcenter.fail_next_task("PowerOnVM_Task", full);
    let mut again = RawClient::connect(&vcenter).await?;
    again.cookie = raw.cookie.take();
    let id = vcenter.machine("/DC0/vm/web").context("the clone")?.id;
    let this = format!("<_this type=\"VirtualMachine\">{id}</_this>");
    let answer = again.call("PowerOnVM_Task", &this).await?;
    let info = again.task(&answer).await?;
    assert!(
        info.contains("<fault xsi:type=\"InsufficientResourcesFault\">"),
        "{info}"
    );
    assert!(
        info.contains("<localizedMessage>full</localizedMessage>"),
        "{info}"
    );
    vcenter.forget_tasks();
    let id = between(&answer.1, "<returnval type=\"Task\">", "<");
    assert_eq!(
        fault(&again.property("Task", &id, "info").await?),
        "ManagedObjectNotFound"
    );
    Ok(())
}

#[tokio::test]
async fn hanging_call_is_answered_after_resume() -> anyhow::Result<()> {
    let vcenter = vcenter().await?;
    vcenter.hang("Login");
    let mut raw = RawClient::connect(&vcenter).await?;
    let waiting = tokio::spawn(async move { raw.log_in("tenant-a", "pa").await });
    vcenter
        .wait_for("the call", |it| it.called("Login") == 1)
        .await?;
    assert_eq!(vcenter.logins(), []);
    vcenter.resume().await;
    assert_eq!(waiting.await??.0, 200);
    assert_eq!(vcenter.logins().len(), 1);
    Ok(())
}

#[tokio::test]
async fn connection_modes_can_be_changed() -> anyhow::Result<()> {
    let vcenter = vcenter().await?;
    let mut inside = RawClient::logged_in(&vcenter, "tenant-a", "pa").await?;
    vcenter.set_connection_mode(ConnectionMode::Closed).await;
    vcenter
        .wait_for("no open connections", |it| it.open_connections() == 0)
        .await?;
    assert!(inside.call("Logout", SESSIONS).await.is_err());
    let refused = RawClient::connect(&vcenter)
        .await
        .err()
        .context("refused")?;
    let refused = refused
        .downcast_ref::<std::io::Error>()
        .map(std::io::Error::kind);
    assert_eq!(refused, Some(std::io::ErrorKind::ConnectionRefused));
    assert_eq!(vcenter.connections(), 1);

    vcenter.set_connection_mode(ConnectionMode::Silent).await;
    let mut silent = tokio::spawn(RawClient::connect_to(vcenter.address(), vcenter.ca_der()?));
    vcenter
        .wait_for("a connection", |it| it.connections() == 2)
        .await?;
    let nothing = tokio::time::timeout(Duration::from_millis(50), &mut silent).await;
    assert!(nothing.is_err(), "it said something");
    vcenter.set_connection_mode(ConnectionMode::Open).await;
    assert!(silent.await?.is_err());
    inside = RawClient::connect(&vcenter).await?;
    assert_eq!(inside.log_in("tenant-a", "pa").await?.0, 200);
    Ok(())
}

#[tokio::test]
async fn answers_are_paged_with_tokens() -> anyhow::Result<()> {
    let vcenter = vcenter().await?;
    for at in 0..250 {
        vcenter.add_machine(&format!("/DC0/vm/templates/m{at}"));
    }
    let mut raw = RawClient::logged_in(&vcenter, "tenant-a", "pa").await?;
    let folder = raw.find("/DC0/vm").await?;
    let inside = format!(
        "{COLLECTOR}<specSet><propSet><type>VirtualMachine</type><pathSet>name</pathSet></propSet>\
         <objectSet><obj type=\"Folder\">{folder}</obj><skip>true</skip>\
         <selectSet xsi:type=\"TraversalSpec\"><name>down</name><type>Folder</type>\
         <path>childEntity</path><selectSet><name>down</name></selectSet></selectSet>\
         </objectSet></specSet><options/>"
    );
    let mut answer = raw.call("RetrievePropertiesEx", &inside).await?;
    let mut seen = answer.1.matches("<objects>").count();
    let mut pages = 1;
    while answer.1.contains("<token>") {
        let token = between(&answer.1, "<token>", "</token>");
        let inside = format!("{COLLECTOR}<token>{token}</token>");
        answer = raw.call("ContinueRetrievePropertiesEx", &inside).await?;
        seen += answer.1.matches("<objects>").count();
        pages += 1;
    }
    assert_eq!((seen, pages), (252, 3));
    Ok(())
}

#[tokio::test]
async fn thumbprints_match_the_current_certificate() -> anyhow::Result<()> {
    let vcenter = vcenter().await?;
    let before = (vcenter.thumbprint_sha1(), vcenter.thumbprint_sha256());
    assert_eq!((before.0.len(), before.1.len()), (59, 95));
    let trusted = vcenter.ca_der()?;
    vcenter.renew_certificate()?;
    assert_ne!(
        before,
        (vcenter.thumbprint_sha1(), vcenter.thumbprint_sha256())
    );
    assert!(
        RawClient::connect_to(vcenter.address(), trusted)
            .await
            .is_err()
    );
    RawClient::logged_in(&vcenter, "tenant-a", "pa").await?;
    Ok(())
}

#[tokio::test]
async fn a_thousand_machines_do_not_slow_calls_down() -> anyhow::Result<()> {
    let vcenter = vcenter().await?;
    for at in 0..1000 {
        vcenter.add_machine(&format!("/DC0/vm/m{at}"));
    }
    let mut raw = RawClient::logged_in(&vcenter, "tenant-a", "pa").await?;
    let began = Instant::now();
    for _ in 0..200 {
        raw.property("SessionManager", "SessionManager", "currentSession")
            .await?;
    }
    // A hundred times the usual duration, for a busy machine.
    assert!(
        began.elapsed() < Duration::from_secs(5),
        "{:?}",
        began.elapsed()
    );
    Ok(())
}
