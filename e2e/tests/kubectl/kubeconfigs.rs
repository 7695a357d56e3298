//! Kubeconfigs of several tenants on one workstation: kubectl caches what a server has by the
//! server's URL, and merges files by the names in them.

use std::path::PathBuf;

use insula_e2e::kubectl::Kubectl;
use insula_e2e::two_tenants::{TENANTS, TwoTenants};

/// A definition of databases, in one version.
fn databases(version: &str) -> String {
    format!(
        r#"
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {{name: databases.example.com}}
spec:
  group: example.com
  scope: Namespaced
  names: {{kind: Database, plural: databases, singular: database}}
  versions:
  - name: {version}
    served: true
    storage: true
    schema: {{openAPIV3Schema: {{type: object, properties: {{spec: {{type: object,
      description: "The {version} of a database.", properties: {{size: {{type: integer}}}}}}}}}}}}
"#
    )
}

/// The kubeconfigs of both tenants.
fn kubeconfigs(two_tenants: &TwoTenants) -> [PathBuf; 2] {
    TENANTS.map(|name| two_tenants.folder().join(format!("{name}.kubeconfig")))
}

/// Both tenants' administrators with one home directory, and so with one cache.
fn on_one_workstation(two_tenants: &TwoTenants) -> [Kubectl; 2] {
    let home = two_tenants.folder().join("home");
    std::fs::create_dir(&home).expect("it is a new folder");
    let [one, other] = kubeconfigs(two_tenants);
    let user = |name, kubeconfig| {
        let program = two_tenants.system.program();
        Kubectl::new(name, program, kubeconfig, &home)
    };
    [user("acme", &one), user("globex", &other)]
}

#[test]
fn tenants_with_one_discovery_cache_have_the_kinds_of_their_own() {
    let Some(two_tenants) = TwoTenants::start() else {
        return;
    };
    let [acme, globex] = on_one_workstation(&two_tenants);
    let define = |who: &Kubectl, version: &str| {
        who.given(&databases(version)).prints(
            "create -f -",
            "customresourcedefinition.apiextensions.k8s.io/databases.example.com created",
        );
        who.get("wait --for=condition=Established crd/databases.example.com --timeout=20s");
    };
    let database = |version: &str| {
        format!(
            "apiVersion: example.com/{version}\nkind: Database\nmetadata: {{name: d}}\nspec: {{size: 1}}\n"
        )
    };
    // Each tenant's list of kinds is in the cache before the other one looks.
    globex.refuses(
        "get databases",
        "the server doesn't have a resource type \"databases\"",
    );
    define(&acme, "v1");
    acme.given(&database("v1"))
        .prints("create -f -", "database.example.com/d created");
    acme.prints("get databases -o name", "database.example.com/d");
    globex.refuses(
        "get databases",
        "the server doesn't have a resource type \"databases\"",
    );
    acme.prints("get databases -o name", "database.example.com/d");
    define(&globex, "v2");
    for _ in 0..2 {
        globex
            .given(&database("v2"))
            .run("apply --server-side -f -")
            .succeeds();
        for (who, version) in [(&acme, "v1"), (&globex, "v2")] {
            who.prints("get databases -o name", "database.example.com/d");
            let shown = who.get("get database d -o jsonpath={.apiVersion}");
            assert_eq!(shown, format!("example.com/{version}"));
            who.shows(
                "api-resources --api-group=example.com",
                &[&format!("databases example.com/{version} true Database")],
            );
            who.shows(
                "explain database.spec",
                &[&format!("The {version} of a database.")],
            );
        }
    }
    acme.refuses(
        "get databases.v2.example.com",
        "the server doesn't have a resource type \"databases\"",
    );
    // A kubeconfig of an earlier version has the server's plain URL.
    let plain = format!("--server {}", two_tenants.server.url());
    globex.prints(
        &format!("{plain} get databases -o name"),
        "database.example.com/d",
    );
    acme.prints(
        &format!("{plain} auth whoami -o jsonpath='{{.status.userInfo.extra}}'"),
        &acme.get("auth whoami -o jsonpath='{.status.userInfo.extra}'"),
    );
}

