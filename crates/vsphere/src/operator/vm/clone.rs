//! Prepares a clone: resolves names to objects of the vCenter, and adds the bootstrap data.

use std::collections::BTreeMap;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use insula_capi::bootstrap;
use insula_identity::credential::Hidden;
use k8s_openapi::ByteString;
use kube::ResourceExt;

use super::plan::Problem;
use crate::kinds::{VSphereVM, VirtualMachineSpec};
use crate::vcenter::{self, Card, Hardware, Machine, NotLocated, Object, Place, Session};

/// A clone that can be started.
pub(super) struct Prepared {
    pub template: Object,
    pub clone: vcenter::Clone,
    /// `linkedClone` or `fullClone`.
    pub mode: &'static str,
}

/// Why a clone cannot be started.
#[derive(Debug)]
pub(super) enum PrepareError {
    /// The VSphereVM, or an object that it references, is invalid.
    Problem(Problem),
    VCenter(vcenter::Error),
}

impl From<vcenter::Error> for PrepareError {
    fn from(error: vcenter::Error) -> Self {
        Self::VCenter(error)
    }
}

impl From<NotLocated> for PrepareError {
    fn from(error: NotLocated) -> Self {
        match error {
            NotLocated::Error(error) => Self::VCenter(error),
            missing => Self::Problem(Problem::new("NotProvisioned", missing.to_string())),
        }
    }
}

/// The minimum number of processors of a Kubernetes node.
const MIN_CPUS: i32 = 2;
/// The default memory in MiB.
const DEFAULT_MEMORY_MIB: i64 = 2048;
/// Prefixes of the keys that only the operator sets.
const RESERVED_PREFIXES: [&str; 3] = [
    "guestinfo.metadata",
    "guestinfo.userdata",
    "guestinfo.ignition",
];

/// Resolves everything that a clone needs.
pub(super) async fn prepare(
    session: &Session,
    vm: &VSphereVM,
    start: &BootstrapData,
) -> Result<Prepared, PrepareError> {
    let spec = &vm.spec.machine;
    let datacenter = session.datacenter(spec.datacenter.as_deref()).await?;
    let template = find_template(session, &datacenter, &spec.template).await?;
    let source = session.machine(&template).await?;
    let (mode, snapshot) = mode(spec, &source)?;
    let place = |what, text: &Option<String>| {
        let (text, datacenter) = (text.clone(), &datacenter);
        async move { session.locate(what, datacenter, text.as_deref()).await }
    };
    let mut cards = Vec::new();
    for device in &spec.network.devices {
        let network = place(Place::Network, &Some(device.network_name.clone())).await?;
        let mac = device.mac_addr.clone();
        cards.push(Card { network, mac });
    }
    let clone = vcenter::Clone {
        name: vm.name_any(),
        instance_uuid: vm.uid().unwrap_or_default(),
        folder: Some(place(Place::Folder, &spec.folder).await?),
        pool: Some(place(Place::ResourcePool, &spec.resource_pool).await?),
        datastore: Some(place(Place::Datastore, &spec.datastore).await?),
        snapshot,
        hardware: hardware(spec),
        extra: extra(spec, start),
        cards,
        cards_of_template: source.cards.iter().map(|card| card.key).collect(),
        first_disk: first_disk(spec, &source, mode),
    };
    Ok(Prepared {
        template,
        clone,
        mode,
    })
}

/// Finds a template by name, inventory path or UUID.
async fn find_template(
    session: &Session,
    datacenter: &Object,
    text: &str,
) -> Result<Object, PrepareError> {
    let found = session
        .locate(Place::VirtualMachine, datacenter, Some(text))
        .await;
    found.map_err(|error| match error {
        NotLocated::Missing { text, .. } => {
            Problem::new("NotProvisioned", format!("there is no template {text:?}")).into()
        }
        error => error.into(),
    })
}

impl From<Problem> for PrepareError {
    fn from(problem: Problem) -> Self {
        Self::Problem(problem)
    }
}

