//! Names and owners of the Secrets next to a host.

use std::collections::BTreeMap;

use crate::names::OWNER_ANNOTATION;

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

/// Returns the value of the annotation with the owner of a Secret, which cannot be an owner
/// reference: the owner is in another namespace or cluster.
pub fn owner(machine_namespace: &str, machine: &str) -> String {
    format!("Metal3Machine/{machine_namespace}/{machine}")
}

/// Returns whether a Secret with these annotations belongs to a machine. The Secret of another
/// owner is neither used nor changed nor deleted: machines of two teams can have one name.
pub fn is_owned(
    annotations: Option<&BTreeMap<String, String>>,
    machine_namespace: &str,
    machine: &str,
) -> bool {
    let found = annotations.and_then(|annotations| annotations.get(OWNER_ANNOTATION));
    found.is_some_and(|found| *found == owner(machine_namespace, machine))
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

    #[test]
    fn secret_of_another_owner_is_told_apart() {
        let annotated =
            |value: &str| BTreeMap::from([(OWNER_ANNOTATION.to_owned(), value.to_owned())]);
        for (annotations, is_own) in [
            (Some(annotated("Metal3Machine/team-a/m-1")), true),
            (Some(annotated("Metal3Machine/team-b/m-1")), false),
            (Some(annotated("Metal3Machine/team-a/m-2")), false),
            (Some(annotated("Metal3Data/team-a/m-1")), false),
            (Some(BTreeMap::new()), false),
            (None, false),
        ] {
            assert_eq!(is_owned(annotations.as_ref(), "team-a", "m-1"), is_own);
        }
        assert_eq!(owner("team-a", "m-1"), "Metal3Machine/team-a/m-1");
    }
}
