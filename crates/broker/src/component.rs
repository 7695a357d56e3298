//! The components of a ClusterSet.

use std::collections::BTreeSet;

use crate::error::Error;

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
pub fn parse(words: &[String]) -> Result<BTreeSet<String>, Error> {
    let words = words.iter().flat_map(|list| list.split(','));
    let words = words.map(str::trim).filter(|word| !word.is_empty());
    let asked: BTreeSet<String> = words.map(str::to_owned).collect();
    let hint = || format!("there are {}", ALL.join(" and "));
    let problem = match asked.iter().find(|word| !ALL.contains(&word.as_str())) {
        Some(unknown) => format!("unknown component: {unknown}"),
        None if asked.is_empty() => {
            "at least one component must be provided for deployment".to_owned()
        }
        None => return Ok(asked),
    };
    let message = format!("invalid components parameter: {problem}");
    Err(Error::invalid_with_hint(message, hint()))
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
    fn r72_components_come_in_any_order_and_leave_sorted() {
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
    fn what_is_no_component_is_named() {
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
