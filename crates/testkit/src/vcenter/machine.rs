//! A virtual machine: its hardware, its guest, and its reconfiguration.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use super::element::Element;
use super::fault::Fault;
use super::inventory::Inventory;
use super::value::{ANY_STRING, Data, Reference, Value};

/// A virtual machine. Its path and name are in the inventory.
#[derive(Clone, Debug, Default)]
pub(super) struct Vm {
    pub bios_uuid: String,
    pub instance_uuid: String,
    pub template: bool,
    pub powered_on: Option<Instant>,
    pub cpus: i32,
    pub cores_per_socket: i32,
    pub memory_mib: i64,
    pub disks: Vec<Disk>,
    pub cards: Vec<Card>,
    pub extra: BTreeMap<String, String>,
    pub pool: String,
    pub datastore: String,
    pub host: String,
    pub snapshots: Vec<Snapshot>,
    pub created_by: String,
    pub linked: bool,
    pub disk_uuids: bool,
    /// The addresses that its guest will get.
    pub addresses: Vec<String>,
}

#[derive(Clone, Debug)]
pub(super) struct Disk {
    pub key: i32,
    pub kib: i64,
}

#[derive(Clone, Debug)]
pub(super) struct Card {
    pub key: i32,
    pub of: &'static str,
    pub mac: String,
    pub assigned: bool,
    pub network: Network,
}

/// The network that a card is connected to.
#[derive(Clone, Debug)]
pub(super) struct Network {
    pub object: Reference,
    pub name: String,
    /// The switch of a distributed network.
    pub switch: Option<String>,
}

#[derive(Clone, Debug)]
pub(super) struct Snapshot {
    pub id: String,
    pub name: String,
}

impl Vm {
    /// Whether its guest is running, with tools and addresses.
    fn is_guest_ready(&self, after: Duration, now: Instant) -> bool {
        self.powered_on
            .is_some_and(|on| now.duration_since(on) >= after)
    }

