//! The operator acts as a service account of the namespaces that it works in.

use insula_operator::roles::{CORE, impersonation, rule};
use k8s_openapi::api::authentication::v1::TokenRequest;
use k8s_openapi::api::core::v1::ServiceAccount;
use k8s_openapi::api::events::v1::Event;
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding, Role, RoleBinding};
use kube::api::ListParams;

use super::*;

/// The account that tenants give the operator in their namespaces.
const ACCOUNT: &str = "dns";

fn binding(kind: &str, subject: &Value) -> Value {
    json!({
        "metadata": {"name": ACCOUNT},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": ACCOUNT},
        "subjects": [subject],
    })
}

/// Lets the account of a namespace read and write records, and read Secrets.
async fn grant(client: &Client, namespace: &str) -> anyhow::Result<()> {
    let rules = [
        rule("dns.example.com", &["dnsrecords"], &["get", "patch"]),
        rule("dns.example.com", &["dnsrecords/status"], &["patch"]),
        rule(CORE, &["secrets"], &["get"]),
    ];
    let role = json!({"metadata": {"name": ACCOUNT}, "rules": rules});
    create(&Api::<Role>::namespaced(client.clone(), namespace), role).await?;
    bind(client, namespace).await
}

async fn bind(client: &Client, namespace: &str) -> anyhow::Result<()> {
    let account = json!({"kind": "ServiceAccount", "name": ACCOUNT, "namespace": namespace});
    let bindings = Api::<RoleBinding>::namespaced(client.clone(), namespace);
    create(&bindings, binding("Role", &account)).await
}

async fn unbind(client: &Client, namespace: &str) -> anyhow::Result<()> {
    let bindings = Api::<RoleBinding>::namespaced(client.clone(), namespace);
    bindings.delete(ACCOUNT, &DeleteParams::default()).await?;
    Ok(())
}

/// Lets the operator act as these accounts, and returns a token of it.
async fn operator_token(admin: &Client, tenants: bool) -> anyhow::Result<String> {
    let role = json!({"metadata": {"name": ACCOUNT}, "rules": impersonation(ACCOUNT, tenants)});
    create(&Api::<ClusterRole>::all(admin.clone()), role).await?;
    let operator = json!({"kind": "ServiceAccount", "name": "dns-operator",
        "namespace": "dns-system"});
    let bindings = Api::<ClusterRoleBinding>::all(admin.clone());
    create(&bindings, binding("ClusterRole", &operator)).await?;
    let accounts: Api<ServiceAccount> = Api::namespaced(admin.clone(), "dns-system");
    let request = TokenRequest::default();
    let parameters = PostParams::default();
    let issued = accounts
        .create_token_request("dns-operator", &parameters, &request)
        .await?;
    Ok(issued.status.unwrap_or_default().token.unwrap_or_default())
}

/// Waits for an event about a record, and returns its note.
async fn wait_for_event(client: &Client, name: &str) -> anyhow::Result<String> {
    let events: Api<Event> = Api::namespaced(client.clone(), "web");
    let deadline = Instant::now() + Duration::from_secs(60);
    loop {
        let all = events.list(&ListParams::default()).await?.items;
        let found = all.into_iter().find(|event| {
            let regarding = event.regarding.as_ref();
            regarding.and_then(|object| object.name.as_deref()) == Some(name)
                && event.reason.as_deref() == Some("ServiceAccountForbidden")
        });
        if let Some(event) = found {
            return Ok(event.note.unwrap_or_default());
        }
        anyhow::ensure!(Instant::now() < deadline, "no event about {name}");
        sleep(Duration::from_millis(50)).await;
    }
}

fn acting(tenants: bool) -> Settings {
    Settings {
        service_account: Some(ACCOUNT.to_owned()),
        ..settings(tenants)
    }
}

