//! The allocation of address ranges to clusters.

use std::net::Ipv4Addr;

use k8s_openapi::api::core::v1::ConfigMap;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::ser::PrettyFormatter;

use crate::cidr::{Cidr, Span};
use crate::error::Error;
use crate::go_json::escape_html;

/// The ConfigMap key of the allocations.
const KEY: &str = "clusterinfo";

/// The allocations in the order in which the clusters joined.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Allocations {
    /// The clusters.
    pub clusters: Vec<Allocation>,
}

/// The allocation of one cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Allocation {
    /// The cluster's ID.
    pub cluster_id: String,
    /// Its ranges; the first one is in use. Both ConfigMaps use this name.
    #[serde(default, deserialize_with = "null_is_none")]
    pub global_cidr: Vec<String>,
}

/// The request of a cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AllocationRequest {
    /// A number of addresses.
    Size(u32),
    /// A specific range.
    Range(Cidr),
}

/// The result of an allocation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Allocated {
    /// The cluster's range.
    pub range: String,
    /// Whether the cluster already had it, so that the request was ignored.
    pub existing: bool,
}

impl Allocations {
    /// Reads a ConfigMap.
    ///
    /// # Errors
    ///
    /// If the content is malformed. It is never taken for empty, which would allocate
    /// addresses twice.
    pub fn read(found: &ConfigMap) -> Result<Self, Error> {
        let written = found.data.as_ref().and_then(|data| data.get(KEY));
        let written = written
            .map(|text| text.trim())
            .filter(|text| !text.is_empty());
        let Some(written) = written else {
            return Ok(Self::default());
        };
        let clusters: Result<Option<Vec<Allocation>>, _> = serde_json::from_str(written);
        let clusters = clusters.map_err(|_| {
            let name = found.metadata.name.as_deref().unwrap_or_default();
            super::unusable(name, "clusterinfo is not a list of clusters")
        })?;
        let clusters = clusters.unwrap_or_default();
        Ok(Self { clusters })
    }

    /// Writes the allocations into a ConfigMap and keeps its other values.
    pub fn write(&self, into: &mut ConfigMap) {
        let data = into.data.get_or_insert_default();
        data.insert(KEY.to_owned(), self.text());
    }

    /// Encodes the allocations as in a ConfigMap.
    fn text(&self) -> String {
        let mut text = Vec::new();
        let tabs = PrettyFormatter::with_indent(b"\t");
        let mut writer = serde_json::Serializer::with_formatter(&mut text, tabs);
        let written = self.clusters.serialize(&mut writer);
        written.expect("strings are always JSON, and memory takes them");
        escape_html(&String::from_utf8(text).expect("JSON is UTF-8"))
    }

    /// Returns the range of a cluster, if it has one.
    pub fn of(&self, cluster: &str) -> Option<&str> {
        let mut entries = self.clusters.iter();
        let entry = entries.find(|entry| entry.cluster_id == cluster)?;
        entry.global_cidr.first().map(String::as_str)
    }

    /// Removes the ranges of a cluster; returns whether it had an entry.
    pub fn release(&mut self, cluster: &str) -> bool {
        let before = self.clusters.len();
        self.clusters.retain(|entry| entry.cluster_id != cluster);
        self.clusters.len() < before
    }

    /// Validates the entries that concern a cluster: its own, or all of them if it has none.
    /// `name` is that of the ConfigMap, for the message.
    ///
    /// # Errors
    ///
    /// If an entry is not a valid range.
    pub fn validate(&self, cluster: &str, name: &str) -> Result<(), Error> {
        let is_new = self.of(cluster).is_none();
        let concerned = |entry: &&Allocation| is_new || entry.cluster_id == cluster;
        for entry in self.clusters.iter().filter(concerned) {
            for range in &entry.global_cidr {
                let read = range.parse::<Cidr>().map_err(|it| it.to_string());
                // The class of addresses matters only for the cluster's own range.
                let validated = read.and_then(|range| match is_new {
                    true => Ok(()),
                    false => super::check_usable(&range),
                });
                let wrong = |problem| {
                    let cluster = &entry.cluster_id;
                    super::unusable(name, &format!("of cluster {cluster:?}: {problem}"))
                };
                validated.map_err(wrong)?;
            }
        }
        Ok(())
    }

