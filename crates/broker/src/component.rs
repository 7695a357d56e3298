//! The components of a ClusterSet.

use std::collections::BTreeSet;

/// Service discovery across clusters.
pub const SERVICE_DISCOVERY: &str = "service-discovery";
/// Connectivity between pods and services of different clusters.
pub const CONNECTIVITY: &str = "connectivity";
/// Global addresses for clusters with overlapping ranges. It has a flag of its own and is
/// listed as a component only in old files.
pub const GLOBALNET: &str = "globalnet";

/// The components that can be requested.
pub const ALL: [&str; 2] = [SERVICE_DISCOVERY, CONNECTIVITY];

/// Parses requested components, given as one or several comma-separated lists.
///
/// # Errors
///
/// If none is requested, or an unknown one.
pub fn parse(words: &[String]) -> Result<BTreeSet<String>, InvalidComponents> {
    let words = words.iter().flat_map(|list| list.split(','));
    let words = words.map(str::trim).filter(|word| !word.is_empty());
    let asked: BTreeSet<String> = words.map(str::to_owned).collect();
    match asked.iter().find(|word| !ALL.contains(&word.as_str())) {
        Some(unknown) => Err(InvalidComponents::Unknown(unknown.clone())),
        None if asked.is_empty() => Err(InvalidComponents::Missing),
        None => Ok(asked),
    }
}

/// The errors of a list of components.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidComponents {
    /// The list is empty.
    #[error("invalid components parameter: at least one component must be provided for deployment")]
    Missing,
    /// The list contains an unknown component.
    #[error("invalid components parameter: unknown component: {0}")]
    Unknown(String),
}

impl InvalidComponents {
    /// Returns the valid components as a remedy.
    pub fn hint(&self) -> String {
        format!("there are {}", ALL.join(" and "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(words: &[&str]) -> Result<Vec<String>, String> {
        let words: Vec<String> = words.iter().map(|&word| word.to_owned()).collect();
        let parsed = parse(&words).map_err(|error| error.to_string())?;
        Ok(parsed.into_iter().collect())
    }

    #[test]
    fn r72_components_are_sorted() {
        let both = Ok(vec![CONNECTIVITY.to_owned(), SERVICE_DISCOVERY.to_owned()]);
        assert_eq!(parsed(&["service-discovery,connectivity"]), both);
        assert_eq!(parsed(&["service-discovery", "connectivity"]), both);
        assert_eq!(
            parsed(&["connectivity, service-discovery,", "connectivity"]),
            both
        );
        assert_eq!(parsed(&["connectivity"]), Ok(vec![CONNECTIVITY.to_owned()]));
    }

    #[test]
    fn unknown_components_are_named() {
        let none =
            "invalid components parameter: at least one component must be provided for deployment";
        for nothing in [&[][..], &[""], &[" , "]] {
            assert_eq!(parsed(nothing), Err(none.to_owned()));
        }
        for unknown in ["globalnet", "Connectivity", "x"] {
            let message = format!("invalid components parameter: unknown component: {unknown}");
            assert_eq!(parsed(&["connectivity", unknown]), Err(message));
        }
    }
}
