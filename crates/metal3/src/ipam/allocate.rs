//! Which address a claim gets.

use std::collections::BTreeMap;

use super::kinds::{IPPoolSpec, PoolEntry};
use super::range::{Address, Range};
use super::used::UsedAddresses;

#[cfg(test)]
mod tests;

/// The addresses of a pool, and which of them are in use.
#[derive(Clone, Debug)]
pub struct Allocator<'a> {
    pool: &'a IPPoolSpec,
    entries: Vec<(Range, &'a PoolEntry)>,
    /// Addresses of objects, and those that are kept for claims.
    used: UsedAddresses,
    /// The claim of each address in use.
    claims: BTreeMap<Address, ClaimKey>,
    /// The address of each claim.
    addresses: BTreeMap<ClaimKey, Address>,
}

/// A claim. Claims of both kinds can have one name.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ClaimKey {
    /// The kind.
    pub kind: ClaimKind,
    /// The name.
    pub name: String,
}

/// A kind of claims.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ClaimKind {
    /// `IPClaim` of Metal3.
    Metal3,
    /// `IPAddressClaim` of Cluster API.
    ClusterApi,
}

/// An allocated address and its network.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Allocation {
    /// The address.
    pub address: Address,
    /// The prefix length of the network.
    pub prefix: Option<i32>,
    /// The gateway.
    pub gateway: Option<String>,
    /// The DNS servers.
    pub dns_servers: Vec<String>,
}

/// Why a claim gets no address. The text is for the status of the claim.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AllocationError {
    /// No address is free.
    #[error("Exhausted IP Pools")]
    Exhausted,
    /// The address that is kept for the claim is not in the pool, or is no address.
    #[error("Pre-allocated IP out of bounds")]
    PreAllocatedOutOfBounds,
    /// The address that is kept for the claim is that of another claim, which had it before.
    #[error("Pre-allocated IP not available")]
    PreAllocatedInUse,
    /// The address that the claim requests is not in the pool, kept for another claim, or in use.
    #[error("Requested IP not available")]
    RequestedNotAvailable,
    /// The claim requests something that is no address.
    #[error("Invalid ipAddress annotation {0:?}: not a valid IP address")]
    RequestedInvalid(String),
    /// Another address is kept for the claim than it requests.
    #[error("PreAllocation and requested ip address are conflicting")]
    Conflict,
}

impl AllocationError {
    /// Returns whether the pool has no free address, which a released one changes.
    pub fn is_exhausted(&self) -> bool {
        matches!(self, Self::Exhausted)
    }
}

impl<'a> Allocator<'a> {
    /// Returns the allocator of a pool. The addresses that are kept for claims are in use from the
    /// beginning.
    pub fn new(pool: &'a IPPoolSpec) -> Self {
        let entries = pool.pools.iter();
        let entries = entries.filter_map(|entry| Some((Range::of(entry)?, entry)));
        let kept = pool.pre_allocations.values();
        let mut used = UsedAddresses::default();
        used.extend(kept.filter_map(|text| Address::parse(text)));
        Self {
            pool,
            entries: entries.collect(),
            used,
            claims: BTreeMap::new(),
            addresses: BTreeMap::new(),
        }
    }

    /// Records the address of an existing object, and its claim if that is known. The first
    /// object of an address counts.
    pub fn record(&mut self, address: Address, claim: Option<ClaimKey>) {
        self.used.insert(address);
        if let Some(claim) = claim
            && !self.claims.contains_key(&address)
        {
            self.claims.insert(address, claim.clone());
            self.addresses.entry(claim).or_insert(address);
        }
    }

    /// Returns the address of a claim, allocated before or now. The random source returns a
    /// number from zero up to its argument.
    ///
    /// # Errors
    ///
    /// If there is no such address.
    pub fn allocate(
        &mut self,
        claim: &ClaimKey,
        requested: Option<&str>,
        random: &mut dyn FnMut(u128) -> u128,
    ) -> Result<Allocation, AllocationError> {
        if let Some(&address) = self.addresses.get(claim) {
            return Ok(self.allocation(address));
        }
        let requested = requested.filter(|text| !text.is_empty());
        let requested = requested.map(|text| {
            let address = Address::parse(text);
            address.ok_or_else(|| AllocationError::RequestedInvalid(text.to_owned()))
        });
        let kept = self.pool.pre_allocations.get(&claim.name);
        let address = match (requested.transpose()?, kept) {
            (Some(requested), Some(kept)) if Address::parse(kept) != Some(requested) => {
                return Err(AllocationError::Conflict);
            }
            (_, Some(kept)) => self.kept(kept)?,
            (Some(requested), None) => self.requested(requested)?,
            (None, None) => self.free(random).ok_or(AllocationError::Exhausted)?,
        };
        self.record(address, Some(claim.clone()));
        Ok(self.allocation(address))
    }

    /// Returns the addresses in use by the name of the claim, for the status of the pool.
    pub fn indexes(&self) -> BTreeMap<String, String> {
        let pairs = self.addresses.iter();
        pairs
            .map(|(claim, address)| (claim.name.clone(), address.to_string()))
            .collect()
    }

    fn kept(&self, text: &str) -> Result<Address, AllocationError> {
        let address = Address::parse(text).filter(|address| self.entry(*address).is_some());
        let address = address.ok_or(AllocationError::PreAllocatedOutOfBounds)?;
        match self.claims.contains_key(&address) {
            true => Err(AllocationError::PreAllocatedInUse),
            false => Ok(address),
        }
    }

    fn requested(&self, address: Address) -> Result<Address, AllocationError> {
        match self.entry(address).is_some() && !self.used.contains(address) {
            true => Ok(address),
            false => Err(AllocationError::RequestedNotAvailable),
        }
    }

    /// Returns a free address of the first entry that has one.
    fn free(&self, random: &mut dyn FnMut(u128) -> u128) -> Option<Address> {
        let is_random = self.pool.allocation_strategy.as_deref() == Some("random");
        self.entries.iter().find_map(|(range, _)| {
            let from_start = self.used.next_free(range, 0)?;
            if !is_random {
                return Some(from_start);
            }
            let max = range.max_offset();
            let offset = random(max).min(max);
            // After the end of the range, the search continues at its start.
            self.used.next_free(range, offset).or(Some(from_start))
        })
    }

    /// Returns the first entry that has an address.
    fn entry(&self, address: Address) -> Option<&'a PoolEntry> {
        let mut entries = self.entries.iter();
        let (_, entry) = entries.find(|(range, _)| range.contains(address))?;
        Some(entry)
    }

    /// Returns an address with the network of its entry, and that of the pool where the entry
    /// says nothing.
    fn allocation(&self, address: Address) -> Allocation {
        let default = PoolEntry::default();
        let entry = self.entry(address).unwrap_or(&default);
        let is_set = |prefix: &i32| *prefix != 0;
        let dns_servers = match entry.dns_servers.is_empty() {
            true => &self.pool.dns_servers,
            false => &entry.dns_servers,
        };
        Allocation {
            address,
            prefix: entry.prefix.filter(is_set).or(self.pool.prefix),
            gateway: entry.gateway.clone().or_else(|| self.pool.gateway.clone()),
            dns_servers: dns_servers.clone(),
        }
    }
}