    pub fn power(&self) -> &'static str {
        if self.powered_on.is_some() {
            "poweredOn"
        } else {
            "poweredOff"
        }
    }

    /// The addresses of its guest.
    pub fn addresses(&self, after: Duration, now: Instant) -> Vec<String> {
        if !self.is_guest_ready(after, now) {
            return Vec::new();
        }
        match self.extra.get("SET.guest.ipAddress") {
            Some(address) => vec![address.clone()],
            None => self.addresses.clone(),
        }
    }

    /// Applies a `VirtualMachineConfigSpec`.
    pub fn configure(&mut self, spec: &Element, inventory: &Inventory) -> Result<(), Fault> {
        if let Some(uuid) = spec.text_of("uuid") {
            self.bios_uuid = uuid.to_owned();
        }
        if let Some(uuid) = spec.text_of("instanceUuid") {
            self.instance_uuid = uuid.to_owned();
        }
        self.cpus = spec.number_of("numCPUs").unwrap_or(self.cpus);
        let cores = spec.number_of("numCoresPerSocket");
        self.cores_per_socket = cores.unwrap_or(self.cores_per_socket);
        self.memory_mib = spec.number_of("memoryMB").unwrap_or(self.memory_mib);
        let flags = spec.child("flags");
        self.disk_uuids |= flags.is_some_and(|flags| flags.is_true("diskUuidEnabled"));
        for change in spec.all("deviceChange") {
            self.change(change, inventory)?;
        }
        for option in spec.all("extraConfig") {
            let key = option.text_of("key").unwrap_or_default().to_owned();
            match option.text_of("value") {
                // An empty value removes the key.
                None | Some("") => self.extra.remove(&key),
                Some(value) => self.extra.insert(key, value.to_owned()),
            };
        }
        Ok(())
    }

    fn change(&mut self, change: &Element, inventory: &Inventory) -> Result<(), Fault> {
        let wrong = |why: &str| Fault::new("InvalidDeviceSpec", why);
        let device = change.child("device").ok_or_else(|| wrong("no device"))?;
        let key: i32 = device.number_of("key").ok_or_else(|| wrong("no key"))?;
        let of = device.of.as_deref().unwrap_or_default();
        match (change.text_of("operation"), card_kind(of)) {
            (Some("add"), Some(of)) => self.add_card(of, device, inventory),
            (Some("remove"), _) => {
                let before = self.cards.len() + self.disks.len();
                self.cards.retain(|card| card.key != key);
                self.disks.retain(|disk| disk.key != key);
                let gone = before != self.cards.len() + self.disks.len();
                gone.then_some(())
                    .ok_or_else(|| wrong("no device has this key"))
            }
            (Some("edit"), None) if of == "VirtualDisk" => self.resize(key, device),
            (Some("add"), None) if of == "VirtualDisk" => {
                let key = self.disks.iter().map(|disk| disk.key).max().unwrap_or(1999) + 1;
                let kib = device.number_of("capacityInKB").unwrap_or_default();
                self.disks.push(Disk { key, kib });
                Ok(())
            }
            (operation, _) => Err(wrong(&format!("{operation:?} of a {of:?}"))),
        }
    }

    fn resize(&mut self, key: i32, device: &Element) -> Result<(), Fault> {
        let wrong = |why: &str| Fault::new("InvalidDeviceSpec", why);
        let kib: i64 = device
            .number_of("capacityInKB")
            .ok_or_else(|| wrong("no capacity"))?;
        let mut disks = self.disks.iter_mut();
        let disk = disks.find(|disk| disk.key == key);
        let disk = disk.ok_or_else(|| wrong("no disk has this key"))?;
        if kib < disk.kib {
            return Err(wrong("a disk does not shrink"));
        }
        disk.kib = kib;
        Ok(())
    }

    fn add_card(
        &mut self,
        of: &'static str,
        device: &Element,
        inventory: &Inventory,
    ) -> Result<(), Fault> {
        let network = network(device, inventory)
            .ok_or_else(|| Fault::new("InvalidDeviceBacking", "there is no such network"))?;
        let key = self.cards.iter().map(|card| card.key).max().unwrap_or(3999) + 1;
        let manual = device.text_of("addressType") == Some("manual");
        let given = device
            .text_of("macAddress")
            .filter(|mac| manual && !mac.is_empty());
        self.cards.push(Card {
            key,
            of,
            mac: given.map_or_else(fresh_mac, str::to_owned),
            assigned: given.is_none(),
            network,
        });
        Ok(())
    }

    /// Its `config` property.
    pub fn config(&self, id: &str, name: &str) -> Data {
        let mut extra = Vec::new();
        for (key, value) in &self.extra {
            let option = Data::new("OptionValue").with("key", key.as_str());
            extra.push(option.with("value", Value::text(ANY_STRING, value)));
        }
        let flags = Data::new("VirtualMachineFlagInfo").with("diskUuidEnabled", self.disk_uuids);
        Data::new("VirtualMachineConfigInfo")
            .with("changeVersion", "1")
            .with("modified", "1970-01-01T00:00:00Z")
            .with("name", name)
            .with("guestFullName", "Ubuntu Linux (64-bit)")
            .with("version", "vmx-15")
            .with("uuid", self.bios_uuid.as_str())
            .with("instanceUuid", self.instance_uuid.as_str())
            .with("template", self.template)
            .with("guestId", "ubuntu64Guest")
            .with("annotation", "")
            .with(
                "files",
                Data::new("VirtualMachineFileInfo")
                    .with("vmPathName", format!("[LocalDS_0] {id}/{id}.vmx")),
            )
            .with("flags", flags)
            .with("hardware", self.hardware())
            .with(
                "extraConfig",
                Value::List("OptionValue", extra.into_iter().map(Value::from).collect()),
            )
    }

    fn hardware(&self) -> Data {
        let mut devices = vec![controller()];
        devices.extend(
            self.disks
                .iter()
                .zip(0..)
                .map(|(disk, unit)| disk.data(unit, &self.datastore)),
        );
        devices.extend(
            self.cards
                .iter()
                .zip(7..)
                .map(|(card, unit)| card.data(unit)),
        );
        let devices = devices.into_iter().map(Value::from).collect();
        let memory = i32::try_from(self.memory_mib).unwrap_or(i32::MAX);
        Data::new("VirtualHardware")
            .with("numCPU", self.cpus)
            .with("numCoresPerSocket", self.cores_per_socket)
            .with("memoryMB", memory)
            .with("device", Value::List("VirtualDevice", devices))
    }

    /// Its `guest` property.
    pub fn guest(&self, name: &str, after: Duration, now: Instant) -> Data {
        let runs = self.is_guest_ready(after, now);
        let tools = if runs {
            "guestToolsRunning"
        } else {
            "guestToolsNotRunning"
        };
        let addresses = self.addresses(after, now);
        let cards = self.cards.iter().filter(|_| runs).zip(0..);
        let cards = cards.map(|(card, at)| card.guest(if at == 0 { &addresses } else { &[] }));
        let cards = Value::List("GuestNicInfo", cards.map(Value::from).collect());
        Data::new("GuestInfo")
            .with(
                "toolsStatus",
                if runs { "toolsOk" } else { "toolsNotRunning" },
            )
            .with("toolsRunningStatus", tools)
            .maybe("hostName", runs.then_some(name))
            .maybe("ipAddress", addresses.first().map(String::as_str))
            .with("net", cards)
            .with("guestState", if runs { "running" } else { "notRunning" })
    }

    pub fn runtime(&self) -> Data {
        let power = Value::text("VirtualMachinePowerState", self.power());
        let host = Reference::new("HostSystem", self.host.clone());
        let state = Value::text("VirtualMachineConnectionState", "connected");
        Data::new("VirtualMachineRuntimeInfo")
            .with("host", host)
            .with("connectionState", state)
            .with("powerState", power)
    }

    pub fn snapshot(&self, id: &str) -> Option<Data> {
        let last = self.snapshots.last()?;
        let current = Reference::new("VirtualMachineSnapshot", last.id.clone());
        let mut tree: Option<Data> = None;
        for snapshot in self.snapshots.iter().rev() {
            let below = tree.take();
            let of = Reference::new("VirtualMachineSnapshot", snapshot.id.clone());
            let this = Data::new("VirtualMachineSnapshotTree")
                .with("snapshot", of)
                .with("vm", Reference::new("VirtualMachine", id))
                .with("name", snapshot.name.as_str())
                .with("description", "")
                .with("id", 1)
                .with("createTime", "1970-01-01T00:00:00Z")
                .with("state", "poweredOff")
                .with("quiesced", false);
            tree = Some(this.maybe("childSnapshotList", below.map(|below| vec![below])));
        }
        let info = Data::new("VirtualMachineSnapshotInfo").with("currentSnapshot", current);
        Some(info.maybe("rootSnapshotList", tree.map(|tree| vec![tree])))
    }
}

