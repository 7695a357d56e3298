//! The ResourceQuota of a broker tenant's namespace: how many objects it may have.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

/// Numbers of objects, by their name in a ResourceQuota: `count/RESOURCE.GROUP`.
pub type Amounts = BTreeMap<String, i64>;

/// The default amounts: one for each resource that the tenant's administrator may create.
///
/// They fit a ClusterSet of 256 clusters, which is how many the default range of global
/// addresses has room for, with 1,000 exported services.
pub const DEFAULTS: [(&str, i64); 11] = [
    // Submariner's own programs delete and create the one Broker to change it.
    ("count/brokers.submariner.io", 4),
    ("count/clusters.submariner.io", 256),
    // A second gateway of a cluster publishes its endpoint before the first one's is deleted.
    ("count/endpoints.submariner.io", 512),
    ("count/serviceimports.multicluster.x-k8s.io", 1_000),
    ("count/serviceexports.multicluster.x-k8s.io", 1_000),
    // One for each service in each cluster that exports it, and more for headless ones.
    ("count/endpointslices.discovery.k8s.io", 5_000),
    // One for each cluster; the rest is for the broker and the server.
    ("count/serviceaccounts", 288),
    ("count/rolebindings.rbac.authorization.k8s.io", 288),
    // One token for each account; OpenShift adds up to two Secrets for each.
    ("count/secrets", 900),
    ("count/configmaps", 32),
    ("count/roles.rbac.authorization.k8s.io", 32),
];

/// The prefix of the names in a quota.
const COUNT: &str = "count/";

/// Returns the amounts of a tenant: those of its spec, and the defaults for all others.
pub fn effective(requested: Option<&Amounts>) -> Amounts {
    let defaults = DEFAULTS.map(|(name, amount)| (name.to_owned(), amount));
    let mut amounts = Amounts::from(defaults);
    amounts.extend(
        requested
            .into_iter()
            .flatten()
            .map(|(k, v)| (k.clone(), *v)),
    );
    amounts
}

/// The reasons why a text is not a list of amounts.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidQuota {
    /// A part is not `NAME=NUMBER`.
    #[error("{0:?} is not NAME=NUMBER, as in count/secrets=100")]
    Form(String),
    /// The name does not count objects.
    #[error("{0:?} does not count objects: a name is count/RESOURCE.GROUP, as in count/secrets")]
    Name(String),
    /// A name occurs twice.
    #[error("duplicate {0}")]
    Duplicate(String),
}

/// Parses `NAME=NUMBER,NAME=NUMBER`.
///
/// # Errors
///
/// If a part has another form, or a name does not count objects or occurs twice.
pub fn parse(text: &str) -> Result<Amounts, InvalidQuota> {
    let mut amounts = Amounts::new();
    for part in text.split(',') {
        let form = || InvalidQuota::Form(part.to_owned());
        let (name, amount) = part.split_once('=').ok_or_else(form)?;
        let amount: i64 = amount.parse().map_err(|_| form())?;
        if amount < 0 {
            return Err(form());
        }
        if name.strip_prefix(COUNT).is_none_or(str::is_empty) {
            return Err(InvalidQuota::Name(name.to_owned()));
        }
        if amounts.insert(name.to_owned(), amount).is_some() {
            return Err(InvalidQuota::Duplicate(name.to_owned()));
        }
    }
    Ok(amounts)
}

/// Returns the amounts as in a ResourceQuota.
pub(crate) fn quantities(amounts: &Amounts) -> BTreeMap<String, Quantity> {
    let amounts = amounts.iter();
    amounts
        .map(|(name, amount)| (name.clone(), Quantity(amount.to_string())))
        .collect()
}

/// Returns whether a ResourceQuota has exactly these amounts. Servers write 1000 as `1k`.
pub(crate) fn is_same(found: Option<&BTreeMap<String, Quantity>>, wanted: &Amounts) -> bool {
    let found = found.into_iter().flatten();
    let found: Option<Amounts> = found
        .map(|(name, quantity)| Some((name.clone(), number(&quantity.0)?)))
        .collect();
    found.as_ref() == Some(wanted)
}

