//! Names and keys of the Secrets next to a host.

/// The content of a Secret next to a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DataSecret {
    /// Metadata.
    Metadata,
    /// Network data.
    NetworkData,
    /// A copy of the user data.
    UserData,
}

impl DataSecret {
    /// Returns the name of the Secret for a machine. The copy of user data has a name of its own:
    /// the host may be next to the original, which is not the machine's to delete.
    pub fn name(self, machine: &str) -> String {
        match self {
            Self::Metadata => format!("{machine}-metadata"),
            Self::NetworkData => format!("{machine}-networkdata"),
            Self::UserData => format!("{machine}-userdata"),
        }
    }

    /// Returns the key of the content; a copy of user data has the keys of the original.
    pub fn key(self) -> &'static str {
        match self {
            Self::Metadata => "metaData",
            Self::NetworkData => "networkData",
            Self::UserData => "value",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_the_machine() {
        let all = [
            DataSecret::Metadata,
            DataSecret::NetworkData,
            DataSecret::UserData,
        ];
        assert_eq!(
            all.map(|one| one.name("m-1")),
            ["m-1-metadata", "m-1-networkdata", "m-1-userdata"]
        );
        assert_eq!(
            all.map(DataSecret::key),
            ["metaData", "networkData", "value"]
        );
    }
}
