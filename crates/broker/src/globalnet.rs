//! The addresses that a ClusterSet gives to its clusters: *global* ones, through which
//! clusters reach each other whose own addresses overlap, and those of services of the
//! whole set.
//!
//! Both are kept in a ConfigMap of the broker's namespace, in the form that Submariner's own
//! programs read and write: how they are given, and who has which.

mod ledger;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::ObjectMeta;

use crate::cidr::{Cidr, NotACidr};
use crate::error::Error;

pub use ledger::{Entry, Given, Ledger, Wish};

/// The ConfigMap of global addresses.
pub const GLOBALNET_INFO: &str = "submariner-globalnet-info";
/// The ConfigMap of addresses of services of the set.
pub const CLUSTERSET_IP_INFO: &str = "submariner-clustersetip-info";

/// Where global addresses are from unless somebody says otherwise.
pub const GLOBALNET_RANGE: &str = "242.0.0.0/8";
/// How many of them a cluster gets unless somebody says otherwise.
pub const GLOBALNET_CLUSTER_SIZE: u32 = 65_536;
/// Where addresses of services of the set are from unless somebody says otherwise.
pub const CLUSTERSET_IP_RANGE: &str = "243.0.0.0/8";
/// How many of them a cluster gets.
pub const CLUSTERSET_IP_CLUSTER_SIZE: u32 = 4096;

const LABEL: (&str, &str) = ("component", "submariner-globalnet");

/// What the values in the ConfigMap of global addresses are called.
const GLOBALNET_KEYS: Keys = Keys {
    enabled: "globalnetEnabled",
    range: "globalnetCidrRange",
    size: "globalnetClusterSize",
};
/// The same for the other one.
const CLUSTERSET_IP_KEYS: Keys = Keys {
    enabled: "clustersetIPEnabled",
    range: "clustersetIPCidrRange",
    size: "clustersetIPClusterSize",
};

/// How global addresses are given to clusters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Globalnet {
    /// Whether they are.
    pub enabled: bool,
    /// Where they are from.
    pub range: Cidr,
    /// How many a cluster gets that does not say: a power of two.
    pub cluster_size: u32,
}

impl Globalnet {
    /// What somebody asks for. Only what is switched on is judged.
    ///
    /// # Errors
    ///
    /// What cannot be.
    pub fn validate(enabled: bool, range: &str, cluster_size: u32) -> Result<Self, Error> {
        if !enabled {
            return Ok(Self::off());
        }
        let wrong = |problem: String| in_globalnet(&problem);
        let range = typed(range).map_err(wrong)?;
        let cluster_size = fitting(&range, cluster_size).map_err(wrong)?;
        Ok(Self {
            enabled,
            range,
            cluster_size,
        })
    }

    /// No global addresses.
    pub fn off() -> Self {
        Self {
            enabled: false,
            range: usual(GLOBALNET_RANGE),
            cluster_size: GLOBALNET_CLUSTER_SIZE,
        }
    }

    /// How many addresses a cluster gets that wants so many, or does not say.
    ///
    /// # Errors
    ///
    /// If that is more than half of all.
    pub fn size_for(&self, wanted: Option<u32>) -> Result<u32, Error> {
        let wanted = wanted.unwrap_or(self.cluster_size);
        fitting(&self.range, wanted).map_err(|problem| in_globalnet(&problem))
    }

    /// The ConfigMap that says so, before any cluster has joined.
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

    /// What a ConfigMap says, if that can be.
    ///
    /// # Errors
    ///
    /// If they are switched on and it does not say how they are given, or not so that they
    /// can be.
    pub fn read(found: &ConfigMap) -> Result<Self, Error> {
        let said = Self::said(found)?;
        let judged = match said.enabled {
            true => usable(&said.range),
            false => Ok(()),
        };
        judged.map_err(|problem| wrong_range(&problem))?;
        Ok(said)
    }

    /// What a ConfigMap says, also if nobody may say so any more: the first brokers gave
    /// addresses of the link.
    ///
    /// # Errors
    ///
    /// If they are switched on and it does not say how they are given.
    pub fn said(found: &ConfigMap) -> Result<Self, Error> {
        let wrong = |problem: String| unreadable(GLOBALNET_INFO, &problem);
        if !GLOBALNET_KEYS.is_on(found).map_err(wrong)? {
            return Ok(Self::off());
        }
        let range = GLOBALNET_KEYS.range_of(found);
        let range = range.map_err(|problem| wrong_range(&problem))?;
        let size = GLOBALNET_KEYS.size_of(found).map_err(wrong)?;
        let size = size.filter(|&size| size > 0);
        Ok(Self {
            enabled: true,
            range,
            cluster_size: size.unwrap_or(GLOBALNET_CLUSTER_SIZE),
        })
    }
}

/// How addresses are given to services of the whole set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClustersetIp {
    /// Whether services get one by themselves.
    pub enabled: bool,
    /// Where they are from.
    pub range: Cidr,
}

