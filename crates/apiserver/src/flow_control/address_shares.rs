//! Connections that share a bound, by client address.
//!
//! When there are too many, the network with most connections loses one, and in it the host with
//! most: an address displaces no address that has fewer.

use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;
use std::time::Duration;

use tokio::time::Instant;

use super::client_address::{ClientAddress, Network};

/// How long the rest of a handshake may take before the connection is displaced like one that has
/// sent nothing. Longer than the round trip of an honest client.
const FINISHING_GRACE: Duration = Duration::from_secs(1);

/// The stages of a connection in the group, which decide the order of displacement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Stage {
    /// The client has yet to send something. Honest clients leave this stage at once, so the
    /// oldest connection is displaced first.
    Silent,
    /// The connection waits for the server. The newest is displaced first: otherwise a burst of
    /// clients would displace each one before its turn, and the server would complete none.
    Queued,
    /// The client has yet to finish what the server has worked for.
    Finishing,
}

/// A group of connections, of which each holds `T`.
#[derive(Debug)]
pub(super) struct AddressShares<T> {
    members: HashMap<u64, Member<T>>,
    networks: HashMap<Network, NetworkShare>,
}

#[derive(Debug)]
struct Member<T> {
    value: T,
    address: ClientAddress,
    stage: Stage,
    /// The position within the stage: the time, and the number for equal times.
    since: (Instant, u64),
}

#[derive(Debug)]
struct NetworkShare {
    count: usize,
    /// When the network's first connection came; an earlier one loses a tie.
    since: Instant,
    hosts: HashMap<IpAddr, HostShare>,
}

#[derive(Debug)]
struct HostShare {
    since: Instant,
    members: [BTreeMap<(Instant, u64), u64>; 3],
}

impl<T> Default for AddressShares<T> {
    fn default() -> Self {
        Self {
            members: HashMap::new(),
            networks: HashMap::new(),
        }
    }
}

impl<T> AddressShares<T> {
    /// Returns the number of connections.
    pub(super) fn len(&self) -> usize {
        self.members.len()
    }

    /// Whether the connection is in the group.
    pub(super) fn contains(&self, number: u64) -> bool {
        self.members.contains_key(&number)
    }

    /// Adds a connection before its client has sent anything.
    pub(super) fn insert(&mut self, number: u64, address: ClientAddress, value: T) {
        let since = (Instant::now(), number);
        let stage = Stage::Silent;
        let member = Member {
            value,
            address,
            stage,
            since,
        };
        self.members.insert(number, member);
        let network = self.networks.entry(address.network);
        let network = network.or_insert_with(|| NetworkShare {
            count: 0,
            since: since.0,
            hosts: HashMap::new(),
        });
        network.count += 1;
        network
            .host(address.host, since.0)
            .add(stage, since, number);
    }

    /// Removes a connection.
    pub(super) fn remove(&mut self, number: u64) -> Option<T> {
        let member = self.members.remove(&number)?;
        if let Some(network) = self.networks.get_mut(&member.address.network) {
            network.count -= 1;
            network.remove(&member);
            if network.count == 0 {
                self.networks.remove(&member.address.network);
            }
        }
        Some(member.value)
    }

    /// Moves a connection to another stage.
    pub(super) fn set_stage(&mut self, number: u64, stage: Stage) {
        let Some(member) = self.members.get_mut(&number) else {
            return;
        };
        if member.stage == stage {
            return;
        }
        let Some(network) = self.networks.get_mut(&member.address.network) else {
            return;
        };
        let host = network.host(member.address.host, member.since.0);
        host.members[member.stage as usize].remove(&member.since);
        member.stage = stage;
        member.since = (Instant::now(), number);
        host.add(stage, member.since, number);
    }

    /// Returns the connection that is displaced next. `capacity` is the size of the group, of which
    /// shared addresses keep half.
    pub(super) fn next_victim(&self, capacity: usize) -> Option<u64> {
        self.largest_network(capacity)?.next_victim(Instant::now())
    }

    /// Returns the number of connections of the network that loses one next.
    pub(super) fn largest_share(&self, capacity: usize) -> usize {
        let largest = self.largest_network(capacity);
        largest.map_or(0, |network| network.count)
    }

    fn largest_network(&self, capacity: usize) -> Option<&NetworkShare> {
        let shared = self.networks.get(&Network::Shared);
        let prefixes = self.networks.iter();
        let prefixes = prefixes.filter(|(network, _)| **network != Network::Shared);
        let largest = prefixes
            .map(|(_, share)| share)
            .max_by_key(|share| (share.count, std::cmp::Reverse(share.since)));
        match (shared, largest) {
            (Some(shared), Some(_)) if shared.count > capacity / 2 => Some(shared),
            (_, Some(largest)) => Some(largest),
            (shared, None) => shared,
        }
    }
}