    /// Allocates a range to a cluster; returns the existing one if it has one.
    ///
    /// # Errors
    ///
    /// If the range is exhausted, or the requested one is taken.
    pub fn allocate(
        &mut self,
        cluster: &str,
        range: &Cidr,
        wish: &AllocationRequest,
    ) -> Result<Allocated, Error> {
        if let Some(range) = self.of(cluster) {
            let range = range.to_owned();
            return Ok(Allocated {
                range,
                existing: true,
            });
        }
        let allocated = self.allocated()?;
        let given = match wish {
            AllocationRequest::Range(requested) => requested_range(requested, &allocated)?,
            AllocationRequest::Size(size) => first_free_block(range, *size, &allocated)?,
        };
        let entry = Allocation {
            cluster_id: cluster.to_owned(),
            global_cidr: vec![given.to_string()],
        };
        self.clusters.retain(|entry| entry.cluster_id != cluster);
        self.clusters.push(entry);
        let range = given.to_string();
        Ok(Allocated {
            range,
            existing: false,
        })
    }

    /// Returns the allocated ranges with their clusters.
    fn allocated(&self) -> Result<Vec<(&str, Cidr)>, Error> {
        let entries = self.clusters.iter().flat_map(|entry| {
            let ranges = entry.global_cidr.iter();
            ranges.map(|range| (entry.cluster_id.as_str(), range))
        });
        let parsed = entries.map(|(cluster, range)| match range.parse() {
            Ok(range) => Ok((cluster, range)),
            Err(problem) => Err(Error::invalid_with_hint(
                format!("the broker has invalid addresses for cluster {cluster:?}: {problem}"),
                "fix clusterinfo in the ConfigMaps of the broker's namespace",
            )),
        });
        parsed.collect()
    }
}

/// Returns the requested range if it is free. It may be outside the broker's range.
fn requested_range(requested: &Cidr, allocated: &[(&str, Cidr)]) -> Result<Cidr, Error> {
    let problem =
        |problem: String| Error::invalid(format!("invalid CIDR \"{requested}\"{problem}"));
    super::check_usable(requested).map_err(|it| problem(format!(": {it}")))?;
    let mut others = allocated.iter();
    match others.find(|(_, range)| range.overlaps(requested)) {
        Some((cluster, _)) => Err(problem(format!(" overlaps with cluster {cluster:?}"))),
        None => Ok(*requested),
    }
}

/// Returns the first free block of the range. Blocks are aligned at their size.
fn first_free_block(range: &Cidr, size: u32, allocated: &[(&str, Cidr)]) -> Result<Cidr, Error> {
    let none = || {
        Error::invalid_with_hint(
            format!("no more allocations available in \"{range}\""),
            "ask for fewer addresses, or for a range of your own outside of it",
        )
    };
    let whole = range.span().ok_or_else(none)?;
    let length = u64::from(size.max(1)).next_power_of_two();
    let mut spans: Vec<Span> = allocated
        .iter()
        .filter_map(|(_, range)| range.span())
        .collect();
    spans.sort_by_key(|span| span.start);
    let mut start = whole.start;
    for span in spans {
        if span.start < start + length && span.end() > start {
            start = span.end().next_multiple_of(length);
        }
    }
    let last = u32::try_from(start)
        .ok()
        .filter(|_| start + length <= whole.end());
    let block = last.and_then(|first| {
        let bits = 32 - length.trailing_zeros();
        Cidr::v4(Ipv4Addr::from(first), u8::try_from(bits).ok()?)
    });
    block.ok_or_else(none)
}