impl Disk {
    fn data(&self, unit: i32, datastore: &str) -> Data {
        let backing = Data::new("VirtualDiskFlatVer2BackingInfo")
            .with("fileName", format!("[LocalDS_0] {}.vmdk", self.key))
            .with("datastore", Reference::new("Datastore", datastore))
            .with("diskMode", "persistent")
            .with("thinProvisioned", true);
        Data::new("VirtualDisk")
            .with("key", self.key)
            .with(
                "deviceInfo",
                description(&format!("Hard disk {}", unit + 1)),
            )
            .with("backing", backing)
            .with("controllerKey", 1000)
            .with("unitNumber", unit)
            .with("capacityInKB", self.kib)
            .with("capacityInBytes", self.kib * 1024)
    }
}

impl Card {
    fn data(&self, unit: i32) -> Data {
        let connectable = Data::new("VirtualDeviceConnectInfo")
            .with("startConnected", true)
            .with("allowGuestControl", true)
            .with("connected", true);
        Data::new(self.of)
            .with("key", self.key)
            .with(
                "deviceInfo",
                description(&format!("Network adapter {}", self.key - 3999)),
            )
            .with("backing", self.network.backing())
            .with("connectable", connectable)
            .with("controllerKey", 100)
            .with("unitNumber", unit)
            .with(
                "addressType",
                if self.assigned { "assigned" } else { "manual" },
            )
            .with("macAddress", self.mac.as_str())
    }

