//! Whether the objects of each space are shown with the fields that name their tenant.

pub use insula_cache::TenantFields;
use insula_core::{Space, Spaces};

use crate::flow_control::SpaceOverrides;

/// The field in a tenant's spec.
pub const FIELD: &str = "objectTenantFields";

/// The setting of the server, and of the tenants that have one of their own.
#[derive(Debug, Default)]
pub struct TenantFieldsTable {
    server: TenantFields,
    overrides: SpaceOverrides<TenantFields>,
}

impl TenantFieldsTable {
    /// A table in which no tenant has a setting of its own.
    pub fn new(server: TenantFields) -> Self {
        Self {
            server,
            overrides: SpaceOverrides::default(),
        }
    }

    /// Returns the setting of a space.
    pub fn of(&self, space: &Space) -> TenantFields {
        self.overrides.get(space).unwrap_or(self.server)
    }

    /// Returns the setting of a request for these spaces. Objects of all spaces are told apart by
    /// the fields, so they have them always.
    pub fn in_spaces(&self, spaces: &Spaces) -> TenantFields {
        match spaces {
            Spaces::All => TenantFields::Full,
            Spaces::One(space) => self.of(space),
        }
    }

    /// Sets what a tenant's spec says: `Full`, `None` or nothing.
    pub fn set(&self, space: &Space, setting: Option<&str>) {
        let setting = match setting {
            Some("Full") => Some(TenantFields::Full),
            Some("None") => Some(TenantFields::None),
            _ => None,
        };
        self.overrides.set(space, setting);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tenants_have_their_own_setting_or_the_servers() {
        let [one, other] = ["t1", "t2"].map(|name| Space::parse(name).unwrap());
        for (server, own, expected) in [
            (TenantFields::Full, "None", TenantFields::None),
            (TenantFields::None, "Full", TenantFields::Full),
        ] {
            let table = TenantFieldsTable::new(server);
            table.set(&one, Some(own));
            assert_eq!(table.in_spaces(&Spaces::One(one.clone())), expected);
            for space in [&other, &Space::System] {
                assert_eq!(table.of(space), server, "{space}");
            }
            assert_eq!(table.in_spaces(&Spaces::All), TenantFields::Full);
            table.set(&one, None);
            assert_eq!(table.of(&one), server);
        }
    }
}
