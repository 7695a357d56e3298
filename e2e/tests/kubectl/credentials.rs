//! Credentials: certificates that a tenant's administrator approves and static tokens; none of them
//! outlives its tenant.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use insula_e2e::kubectl::Kubectl;
use insula_e2e::two_tenants::{TENANTS, TwoTenants};
use rcgen::{CertificateParams, DistinguishedName, DnType, KeyPair};

use crate::users::Users;

#[test]
fn tenant_administrator_can_issue_certificates() {
    let Some(two_tenants) = TwoTenants::start() else {
        return;
    };
    two_tenants.both(|tenant| {
        let key = KeyPair::generate().unwrap();
        let request = |organization| request(&key, "jane", organization);
        tenant.given(&request("dev")).prints(
            "create -f -",
            "certificatesigningrequest.certificates.k8s.io/jane created",
        );
        let line = tenant.get("get csr --no-headers");
        for text in [
            "jane ",
            " kubernetes.io/kube-apiserver-client ",
            " admin ",
            " Pending",
        ] {
            assert!(line.contains(text), "no {text:?} in {line}");
        }
        tenant.prints(
            "certificate approve jane",
            "certificatesigningrequest.certificates.k8s.io/jane approved",
        );
        tenant.get("wait --for=jsonpath={.status.certificate} csr/jane --timeout=20s");
        tenant.shows("get csr", &["Approved,Issued"]);
        let issued = tenant.get("get csr jane -o jsonpath={.status.certificate}");
        let issued = BASE64_STANDARD.decode(issued).unwrap();
        tenant.write("jane.crt", &String::from_utf8(issued).unwrap());
        tenant.write("jane.key", &key.serialize_pem());
        tenant
            .get("config set-credentials jane --client-certificate=jane.crt --client-key=jane.key");
        let space = format!("[{}]", tenant.name());
        tenant.shows(
            "--user=jane auth whoami",
            &["Username jane", "Groups [dev system:authenticated]", &space],
        );
        tenant.may_not("list configmaps --user=jane");
        tenant.get("create rolebinding dev --clusterrole=edit --group=dev");
        tenant.may("list configmaps --user=jane");
        let own = format!(
            "create configmap by-jane --from-literal=of={}",
            tenant.name()
        );
        tenant.prints(&format!("--user=jane {own}"), "configmap/by-jane created");
        let other = TENANTS.into_iter().find(|name| *name != tenant.name());
        let other = other.unwrap();
        tenant.refuses(
            &format!("--user=jane get --raw /api/v1/tenants/{other}/namespaces/default/configmaps"),
            &format!(
                "configmaps is forbidden: User \"jane\" cannot list resource \"configmaps\" in API \
                 group \"\" in the tenant \"{other}\""
            ),
        );
        // Neither server-assigned groups nor another tenant can be obtained this way.
        let masters = request("system:masters").replace("name: jane", "name: masters");
        let why = "signer with system:masters group is not allowed";
        tenant.given(&masters).refuses("create -f -", why);
        for (name, organization) in [("node", "system:nodes"), ("spy", "tenant:system")] {
            let text = request(organization).replace("name: jane", &format!("name: {name}"));
            tenant.given(&text).get("create -f -");
            tenant.get(&format!("certificate approve {name}"));
            tenant.get(&format!(
                "wait --for=condition=Failed csr/{name} --timeout=20s"
            ));
            tenant.prints(
                &format!("get csr {name} -o jsonpath={{.status.certificate}}"),
                "",
            );
        }
    });
}