#[tokio::test]
async fn o08_operator_stops_when_a_tenant_removes_the_rights_of_its_account() -> anyhow::Result<()>
{
    let server = TestServer::start_with(Setup::with_controllers()).await?;
    let authority = server.authority().certificate_pem();
    let admin = connect(&server.url(), authority.as_bytes(), "system").await?;
    server.system().await?.install(&manifests(true)).await?;
    let dns = FakeDns::default();
    let (address, certificate) = dns.start().await?;
    for tenant in ["acme", "bmce"] {
        server.tenant(tenant).await?;
    }
    let token_of_operator = operator_token(&admin, true).await?;
    let operator = connect(&server.url(), authority.as_bytes(), &token_of_operator).await?;
    let operator = Running::start(operator, certificate, acting(true));

    let reference = json!({"kind": "Secret", "name": "dns"});
    let (acme, bmce) = (client_for(&admin, "acme"), client_for(&admin, "bmce"));
    for (space, password) in [(&acme, "red"), (&bmce, "blue")] {
        let namespace = json!({"metadata": {"name": "web"}});
        create(&Api::<Namespace>::all(space.clone()), namespace).await?;
        let secrets: Api<Secret> = Api::namespaced(space.clone(), "web");
        create(&secrets, token("dns", password)).await?;
        grant(space, "web").await?;
    }
    let of_acme: Api<DnsRecord> = Api::namespaced(acme.clone(), "web");
    let of_bmce: Api<DnsRecord> = Api::namespaced(bmce.clone(), "web");
    create(&of_acme, record(&address, "a", reference.clone())).await?;
    create(&of_bmce, record(&address, "b", reference.clone())).await?;
    wait_for_records(&dns, &["a=10.0.0.1 by red", "b=10.0.0.1 by blue"]).await?;
    wait_for(&of_acme, "a", "Written").await?;

    // Without the binding, nothing of the tenant is read or written, and only of that tenant.
    unbind(&acme, "web").await?;
    create(&of_acme, record(&address, "c", reference.clone())).await?;
    create(&of_bmce, record(&address, "d", reference.clone())).await?;
    let note = wait_for_event(&acme, "c").await?;
    assert!(
        note.starts_with("the operator acts as service account dns here, which lacks a right: "),
        "{note}"
    );
    assert!(
        note.contains("User \"system:serviceaccount:web:dns\" cannot get resource \"dnsrecords\""),
        "{note}"
    );
    let with_d = [
        "a=10.0.0.1 by red",
        "b=10.0.0.1 by blue",
        "d=10.0.0.1 by blue",
    ];
    wait_for_records(&dns, &with_d).await?;
    let untouched = of_acme.get("c").await?;
    assert_eq!(
        (untouched.status, untouched.metadata.finalizers),
        (None, None)
    );

    // With the binding again it goes on, without a restart.
    bind(&acme, "web").await?;
    wait_for(&of_acme, "c", "Written").await?;

    // A namespace that is deleted has lost its bindings; its records are cleaned up nevertheless.
    for name in ["a", "c"] {
        of_acme.delete(name, &DeleteParams::default()).await?;
    }
    let secrets: Api<Secret> = Api::namespaced(admin.clone(), "dns-system");
    create(&secrets, token("shared", "blue")).await?;
    let lent = account(&address, json!({"allowedTenants": {"selector": {}}}));
    create(&accounts(&admin), lent).await?;
    let reference = json!({"kind": "DnsAccount", "name": "shared"});
    create(&of_acme, record(&address, "e", reference)).await?;
    wait_for(&of_acme, "e", "Written").await?;
    let with_e = [
        "b=10.0.0.1 by blue",
        "d=10.0.0.1 by blue",
        "e=10.0.0.1 by blue",
    ];
    wait_for_records(&dns, &with_e).await?;
    let namespaces: Api<Namespace> = Api::all(acme);
    namespaces.delete("web", &DeleteParams::default()).await?;
    wait_for_records(&dns, &["b=10.0.0.1 by blue", "d=10.0.0.1 by blue"]).await?;
    let deadline = Instant::now() + Duration::from_secs(60);
    while namespaces.get_opt("web").await?.is_some() {
        anyhow::ensure!(Instant::now() < deadline, "the namespace stays");
        sleep(Duration::from_millis(50)).await;
    }
    operator.stop().await
}