#[test]
fn kubeconfigs_of_several_tenants_can_be_used_together() {
    let Some(two_tenants) = TwoTenants::start() else {
        return;
    };
    two_tenants.both(|tenant| {
        let name = tenant.name();
        tenant.get(&format!("create configmap of-{name}"));
    });
    let dora = two_tenants.user("acme", "dora", &[]);
    let [one, other] = kubeconfigs(&two_tenants);
    let admin = two_tenants.server.kubeconfig();
    let files = [&one, &other, &admin, &dora.folder().join("kubeconfig")];
    let joined = std::env::join_paths(files).unwrap();
    let home = two_tenants.folder().join("home");
    std::fs::create_dir(&home).unwrap();
    let program = two_tenants.system.program();
    let everybody = Kubectl::new("everybody", program, joined.as_ref(), &home);
    everybody.prints(
        "config get-contexts -o name",
        "acme\ndora@acme\nglobex\ninsula",
    );
    for name in TENANTS {
        everybody.prints(
            &format!("--context {name} get cm -o name"),
            &format!("configmap/of-{name}"),
        );
        let url = format!("{}/tenants/{name}", two_tenants.server.url());
        everybody.shows(&format!("--context {name} cluster-info"), &[&url]);
    }
    everybody.shows(
        "--context dora@acme auth whoami",
        &["Username dora", "[acme]"],
    );
    everybody.refuses(
        "--context dora@acme get cm",
        "User \"dora\" cannot list resource",
    );
    everybody.shows(
        "--context insula get tenants",
        &["acme Active", "globex Active"],
    );
}

#[test]
fn merged_contexts_work_beside_others() {
    let Some(two_tenants) = TwoTenants::start() else {
        return;
    };
    two_tenants.both(|tenant| {
        tenant.get(&format!("create configmap of-{}", tenant.name()));
    });
    let home = two_tenants.folder().join("home");
    std::fs::create_dir(&home).unwrap();
    let file = home.join("config");
    let program = two_tenants.system.program();
    let own = Kubectl::new("own", program, &file, &home);
    own.get("config set-cluster dev --server https://127.0.0.1:1");
    own.get("config set-context dev --cluster dev --namespace shop");
    own.get("config use-context dev");
    for name in TENANTS {
        let line = format!("tenant kubeconfig {name} --merge='{}'", file.display());
        let said = two_tenants.server.run(&line);
        assert!(
            said.err.contains("whose current context is still dev"),
            "{said}"
        );
        assert_eq!(said.succeeds(), format!("{name}\n"));
    }
    own.prints("config current-context", "dev");
    own.prints("config get-contexts -o name", "acme\ndev\nglobex");
    for name in TENANTS {
        own.prints(
            &format!("--context {name} get cm -o name"),
            &format!("configmap/of-{name}"),
        );
    }
    // What kubectl writes it keeps: the expiration, too.
    own.prints("config use-context acme", "Switched to context \"acme\".");
    own.get("config set-context --current --namespace=team");
    let kept = "config view --minify -o jsonpath='{.users[0].user.extensions[0].name}'";
    own.prints(kept, "insula.dev/credential");
    let renew = format!("tenant kubeconfig acme --merge='{}'", file.display());
    two_tenants.server.run(&renew).succeeds();
    own.prints("config view --minify -o jsonpath='{..namespace}'", "team");
    own.prints("get cm -o name", "");
    own.prints("get cm -n default -o name", "configmap/of-acme");
}

#[test]
fn tenant_prefix_leads_to_no_other_tenant() {
    let Some(two_tenants) = TwoTenants::start() else {
        return;
    };
    two_tenants.both(|tenant| {
        let other = TENANTS.into_iter().find(|name| *name != tenant.name());
        let other = other.unwrap();
        for (path, what) in [
            (format!("/api/v1/tenants/{other}/pods"), "pods"),
            (
                format!("/api/v1/tenants/{other}/namespaces/default/secrets"),
                "secrets",
            ),
        ] {
            tenant.refuses(
                &format!("get --raw {path}"),
                &format!(
                    "{what} is forbidden: User \"admin\" cannot list resource \"{what}\" in API \
                     group \"\" in the tenant \"{other}\""
                ),
            );
        }
        let own = format!("get --raw /api/v1/tenants/{}/configmaps", tenant.name());
        tenant.shows(&own, &["ConfigMapList"]);
    });
}