/// Reads a whole number as Kubernetes writes it: with a decimal suffix if that is shorter.
fn number(text: &str) -> Option<i64> {
    let end = text.find(|sign: char| !sign.is_ascii_digit());
    let (digits, suffix) = text.split_at(end.unwrap_or(text.len()));
    let exponent = match suffix {
        "" => 0,
        "k" => 3,
        "M" => 6,
        "G" => 9,
        "T" => 12,
        "P" => 15,
        "E" => 18,
        _ => return None,
    };
    let digits: i64 = digits.parse().ok()?;
    digits.checked_mul(10_i64.checked_pow(exponent)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::roles;

    #[test]
    fn every_resource_that_an_administrator_may_create_has_a_default() {
        let mut creatable: Vec<String> = Vec::new();
        for rule in roles::tenant_admin("n") {
            if !rule.verbs.contains(&"create".to_owned()) {
                continue;
            }
            for group in rule.api_groups.iter().flatten() {
                let resources = rule.resources.iter().flatten();
                creatable.extend(resources.filter(|it| !it.contains('/')).map(|resource| {
                    match group.as_str() {
                        "" => format!("{COUNT}{resource}"),
                        group => format!("{COUNT}{resource}.{group}"),
                    }
                }));
            }
        }
        creatable.sort();
        let mut bounded = DEFAULTS.map(|(name, _)| name.to_owned());
        bounded.sort();
        assert_eq!(creatable, bounded);
    }

    #[test]
    fn requested_amounts_replace_defaults_by_name() {
        let requested = parse("count/secrets=7,count/widgets.example.com=0").unwrap();
        let amounts = effective(Some(&requested));
        assert_eq!(amounts.len(), DEFAULTS.len() + 1);
        assert_eq!(amounts["count/secrets"], 7);
        assert_eq!(amounts["count/widgets.example.com"], 0);
        assert_eq!(amounts["count/clusters.submariner.io"], 256);
        assert_eq!(effective(None).len(), DEFAULTS.len());
    }

    #[test]
    fn quota_is_a_list_of_counts() {
        let expected = [("count/a".to_owned(), 1), ("count/b.c".to_owned(), 20)];
        assert_eq!(parse("count/a=1,count/b.c=20"), Ok(expected.into()));
        for (text, problem) in [
            ("", InvalidQuota::Form(String::new())),
            ("count/a", InvalidQuota::Form("count/a".to_owned())),
            ("count/a=x", InvalidQuota::Form("count/a=x".to_owned())),
            ("count/a=-1", InvalidQuota::Form("count/a=-1".to_owned())),
            ("secrets=1", InvalidQuota::Name("secrets".to_owned())),
            ("count/=1", InvalidQuota::Name("count/".to_owned())),
            (
                "count/a=1,count/a=1",
                InvalidQuota::Duplicate("count/a".to_owned()),
            ),
        ] {
            assert_eq!(parse(text), Err(problem));
        }
    }

    #[test]
    fn quantities_are_compared_by_value() {
        let wanted = Amounts::from([("count/a".to_owned(), 5_000), ("count/b".to_owned(), 1_500)]);
        let found = |a: &str, b: &str| {
            let pairs = [("count/a", a), ("count/b", b)];
            BTreeMap::from(pairs.map(|(name, text)| (name.to_owned(), Quantity(text.to_owned()))))
        };
        assert!(is_same(Some(&found("5k", "1500")), &wanted));
        assert!(is_same(Some(&quantities(&wanted)), &wanted));
        for (a, b) in [
            ("5k", "1501"),
            ("5", "1500"),
            ("5k", "1.5k"),
            ("5k", ""),
            ("5Ki", "1500"),
        ] {
            assert!(!is_same(Some(&found(a, b)), &wanted), "{a} {b}");
        }
        assert!(!is_same(None, &wanted));
        let mut more = quantities(&wanted);
        more.insert("count/c".to_owned(), Quantity("1".to_owned()));
        assert!(!is_same(Some(&more), &wanted));
        assert_eq!(number("9E"), Some(9_000_000_000_000_000_000));
        assert_eq!(number("10E"), None);
    }
}
