//! The two contracts between Cluster API and its providers, `v1beta1` and `v1beta2`: how a provider
//! announces the versions of its kinds, and how it reports that infrastructure is provisioned.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// A version of the contract.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Contract {
    /// `status.ready`, terminal failures in `status.failureReason`, conditions with a severity.
    V1Beta1,
    /// `status.initialization.provisioned`, and the conditions of Kubernetes.
    V1Beta2,
}

impl Contract {
    /// All contracts, oldest first.
    pub const ALL: [Self; 2] = [Self::V1Beta1, Self::V1Beta2];

    /// Returns its label on CustomResourceDefinitions, which lists the versions that follow it.
    pub fn label(self) -> &'static str {
        match self {
            Self::V1Beta1 => "cluster.x-k8s.io/v1beta1",
            Self::V1Beta2 => "cluster.x-k8s.io/v1beta2",
        }
    }

    /// Returns the versions that follow it, by the labels of a definition.
    pub fn versions(self, labels: &BTreeMap<String, String>) -> Vec<&str> {
        let value = labels.get(self.label()).map_or("", String::as_str);
        let versions = value.split('_');
        versions.filter(|version| !version.is_empty()).collect()
    }

    /// Returns the label for a definition with the versions that follow it.
    pub fn to_label(self, versions: &[&str]) -> (String, String) {
        (self.label().to_owned(), versions.join("_"))
    }
}

/// Initialization steps of infrastructure; once true, they stay true.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Initialization {
    /// The infrastructure was provisioned.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provisioned: Option<bool>,
}

/// Reports provisioned infrastructure in the fields of both contracts. What either of them
/// reported before stays, because Cluster API does not take it back either.
pub fn latch_provisioned(
    ready: &mut Option<bool>,
    initialization: &mut Option<Initialization>,
    is_provisioned: bool,
) {
    let before = *ready == Some(true) || initialization.is_some_and(|once| once.is_done());
    if is_provisioned || before {
        *ready = Some(true);
        *initialization = Some(Initialization {
            provisioned: Some(true),
        });
    }
}

impl Initialization {
    /// Returns whether the infrastructure was provisioned.
    pub fn is_done(&self) -> bool {
        self.provisioned == Some(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn label_lists_versions_with_underscores() {
        for (contract, versions, label, value) in [
            (
                Contract::V1Beta1,
                &["v1alpha5", "v1beta1"][..],
                "cluster.x-k8s.io/v1beta1",
                "v1alpha5_v1beta1",
            ),
            (
                Contract::V1Beta2,
                &["v1beta2"],
                "cluster.x-k8s.io/v1beta2",
                "v1beta2",
            ),
            (Contract::V1Beta2, &[], "cluster.x-k8s.io/v1beta2", ""),
        ] {
            let made = contract.to_label(versions);
            assert_eq!(made, (label.to_owned(), value.to_owned()));
            let labels = BTreeMap::from([made]);
            assert_eq!(contract.versions(&labels), versions);
        }
        for contract in Contract::ALL {
            assert_eq!(contract.versions(&BTreeMap::new()), Vec::<&str>::new());
        }
    }

    #[test]
    fn provisioned_is_latched_in_the_fields_of_both_contracts() {
        let once = |provisioned| Some(Initialization { provisioned });
        let done = (Some(true), once(Some(true)));
        for (ready, initialization, is_provisioned, expected) in [
            (None, None, false, (None, None)),
            (None, None, true, done),
            (Some(true), None, false, done),
            (None, once(Some(true)), false, done),
            (Some(true), once(Some(true)), false, done),
            (Some(false), once(Some(true)), false, done),
            (Some(false), once(None), false, (Some(false), once(None))),
            (Some(false), once(Some(false)), true, done),
        ] {
            let (mut ready, mut initialization) = (ready, initialization);
            latch_provisioned(&mut ready, &mut initialization, is_provisioned);
            assert_eq!((ready, initialization), expected);
        }
    }
}