impl NetworkShare {
    fn host(&mut self, host: IpAddr, since: Instant) -> &mut HostShare {
        self.hosts.entry(host).or_insert_with(|| HostShare {
            since,
            members: Default::default(),
        })
    }

    fn remove<T>(&mut self, member: &Member<T>) {
        let Some(host) = self.hosts.get_mut(&member.address.host) else {
            return;
        };
        host.members[member.stage as usize].remove(&member.since);
        if host.count() == 0 {
            self.hosts.remove(&member.address.host);
        }
    }

    fn next_victim(&self, now: Instant) -> Option<u64> {
        let hosts = self.hosts.values();
        let largest = hosts.max_by_key(|host| (host.count(), std::cmp::Reverse(host.since)));
        largest?.next_victim(now)
    }
}

impl HostShare {
    fn add(&mut self, stage: Stage, since: (Instant, u64), number: u64) {
        self.members[stage as usize].insert(since, number);
    }

    fn count(&self) -> usize {
        self.members.iter().map(BTreeMap::len).sum()
    }

    fn next_victim(&self, now: Instant) -> Option<u64> {
        let of = |stage: Stage| &self.members[stage as usize];
        let finishing = of(Stage::Finishing).first_key_value();
        let overdue = finishing.filter(|(since, _)| since.0 + FINISHING_GRACE <= now);
        let victim = overdue
            .or_else(|| of(Stage::Silent).first_key_value())
            .or_else(|| of(Stage::Queued).last_key_value())
            .or(finishing);
        victim.map(|(_, number)| *number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A group with a connection of each address, numbered from 1.
    fn group(addresses: &[&str]) -> AddressShares<()> {
        let mut group = AddressShares::default();
        for (number, address) in (1..).zip(addresses) {
            group.insert(number, client(address), ());
        }
        group
    }

    fn client(address: &str) -> ClientAddress {
        let shared = ["10.0.0.0/8".parse().unwrap()];
        ClientAddress::new(address.parse().unwrap(), &shared)
    }

    /// The connections in the order in which they are displaced.
    fn order(mut group: AddressShares<()>, capacity: usize) -> Vec<u64> {
        let victims = std::iter::from_fn(|| {
            let victim = group.next_victim(capacity)?;
            group.remove(victim)?;
            Some(victim)
        });
        let order = victims.collect();
        assert!(group.members.is_empty() && group.networks.is_empty());
        order
    }

    #[tokio::test]
    async fn largest_network_and_in_it_the_largest_host_loses_its_oldest_connection() {
        let all = [
            "192.0.2.1",
            "192.0.2.2",
            "192.0.2.2",
            "198.51.100.1",
            "198.51.100.1",
        ];
        assert_eq!(order(group(&all), 5), [2, 1, 4, 3, 5]);
    }

    #[tokio::test]
    async fn prefix_of_ipv6_counts_once_however_many_hosts_it_has() {
        let flood: Vec<String> = (0..50).map(|n| format!("2001:db8:1:{n:x}::1")).collect();
        let mut all = vec!["2001:db8:2::1"];
        all.extend(flood.iter().map(String::as_str));
        let order = order(group(&all), 51);
        // All but one of the flood are displaced before the other network loses its connection.
        assert_eq!(order.iter().position(|victim| *victim == 1), Some(49));
    }

    #[tokio::test]
    async fn connections_that_wait_for_the_server_are_kept_and_new_ones_displaced() {
        let mut group = group(&["192.0.2.1"; 5]);
        group.set_stage(1, Stage::Queued);
        group.set_stage(2, Stage::Queued);
        group.set_stage(3, Stage::Finishing);
        assert_eq!(order(group, 5), [4, 5, 2, 1, 3]);
    }

    #[tokio::test(start_paused = true)]
    async fn handshake_that_its_client_does_not_finish_is_displaced_first() {
        let mut group = group(&["192.0.2.1"; 3]);
        group.set_stage(2, Stage::Finishing);
        group.set_stage(3, Stage::Finishing);
        tokio::time::advance(FINISHING_GRACE).await;
        assert_eq!(order(group, 3), [2, 3, 1]);
    }

    #[tokio::test]
    async fn shared_addresses_keep_half_of_the_group() {
        let all = [
            "10.0.0.1",
            "10.0.0.1",
            "10.0.0.1",
            "192.0.2.1",
            "198.51.100.1",
        ];
        assert_eq!(order(group(&all), 4), [1, 4, 5, 2, 3]);
    }
}
