//! The controller as in production: its own process, with a service account of the system,
//! for two tenants that use the same names at the same time.

use std::process::Command;
use std::time::{Duration, Instant};

use insula_e2e::command::Running;
use insula_e2e::insula::Insula;
use insula_e2e::kubectl::Kubectl;
use insula_e2e::two_tenants::TwoTenants;
use serde_json::{Value, json};

const INSTALL: &str = include_str!("../install.yaml");

const READY: &str = "jsonpath={.status.conditions[0].status}={.status.conditions[0].reason}";

/// Longer than any reconciliation takes.
const PATIENCE: Duration = Duration::from_secs(30);

/// A server with the controller's manifests installed, and the controller's credentials.
struct Stage {
    two_tenants: TwoTenants,
    account: Kubectl,
    controller: Running,
}

impl Stage {
    fn set() -> Option<Self> {
        let two_tenants = TwoTenants::start()?;
        two_tenants.system.given(INSTALL).get("apply -f -");
        let token = two_tenants
            .system
            .get("create token all-tenants -n site-system")
            .trim()
            .to_owned();
        let account = two_tenants.bearer("controller", &token);
        let controller = start(&account);
        Some(Self {
            two_tenants,
            account,
            controller,
        })
    }

    /// Returns the claimed hosts.
    fn claims(&self) -> String {
        let claims = "get configmap -n site-system -l example.com/site-uid -o name";
        self.two_tenants.system.get(claims)
    }
}

fn start(account: &Kubectl) -> Running {
    let mut command = Command::new(env!("CARGO_BIN_EXE_all-tenants"));
    command
        .env("KUBECONFIG", account.folder().join("kubeconfig"))
        .env_remove("RUST_LOG");
    Running::start("all-tenants".to_owned(), &mut command, "")
}

fn site(name: &str, host: &str, text: &str) -> String {
    let site = json!({
        "apiVersion": "example.com/v1",
        "kind": "Site",
        "metadata": { "name": name },
        "spec": { "host": host, "text": text },
    });
    site.to_string()
}

fn make(user: &Kubectl, name: &str, host: &str, text: &str) {
    user.given(&site(name, host, text))
        .prints("create -f -", &format!("site.example.com/{name} created"));
}

#[track_caller]
fn is(user: &Kubectl, name: &str, ready: &str) {
    let (status, reason) = ready.split_once('=').expect("a status and a reason");
    for (field, value) in [("status", status), ("reason", reason)] {
        let path = format!("{{.status.conditions[0].{field}}}");
        user.get(&format!(
            "wait site {name} --for=jsonpath='{path}'={value} --timeout=30s"
        ));
    }
    let shown = user.get(&format!("get site {name} -o {READY}"));
    assert_eq!(shown, ready, "{} {name}", user.name());
}

fn object(user: &Kubectl, what: &str) -> Value {
    let text = user.get(&format!("get {what} -o json"));
    serde_json::from_str(&text).expect("kubectl prints JSON")
}

#[test]
fn tenants_with_equal_names_get_their_own_pages() {
    let Some(stage) = Stage::set() else { return };
    let two_tenants = &stage.two_tenants;
    two_tenants.both(|tenant| {
        let name = tenant.name();
        make(
            tenant,
            "shop",
            &format!("{name}.test"),
            &format!("of {name}"),
        );
        is(tenant, "shop", "True=Served");
        let site = object(tenant, "site shop");
        let page = object(tenant, "configmap shop-page");
        assert_eq!(page["data"]["index.html"], format!("of {name}"));
        assert_eq!(page["metadata"]["tenant"], name);
        let owner = &page["metadata"]["ownerReferences"][0];
        assert_eq!(owner["uid"], site["metadata"]["uid"]);
        assert_eq!(owner["controller"], true);
        assert_eq!(site["metadata"]["finalizers"][0], "example.com/host");
        assert_eq!(site["status"]["observedGeneration"], 1);
    });
    // The system is a space like any other, and has the same names too.
    make(&two_tenants.system, "shop", "system.test", "of the system");
    is(&two_tenants.system, "shop", "True=Served");
    let page = object(&two_tenants.system, "configmap shop-page");
    assert_eq!(page["data"]["index.html"], "of the system");
    let all = two_tenants.sees_both("/apis/example.com/v1/tenants/all/sites");
    assert_eq!(all.len(), 3);
    assert_eq!(
        stage.claims(),
        "configmap/acme.test\nconfigmap/globex.test\nconfigmap/system.test\n"
    );
}