impl ClustersetIp {
    /// What somebody asks for. The range is judged whether it is on or not: a service may
    /// ask for an address of its own accord.
    ///
    /// # Errors
    ///
    /// What cannot be.
    pub fn validate(enabled: bool, range: &str) -> Result<Self, Error> {
        let range = typed(range);
        let range = range.map_err(|problem| {
            Error::invalid(format!("invalid ClustersetIP configuration: {problem}"))
        })?;
        Ok(Self { enabled, range })
    }

    /// Not by themselves, and from the usual range.
    pub fn off() -> Self {
        Self {
            enabled: false,
            range: usual(CLUSTERSET_IP_RANGE),
        }
    }

    /// The ConfigMap that says so, before any cluster has joined.
    pub fn config_map(&self, namespace: &str) -> ConfigMap {
        let data = vec![
            (CLUSTERSET_IP_KEYS.enabled, self.enabled.to_string()),
            (CLUSTERSET_IP_KEYS.range, quoted(&self.range)),
            // Clusters know how many they need.
            (CLUSTERSET_IP_KEYS.size, "0".to_owned()),
        ];
        config_map(CLUSTERSET_IP_INFO, namespace, data)
    }

    /// What a ConfigMap says.
    ///
    /// # Errors
    ///
    /// If it does not.
    pub fn read(found: &ConfigMap) -> Result<Self, Error> {
        let wrong = |problem: String| unreadable(CLUSTERSET_IP_INFO, &problem);
        let enabled = CLUSTERSET_IP_KEYS.is_on(found).map_err(wrong)?;
        let range = CLUSTERSET_IP_KEYS.range_of(found).map_err(wrong)?;
        usable(&range).map_err(wrong)?;
        Ok(Self { enabled, range })
    }

    /// How many addresses a cluster gets: what the ConfigMap says, if anything.
    ///
    /// # Errors
    ///
    /// If that is no number.
    pub fn cluster_size(found: &ConfigMap) -> Result<u32, Error> {
        let size = CLUSTERSET_IP_KEYS.size_of(found);
        let size = size.map_err(|problem| unreadable(CLUSTERSET_IP_INFO, &problem))?;
        Ok(size
            .filter(|&size| size > 0)
            .unwrap_or(CLUSTERSET_IP_CLUSTER_SIZE))
    }
}

/// What the values in a ConfigMap are called.
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
            Some(_) => Err(format!("{} is neither true nor false", self.enabled)),
        }
    }

    /// The range, which is written as JSON; people write it as it is.
    fn range_of(&self, found: &ConfigMap) -> Result<Cidr, String> {
        let written = value(found, self.range).unwrap_or_default();
        let range = serde_json::from_str::<String>(written);
        let range = range.unwrap_or_else(|_| written.to_owned());
        range.parse().map_err(|it: NotACidr| it.to_string())
    }

    fn size_of(&self, found: &ConfigMap) -> Result<Option<u32>, String> {
        let size = value(found, self.size).map(str::parse);
        size.transpose()
            .map_err(|_| format!("{} is no number", self.size))
    }
}

fn value<'a>(found: &'a ConfigMap, key: &str) -> Option<&'a str> {
    let value = found.data.as_ref()?.get(key)?;
    Some(value.trim())
}

fn usual(range: &str) -> Cidr {
    range.parse().expect("the constants above are ranges")
}

/// A range that addresses can be given out of.
fn typed(range: &str) -> Result<Cidr, String> {
    let range = range.parse().map_err(|it: NotACidr| it.to_string())?;
    usable(&range)?;
    Ok(range)
}

fn usable(range: &Cidr) -> Result<(), String> {
    range.usable().map_err(|it| it.to_string())?;
    match range.span() {
        Some(_) => Ok(()),
        None => Err(format!("{range} is not of IPv4")),
    }
}

fn wrong_range(problem: &str) -> Error {
    unreadable(
        GLOBALNET_INFO,
        &format!("invalid GlobalnetCidrRange: {problem}"),
    )
}

/// The size of a block for so many addresses, if the range has room for two.
fn fitting(range: &Cidr, cluster_size: u32) -> Result<u32, String> {
    let most = range.span().map_or(0, |span| span.length / 2);
    let block = u64::from(cluster_size).next_power_of_two();
    match u32::try_from(block) {
        _ if cluster_size == 0 => Err("cluster size must be > 0".to_owned()),
        Ok(size) if block <= most => Ok(size),
        _ => Err(format!("cluster size {cluster_size}, should be <= {most}")),
    }
}

fn in_globalnet(problem: &str) -> Error {
    Error::invalid(format!("invalid GlobalCIDR configuration: {problem}"))
}

fn unreadable(name: &str, problem: &str) -> Error {
    Error::invalid_with_hint(
        format!("the ConfigMap {name} of the broker cannot be used: {problem}"),
        "mend it, or delete it and run `subctl deploy broker` again",
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
