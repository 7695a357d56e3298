//! What everything is called.
//!
//! Most of these names are Submariner's: other programs look for them.

use std::fmt;
use std::str::FromStr;

/// The namespace of the tenants' objects and of the operator, and what the operator's
/// account, roles, lease and Deployment are called. Not `submariner-…`: Submariner's own
/// `subctl uninstall` deletes everything cluster-scoped that begins so.
pub const AXON: &str = "axon-operator";
/// The role of those who manage tenants without being administrators of the cluster.
pub const AXON_ADMIN: &str = "axon-admin";
/// What lets the operator make whole spaces, on Insula.
pub const AXON_SPACES: &str = "axon-operator-spaces";

/// The namespace of a broker that nobody gave another.
pub const DEFAULT_NAMESPACE: &str = "submariner-k8s-broker";
/// A broker's administrator: service account, Role and RoleBinding.
pub const ADMIN: &str = "submariner-k8s-broker-admin";
/// The Secret with the administrator's token, of a tenant. Elsewhere it has any name.
pub const ADMIN_TOKEN: &str = "submariner-k8s-broker-admin-token";
/// The Role of the clusters that have joined. It is a Role, whatever its name says.
pub const CLUSTER: &str = "submariner-k8s-broker-cluster";
/// The service account that clusters shared before each had its own.
pub const CLIENT: &str = "submariner-k8s-broker-client";
/// The one Broker object of a broker's namespace.
pub const BROKER: &str = "submariner-broker";
/// The Secret with the pre-shared key.
pub const PSK: &str = "submariner-ipsec-psk";

/// On everything that belongs to a tenant: whose it is, by ID.
pub const TENANT_LABEL: &str = "axon.submariner.io/tenant";
/// On everything that the operator made; what it watches is selected by it.
pub const MANAGED_BY: (&str, &str) = ("app.kubernetes.io/managed-by", AXON);
/// On a tenant's namespace (and space): the UID of the Tenant that it was made for. Without
/// it a namespace is somebody else's, whatever its name.
pub const TENANT_UID: &str = "axon.submariner.io/tenant-uid";
/// Holds a Tenant until its namespace is gone.
pub const FINALIZER: &str = "axon.submariner.io/cleanup";

/// What a tenant's namespace begins with.
const PREFIX: &str = "submariner-broker-";
/// A namespace has 63 characters at most.
const LONGEST: usize = 63 - PREFIX.len();

/// A tenant's ID: a DNS label that leaves room for the prefix of its namespace.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TenantId(String);

impl TenantId {
    /// One that nobody has.
    pub fn random() -> Self {
        Self(uuid::Uuid::new_v4().to_string())
    }

    /// Whose broker a namespace is for, by its name.
    pub fn of_namespace(namespace: &str) -> Option<Self> {
        namespace.strip_prefix(PREFIX)?.parse().ok()
    }

    /// As it is written.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The namespace of the tenant's broker; also what its space is called, if it has one.
    pub fn namespace(&self) -> String {
        format!("{PREFIX}{}", self.0)
    }
}

impl fmt::Display for TenantId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Why a text is no tenant ID.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotAnId {
    /// It is too long.
    #[error("a tenant ID has at most {LONGEST} characters")]
    TooLong,
    /// It is no DNS label.
    #[error(
        "a tenant ID has lower-case letters, digits and -, and begins and ends with a letter or digit"
    )]
    NotALabel,
}

impl FromStr for TenantId {
    type Err = NotAnId;

    fn from_str(text: &str) -> Result<Self, NotAnId> {
        let good = has_signs_of_a_label(text);
        match (good, text.len() <= LONGEST) {
            (false, _) => Err(NotAnId::NotALabel),
            (true, false) => Err(NotAnId::TooLong),
            (true, true) => Ok(Self(text.to_owned())),
        }
    }
}

/// Whether a text is a DNS label, as names of namespaces and IDs of clusters are.
pub(crate) fn is_label(text: &str) -> bool {
    has_signs_of_a_label(text) && text.len() <= 63
}

fn has_signs_of_a_label(text: &str) -> bool {
    let inner = |sign: u8| sign.is_ascii_lowercase() || sign.is_ascii_digit();
    let bytes = text.as_bytes();
    let edges = bytes.first().zip(bytes.last());
    edges.is_some_and(|(&first, &last)| inner(first) && inner(last))
        && bytes.iter().all(|&sign| inner(sign) || sign == b'-')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn r25_an_id_is_a_label_that_leaves_room_for_the_prefix() {
        let longest = "a".repeat(45);
        for good in ["a", "0", "acme", "a-b", "a--b", longest.as_str()] {
            assert_eq!(good.parse::<TenantId>().unwrap().as_str(), good);
        }
        assert_eq!(
            longest.parse::<TenantId>().unwrap().namespace().len(),
            63,
            "the longest namespace that there is"
        );
        let long = "a".repeat(46);
        assert_eq!(long.parse::<TenantId>(), Err(NotAnId::TooLong));
        for bad in ["", " ", "A", "a_b", "a.b", "-a", "a-", "ä", "a b", "a\n"] {
            assert_eq!(bad.parse::<TenantId>(), Err(NotAnId::NotALabel), "{bad:?}");
        }
    }

    #[test]
    fn a_namespace_says_whose_it_is() {
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
    fn r20_a_random_id_is_a_lower_case_uuid() {
        let id = TenantId::random();
        let uuid: uuid::Uuid = id.as_str().parse().unwrap();
        assert_eq!(uuid.get_version_num(), 4);
        assert_eq!(id.as_str().parse::<TenantId>().as_ref(), Ok(&id));
        assert_ne!(TenantId::random(), id);
    }
}
