//! Addresses and ports of services, which nothing routes but everybody reads.

use std::collections::HashSet;

use insula_core::Space;
use insula_kinds::{Object, Value, prepare};
use uuid::Uuid;

use crate::registry::{Address, Registry};
use insula_kinds::core_kind;

/// Chooses addresses and ports that no service of the space has, and none twice.
///
/// Chosen from the cache: two services that come about at the same moment may get the
/// same port, as the ports have no owner here that would route them.
pub struct Allocator<'a> {
    addresses: Addresses<'a>,
    ports: Ports<'a>,
}

/// Free addresses of `10.96.0.0/12`.
pub struct Addresses<'a>(Taken<'a, String>);

/// Free ports of 30000 to 32767.
pub struct Ports<'a> {
    taken: Taken<'a, u64>,
    /// What the service asks for itself.
    own: Vec<u64>,
}

/// What is taken; it is read when the first one is asked for, as most services need none.
struct Taken<'a, T> {
    registry: &'a Registry,
    space: &'a Space,
    known: Option<HashSet<T>>,
}

impl<'a> Allocator<'a> {
    /// For services of one space.
    pub const fn new(registry: &'a Registry, space: &'a Space) -> Self {
        Self {
            addresses: Addresses(Taken::new(registry, space)),
            ports: Ports {
                taken: Taken::new(registry, space),
                own: Vec::new(),
            },
        }
    }

    /// The two of them.
    pub fn parts(&mut self) -> (&mut Addresses<'a>, &mut Ports<'a>) {
        (&mut self.addresses, &mut self.ports)
    }
}

/// Gives a service what its new type needs.
pub fn for_update(registry: &Registry, address: &Address, object: &mut Object) {
    if !address.kind.is(core_kind("services")) {
        return;
    }
    let mut allocator = Allocator::new(registry, &address.space);
    let (ips, ports) = allocator.parts();
    ports.keep(object);
    let mut with = prepare::CreateContext {
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
        let taken = self.0.read(|spec, taken| {
            let address = spec.get("clusterIP").and_then(Value::as_str);
            taken.extend(address.map(str::to_owned));
        });
        // The first few addresses are the API server's own and DNS's, by custom.
        let free = (0..1 << 16)
            .map(|_| {
                let offset = 256 + (random() % ((1 << 20) - 512)) as u32;
                std::net::Ipv4Addr::from(u32::from_be_bytes([10, 96, 0, 0]) + offset).to_string()
            })
            .find(|address| !taken.contains(address))
            .unwrap_or_default();
        taken.insert(free.clone());
        free
    }
}

impl Ports<'_> {
    /// A free port.
    pub fn next(&mut self) -> u16 {
        let taken = self.taken.read(|spec, taken| taken.extend(ports_in(spec)));
        taken.extend(self.own.drain(..));
        let start = (random() % 2768) as u16;
        let mut ports = (0..2768).map(|step| 30_000 + (start + step) % 2768);
        let free = ports.find(|port| !taken.contains(&u64::from(*port)));
        taken.extend(free.map(u64::from));
        free.unwrap_or(0)
    }

    /// What the service that is being written asks for itself is taken too.
    pub fn keep(&mut self, service: &Object) {
        self.own
            .extend(service.get("spec").into_iter().flat_map(ports_in));
    }
}

fn ports_in(spec: &Value) -> impl Iterator<Item = u64> {
    let ports = spec.get("ports").and_then(Value::as_array);
    let ports = ports.into_iter().flatten();
    let check = spec.get("healthCheckNodePort").and_then(Value::as_u64);
    ports
        .filter_map(|port| port.get("nodePort")?.as_u64())
        .chain(check)
}

impl<'a, T> Taken<'a, T> {
    const fn new(registry: &'a Registry, space: &'a Space) -> Self {
        Self {
            registry,
            space,
            known: None,
        }
    }

    fn read(&mut self, read: impl Fn(&Value, &mut HashSet<T>)) -> &mut HashSet<T> {
        let (registry, space) = (self.registry, self.space);
        self.known.get_or_insert_with(|| {
            let mut taken = HashSet::new();
            if let Some(services) = registry.cache().find(core_kind("services"), space) {
                for service in services.snapshot("", None).objects {
                    if let Some(spec) = service.tree().get("spec") {
                        read(spec, &mut taken);
                    }
                }
            }
            taken
        })
    }
}

fn random() -> u64 {
    Uuid::new_v4().as_u64_pair().0 >> 16
}
