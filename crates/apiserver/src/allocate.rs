//! Addresses and ports of services, which nothing routes but everybody reads.

use std::collections::HashSet;

use insula_core::Space;
use insula_kinds::{Object, Value, prepare};
use uuid::Uuid;

use crate::registry::{Address, Registry, core_kind};

/// Chooses addresses and ports that no service of the space has.
///
/// Chosen from the cache: two services that come about at the same moment may get the
/// same port, as the ports have no owner here that would route them.
pub struct Allocator<'a> {
    addresses: Addresses<'a>,
    ports: Ports<'a>,
}

/// Free addresses of `10.96.0.0/12`.
pub struct Addresses<'a>(Taken<'a>);

/// Free ports of 30000 to 32767.
pub struct Ports<'a>(Taken<'a>);

#[derive(Clone, Copy)]
struct Taken<'a> {
    registry: &'a Registry,
    space: &'a Space,
}

impl<'a> Allocator<'a> {
    /// For services of one space.
    pub const fn new(registry: &'a Registry, space: &'a Space) -> Self {
        let taken = Taken { registry, space };
        Self { addresses: Addresses(taken), ports: Ports(taken) }
    }

    /// The two of them.
    pub fn parts(&mut self) -> (&mut Addresses<'a>, &mut Ports<'a>) {
        (&mut self.addresses, &mut self.ports)
    }
}

/// Gives a service what its new type needs.
pub fn for_update(registry: &Registry, address: &Address, object: &mut Object) {
    if address.kind != core_kind("services") {
        return;
    }
    let mut allocator = Allocator::new(registry, &address.space);
    let (ips, ports) = allocator.parts();
    let mut with = prepare::Creation {
        uid: "",
        now: "",
        cluster_ip: &mut || ips.next(),
        node_port: &mut || ports.next(),
    };
    prepare::allocate(object, &mut with);
}

impl Addresses<'_> {
    /// A free address.
    pub fn next(&mut self) -> String {
        let taken: HashSet<String> = self.0.of(|spec, taken| {
            taken.extend(spec.get("clusterIP").and_then(Value::as_str).map(str::to_owned));
        });
        // The first few addresses are the API server's own and DNS's, by custom.
        (0..1 << 16)
            .map(|_| {
                let offset = 256 + (random() % ((1 << 20) - 512)) as u32;
                std::net::Ipv4Addr::from(u32::from_be_bytes([10, 96, 0, 0]) + offset).to_string()
            })
            .find(|address| !taken.contains(address))
            .unwrap_or_default()
    }
}

impl Ports<'_> {
    /// A free port.
    pub fn next(&mut self) -> u16 {
        let taken: HashSet<u64> = self.0.of(|spec, taken| {
            let ports = spec.get("ports").and_then(Value::as_array).into_iter().flatten();
            taken.extend(ports.filter_map(|port| port.get("nodePort")?.as_u64()));
        });
        let start = (random() % 2768) as u16;
        let ports = (0..2768).map(|step| 30_000 + (start + step) % 2768);
        ports.into_iter().find(|port| !taken.contains(&u64::from(*port))).unwrap_or(0)
    }
}

impl Taken<'_> {
    fn of<T>(&self, read: impl Fn(&Value, &mut HashSet<T>)) -> HashSet<T> {
        let mut taken = HashSet::new();
        if let Some(services) = self.registry.cache().find(core_kind("services"), self.space) {
            for service in services.snapshot("", None).objects {
                if let Some(spec) = service.tree().get("spec") {
                    read(spec, &mut taken);
                }
            }
        }
        taken
    }
}

fn random() -> u64 {
    Uuid::new_v4().as_u64_pair().0 >> 16
}
