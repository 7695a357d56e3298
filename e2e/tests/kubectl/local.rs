//! config, completion, plugins and other mostly local commands.

use insula_e2e::two_tenants::TwoTenants;

#[test]
fn kubeconfig_can_be_shown_and_changed() {
    let Some(two_tenants) = TwoTenants::start() else {
        return;
    };
    let url = two_tenants.server.url().to_owned();
    two_tenants.both(|tenant| {
        let name = tenant.name();
        let (place, url) = (&url, format!("{url}/tenants/{name}"));
        // Names of one tenant of one server.
        let cluster = format!("{name}@{}", place.strip_prefix("https://").unwrap());
        tenant.prints("config current-context", name);
        tenant.shows(
            "config get-contexts",
            &[
                "CURRENT NAME CLUSTER AUTHINFO NAMESPACE",
                &format!("* {name} {cluster} admin@{cluster}"),
            ],
        );
        tenant.prints("config get-clusters", &format!("NAME\n{cluster}"));
        tenant.prints("config get-users", &format!("NAME\nadmin@{cluster}"));
        let shown = tenant.get("config view --minify");
        assert!(shown.contains(&format!("server: {url}")), "{shown}");
        assert!(
            shown.contains("DATA+OMITTED") && !shown.contains("PRIVATE"),
            "{shown}"
        );
        tenant.get("create namespace team");
        tenant.get("create configmap note -n team");
        tenant.prints(
            "config set-context --current --namespace=team",
            &format!("Context \"{name}\" modified."),
        );
        tenant.prints("get cm note -o name", "configmap/note");
        tenant.prints("config view --minify -o jsonpath='{..namespace}'", "team");
        tenant.get(&format!(
            "config set-context other --cluster={cluster} --user=nobody"
        ));
        tenant.prints("config use-context other", "Switched to context \"other\".");
        tenant.refuses("get cm", "");
        tenant.prints(
            &format!("config use-context {name}"),
            &format!("Switched to context \"{name}\"."),
        );
        tenant.shows("config delete-context other", &["deleted context other"]);
        tenant.prints(
            "config rename-context NAME mine"
                .replace("NAME", name)
                .as_str(),
            &format!("Context \"{name}\" renamed to \"mine\"."),
        );
        tenant.prints("get cm -o name", "configmap/note");
    });
}

#[test]
fn completion_offers_the_spaces_objects() {
    let Some(two_tenants) = TwoTenants::start() else {
        return;
    };
    two_tenants.both(|tenant| {
        tenant.shows("completion bash", &["__start_kubectl"]);
        tenant.shows("completion zsh", &["#compdef kubectl"]);
        let own = format!("only-{}", tenant.name());
        tenant.get(&format!("create configmap {own}"));
        tenant.get("create configmap common");
        let completed = |words: &str| {
            let said = tenant.run_bare(&format!("__complete {words}"));
            let lines = said.out.lines().filter(|line| !line.starts_with(':'));
            lines.map(str::to_owned).collect::<Vec<_>>()
        };
        assert_eq!(
            completed("get configmaps ''"),
            ["common", "kube-root-ca.crt", &own]
        );
        assert_eq!(completed("describe cm o"), [own]);
        assert_eq!(completed("get cm --namespace kube-p"), ["kube-public"]);
        let kinds = completed("get deploym");
        assert!(
            kinds.iter().any(|kind| kind.starts_with("deployments")),
            "{kinds:?}"
        );
    });
}

#[test]
fn plugins_options_and_versions_are_shown() {
    let Some(two_tenants) = TwoTenants::start() else {
        return;
    };
    two_tenants.both(|tenant| {
        let said = tenant.run("plugin list");
        assert!(
            said.code == Some(0) || said.err.contains("unable to find any kubectl plugins"),
            "{said}"
        );
        tenant.shows("options", &["--as", "--namespace"]);
        tenant.shows("version --client", &["Client Version: v1."]);
        let version = tenant.get("version -o json");
        assert!(
            version.contains("\"gitVersion\": \"v1.36.4+insula"),
            "{version}"
        );
        let help = tenant.run_bare("help create").succeeds();
        assert!(help.starts_with("Create a resource"), "{help}");
    });
}
