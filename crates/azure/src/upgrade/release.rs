//! Releases of operators and definitions, and which of them run together.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use super::Definition;
use crate::names::{RELEASE, VERSION_LABEL};

/// The label with the name of a program.
pub(crate) const NAME_LABEL: &str = "app.kubernetes.io/name";
/// The label that definitions of older releases of Azure Service Operator have instead.
const OLDER_VERSION_LABEL: &str = "serviceoperator.azure.com/version";
/// The name of this operator in labels.
pub(crate) const INSULA: &str = "insula-azure-operator";
/// The name that the manifests of this operator have in labels.
pub(crate) const INSULA_MANIFESTS: &str = "azureoperator";
/// The name of Azure Service Operator in labels.
pub(crate) const AZURE_SERVICE_OPERATOR: &str = "azure-service-operator";
/// The release of Azure Service Operator that the table describes.
const TABLE: (u64, u64, u64) = (2, 20, 0);
/// The first major version of Azure Service Operator with the groups `*.azure.com`.
const FIRST_MAJOR: u64 = 2;

/// A program that reconciles resources of Azure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Product {
    /// This one.
    Insula,
    /// Azure Service Operator.
    AzureServiceOperator,
}

/// A release of a product.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Release {
    product: Product,
    number: (u64, u64, u64),
    /// What follows the number; a final release comes after those with one.
    suffix: Suffix,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Suffix(String);

impl Ord for Suffix {
    fn cmp(&self, other: &Self) -> Ordering {
        let final_first = self.0.is_empty().cmp(&other.0.is_empty());
        final_first.then_with(|| self.0.cmp(&other.0))
    }
}

impl PartialOrd for Suffix {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// A text that is no release.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected a release such as v2.20.0")]
pub struct InvalidRelease;

/// Parses a release such as `v2.20.0`. Releases below 2 are this program's, because those of Azure
/// Service Operator with these kinds begin there.
impl FromStr for Release {
    type Err = InvalidRelease;

    fn from_str(text: &str) -> Result<Self, InvalidRelease> {
        let number = text.strip_prefix('v').unwrap_or(text);
        let end = number.find(['-', '+']).unwrap_or(number.len());
        let (number, suffix) = number.split_at(end);
        let parts: Result<Vec<u64>, _> = number.split('.').map(str::parse).collect();
        let [major, minor, patch] = parts.map_err(|_| InvalidRelease)?[..] else {
            return Err(InvalidRelease);
        };
        // A suffix after a plus sign says how the release was built.
        let suffix = suffix.split('+').next().unwrap_or_default();
        Ok(Self {
            product: match major >= FIRST_MAJOR {
                true => Product::AzureServiceOperator,
                false => Product::Insula,
            },
            number: (major, minor, patch),
            suffix: Suffix(suffix.to_owned()),
        })
    }
}

impl fmt::Display for Release {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (major, minor, patch) = self.number;
        write!(out, "v{major}.{minor}.{patch}{}", self.suffix.0)
    }
}

/// Whether an operator of a release runs with a definition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fit {
    /// It does.
    Fits,
    /// The definition does not serve the version that the operator needs.
    Lacks(String),
    /// The definition is of this release, which is older.
    Older(Release),
    /// The labels of the definition do not say its release, or it is one of another product.
    NotKnown,
}

impl Release {
    /// Returns the release of this program.
    ///
    /// # Panics
    ///
    /// Never: a test parses it.
    pub fn own() -> Self {
        RELEASE.parse().expect("the program's own release is valid")
    }

    /// Reads the labels of a Deployment or a definition.
    pub fn of_labels(labels: &BTreeMap<String, String>) -> Option<Self> {
        let version = labels.get(VERSION_LABEL);
        let version = version.or_else(|| labels.get(OLDER_VERSION_LABEL));
        let release: Self = version?.parse().ok()?;
        Some(match labels.get(NAME_LABEL).map(String::as_str) {
            Some(AZURE_SERVICE_OPERATOR) => release.of(Product::AzureServiceOperator),
            Some(INSULA | INSULA_MANIFESTS) => release.of(Product::Insula),
            _ => release,
        })
    }

    /// Returns the release that a definition is part of, if its labels say so.
    pub fn of_definition(definition: &Definition) -> Option<Self> {
        Self::of_labels(&definition.metadata.labels)
    }

    fn of(self, product: Product) -> Self {
        Self { product, ..self }
    }

    /// Returns whether the table says which versions the release needs.
    fn is_of_table(&self) -> bool {
        match self.product {
            Product::Insula => *self == Self::own(),
            Product::AzureServiceOperator => self.number == TABLE && self.suffix.0.is_empty(),
        }
    }

