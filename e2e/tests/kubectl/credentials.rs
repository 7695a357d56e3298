//! Who is let in, and where to: certificates that a tenant's administrator approves, and
//! tokens from a file.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use insula_e2e::kubectl::Kubectl;
use insula_e2e::scene::Scene;
use rcgen::{CertificateParams, DistinguishedName, DnType, KeyPair};

#[test]
fn a_tenants_administrator_lets_its_own_people_in() {
    let Some(scene) = Scene::start() else { return };
    scene.both(|tenant| {
        let key = KeyPair::generate().unwrap();
        let request = |organization| request(&key, "jane", organization);
        tenant.given(&request("dev")).prints(
            "create -f -",
            "certificatesigningrequest.certificates.k8s.io/jane created",
        );
        let line = tenant.get("get csr --no-headers");
        for text in ["jane ", " kubernetes.io/kube-apiserver-client ", " Pending"] {
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
        // Neither the server's groups nor another tenant can be had in this way.
        for (name, organization) in [("masters", "system:masters"), ("spy", "tenant:system")] {
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

/// A request for a certificate, as a manifest.
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
fn a_token_says_where_its_bearer_belongs() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("tokens");
    let tokens =
        "a,ann,1,\"tenant:acme,system:masters\"\ns,sue,2,\"tenant:system\"\nn,nat,3,\"people\"\n";
    std::fs::write(&file, tokens).unwrap();
    let arguments = ["--token-auth-file", file.to_str().unwrap()];
    let Some(scene) = Scene::start_with(&arguments) else {
        return;
    };
    let [one, _] = &scene.tenants;
    one.get("create configmap note");
    let bearer = |token: &str| holder(&scene, token);
    let ann = bearer("a");
    ann.shows(
        "auth whoami",
        &["Username ann", "Groups [system:authenticated]", "[acme]"],
    );
    ann.prints("get cm -o name", "configmap/note");
    let sue = bearer("s");
    sue.shows("auth whoami", &["Username sue", "[system]"]);
    sue.prints("get cm -o name", "");
    bearer("n").refuses("get --raw /api/v1/configmaps", "Forbidden");
    bearer("x").refuses("get --raw /api/v1/configmaps", "Unauthorized");
}

#[test]
fn a_default_tenant_takes_in_who_names_none() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("tokens");
    std::fs::write(&file, "n,nat,3,\"people\"\n").unwrap();
    let arguments = [
        "--default-tenant",
        "home",
        "--token-auth-file",
        file.to_str().unwrap(),
    ];
    let Some(scene) = Scene::start_with(&arguments) else {
        return;
    };
    scene.system.shows("get tenants", &["home Active"]);
    let nat = holder(&scene, "n");
    nat.shows(
        "auth whoami",
        &[
            "Username nat",
            "Groups [people system:authenticated]",
            "[home]",
        ],
    );
    nat.prints("create configmap note", "configmap/note created");
    let raw = "get --raw /api/v1/tenants/home/namespaces/default/configmaps/note";
    scene.system.shows(raw, &["\"tenant\":\"home\""]);
}

/// Somebody with a token and nothing else.
fn holder(scene: &Scene, token: &str) -> Kubectl {
    let system = &scene.system;
    let home = scene.folder().join(format!("holder-{token}"));
    std::fs::create_dir(&home).expect("it is a new folder");
    let authority = scene.folder().join("data/pki/ca.crt");
    let kubeconfig = home.join("kubeconfig");
    let text = format!(
        "apiVersion: v1\nkind: Config\ncurrent-context: c\n\
         clusters: [{{name: c, cluster: {{server: '{}', certificate-authority: '{}'}}}}]\n\
         users: [{{name: u, user: {{token: '{token}'}}}}]\n\
         contexts: [{{name: c, context: {{cluster: c, user: u}}}}]\n",
        scene.server.url(),
        authority.display(),
    );
    std::fs::write(&kubeconfig, text).expect("it is in a new folder");
    Kubectl::new(token, system.program(), &kubeconfig, &home)
}