/// Returns the clone mode and the snapshot. The default is a linked clone if there is a snapshot.
fn mode(
    spec: &VirtualMachineSpec,
    source: &Machine,
) -> Result<(&'static str, Option<Object>), Problem> {
    let wished = spec.clone_mode.as_deref().filter(|mode| !mode.is_empty());
    match wished {
        Some("fullClone") => return Ok(("fullClone", None)),
        Some("linkedClone") | None => {}
        Some(other) => {
            let message = format!("cloneMode {other:?} is neither linkedClone nor fullClone");
            return Err(Problem::new("NotProvisioned", message));
        }
    }
    let snapshot = match spec.snapshot.as_deref().filter(|name| !name.is_empty()) {
        None => source.current_snapshot.clone(),
        Some(name) => {
            let mut named = source.snapshots.iter().filter(|one| one.name == name);
            let found = named.next().map(|one| one.object.clone());
            let missing = || format!("the template has no snapshot {name:?}");
            Some(found.ok_or_else(|| Problem::new("NotProvisioned", missing()))?)
        }
    };
    // A linked clone needs a snapshot. Without one, a full clone serves the same purpose.
    Ok(match snapshot {
        Some(snapshot) => ("linkedClone", Some(snapshot)),
        None => ("fullClone", None),
    })
}

/// Returns the key and size of the first disk, if it is to grow. That of a linked clone cannot.
fn first_disk(spec: &VirtualMachineSpec, source: &Machine, mode: &str) -> Option<(i32, i64)> {
    let gib = spec
        .disk_gib
        .filter(|gib| *gib > 0 && mode == "fullClone")?;
    let disk = source.disks.first()?;
    Some((disk.key, i64::from(gib)))
}

fn hardware(spec: &VirtualMachineSpec) -> Hardware {
    Hardware {
        cpus: spec.num_cpus.unwrap_or_default().max(MIN_CPUS),
        cores_per_socket: spec.num_cores_per_socket.filter(|cores| *cores > 0),
        memory_mib: spec
            .memory_mib
            .filter(|memory| *memory > 0)
            .unwrap_or(DEFAULT_MEMORY_MIB),
    }
}

/// The bootstrap data of a machine, as extra configuration.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct BootstrapData(Vec<(String, Hidden)>);

impl BootstrapData {
    /// Reads the bootstrap data from a Secret.
    pub fn of(name: &str, data: &BTreeMap<String, ByteString>) -> Result<Self, Problem> {
        let read = bootstrap::read(name, data);
        let (format, value) = read.map_err(|why| Problem::new(bootstrap::WAITING, why))?;
        let key = match format {
            bootstrap::Format::CloudConfig => "guestinfo.userdata",
            bootstrap::Format::Ignition => "guestinfo.ignition.config.data",
        };
        Ok(Self(vec![
            (key.to_owned(), Hidden::new(STANDARD.encode(value))),
            (format!("{key}.encoding"), Hidden::new("base64")),
        ]))
    }
}

