//! The addresses that a ClusterSet allocates to its clusters: *global* addresses, which
//! connect clusters with overlapping ranges, and ClusterSet IPs for services.
//!
//! Settings and allocations of each are stored in a ConfigMap of the broker's namespace, in
//! the format of Submariner's own programs.

mod allocations;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::ObjectMeta;

use crate::cidr::{Cidr, InvalidCidr};
use crate::error::Error;

pub use allocations::{Allocated, Allocation, AllocationRequest, Allocations};

/// The ConfigMap of global addresses.
pub const GLOBALNET_INFO: &str = "submariner-globalnet-info";
/// The ConfigMap of ClusterSet IPs.
pub const CLUSTERSET_IP_INFO: &str = "submariner-clustersetip-info";

/// The default range of global addresses.
pub const GLOBALNET_RANGE: &str = "242.0.0.0/8";
/// The default number of global addresses per cluster.
pub const GLOBALNET_CLUSTER_SIZE: u32 = 65_536;
/// The default range of ClusterSet IPs.
pub const CLUSTERSET_IP_RANGE: &str = "243.0.0.0/8";
/// The number of ClusterSet IPs per cluster.
pub(crate) const CLUSTERSET_IP_CLUSTER_SIZE: u32 = 4096;

const LABEL: (&str, &str) = ("component", "submariner-globalnet");

/// The keys of the globalnet ConfigMap.
const GLOBALNET_KEYS: Keys = Keys {
    enabled: "globalnetEnabled",
    range: "globalnetCidrRange",
    size: "globalnetClusterSize",
};
/// The keys of the ClusterSet IP ConfigMap.
const CLUSTERSET_IP_KEYS: Keys = Keys {
    enabled: "clustersetIPEnabled",
    range: "clustersetIPCidrRange",
    size: "clustersetIPClusterSize",
};

/// The settings of global addresses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Globalnet {
    /// Whether clusters get global addresses.
    pub enabled: bool,
    /// The range that they are allocated from.
    pub range: Cidr,
    /// The default number of addresses per cluster: a power of two.
    pub cluster_size: u32,
}

impl Globalnet {
    /// Validates requested settings. Range and size matter only if it is enabled.
    ///
    /// # Errors
    ///
    /// If the range or the size is invalid.
    pub fn validate(enabled: bool, range: &str, cluster_size: u32) -> Result<Self, Error> {
        if !enabled {
            return Ok(Self::disabled());
        }
        let wrong = |problem: String| invalid_globalnet(&problem);
        let range = parse_range(range).map_err(wrong)?;
        let cluster_size = block_size(&range, cluster_size).map_err(wrong)?;
        Ok(Self {
            enabled,
            range,
            cluster_size,
        })
    }

    /// Returns the settings without global addresses.
    pub fn disabled() -> Self {
        Self {
            enabled: false,
            range: default_range(GLOBALNET_RANGE),
            cluster_size: GLOBALNET_CLUSTER_SIZE,
        }
    }

    /// Returns the number of addresses for a cluster that requests `wanted`, or the default.
    ///
    /// # Errors
    ///
    /// If it is more than half of the range.
    pub(crate) fn size_for(&self, wanted: Option<u32>) -> Result<u32, Error> {
        let wanted = wanted.unwrap_or(self.cluster_size);
        block_size(&self.range, wanted).map_err(|problem| invalid_globalnet(&problem))
    }

    /// Builds the ConfigMap, without allocations.
    pub fn config_map(&self, namespace: &str) -> ConfigMap {
        let mut data = vec![(GLOBALNET_KEYS.enabled, self.enabled.to_string())];
        if self.enabled {
            data.push((GLOBALNET_KEYS.range, quoted(&self.range)));
            data.push((GLOBALNET_KEYS.size, self.cluster_size.to_string()));
        }
        let mut made = config_map(GLOBALNET_INFO, namespace, data);
        let label = (LABEL.0.to_owned(), LABEL.1.to_owned());
        made.metadata.labels = Some(BTreeMap::from([label]));
        made
    }

    /// Reads and validates a ConfigMap.
    ///
    /// # Errors
    ///
    /// If it is enabled and the settings are missing or invalid.
    pub fn read(found: &ConfigMap) -> Result<Self, Error> {
        let settings = Self::read_unvalidated(found)?;
        let validated = match settings.enabled {
            true => check_usable(&settings.range),
            false => Ok(()),
        };
        validated.map_err(|problem| invalid_range(&problem))?;
        Ok(settings)
    }

    /// Reads a ConfigMap without validating the range: the first brokers allocated link-local
    /// addresses.
    ///
    /// # Errors
    ///
    /// If it is enabled and the settings are missing.
    pub(crate) fn read_unvalidated(found: &ConfigMap) -> Result<Self, Error> {
        let wrong = |problem: String| unusable(GLOBALNET_INFO, &problem);
        if !GLOBALNET_KEYS.is_on(found).map_err(wrong)? {
            return Ok(Self::disabled());
        }
        let range = GLOBALNET_KEYS.range_of(found);
        let range = range.map_err(|problem| invalid_range(&problem))?;
        let size = GLOBALNET_KEYS.size_of(found).map_err(wrong)?;
        let size = size.filter(|&size| size > 0);
        Ok(Self {
            enabled: true,
            range,
            cluster_size: size.unwrap_or(GLOBALNET_CLUSTER_SIZE),
        })
    }
}

/// The settings of ClusterSet IPs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClustersetIp {
    /// Whether services get one by default.
    pub enabled: bool,
    /// The range that they are allocated from.
    pub range: Cidr,
}