    /// Returns whether this release is older than another one of the same product; none if they
    /// are of two products.
    pub fn is_older_than(&self, other: &Self) -> Option<bool> {
        (self.product == other.product).then_some(self < other)
    }

    /// Returns whether an operator of this release runs with a definition.
    pub fn runs_with(&self, definition: &Definition) -> Fit {
        if self.is_of_table() {
            let needed = definition.known().map(|kind| kind.storage_version());
            // Objects of other kinds are not reconciled.
            let Some(needed) = needed else {
                return Fit::Fits;
            };
            return match definition.served_versions().any(|it| it == needed) {
                true => Fit::Fits,
                false => Fit::Lacks(needed.to_owned()),
            };
        }
        let Some(of) = Self::of_definition(definition) else {
            return Fit::NotKnown;
        };
        match of.is_older_than(self) {
            Some(true) => Fit::Older(of),
            Some(false) => Fit::Fits,
            None => Fit::NotKnown,
        }
    }

    /// Returns whether an operator of this release knows the version in which a definition stores
    /// objects; none if that is not known.
    pub fn knows_storage_of(&self, definition: &Definition) -> Option<bool> {
        let Some(kind) = definition.known() else {
            return Some(true);
        };
        if self.is_of_table() {
            return Some(kind.version(definition.storage_version()).is_some());
        }
        // This program's definitions have no release of Azure Service Operator, and the reverse.
        let of = Self::of_definition(definition)?;
        self.is_older_than(&of).map(|is_older| !is_older)
    }

    /// Returns the version of a definition that an operator of this release reads and writes, if
    /// it is known.
    pub fn needed_version(&self, definition: &Definition) -> Option<&'static str> {
        let kind = definition.known()?;
        self.is_of_table().then(|| kind.storage_version())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table;
    use crate::upgrade::definitions::sample;

    fn release(text: &str) -> Release {
        text.parse().unwrap()
    }

    #[test]
    fn releases_are_in_the_order_of_their_numbers() {
        let sorted = ["v2.9.0", "v2.20.0-beta.1", "v2.20.0", "v2.20.1", "v3.0.0"];
        let mut releases: Vec<_> = sorted.iter().rev().map(|text| release(text)).collect();
        releases.sort();
        let texts: Vec<_> = releases.iter().map(ToString::to_string).collect();
        assert_eq!(texts, sorted);
        assert_eq!(release("2.20.0+build"), release("v2.20.0"));
        for invalid in ["", "v2", "2.20", "v2.20.x", "latest"] {
            assert_eq!(invalid.parse::<Release>(), Err(InvalidRelease), "{invalid}");
        }
    }

    #[test]
    fn products_are_not_compared() {
        assert_eq!(Release::own().to_string(), RELEASE);
        assert_eq!(Release::own().is_older_than(&release("v2.20.0")), None);
        let older = release("v2.19.0").is_older_than(&release("v2.20.0"));
        assert_eq!(older, Some(true));
    }

    #[test]
    fn release_of_the_table_needs_its_storage_version() {
        let kind = table::find("network.azure.com", "VirtualNetwork").unwrap();
        let storage = kind.storage_version();
        let current = sample(kind, &["v1api20240301storage", storage], &[storage]);
        let older = sample(kind, &["v1api20240301storage"], &["v1api20240301storage"]);
        for one in [Release::own(), release("v2.20.0")] {
            assert_eq!(one.runs_with(&current), Fit::Fits);
            assert_eq!(one.runs_with(&older), Fit::Lacks(storage.to_owned()));
            assert_eq!(one.knows_storage_of(&current), Some(true));
        }
        assert_eq!(release("v2.21.0").runs_with(&current), Fit::NotKnown);
        assert_eq!(release("v2.21.0").knows_storage_of(&current), None);
    }

    #[test]
    fn other_releases_are_compared_with_the_label_of_the_definition() {
        let kind = table::find("network.azure.com", "VirtualNetwork").unwrap();
        let mut definition = sample(kind, &[kind.storage_version()], &[]);
        let labels = &mut definition.metadata.labels;
        labels.insert(VERSION_LABEL.to_owned(), "v2.19.0".to_owned());
        assert_eq!(release("v2.18.0").runs_with(&definition), Fit::Fits);
        assert_eq!(
            release("v2.18.0").knows_storage_of(&definition),
            Some(false)
        );
        assert_eq!(release("v2.19.0").knows_storage_of(&definition), Some(true));
        let fit = release("v2.21.0").runs_with(&definition);
        assert_eq!(fit, Fit::Older(release("v2.19.0")));
    }
}
