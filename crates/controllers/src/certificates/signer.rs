//! The signers whose requests the server signs: which usages and subjects each accepts.

use insula_access::{AlternativeName, CertificateRequest, Subject};
use insula_core::{MASTERS, NODE_USER_PREFIX, NODES, RESERVED_PREFIX, Space};
use insula_kinds::Value;

/// A signer of client certificates that the API server accepts.
///
/// There is none for `kubernetes.io/kubelet-serving`: clients of all tenants verify the API server
/// with the same CA, and a tenant that chose the names of a server's certificate could pose as it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signer {
    /// Signs for users.
    Client,
    /// Signs for nodes.
    KubeletClient,
}

/// The usages of a certificate that kubelets authenticate with; the key may be RSA's or not.
const KUBELET_USAGES: [&[&str]; 2] = [
    &["client auth", "digital signature"],
    &["client auth", "digital signature", "key encipherment"],
];

impl Signer {
    /// Finds a signer by its name.
    pub fn find(name: &str) -> Option<Self> {
        [Self::Client, Self::KubeletClient]
            .into_iter()
            .find(|signer| signer.name() == name)
    }

    const fn name(self) -> &'static str {
        match self {
            Self::Client => "kubernetes.io/kube-apiserver-client",
            Self::KubeletClient => "kubernetes.io/kube-apiserver-client-kubelet",
        }
    }

    /// Checks the usages, with the wording of Kubernetes.
    pub fn check_usages(self, spec: &Value) -> Result<(), String> {
        let usages = spec["usages"].as_array().into_iter().flatten();
        let mut usages: Vec<&str> = usages.filter_map(Value::as_str).collect();
        if self == Self::KubeletClient {
            usages.sort_unstable();
            usages.dedup();
            let [_, all] = KUBELET_USAGES;
            return match KUBELET_USAGES.contains(&usages.as_slice()) {
                true => Ok(()),
                false => Err(format!("usages did not match [{}]", all.join(" "))),
            };
        }
        let known = ["client auth", "digital signature", "key encipherment"];
        if let Some(other) = usages.iter().find(|usage| !known.contains(usage)) {
            return Err(format!("invalid usage for client certificate: {other}"));
        }
        match usages.contains(&"client auth") {
            true => Ok(()),
            false => Err("missing required usage for client certificate: client auth".to_owned()),
        }
    }

    /// Checks that the subject may have a certificate of this signer in the space.
    pub fn check_subject(self, request: &CertificateRequest, space: &Space) -> Result<(), String> {
        let subject = &request.subject;
        let other = subject.tenant.as_ref().filter(|tenant| *tenant != space);
        if other.is_some() {
            return Err(format!(
                "a certificate of this tenant must have the tenant \"{space}\" or none"
            ));
        }
        match self {
            Self::Client => self.check_user(subject, space),
            Self::KubeletClient => check_node(request),
        }
    }

    /// The prefix `system:` is reserved for the server, so a tenant's request can obtain neither
    /// such a group nor such a user name: service accounts and nodes are named so.
    fn check_user(self, subject: &Subject, space: &Space) -> Result<(), String> {
        let of_tenant = !space.is_system();
        let group = subject.groups.iter().find(|group| match of_tenant {
            true => group.starts_with(RESERVED_PREFIX),
            false => *group == MASTERS,
        });
        let refused = match group {
            Some(group) => Some((group, "group")),
            None if of_tenant && subject.user.starts_with(RESERVED_PREFIX) => {
                Some((&subject.user, "user"))
            }
            None => None,
        };
        match refused {
            None => Ok(()),
            Some((name, sort)) => Err(format!(
                "use of {} signer with {name} {sort} is not allowed",
                self.name()
            )),
        }
    }
}

/// Checks that the certificate is for a node and nothing else, with the wording of Kubernetes.
fn check_node(request: &CertificateRequest) -> Result<(), String> {
    let CertificateRequest {
        subject,
        alternative_names,
        ..
    } = request;
    if subject.groups != [NODES] {
        return Err(format!("subject organization is not {NODES}"));
    }
    for (refused, name) in [
        (AlternativeName::Dns, "DNS"),
        (AlternativeName::Email, "Email"),
        (AlternativeName::Ip, "IP"),
        (AlternativeName::Uri, "URI"),
        (AlternativeName::Other, "other"),
    ] {
        if alternative_names.contains(&refused) {
            return Err(format!("{name} subjectAltNames are not allowed"));
        }
    }
    let name = subject.user.strip_prefix(NODE_USER_PREFIX);
    match name.is_some_and(|name| !name.is_empty()) {
        true => Ok(()),
        false => Err(format!(
            "subject common name does not begin with {NODE_USER_PREFIX}"
        )),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn usages_are_exactly_those_of_the_signer() {
        let check = |signer: Signer, usages: &[&str]| {
            let checked = signer.check_usages(&json!({"usages": usages}));
            checked.err()
        };
        let (client, kubelet) = (Signer::Client, Signer::KubeletClient);
        let kubelets = "usages did not match [client auth digital signature key encipherment]";
        let server = "invalid usage for client certificate: server auth";
        let missing = "missing required usage for client certificate: client auth";
        for (signer, usages, refused) in [
            (client, &["client auth", "digital signature"][..], None),
            (client, &["client auth"], None),
            (client, &["client auth", "server auth"], Some(server)),
            (client, &["digital signature"], Some(missing)),
            (kubelet, &["digital signature", "client auth"], None),
            (
                kubelet,
                &["key encipherment", "digital signature", "client auth"],
                None,
            ),
            (kubelet, &["client auth"], Some(kubelets)),
            (
                kubelet,
                &["client auth", "digital signature", "server auth"],
                Some(kubelets),
            ),
            (kubelet, &[], Some(kubelets)),
        ] {
            let found = check(signer, usages);
            assert_eq!(found.as_deref(), refused, "{signer:?} {usages:?}");
        }
    }

    #[test]
    fn serving_certificates_are_not_signed() {
        for (name, signer) in [
            ("kubernetes.io/kube-apiserver-client", Some(Signer::Client)),
            (
                "kubernetes.io/kube-apiserver-client-kubelet",
                Some(Signer::KubeletClient),
            ),
            ("kubernetes.io/kubelet-serving", None),
            ("kubernetes.io/legacy-unknown", None),
            ("example.com/other", None),
        ] {
            assert_eq!(Signer::find(name), signer, "{name}");
        }
    }
}