#[test]
fn host_belongs_to_one_tenant_until_released_without_naming_it() {
    let Some(stage) = Stage::set() else { return };
    let [acme, globex] = &stage.two_tenants.tenants;
    make(acme, "shop", "shop.test", "first");
    is(acme, "shop", "True=Served");
    // An object with the name of a page that no Site owns is left alone.
    globex.get("create configmap shop-page --from-literal=own=kept");
    make(globex, "shop", "shop.test", "second");
    is(globex, "shop", "False=HostTaken");
    globex.prints(
        "get configmap shop-page -o jsonpath='{.data}'",
        "{\"own\":\"kept\"}",
    );
    globex.get("delete configmap shop-page");
    let status = object(globex, "site shop")["status"].to_string();
    assert!(!status.contains("acme"), "{status}");
    globex.refuses("get configmap shop-page", "\"shop-page\" not found");

    // A Site that moves to another host releases the previous one.
    acme.get("patch site shop --type=merge -p '{\"spec\":{\"host\":\"moved.test\"}}'");
    is(globex, "shop", "True=Served");
    is(acme, "shop", "True=Served");
    assert_eq!(
        stage.claims(),
        "configmap/moved.test\nconfigmap/shop.test\n"
    );

    // A deleted Site does so too.
    globex.shows("delete site shop", &["\"shop\" deleted"]);
    make(acme, "second", "shop.test", "third");
    is(acme, "second", "True=Served");
}

#[test]
fn changed_page_is_restored_in_its_own_tenant_only() {
    let Some(stage) = Stage::set() else { return };
    let [acme, globex] = &stage.two_tenants.tenants;
    stage.two_tenants.both(|tenant| {
        let name = tenant.name();
        make(
            tenant,
            "shop",
            &format!("{name}.test"),
            &format!("of {name}"),
        );
        is(tenant, "shop", "True=Served");
    });
    let before = object(globex, "configmap shop-page");
    let text = "jsonpath='{.data.index\\.html}'";
    acme.get("patch configmap shop-page --type=merge -p '{\"data\":{\"index.html\":\"bad\",\"own\":\"kept\"}}'");
    acme.get(&format!(
        "wait configmap shop-page --for={text}='of acme' --timeout=30s"
    ));
    // Fields that the controller does not own are left alone.
    let page = object(acme, "configmap shop-page");
    assert_eq!(page["data"]["own"], "kept");
    acme.get("delete configmap shop-page");
    let again = format!("get configmap shop-page --ignore-not-found -o {text}");
    let begun = Instant::now();
    while acme.get(&again) != "of acme" {
        assert!(begun.elapsed() < PATIENCE, "the page does not come back");
    }
    let after = object(acme, "configmap shop-page");
    assert_ne!(after["metadata"]["uid"], page["metadata"]["uid"]);
    assert_eq!(object(globex, "configmap shop-page"), before);
}

#[test]
fn deleted_tenants_leave_nothing_behind() {
    let Some(stage) = Stage::set() else { return };
    let two_tenants = &stage.two_tenants;
    for round in ["first", "second"] {
        let kubeconfig = two_tenants
            .folder()
            .join(format!("initech-{round}.kubeconfig"));
        let made = two_tenants.server.run(&format!(
            "tenant create initech --kubeconfig-out '{}'",
            kubeconfig.display()
        ));
        assert_eq!(made.succeeds(), "initech\n");
        let folder = two_tenants.folder().join(round);
        std::fs::create_dir(&folder).expect("it is a new folder");
        let program = two_tenants.system.program();
        let initech = Kubectl::new("initech", program, &kubeconfig, &folder);
        make(&initech, "shop", "initech.test", round);
        is(&initech, "shop", "True=Served");
        let page = object(&initech, "configmap shop-page");
        assert_eq!(page["data"]["index.html"], round);
        // The Site's finalizer blocks the tenant's deletion until its host is released.
        two_tenants.server.run("tenant delete initech").succeeds();
        assert_eq!(stage.claims(), "");
    }
}

