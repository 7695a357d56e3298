//! The ID of a cluster in its ClusterSet.

use std::fmt;
use std::str::FromStr;

use crate::names::is_label;

/// The ID of a cluster in its ClusterSet: a DNS label.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClusterId(String);

impl ClusterId {
    /// Derives an ID from the name of a cluster in a kubeconfig.
    ///
    /// # Errors
    ///
    /// If the name is empty or too long.
    pub fn derive(name: &str) -> Result<Self, InvalidClusterId> {
        let sign = |sign: char| match sign.to_ascii_lowercase() {
            good @ ('a'..='z' | '0'..='9') => good,
            _ => '-',
        };
        let mut signs: Vec<char> = name.chars().map(sign).collect();
        for edge in [0, signs.len().saturating_sub(1)] {
            if let Some(sign @ '-') = signs.get_mut(edge) {
                *sign = '0';
            }
        }
        signs.into_iter().collect::<String>().parse()
    }

    /// Returns the ID as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the name of the cluster's service account on the broker.
    pub fn account(&self) -> String {
        format!("cluster-{}", self.0)
    }
}

impl fmt::Display for ClusterId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The error of a text that is not a cluster ID.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "a cluster ID has at most 63 lower-case letters, digits and -, and begins and ends with a letter or digit"
)]
pub struct InvalidClusterId;

impl FromStr for ClusterId {
    type Err = InvalidClusterId;

    fn from_str(text: &str) -> Result<Self, InvalidClusterId> {
        match is_label(text) {
            true => Ok(Self(text.to_owned())),
            false => Err(InvalidClusterId),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cluster_id_is_a_dns_label() {
        let longest = "a".repeat(63);
        for good in ["east", "0", "a-b", longest.as_str()] {
            assert_eq!(good.parse::<ClusterId>().unwrap().as_str(), good);
        }
        let long = "a".repeat(64);
        for bad in ["", "A", "a_b", "a.b", "-a", "a-", "a/b", "ä", long.as_str()] {
            assert_eq!(bad.parse::<ClusterId>(), Err(InvalidClusterId), "{bad:?}");
        }
    }

    #[test]
    fn cluster_id_is_derived_from_the_kubeconfig_name() {
        for (name, id) in [
            ("east", "east"),
            ("kind-East", "kind-east"),
            ("api.example.com:6443", "api-example-com-6443"),
            ("_a_", "0a0"),
            ("-", "0"),
            ("--", "00"),
            ("arn:aws:eks:x/cluster", "arn-aws-eks-x-cluster"),
            ("größe", "gr--e"),
        ] {
            assert_eq!(ClusterId::derive(name).unwrap().as_str(), id, "{name}");
        }
        for bad in [String::new(), "a".repeat(64)] {
            assert_eq!(ClusterId::derive(&bad), Err(InvalidClusterId));
        }
    }
}