#[test]
fn requesting_a_certificate_does_not_allow_approving_it() {
    let Some(two_tenants) = TwoTenants::start() else {
        return;
    };
    two_tenants.both(|tenant| {
        let nora = two_tenants.user(tenant.name(), "nora", &[]);
        let key = KeyPair::generate().unwrap();
        let manifest = request(&key, "mallory", "dev");
        nora.given(&manifest).refuses(
            "create -f -",
            "certificatesigningrequests.certificates.k8s.io is forbidden: User \"nora\" cannot \
             create resource \"certificatesigningrequests\"",
        );
        // She may write requests and approvals, but has no permission for any signer.
        tenant.get(
            "create clusterrole requester --verb=create,get,list,update,patch \
             --resource=certificatesigningrequests.certificates.k8s.io,\
             certificatesigningrequests.certificates.k8s.io/approval",
        );
        tenant.get("create clusterrolebinding nora --clusterrole=requester --user=nora");
        nora.given(&manifest).get("create -f -");
        nora.refuses(
            "certificate approve mallory",
            "user not permitted to approve requests with signerName \
             \"kubernetes.io/kube-apiserver-client\"",
        );
        tenant.shows("get csr", &["nora <none> Pending"]);
        tenant.prints("get csr mallory -o jsonpath='{.status}'", "{}");
        tenant.given(APPROVER).get("create -f -");
        tenant.get("create clusterrolebinding approver --clusterrole=approver --user=nora");
        nora.get("certificate approve mallory");
        tenant.get("wait --for=jsonpath={.status.certificate} csr/mallory --timeout=20s");
    });
}

#[test]
fn denied_requests_get_no_certificate() {
    let Some(two_tenants) = TwoTenants::start() else {
        return;
    };
    two_tenants.both(|tenant| {
        let key = KeyPair::generate().unwrap();
        let manifest = request(&key, "mallory", "dev");
        tenant.given(&manifest).get("create -f -");
        tenant.prints(
            "certificate deny mallory",
            "certificatesigningrequest.certificates.k8s.io/mallory denied",
        );
        tenant.shows("get csr", &["Denied"]);
        tenant.refuses("certificate approve mallory", "");
        tenant.prints("get csr mallory -o jsonpath={.status.certificate}", "");
    });
}

/// kubectl cannot create roles for resources that discovery does not show.
const APPROVER: &str = r#"
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: approver}
rules:
- apiGroups: [certificates.k8s.io]
  resources: [signers]
  resourceNames: [kubernetes.io/kube-apiserver-client]
  verbs: [approve]
"#;

/// The manifest of a certificate signing request.
fn request(key: &KeyPair, user: &str, organization: &str) -> String {
    let mut name = DistinguishedName::new();
    name.push(DnType::CommonName, user);
    name.push(DnType::OrganizationName, organization);
    let mut params = CertificateParams::default();
    params.distinguished_name = name;
    let request = params
        .serialize_request(key)
        .and_then(|request| request.pem());
    let request = BASE64_STANDARD.encode(request.expect("a request can be made"));
    format!(
        "apiVersion: certificates.k8s.io/v1\n\
         kind: CertificateSigningRequest\n\
         metadata:\n  name: {user}\n\
         spec:\n  request: {request}\n  \
         signerName: kubernetes.io/kube-apiserver-client\n  usages: [client auth]\n"
    )
}

#[test]
fn static_token_determines_the_tenant() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("tokens");
    let tokens =
        "a,ann,1,\"tenant:acme,system:masters\"\ns,sue,2,\"tenant:system\"\nn,nat,3,\"people\"\n";
    std::fs::write(&file, tokens).unwrap();
    let arguments = ["--token-auth-file", file.to_str().unwrap()];
    let Some(two_tenants) = TwoTenants::start_with(&arguments) else {
        return;
    };
    let [one, _] = &two_tenants.tenants;
    one.get("create configmap note");
    let bearer = |token: &str| two_tenants.bearer(&format!("holder-{token}"), token);
    let ann = bearer("a");
    ann.shows(
        "auth whoami",
        &["Username ann", "Groups [system:authenticated]", "[acme]"],
    );
    // The users have no permissions until a role is bound, and a binding applies to users of its
    // own space.
    let why = |user: &str| {
        format!(
            "configmaps is forbidden: User \"{user}\" cannot list resource \"configmaps\" in API \
             group \"\" in the namespace \"default\""
        )
    };
    let sue = bearer("s");
    sue.shows("auth whoami", &["Username sue", "[system]"]);
    one.get("create clusterrolebinding people --clusterrole=view --user=sue");
    for (who, user) in [(&ann, "ann"), (&sue, "sue")] {
        who.refuses("get cm", &why(user));
    }
    one.get("create clusterrolebinding ann --clusterrole=view --user=ann");
    ann.prints("get cm -o name", "configmap/note");
    sue.refuses("get cm", &why("sue"));
    two_tenants
        .system
        .get("create clusterrolebinding sue --clusterrole=view --user=sue");
    sue.prints("get cm -o name", "");
    let there = format!(
        "--server {}/tenants/acme get cm -o name",
        two_tenants.server.url()
    );
    sue.prints(&there, "configmap/note");
    bearer("n").refuses("get --raw /api/v1/configmaps", "Forbidden");
    bearer("x").refuses("get --raw /api/v1/configmaps", "Unauthorized");
}

