//! Cluster IPs and node ports of services. Nothing routes them, but clients read them.

mod families;

use std::collections::HashSet;

use insula_core::Space;
use insula_kinds::{Object, Value, prepare};
use uuid::Uuid;

use crate::registry::{Address, Registry};
use crate::status::{Result, StatusError};
use insula_kinds::core_kind;

/// Allocates cluster IPs and node ports that no service of the space uses.
///
/// It allocates from the cache, so two services created at the same time may get the same
/// port. That is harmless, because nothing routes the ports.
pub struct Allocator<'a> {
    addresses: Addresses<'a>,
    ports: Ports<'a>,
}

/// Free addresses of the range of cluster IPs.
pub struct Addresses<'a>(InUse<'a, String>);

/// Free ports of 30000 to 32767.
pub struct Ports<'a> {
    in_use: InUse<'a, u64>,
    /// Ports that the service requests itself.
    requested: Vec<u64>,
}

/// How many addresses are chosen at random before all are tried.
const MAX_GUESSES: usize = 64;

/// Values in use, read on the first allocation because most services need none.
struct InUse<'a, T> {
    registry: &'a Registry,
    space: &'a Space,
    known: Option<HashSet<T>>,
}

impl<'a> Allocator<'a> {
    /// Returns an allocator for the services of one space.
    pub const fn new(registry: &'a Registry, space: &'a Space) -> Self {
        Self {
            addresses: Addresses(InUse::new(registry, space)),
            ports: Ports {
                in_use: InUse::new(registry, space),
                requested: Vec::new(),
            },
        }
    }

    /// Returns the allocators of addresses and of ports.
    pub fn parts(&mut self) -> (&mut Addresses<'a>, &mut Ports<'a>) {
        (&mut self.addresses, &mut self.ports)
    }
}

/// Refuses a service that requests addresses of a family that the server does not have.
pub fn check(registry: &Registry, address: &Address, object: &Object) -> Result<()> {
    if !address.kind.is(core_kind("services")) {
        return Ok(());
    }
    let errors = families::unavailable(object, registry.built_in().service_range());
    match errors.is_empty() {
        true => Ok(()),
        false => Err(StatusError::invalid(address.of(), &address.name, &errors)),
    }
}

/// Fails if no address was left for a new service or for a new type of one.
pub fn check_allocated(address: &Address, service: &Object) -> Result<()> {
    let spec = service.get("spec");
    let text = |member: &str| {
        spec.and_then(|spec| spec.get(member)?.as_str())
            .unwrap_or("")
    };
    let lacks_address = text("type") != "ExternalName" && text("clusterIP").is_empty();
    if lacks_address && address.kind.is(core_kind("services")) {
        let name = &address.name;
        let why = format!("failed to allocate a serviceIP for Service {name:?}: range is full");
        return Err(StatusError::internal(why));
    }
    Ok(())
}

/// Allocates what an updated service needs for its new type. A service that keeps its addresses may
/// be of a family that the server had before.
pub fn for_update(
    registry: &Registry,
    address: &Address,
    subresource: Option<&str>,
    old: &Object,
    object: &mut Object,
) -> Result<()> {
    if !address.kind.is(core_kind("services")) {
        return Ok(());
    }
    if subresource.is_none() && families::are_changed(old, object) {
        check(registry, address, object)?;
    }
    let mut allocator = Allocator::new(registry, &address.space);
    let (ips, ports) = allocator.parts();
    ports.reserve_requested(object);
    let mut with = prepare::CreateContext {
        uid: "",
        now: "",
        ip_family: registry.built_in().service_range().family(),
        cluster_ip: &mut || ips.next(),
        node_port: &mut || ports.next(),
    };
    prepare::allocate(object, &mut with);
    check_allocated(address, object)
}

impl Addresses<'_> {
    /// Allocates an address; it is empty if none is left.
    pub fn next(&mut self) -> String {
        let range = self.0.registry.built_in().service_range();
        let in_use = self.0.read(|spec, in_use| {
            let address = spec.get("clusterIP").and_then(Value::as_str);
            in_use.extend(address.map(str::to_owned));
        });
        // Nearly always the first guess is right; the range is searched if it is nearly full.
        let free = (0..MAX_GUESSES)
            .map(|_| range.choose(random()))
            .chain(range.all())
            .map(|address| address.to_string())
            .find(|address| !in_use.contains(address))
            .unwrap_or_default();
        in_use.insert(free.clone());
        free
    }
}

impl Ports<'_> {
    /// Allocates a port.
    pub fn next(&mut self) -> u16 {
        let in_use = self
            .in_use
            .read(|spec, in_use| in_use.extend(ports_in(spec)));
        in_use.extend(self.requested.drain(..));
        let start = (random() % 2768) as u16;
        let mut ports = (0..2768).map(|step| 30_000 + (start + step) % 2768);
        let free = ports.find(|port| !in_use.contains(&u64::from(*port)));
        in_use.extend(free.map(u64::from));
        free.unwrap_or(0)
    }

    /// Reserves the ports that the service requests itself.
    pub fn reserve_requested(&mut self, service: &Object) {
        self.requested
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

impl<'a, T> InUse<'a, T> {
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
            let mut in_use = HashSet::new();
            if let Some(services) = registry.cache().find(core_kind("services"), space) {
                for service in services.snapshot("", None).objects {
                    if let Some(spec) = service.tree().get("spec") {
                        read(spec, &mut in_use);
                    }
                }
            }
            in_use
        })
    }
}

fn random() -> u64 {
    Uuid::new_v4().as_u64_pair().0 >> 16
}