impl ClustersetIp {
    /// Validates requested settings. The range is validated even if it is disabled: a service
    /// may request an address explicitly.
    ///
    /// # Errors
    ///
    /// If the range is invalid.
    pub fn validate(enabled: bool, range: &str) -> Result<Self, Error> {
        let range = parse_range(range);
        let range = range.map_err(|problem| {
            Error::invalid(format!("invalid ClustersetIP configuration: {problem}"))
        })?;
        Ok(Self { enabled, range })
    }

    /// Returns the settings with the default range, disabled by default.
    pub fn disabled() -> Self {
        Self {
            enabled: false,
            range: default_range(CLUSTERSET_IP_RANGE),
        }
    }

    /// Builds the ConfigMap, without allocations.
    pub fn config_map(&self, namespace: &str) -> ConfigMap {
        let data = vec![
            (CLUSTERSET_IP_KEYS.enabled, self.enabled.to_string()),
            (CLUSTERSET_IP_KEYS.range, quoted(&self.range)),
            // Clusters request the size they need.
            (CLUSTERSET_IP_KEYS.size, "0".to_owned()),
        ];
        config_map(CLUSTERSET_IP_INFO, namespace, data)
    }

    /// Reads and validates a ConfigMap.
    ///
    /// # Errors
    ///
    /// If the settings are missing or invalid.
    pub fn read(found: &ConfigMap) -> Result<Self, Error> {
        let wrong = |problem: String| unusable(CLUSTERSET_IP_INFO, &problem);
        let enabled = CLUSTERSET_IP_KEYS.is_on(found).map_err(wrong)?;
        let range = CLUSTERSET_IP_KEYS.range_of(found).map_err(wrong)?;
        check_usable(&range).map_err(wrong)?;
        Ok(Self { enabled, range })
    }

    /// Returns the number of addresses per cluster: the ConfigMap's, else the default.
    ///
    /// # Errors
    ///
    /// If the value is not a number.
    pub fn cluster_size(found: &ConfigMap) -> Result<u32, Error> {
        let size = CLUSTERSET_IP_KEYS.size_of(found);
        let size = size.map_err(|problem| unusable(CLUSTERSET_IP_INFO, &problem))?;
        Ok(size
            .filter(|&size| size > 0)
            .unwrap_or(CLUSTERSET_IP_CLUSTER_SIZE))
    }
}

/// The keys of a ConfigMap.
struct Keys {
    enabled: &'static str,
    range: &'static str,
    size: &'static str,
}

impl Keys {
    fn is_on(&self, found: &ConfigMap) -> Result<bool, String> {
        match value(found, self.enabled) {
            Some("true") => Ok(true),
            Some("false") | None => Ok(false),
            Some(_) => Err(format!("{} must be true or false", self.enabled)),
        }
    }

    /// Returns the range, which programs write as a JSON string and users often write plain.
    fn range_of(&self, found: &ConfigMap) -> Result<Cidr, String> {
        let written = value(found, self.range).unwrap_or_default();
        let range = serde_json::from_str::<String>(written);
        let range = range.unwrap_or_else(|_| written.to_owned());
        range.parse().map_err(|it: InvalidCidr| it.to_string())
    }

    fn size_of(&self, found: &ConfigMap) -> Result<Option<u32>, String> {
        let size = value(found, self.size).map(str::parse);
        size.transpose()
            .map_err(|_| format!("{} is not a number", self.size))
    }
}

fn value<'a>(found: &'a ConfigMap, key: &str) -> Option<&'a str> {
    let value = found.data.as_ref()?.get(key)?;
    Some(value.trim())
}

fn default_range(range: &str) -> Cidr {
    range.parse().expect("the constants above are ranges")
}

/// Parses and validates a range.
fn parse_range(range: &str) -> Result<Cidr, String> {
    let range = range.parse().map_err(|it: InvalidCidr| it.to_string())?;
    check_usable(&range)?;
    Ok(range)
}

fn check_usable(range: &Cidr) -> Result<(), String> {
    range.check_usable().map_err(|it| it.to_string())?;
    match range.span() {
        Some(_) => Ok(()),
        None => Err(format!("{range} is not IPv4")),
    }
}

fn invalid_range(problem: &str) -> Error {
    unusable(
        GLOBALNET_INFO,
        &format!("invalid GlobalnetCidrRange: {problem}"),
    )
}

/// Returns the block size for a number of addresses; the range must have room for two blocks.
fn block_size(range: &Cidr, cluster_size: u32) -> Result<u32, String> {
    let max_size = range.span().map_or(0, |span| span.length / 2);
    let block = u64::from(cluster_size).next_power_of_two();
    match u32::try_from(block) {
        _ if cluster_size == 0 => Err("cluster size must be > 0".to_owned()),
        Ok(size) if block <= max_size => Ok(size),
        _ => Err(format!(
            "cluster size {cluster_size}, should be <= {max_size}"
        )),
    }
}

fn invalid_globalnet(problem: &str) -> Error {
    Error::invalid(format!("invalid GlobalCIDR configuration: {problem}"))
}

fn unusable(name: &str, problem: &str) -> Error {
    Error::invalid_with_hint(
        format!("the ConfigMap {name} of the broker cannot be used: {problem}"),
        "fix it, or delete it and run `subctl deploy broker` again",
    )
}

fn quoted(range: &Cidr) -> String {
    format!("\"{range}\"")
}

fn config_map(name: &str, namespace: &str, data: Vec<(&str, String)>) -> ConfigMap {
    let data = data.into_iter().map(|(key, value)| (key.to_owned(), value));
    ConfigMap {
        metadata: ObjectMeta {
            name: Some(name.to_owned()),
            namespace: Some(namespace.to_owned()),
            ..ObjectMeta::default()
        },
        data: Some(data.collect()),
        ..ConfigMap::default()
    }
}
