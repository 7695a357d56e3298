//! Names of objects, labels and annotations.
//!
//! Most of these names are Submariner's, and other programs look them up.

use std::fmt;
use std::str::FromStr;

/// The namespace of the Tenants and of the operator, and the name of the operator's service
/// account, roles, lease and Deployment. It does not begin with `submariner-` because `subctl
/// uninstall` deletes every cluster-scoped object with that prefix.
pub const AXON: &str = "axon-operator";
/// The role of users who manage tenants without being cluster administrators.
pub const AXON_ADMIN: &str = "axon-admin";
/// The role that lets the operator create spaces, on Insula.
pub const AXON_SPACES: &str = "axon-operator-spaces";

/// The default namespace of a broker.
pub const DEFAULT_NAMESPACE: &str = "submariner-k8s-broker";
/// A broker's administrator: service account, Role and RoleBinding.
pub const ADMIN: &str = "submariner-k8s-broker-admin";
/// The Secret with the token of a tenant's administrator. In classic brokers its name varies.
pub const ADMIN_TOKEN: &str = "submariner-k8s-broker-admin-token";
/// The Role of joined clusters. It is a Role, not a ClusterRole, in spite of its name.
pub const CLUSTER: &str = "submariner-k8s-broker-cluster";
/// The service account that clusters shared before each had its own.
pub(crate) const CLIENT: &str = "submariner-k8s-broker-client";
/// The name of the Broker object in a broker's namespace.
pub const BROKER: &str = "submariner-broker";
/// The ResourceQuota of a tenant's namespace.
pub const QUOTA: &str = "submariner-broker";
/// The Secret with the pre-shared key.
pub const PSK: &str = "submariner-ipsec-psk";

/// The namespace of Submariner's operator on a member cluster.
pub const OPERATOR_NAMESPACE: &str = "submariner-operator";
/// The `Submariner` object of a member cluster.
pub const SUBMARINER: &str = "submariner";
/// The `ServiceDiscovery` object of a member cluster that joined without connectivity.
pub const SERVICE_DISCOVERY: &str = "service-discovery";
/// The Secret on a member cluster with its token for the broker.
pub(crate) const BROKER_SECRET: &str = "submariner-broker-secret";

/// The label with the tenant's ID on every object of a tenant.
pub const TENANT_LABEL: &str = "axon.submariner.io/tenant";
/// The label on every object that the operator creates; its watches select by it.
pub const MANAGED_BY: (&str, &str) = ("app.kubernetes.io/managed-by", AXON);
/// The annotation on a tenant's namespace (and space) with the UID of its Tenant. A namespace
/// without it is never touched.
pub const TENANT_UID: &str = "axon.submariner.io/tenant-uid";
/// The finalizer that keeps a Tenant until its namespace is deleted.
pub const FINALIZER: &str = "axon.submariner.io/cleanup";

/// The prefix of a tenant's namespace.
const PREFIX: &str = "submariner-broker-";
/// A namespace name has at most 63 characters.
const MAX_ID_LENGTH: usize = 63 - PREFIX.len();

/// A tenant's ID: a DNS label that leaves room for the prefix of its namespace.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TenantId(String);

impl TenantId {
    /// Generates a random ID.
    pub fn random() -> Self {
        Self(uuid::Uuid::new_v4().to_string())
    }

    /// Returns the tenant of a namespace, by the namespace's name.
    pub(crate) fn of_namespace(namespace: &str) -> Option<Self> {
        namespace.strip_prefix(PREFIX)?.parse().ok()
    }

    /// Returns the ID as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the namespace of the tenant's broker, which is also the name of its space.
    pub fn namespace(&self) -> String {
        format!("{PREFIX}{}", self.0)
    }
}

impl fmt::Display for TenantId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The reasons why a text is not a tenant ID.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidTenantId {
    /// The text is too long.
    #[error("a tenant ID has at most {MAX_ID_LENGTH} characters")]
    TooLong,
    /// The text is not a DNS label.
    #[error(
        "a tenant ID has lower-case letters, digits and -, and begins and ends with a letter or digit"
    )]
    NotALabel,
}

impl FromStr for TenantId {
    type Err = InvalidTenantId;

    fn from_str(text: &str) -> Result<Self, InvalidTenantId> {
        let good = has_label_characters(text);
        match (good, text.len() <= MAX_ID_LENGTH) {
            (false, _) => Err(InvalidTenantId::NotALabel),
            (true, false) => Err(InvalidTenantId::TooLong),
            (true, true) => Ok(Self(text.to_owned())),
        }
    }
}

/// Returns whether a text is a DNS label, as namespace names and cluster IDs are.
pub(crate) fn is_label(text: &str) -> bool {
    has_label_characters(text) && text.len() <= 63
}

fn has_label_characters(text: &str) -> bool {
    let inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let bytes = text.as_bytes();
    let edges = bytes.first().zip(bytes.last());
    edges.is_some_and(|(&first, &last)| inner(first) && inner(last))
        && bytes.iter().all(|&byte| inner(byte) || byte == b'-')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn r25_tenant_id_is_a_label_that_leaves_room_for_the_prefix() {
        let longest = "a".repeat(45);
        for good in ["a", "0", "acme", "a-b", "a--b", longest.as_str()] {
            assert_eq!(good.parse::<TenantId>().unwrap().as_str(), good);
        }
        assert_eq!(
            longest.parse::<TenantId>().unwrap().namespace().len(),
            63,
            "the maximum length of a namespace name"
        );
        let long = "a".repeat(46);
        assert_eq!(long.parse::<TenantId>(), Err(InvalidTenantId::TooLong));
        for bad in ["", " ", "A", "a_b", "a.b", "-a", "a-", "ä", "a b", "a\n"] {
            assert_eq!(
                bad.parse::<TenantId>(),
                Err(InvalidTenantId::NotALabel),
                "{bad:?}"
            );
        }
    }

    #[test]
    fn tenant_is_derived_from_the_namespace() {
        let id: TenantId = "a-b".parse().unwrap();
        assert_eq!(TenantId::of_namespace(&id.namespace()), Some(id));
        for other in [
            "a-b",
            "submariner-broker-",
            "submariner-broker",
            "submariner-broker-A",
        ] {
            assert_eq!(TenantId::of_namespace(other), None, "{other}");
        }
    }

    #[test]
    fn r20_generated_id_is_a_lower_case_uuid() {
        let id = TenantId::random();
        let uuid: uuid::Uuid = id.as_str().parse().unwrap();
        assert_eq!(uuid.get_version_num(), 4);
        assert_eq!(id.as_str().parse::<TenantId>().as_ref(), Ok(&id));
        assert_ne!(TenantId::random(), id);
    }
}
