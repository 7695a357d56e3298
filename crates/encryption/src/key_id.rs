use std::fmt;
use std::sync::Arc;

/// The name of a data key: the UID of a tenant, or `system`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct DataKeyId(Arc<str>);

const SYSTEM: &str = "system";

impl DataKeyId {
    /// The longest text of an ID.
    pub const MAX_BYTES: usize = 63;

    /// The data key of the system's space.
    pub fn system() -> Self {
        Self(SYSTEM.into())
    }

    /// The data key of the tenant with this UID. Returns `None` for a text that is no UID: IDs are
    /// names of files.
    pub fn tenant(uid: &str) -> Option<Self> {
        Self::parse(uid).filter(|id| !id.is_system())
    }

    /// Parses an ID from the header of a value, or the name of a record.
    pub fn parse(text: &str) -> Option<Self> {
        let inner = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
        let good = (1..=Self::MAX_BYTES).contains(&text.len()) && text.bytes().all(inner);
        good.then(|| Self(text.into()))
    }

    /// Whether it is the system's.
    pub fn is_system(&self) -> bool {
        &*self.0 == SYSTEM
    }

    /// The ID as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for DataKeyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Looks data keys up without an allocation.
impl std::borrow::Borrow<str> for DataKeyId {
    fn borrow(&self) -> &str {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_that_are_safe_as_file_names_are_ids() {
        let uid = "0f3b1b0e-4b7a-4f0e-9d55-0a3d5f1f2c11";
        assert_eq!(DataKeyId::tenant(uid).unwrap().as_str(), uid);
        assert_eq!(DataKeyId::parse("system"), Some(DataKeyId::system()));
        let long = "a".repeat(64);
        for bad in ["", "system", "..", "a/b", "a.b", "ä", &long] {
            assert_eq!(DataKeyId::tenant(bad), None, "{bad}");
        }
    }
}