#[test]
fn default_tenant_applies_to_credentials_without_one() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("tokens");
    std::fs::write(&file, "n,nat,3,\"people\"\n").unwrap();
    let arguments = [
        "--default-tenant",
        "home",
        "--token-auth-file",
        file.to_str().unwrap(),
    ];
    let Some(two_tenants) = TwoTenants::start_with(&arguments) else {
        return;
    };
    two_tenants.system.shows("get tenants", &["home Active"]);
    let nat = two_tenants.bearer("holder-n", "n");
    nat.shows(
        "auth whoami",
        &[
            "Username nat",
            "Groups [people system:authenticated]",
            "[home]",
        ],
    );
    nat.refuses(
        "create configmap note",
        "User \"nat\" cannot create resource",
    );
    let home = format!("--server {}/tenants/home", two_tenants.server.url());
    two_tenants.system.get(&format!(
        "{home} create rolebinding people --clusterrole=edit --group=people"
    ));
    nat.prints("create configmap note", "configmap/note created");
    let raw = "get --raw /api/v1/tenants/home/namespaces/default/configmaps/note";
    two_tenants.system.shows(raw, &["\"tenant\":\"home\""]);
}

#[test]
fn credentials_are_invalid_after_tenant_deletion() {
    let Some(two_tenants) = TwoTenants::start() else {
        return;
    };
    let [tenant, _] = &two_tenants.tenants;
    let old = Users::create(&two_tenants, tenant);
    let [_, theirs] = &two_tenants.tenants;
    let neighbour = Users::create(&two_tenants, theirs);
    old.robot.prints("get pods -n shop -o name", "");
    assert_eq!(two_tenants.server.run("tenant delete acme").succeeds(), "");
    let gone = |who: &Kubectl, when: &str| {
        for line in ["get --raw /api/v1/namespaces/shop/pods", "get --raw /api"] {
            let said = who.run(line);
            // The certificate still proves a name; the token of a deleted account proves nothing.
            let why = match who.name() {
                "acme-robot" => "Unauthorized",
                _ => "(Forbidden)",
            };
            assert!(
                said.code == Some(1) && said.err.contains(why),
                "{when}: {said}"
            );
        }
    };
    let all = [tenant, &old.dora, &old.nora, &old.robot];
    for who in all {
        gone(who, "deleted");
    }
    // Everything is recreated under the same names; only the tenant is a new one.
    let kubeconfig = two_tenants.folder().join("again.kubeconfig");
    let create = format!(
        "tenant create acme --kubeconfig-out '{}'",
        kubeconfig.display()
    );
    assert_eq!(two_tenants.server.run(&create).succeeds(), "acme\n");
    let again = Kubectl::new("again", tenant.program(), &kubeconfig, tenant.folder());
    again.get("create namespace shop");
    again.get("create serviceaccount robot -n shop");
    for subject in [
        "--user=dora",
        "--user=nora",
        "--group=devs",
        "--serviceaccount=shop:robot",
    ] {
        let name = subject.replace(['-', '=', ':'], "");
        again.get(&format!(
            "create clusterrolebinding {name} --clusterrole=cluster-admin {subject}"
        ));
    }
    for who in all {
        gone(who, "made again");
    }
    let fresh = again.get("create token robot -n shop");
    let fresh = two_tenants.bearer("fresh", fresh.trim());
    for who in [
        &two_tenants.user("acme", "dora2", &["devs"]),
        &fresh,
        &again,
    ] {
        who.may("'*' '*' -A");
    }
    for who in [theirs, &neighbour.dora, &neighbour.robot] {
        who.prints("get pods -n shop -o name", "");
    }
}