#[test]
fn deletion_waits_for_the_controller_to_start() {
    let Some(mut stage) = Stage::set() else {
        return;
    };
    stage.two_tenants.both(|tenant| {
        make(tenant, "shop", &format!("{}.test", tenant.name()), "text");
        is(tenant, "shop", "True=Served");
    });
    stage.controller.end();
    let [acme, _] = &stage.two_tenants.tenants;
    acme.get("delete site shop --wait=false");
    make(acme, "late", "late.test", "late");
    stage.controller = start(&stage.account);
    acme.get("wait site shop --for=delete --timeout=30s");
    is(acme, "late", "True=Served");
    assert_eq!(
        stage.claims(),
        "configmap/globex.test\nconfigmap/late.test\n"
    );
}

/// A user removes the finalizer, so the claim is not released.
#[test]
fn stale_claim_is_taken_over() {
    let Some(mut stage) = Stage::set() else {
        return;
    };
    let [acme, globex] = stage.two_tenants.tenants.clone();
    make(&acme, "shop", "shop.test", "first");
    is(&acme, "shop", "True=Served");
    stage.controller.end();
    acme.get("delete site shop --wait=false");
    acme.get("patch site shop --type=merge -p '{\"metadata\":{\"finalizers\":null}}'");
    assert_eq!(stage.claims(), "configmap/shop.test\n");
    stage.controller = start(&stage.account);
    make(&globex, "shop", "shop.test", "second");
    is(&globex, "shop", "True=Served");
    assert_eq!(stage.claims(), "configmap/shop.test\n");
}

#[test]
fn controller_has_only_the_rights_that_it_needs() {
    let Some(stage) = Stage::set() else { return };
    let url = format!("{}/tenants/acme", stage.two_tenants.server.url());
    let may = |what: &str| stage.account.may(&format!("{what} -s {url}"));
    let may_not = |what: &str| stage.account.may_not(&format!("{what} -s {url}"));
    may("patch sites.example.com --subresource=status");
    may("watch configmaps -A");
    may_not("get secrets");
    may_not("update configmaps -n site-system");
    may_not("delete sites.example.com");
}

/// Three watches, for any number of tenants.
#[test]
fn watch_count_does_not_grow_with_tenants() {
    let Some(stage) = Stage::set() else { return };
    let (system, url) = (&stage.two_tenants.system, stage.two_tenants.server.url());
    let names: Vec<String> = (0..20).map(|number| format!("t{number}")).collect();
    let tenants: Vec<Value> = names
        .iter()
        .map(|name| json!({"apiVersion": "v1", "kind": "Tenant", "metadata": {"name": name}}))
        .collect();
    let list = json!({"apiVersion": "v1", "kind": "List", "items": tenants});
    system.given(&list.to_string()).get("create -f -");
    for name in &names {
        let made = system.given(&site("shop", &format!("{name}.test"), name));
        made.get(&format!("create -f - --server {url}/tenants/{name}"));
    }
    for name in &names {
        let there = format!("--server {url}/tenants/{name}");
        let ready = "jsonpath='{.status.conditions[0].reason}'=Served";
        system.get(&format!(
            "wait site shop --for={ready} --timeout=30s {there}"
        ));
        let text = format!("get configmap shop-page -o jsonpath='{{.data.index\\.html}}' {there}");
        system.prints(&text, name);
    }
    let metrics = system.get("get --raw /metrics");
    let watches = metrics
        .lines()
        .find(|line| line.starts_with("insula_seats_in_use") && line.contains("watch"));
    let count = watches.and_then(|line| line.rsplit(' ').next());
    assert_eq!(count, Some("3"), "{watches:?}");
}

#[test]
fn controller_survives_a_killed_server() {
    let Some(mut stage) = Stage::set() else {
        return;
    };
    let [acme, globex] = stage.two_tenants.tenants.clone();
    make(&acme, "shop", "acme.test", "before");
    is(&acme, "shop", "True=Served");
    let address = stage.two_tenants.server.address().to_owned();
    stage.two_tenants.server.kill();
    let data = stage.two_tenants.folder().join("data");
    stage.two_tenants.server = Insula::start_at(&address, &data, &[]);
    make(&globex, "shop", "globex.test", "after");
    is(&globex, "shop", "True=Served");
    acme.get("delete configmap shop-page --wait=false");
    acme.get("delete site shop");
    assert_eq!(stage.claims(), "configmap/globex.test\n");
}