#[tokio::test]
async fn o08_terminating_namespace_lets_the_operator_clean_up_and_nothing_else()
-> anyhow::Result<()> {
    let server = TestServer::start_with(Setup::with_controllers()).await?;
    let authority = server.authority().certificate_pem();
    let admin = connect(&server.url(), authority.as_bytes(), "system").await?;
    server.system().await?.install(&manifests(true)).await?;
    let dns = FakeDns::default();
    let (address, certificate) = dns.start().await?;
    server.tenant("acme").await?;
    let token_of_operator = operator_token(&admin, true).await?;
    let operator = connect(&server.url(), authority.as_bytes(), &token_of_operator).await?;
    let operator = Running::start(operator, certificate, acting(true));
    let acme = client_for(&admin, "acme");
    let namespaces = Api::<Namespace>::all(acme.clone());
    create(&namespaces, json!({"metadata": {"name": "web"}})).await?;
    // With this finalizer alone, the namespace terminates for ever and keeps its objects.
    let mut kept = json!(namespaces.get("web").await?);
    kept["spec"]["finalizers"] = json!(["example.com/keep"]);
    namespaces
        .replace_subresource("finalize", "web", &PostParams::default(), &kept)
        .await?;
    let secrets: Api<Secret> = Api::namespaced(acme.clone(), "web");
    create(&secrets, token("dns", "red")).await?;
    let secrets: Api<Secret> = Api::namespaced(admin.clone(), "dns-system");
    create(&secrets, token("shared", "blue")).await?;
    let lent = account(&address, json!({"allowedTenants": {"selector": {}}}));
    create(&accounts(&admin), lent).await?;
    grant(&acme, "web").await?;
    let records: Api<DnsRecord> = Api::namespaced(acme.clone(), "web");
    let shared = json!({"kind": "DnsAccount", "name": "shared"});
    create(&records, record(&address, "a", shared)).await?;
    wait_for(&records, "a", "Written").await?;
    unbind(&acme, "web").await?;
    let own = json!({"kind": "Secret", "name": "dns"});
    create(&records, record(&address, "b", own)).await?;
    wait_for_event(&acme, "b").await?;

    namespaces.delete("web", &DeleteParams::default()).await?;
    let terminating = namespaces.get("web").await?;
    assert!(terminating.metadata.deletion_timestamp.is_some());
    let change = Patch::Merge(json!({"spec": {"address": "10.0.0.2"}}));
    for name in ["a", "b"] {
        let parameters = PatchParams::default();
        records.patch(name, &parameters, &change).await?;
    }
    sleep(Duration::from_secs(2)).await;
    assert_eq!(dns.records(), ["a=10.0.0.1 by blue"]);
    let untouched = records.get("b").await?;
    assert_eq!(
        (untouched.status, untouched.metadata.finalizers),
        (None, None)
    );

    records.delete("a", &DeleteParams::default()).await?;
    wait_for_records(&dns, &[]).await?;
    operator.stop().await
}

#[tokio::test]
async fn o08_operator_acts_as_accounts_of_namespaces_on_a_real_kubernetes() -> anyhow::Result<()> {
    let Some(server) = KubeApiserver::start_with("system,system,1,system:masters\n").await else {
        return Ok(());
    };
    let authority = std::fs::read(server.authority())?;
    let url = format!("https://{}", server.address());
    let admin = connect(&url, &authority, "system").await?;
    server.client().await?.install(&manifests(false)).await?;
    let dns = FakeDns::default();
    let (address, certificate) = dns.start().await?;
    let token_of_operator = operator_token(&admin, false).await?;
    let operator = connect(&url, &authority, &token_of_operator).await?;
    let operator = Running::start(operator, certificate, acting(false));
    let namespace = json!({"metadata": {"name": "web"}});
    create(&Api::<Namespace>::all(admin.clone()), namespace).await?;
    let secrets: Api<Secret> = Api::namespaced(admin.clone(), "web");
    create(&secrets, token("dns", "red")).await?;
    let records: Api<DnsRecord> = Api::namespaced(admin.clone(), "web");
    let reference = json!({"kind": "Secret", "name": "dns"});
    create(&records, record(&address, "a", reference)).await?;
    let note = wait_for_event(&admin, "a").await?;
    assert!(note.contains("system:serviceaccount:web:dns"), "{note}");
    assert!(dns.records().is_empty());
    grant(&admin, "web").await?;
    wait_for(&records, "a", "Written").await?;
    assert_eq!(dns.records(), ["a=10.0.0.1 by red"]);
    operator.stop().await
}