    fn guest(&self, addresses: &[String]) -> Data {
        let info = Data::new("GuestNicInfo").with("network", self.network.name.as_str());
        let info = match addresses {
            [] => info,
            some => info.with("ipAddress", some.to_vec()),
        };
        let info = info
            .with("macAddress", self.mac.as_str())
            .with("connected", true)
            .with("deviceConfigId", self.key);
        if addresses.is_empty() {
            return info;
        }
        let each = addresses.iter().map(|address| {
            let length = if address.contains(':') { 64 } else { 24 };
            let address = Data::new("NetIpConfigInfoIpAddress").with("ipAddress", address.as_str());
            address
                .with("prefixLength", length)
                .with("state", "preferred")
        });
        let config = Data::new("NetIpConfigInfo").with("ipAddress", each.collect::<Vec<_>>());
        info.with("ipConfig", config)
    }
}

impl Network {
    fn backing(&self) -> Data {
        if let Some(switch) = &self.switch {
            let port = Data::new("DistributedVirtualSwitchPortConnection")
                .with("switchUuid", switch.as_str())
                .with("portgroupKey", self.object.id.as_str());
            let of = "VirtualEthernetCardDistributedVirtualPortBackingInfo";
            return Data::new(of).with("port", port);
        }
        Data::new("VirtualEthernetCardNetworkBackingInfo")
            .with("deviceName", self.name.as_str())
            .with("network", self.object.clone())
    }

    /// The network with this ID.
    pub fn of(id: &str, inventory: &Inventory) -> Option<Self> {
        let node = inventory.get(id)?;
        let switch = match inventory.property(id, "config") {
            Some(Some(config)) => switch_of(&config, inventory),
            _ => None,
        };
        Some(Self {
            object: inventory.reference(id)?,
            name: node.name.clone(),
            switch,
        })
    }
}

/// The UUID of the switch that a distributed network names.
fn switch_of(config: &Value, inventory: &Inventory) -> Option<String> {
    let switch = config
        .at(&["distributedVirtualSwitch".to_owned()])?
        .objects();
    match inventory.property(&switch.first()?.id, "uuid")?? {
        Value::Plain(_, uuid) => Some(uuid),
        _ => None,
    }
}

/// The network of a card's backing, if it is completely valid.
fn network(device: &Element, inventory: &Inventory) -> Option<Network> {
    let backing = device.child("backing")?;
    if let Some(port) = backing.child("port") {
        let network = Network::of(port.text_of("portgroupKey")?, inventory)?;
        let named = port.text_of("switchUuid");
        return (named == network.switch.as_deref()).then_some(network);
    }
    if let Some(id) = backing.text_of("opaqueNetworkId") {
        let network = Network::of(id, inventory)?;
        return (network.object.kind == "OpaqueNetwork").then_some(network);
    }
    let name = backing.text_of("deviceName")?;
    let network = match backing.text_of("network") {
        Some(id) => Network::of(id, inventory)?,
        None => inventory
            .named("Network", name)
            .and_then(|id| Network::of(&id, inventory))?,
    };
    // A distributed network cannot be used as a standard one.
    (network.object.kind == "Network" && network.name == name).then_some(network)
}

fn card_kind(of: &str) -> Option<&'static str> {
    Some(match of {
        "VirtualVmxnet3" => "VirtualVmxnet3",
        "VirtualE1000" => "VirtualE1000",
        "VirtualE1000e" => "VirtualE1000e",
        _ => return None,
    })
}

/// A random address from the range that vCenters assign.
pub(super) fn fresh_mac() -> String {
    let random = uuid::Uuid::new_v4();
    let [a, b, c, ..] = random.as_bytes();
    format!("00:50:56:{:02x}:{b:02x}:{c:02x}", 0x80 | (a & 0x3f))
}

fn description(label: &str) -> Data {
    let data = Data::new("Description");
    data.with("label", label).with("summary", label)
}

fn controller() -> Data {
    Data::new("ParaVirtualSCSIController")
        .with("key", 1000)
        .with("deviceInfo", description("SCSI controller 0"))
        .with("busNumber", 0)
        .with("sharedBus", "noSharing")
}
