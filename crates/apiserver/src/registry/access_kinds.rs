//! The kinds about credentials in the table of kinds.

use std::sync::OnceLock;

use insula_core::Space;
use insula_kinds::{KindId, kinds};

use super::Address;

/// The group of the API about credentials.
pub const GROUP: &str = "access.insula.dev";

/// Returns the kind of records of credentials.
pub fn tenant_accesses() -> KindId {
    static KIND: OnceLock<KindId> = OnceLock::new();
    *KIND.get_or_init(|| {
        let kind = kinds().find(GROUP, "v1", "tenantaccesses");
        kind.expect("the table has the kind")
    })
}

/// Returns the kind of revocations.
pub fn revocations() -> KindId {
    static KIND: OnceLock<KindId> = OnceLock::new();
    *KIND.get_or_init(|| {
        let kind = kinds().find(GROUP, "v1", "credentialrevocations");
        kind.expect("the table has the kind")
    })
}

/// Returns the address of the record of the credentials of a space.
pub fn access_record_address(space: &Space) -> Address {
    Address {
        kind: tenant_accesses().into(),
        space: Space::System,
        namespace: None,
        name: space.to_string(),
    }
}