/// Returns the user's extra configuration without reserved keys, and the bootstrap data.
fn extra(spec: &VirtualMachineSpec, start: &BootstrapData) -> Vec<(String, Hidden)> {
    let is_reserved = |key: &str| {
        let key = key.to_ascii_lowercase();
        RESERVED_PREFIXES
            .iter()
            .any(|prefix| key.starts_with(prefix))
    };
    let given = spec
        .custom_vmx_keys
        .iter()
        .filter(|(key, _)| !is_reserved(key));
    let given = given.map(|(key, value)| (key.clone(), Hidden::new(value.as_str())));
    given.chain(start.0.iter().cloned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::vcenter::{Disk, Snapshot};

    fn revealed(list: &[(String, Hidden)]) -> Vec<(&str, &str)> {
        let pairs = list.iter();
        pairs
            .map(|(key, value)| (key.as_str(), value.text().unwrap()))
            .collect()
    }

    #[test]
    fn bootstrap_data_is_written_for_its_format() {
        let cloud = [
            ("guestinfo.userdata", "aGk="),
            ("guestinfo.userdata.encoding", "base64"),
        ];
        let ignition = [
            ("guestinfo.ignition.config.data", "aGk="),
            ("guestinfo.ignition.config.data.encoding", "base64"),
        ];
        let waits = |message: &str| Err(Problem::new("WaitingForBootstrapData", message));
        for (value, format, expected) in [
            (Some("hi"), None, Ok(cloud)),
            (Some("hi"), Some("cloud-config"), Ok(cloud)),
            (Some("hi"), Some("cloud-config\n"), Ok(cloud)),
            (Some("hi"), Some("ignition"), Ok(ignition)),
            (
                Some("hi"),
                Some("butane"),
                waits("the format \"butane\" in Secret \"b\" is neither cloud-config nor ignition"),
            ),
            (Some(""), None, waits("Secret \"b\" has no key \"value\"")),
            (
                None,
                Some("ignition"),
                waits("Secret \"b\" has no key \"value\""),
            ),
        ] {
            let bytes = |text: &str| ByteString(text.as_bytes().to_vec());
            let data = [("value", value), ("format", format)];
            let data = data
                .into_iter()
                .filter_map(|(key, text)| Some((key.to_owned(), bytes(text?))));
            let start = BootstrapData::of("b", &data.collect());
            let start = start
                .as_ref()
                .map(|start| revealed(&start.0))
                .map_err(Clone::clone);
            assert_eq!(start, expected.map(Vec::from), "{value:?} {format:?}");
        }
    }

    #[test]
    fn reserved_keys_cannot_be_set_by_users() {
        let mut spec = VirtualMachineSpec::default();
        for key in [
            "disk.enableUUID",
            "GuestInfo.Metadata",
            "guestinfo.userdata.encoding",
        ] {
            spec.custom_vmx_keys.insert(key.to_owned(), "x".to_owned());
        }
        let start = BootstrapData(vec![("guestinfo.userdata".to_owned(), Hidden::new("y"))]);
        let expected = [("disk.enableUUID", "x"), ("guestinfo.userdata", "y")];
        assert_eq!(revealed(&extra(&spec, &start)), expected);
    }

    #[test]
    fn clone_is_linked_by_default_if_there_is_a_snapshot() {
        let object = |id: &str| Object::new("VirtualMachineSnapshot", id);
        let linked = |id: &str| Ok(("linkedClone", Some(object(id))));
        let full = || Ok(("fullClone", None));
        let error = |message: &str| Err(Problem::new("NotProvisioned", message));
        let with = Machine {
            current_snapshot: Some(object("s2")),
            snapshots: ["s1", "s2"]
                .map(|name| Snapshot {
                    name: name.to_owned(),
                    object: object(name),
                })
                .into(),
            ..Machine::default()
        };
        let without = Machine::default();
        for (wished, snapshot, source, expected) in [
            (None, None, &without, full()),
            (None, None, &with, linked("s2")),
            (Some(""), Some(""), &with, linked("s2")),
            (Some("linkedClone"), None, &with, linked("s2")),
            (Some("linkedClone"), None, &without, full()),
            (Some("fullClone"), None, &with, full()),
            (Some("fullClone"), Some("s1"), &with, full()),
            (None, Some("s1"), &with, linked("s1")),
            (
                None,
                Some("s1"),
                &without,
                error("the template has no snapshot \"s1\""),
            ),
            (
                Some("half"),
                None,
                &with,
                error("cloneMode \"half\" is neither linkedClone nor fullClone"),
            ),
        ] {
            let spec = VirtualMachineSpec {
                clone_mode: wished.map(str::to_owned),
                snapshot: snapshot.map(str::to_owned),
                ..VirtualMachineSpec::default()
            };
            assert_eq!(mode(&spec, source), expected, "{wished:?} {snapshot:?}");
        }
    }

    #[test]
    fn only_a_full_clone_gets_a_disk_size() {
        let mut disk = Disk::default();
        disk.key = 2000;
        let source = Machine {
            disks: vec![disk],
            ..Machine::default()
        };
        for (gib, mode, expected) in [
            (Some(40), "fullClone", Some((2000, 40))),
            (Some(40), "linkedClone", None),
            (Some(0), "fullClone", None),
            (None, "fullClone", None),
        ] {
            let spec = VirtualMachineSpec {
                disk_gib: gib,
                ..VirtualMachineSpec::default()
            };
            assert_eq!(first_disk(&spec, &source, mode), expected, "{gib:?} {mode}");
        }
        let spec = VirtualMachineSpec {
            disk_gib: Some(40),
            ..VirtualMachineSpec::default()
        };
        assert_eq!(first_disk(&spec, &Machine::default(), "fullClone"), None);
    }

    #[test]
    fn machine_has_the_minimum_size_of_a_node() {
        for (cpus, memory, cores, expected) in [
            (None, None, None, (2, 2048, None)),
            (Some(1), Some(0), Some(0), (2, 2048, None)),
            (Some(-3), Some(-1), Some(-1), (2, 2048, None)),
            (Some(8), Some(4096), Some(4), (8, 4096, Some(4))),
        ] {
            let spec = VirtualMachineSpec {
                num_cpus: cpus,
                memory_mib: memory,
                num_cores_per_socket: cores,
                ..VirtualMachineSpec::default()
            };
            let hardware = hardware(&spec);
            let found = (
                hardware.cpus,
                hardware.memory_mib,
                hardware.cores_per_socket,
            );
            assert_eq!(found, expected);
        }
    }
}
