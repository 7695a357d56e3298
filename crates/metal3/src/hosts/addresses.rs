//! The addresses of a machine on its host.

use crate::kinds::host::BareMetalHost;

/// An address of a machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostAddress {
    /// Its type, as in the status of machines.
    pub kind: &'static str,
    /// The address.
    pub address: String,
}

/// The type of addresses in the cluster's network.
pub const INTERNAL_IP: &str = "InternalIP";
/// The type of names in DNS.
pub const INTERNAL_DNS: &str = "InternalDNS";
/// The type of names of hosts.
pub const HOSTNAME: &str = "Hostname";

/// Returns the addresses of a host that was inspected: those of its interfaces, and its name.
pub fn addresses(host: &BareMetalHost) -> Vec<HostAddress> {
    let interfaces = host.interfaces().iter();
    let numbers = interfaces.map(|one| (INTERNAL_IP, &one.ip));
    let status = host.status.as_ref();
    let hardware = status.and_then(|status| status.hardware.as_ref());
    let names = hardware
        .into_iter()
        .flat_map(|hardware| [HOSTNAME, INTERNAL_DNS].map(|kind| (kind, &hardware.hostname)));
    let all = numbers.chain(names);
    let all = all.filter(|(_, address)| !address.is_empty());
    all.map(|(kind, address)| HostAddress {
        kind,
        address: address.clone(),
    })
    .collect()
}