fn null_is_none<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<String>, D::Error> {
    let list: Option<Vec<String>> = Deserialize::deserialize(deserializer)?;
    Ok(list.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn allocated<'a>(ranges: &[&str]) -> Vec<(&'a str, Cidr)> {
        let parsed = ranges.iter().map(|range| ("other", range.parse().unwrap()));
        parsed.collect()
    }

    fn first_free(range: &str, size: u32, others: &[&str]) -> Result<String, String> {
        let found = first_free_block(&range.parse().unwrap(), size, &allocated(others));
        let found = found.map_err(|error| error.to_string())?;
        Ok(found.to_string())
    }

    #[test]
    fn first_free_block_is_allocated() {
        let range = "169.254.0.0/16";
        for (size, others, expected) in [
            (8192, &[][..], "169.254.0.0/19"),
            (8192, &["169.254.0.0/19"], "169.254.32.0/19"),
            (8192, &["169.254.32.0/19"], "169.254.0.0/19"),
            (
                8192,
                &["169.254.0.0/19", "169.254.64.0/19"],
                "169.254.32.0/19",
            ),
            (8191, &["169.254.0.0/32"], "169.254.32.0/19"),
            (1, &["169.254.0.0/32"], "169.254.0.1/32"),
            (65536, &["10.0.0.0/8", "fd00::/8"], "169.254.0.0/16"),
        ] {
            let found = first_free(range, size, others);
            assert_eq!(found.as_deref(), Ok(expected), "{size} {others:?}");
        }
        for (range, size, others, expected) in [
            ("242.0.0.0/8", 65536, &["242.0.0.0/20"][..], "242.1.0.0/16"),
            ("243.0.0.0/8", 4096, &[], "243.0.0.0/20"),
            ("10.9.9.9/8", 4096, &[], "10.0.0.0/20"),
            (
                "255.255.255.0/24",
                1,
                &["255.255.255.0/25"],
                "255.255.255.128/32",
            ),
        ] {
            assert_eq!(first_free(range, size, others).as_deref(), Ok(expected));
        }
    }

    #[test]
    fn exhausted_range_is_an_error() {
        for (range, size, others) in [
            (
                "169.254.0.0/16",
                32768,
                &["169.254.0.0/17", "169.254.128.0/17"][..],
            ),
            (
                "169.254.0.0/16",
                32768,
                &["169.254.0.0/18", "169.254.128.0/17"],
            ),
            ("169.254.0.0/16", 65537, &[]),
            ("169.254.0.0/16", u32::MAX, &[]),
            ("169.254.0.0/16", 1, &["0.0.0.0/0"]),
            ("255.255.255.255/32", 1, &["255.255.255.255/32"]),
            ("fd00::/8", 1, &[]),
        ] {
            let message = format!("no more allocations available in \"{range}\"");
            assert_eq!(first_free(range, size, others), Err(message));
        }
    }

    mod props {
        use proptest::prelude::*;

        use super::*;

        /// The reference implementation: tries one block after the other.
        fn slow(range: &Cidr, size: u32, allocated: &[(&str, Cidr)]) -> Option<String> {
            let whole = range.span()?;
            let bits = (0..=32).find(|bits| 1_u64 << bits >= u64::from(size))?;
            let blocks = whole.length >> bits;
            (0..blocks).find_map(|block| {
                let start = whole.start + (block << bits);
                let address = Ipv4Addr::from(u32::try_from(start).ok()?);
                let candidate = Cidr::v4(address, 32 - bits as u8)?;
                let is_free = allocated
                    .iter()
                    .all(|(_, other)| !other.overlaps(&candidate));
                is_free.then(|| candidate.to_string())
            })
        }

        fn near() -> impl Strategy<Value = Cidr> {
            let address = 0_u32..1 << 13;
            let bits = prop_oneof![3 => 20_u8..=32, 1 => 0_u8..=32];
            (address, bits)
                .prop_map(|(low, bits)| Cidr::v4(Ipv4Addr::from((242 << 24) | low), bits).unwrap())
        }

        proptest! {
            #![proptest_config(ProptestConfig::with_cases(2000))]

            #[test]
            fn allocation_matches_the_reference_implementation(
                bits in 20_u8..=32,
                size in prop_oneof![1_u32..=64, 1_u32..=8192],
                others in prop::collection::vec(near(), 0..24),
            ) {
                let range = Cidr::v4(Ipv4Addr::new(242, 0, 0, 0), bits).unwrap();
                let allocated: Vec<_> = others.into_iter().map(|other| ("other", other)).collect();
                let fast = first_free_block(&range, size, &allocated).ok().map(|found| found.to_string());
                prop_assert_eq!(fast, slow(&range, size, &allocated));
            }

            #[test]
            fn no_two_clusters_share_an_address(
                sizes in prop::collection::vec(1_u32..=600, 0..20),
            ) {
                let range = "242.0.0.0/20".parse().unwrap();
                let mut allocations = Allocations::default();
                for (number, size) in sizes.iter().enumerate() {
                    // Once the range is exhausted, allocations fail.
                    allocations.allocate(&number.to_string(), &range, &AllocationRequest::Size(*size)).ok();
                }
                let given = allocations.allocated().unwrap();
                for (place, (one, its)) in given.iter().enumerate() {
                    prop_assert!(range.overlaps(its));
                    for (other, theirs) in &given[place + 1..] {
                        prop_assert!(!its.overlaps(theirs), "{} {}", one, other);
                    }
                }
            }
        }
    }
}
