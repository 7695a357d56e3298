//! The observed state of a virtual machine.

use super::element::Element;
use super::properties::{ObjectContent, PropertySpec, Traversal};
use super::{Error, Object, Session};

/// The observed state of a virtual machine.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Machine {
    /// Its name in the inventory.
    pub name: String,
    /// Its BIOS UUID, which the guest sees.
    pub bios_uuid: Option<String>,
    /// Its instance UUID, which is unique in the vCenter.
    pub instance_uuid: Option<String>,
    /// Whether it is marked as a template.
    pub is_template: bool,
    /// Whether it runs.
    pub powered_on: bool,
    /// The host that it runs on.
    pub host: Option<Object>,
    /// The name of the host.
    pub host_name: Option<String>,
    /// The host name of the guest.
    pub guest_host_name: Option<String>,
    /// Whether VMware Tools run, which are needed to shut down the guest.
    pub tools_running: bool,
    /// Its network cards, ordered by key.
    pub cards: Vec<MachineCard>,
    /// Its disks, ordered by key.
    pub disks: Vec<Disk>,
    /// The value of `guestinfo.metadata`.
    pub metadata: Option<String>,
    /// Its current snapshot.
    pub current_snapshot: Option<Object>,
    /// All snapshots.
    pub snapshots: Vec<Snapshot>,
}

/// A network card of a virtual machine.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct MachineCard {
    /// Its device key.
    pub key: i32,
    /// Its MAC address.
    pub mac: String,
    /// The name of its network.
    pub network: Option<String>,
    /// Whether it is connected.
    pub connected: bool,
    /// The IP addresses that the guest reports.
    pub addresses: Vec<String>,
}

/// A disk of a virtual machine.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Disk {
    /// Its device key.
    pub key: i32,
    /// Its size in KiB.
    pub kib: i64,
    /// Its datastore.
    pub datastore: Option<Object>,
    /// Its file in the datastore.
    pub(super) file: Option<String>,
    /// Its disk mode.
    pub(super) mode: Option<String>,
    /// The key of its controller, and its unit number there.
    pub(super) controller: Option<i32>,
    pub(super) unit: Option<i32>,
}

/// A snapshot of a virtual machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Snapshot {
    /// Its name, which need not be unique.
    pub name: String,
    /// Its managed object reference.
    pub object: Object,
}

impl Session {
    /// Reads the state of a virtual machine.
    pub async fn machine(&self, vm: &Object) -> Result<Machine, Error> {
        let wanted = [
            PropertySpec::new("VirtualMachine", PATHS),
            PropertySpec::new("HostSystem", &["name"]),
        ];
        let step = Traversal {
            kind: "VirtualMachine",
            path: "runtime.host",
        };
        let found = self
            .retrieve(std::slice::from_ref(vm), &wanted, Some(step))
            .await?;
        let of = |object: &Object| found.iter().find(|found| found.object == *object);
        let itself = of(vm).ok_or_else(|| Error::Gone(vm.to_string()))?;
        let mut machine = read(itself);
        let host = machine.host.as_ref().and_then(of);
        machine.host_name = host.and_then(|host| host.text("name")).map(str::to_owned);
        Ok(machine)
    }

    /// Reads the disks of a virtual machine.
    pub(super) async fn disks(&self, vm: &Object) -> Result<Vec<Disk>, Error> {
        let wanted = [PropertySpec::new(&vm.kind, &[DEVICES])];
        let found = self
            .retrieve(std::slice::from_ref(vm), &wanted, None)
            .await?;
        let found = found.into_iter().find(|found| found.object == *vm);
        let found = found.ok_or_else(|| Error::Gone(vm.to_string()))?;
        Ok(disks(found.list(DEVICES)))
    }
}

const DEVICES: &str = "config.hardware.device";
const PATHS: &[&str] = &[
    "name",
    "config.uuid",
    "config.instanceUuid",
    "config.template",
    "config.extraConfig",
    DEVICES,
    "runtime.powerState",
    "runtime.host",
    "guest.hostName",
    "guest.toolsRunningStatus",
    "guest.net",
    "snapshot.currentSnapshot",
    "snapshot.rootSnapshotList",
];

fn read(found: &ObjectContent) -> Machine {
    let text = |path: &str| {
        let text = found
            .text(path)
            .map(str::trim)
            .filter(|text| !text.is_empty());
        text.map(str::to_owned)
    };
    let is = |path: &str, value: &str| found.text(path).is_some_and(|text| text.trim() == value);
    Machine {
        name: text("name").unwrap_or_default(),
        bios_uuid: text("config.uuid"),
        instance_uuid: text("config.instanceUuid"),
        is_template: is("config.template", "true"),
        powered_on: is("runtime.powerState", "poweredOn"),
        host: found.object("runtime.host"),
        host_name: None,
        guest_host_name: text("guest.hostName"),
        tools_running: is("guest.toolsRunningStatus", "guestToolsRunning"),
        cards: cards(found.list(DEVICES), found.list("guest.net")),
        disks: disks(found.list(DEVICES)),
        metadata: extra(found.list("config.extraConfig"), "guestinfo.metadata"),
        current_snapshot: found.object("snapshot.currentSnapshot"),
        snapshots: snapshots(found.list("snapshot.rootSnapshotList")),
    }
}

fn extra(options: &[Element], key: &str) -> Option<String> {
    let found = options
        .iter()
        .find(|option| option.text("key") == Some(key))?;
    Some(found.text("value")?.to_owned())
}

fn cards(devices: &[Element], seen: &[Element]) -> Vec<MachineCard> {
    // There are many types of cards; only they have a MAC address.
    let is_card = |device: &&Element| {
        device
            .at("macAddress")
            .or(device.at("addressType"))
            .is_some()
    };
    let mut cards: Vec<_> = devices
        .iter()
        .filter(is_card)
        .map(|card| read_card(card, seen))
        .collect();
    cards.sort_by_key(|card| card.key);
    cards
}

/// Reads a card, with the guest's report for its key. The guest also reports interfaces of
/// containers, which have no key.
fn read_card(card: &Element, seen: &[Element]) -> MachineCard {
    let key = card.number("key").unwrap_or_default();
    let seen = seen
        .iter()
        .find(|seen| seen.number("deviceConfigId") == Some(key));
    let network = seen.and_then(|seen| seen.text("network"));
    let network = network.or_else(|| card.text("backing/deviceName"));
    let connected = seen.unwrap_or(card);
    let connected = connected.is_true("connected") || card.is_true("connectable/connected");
    let addresses = seen.into_iter().flat_map(|seen| seen.all("ipAddress"));
    MachineCard {
        key,
        mac: card
            .text("macAddress")
            .unwrap_or_default()
            .trim()
            .to_owned(),
        network: network.filter(|name| !name.is_empty()).map(str::to_owned),
        connected,
        addresses: addresses
            .map(|address| address.own_text().trim().to_owned())
            .collect(),
    }
}

fn disks(devices: &[Element]) -> Vec<Disk> {
    let disks = devices
        .iter()
        .filter(|device| device.kind() == "VirtualDisk");
    let mut disks: Vec<_> = disks.filter_map(read_disk).collect();
    disks.sort_by_key(|disk| disk.key);
    disks
}

fn read_disk(disk: &Element) -> Option<Disk> {
    let text = |path: &str| disk.text(path).map(str::to_owned);
    Some(Disk {
        key: disk.number("key")?,
        kib: disk.number("capacityInKB").unwrap_or_default(),
        datastore: disk.object("backing/datastore"),
        file: text("backing/fileName"),
        mode: text("backing/diskMode"),
        controller: disk.number("controllerKey"),
        unit: disk.number("unitNumber"),
    })
}

fn snapshots(roots: &[Element]) -> Vec<Snapshot> {
    let mut left: Vec<&Element> = roots.iter().collect();
    let mut found = Vec::new();
    while let Some(tree) = left.pop() {
        left.extend(tree.all("childSnapshotList"));
        if let Some(object) = tree.object("snapshot") {
            let name = tree.text("name").unwrap_or_default().to_owned();
            found.push(Snapshot { name, object });
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::super::properties;
    use super::*;

    fn machine(properties: &[(&str, &str)]) -> Machine {
        let sets: String = properties
            .iter()
            .map(|(name, value)| format!("<propSet><name>{name}</name>{value}</propSet>"))
            .collect();
        let objects = format!("<objects><obj type=\"VirtualMachine\">vm-1</obj>{sets}</objects>");
        read(&properties::tests::found(&objects).expect("read")[0])
    }

    #[test]
    fn invisible_machine_has_no_properties() {
        assert_eq!(machine(&[]), Machine::default());
        let odd = [
            ("name", "<val/>"),
            (
                "config.hardware.device",
                "<val><VirtualDevice><key>x</key></VirtualDevice></val>",
            ),
            ("guest.net", "<val><GuestNicInfo/></val>"),
            ("runtime.host", "<val>host-1</val>"),
            ("runtime.powerState", "<val>suspended</val>"),
            (
                "snapshot.rootSnapshotList",
                "<val><VirtualMachineSnapshotTree/></val>",
            ),
        ];
        assert_eq!(machine(&odd), Machine::default());
    }

    #[test]
    fn addresses_are_those_of_cards_only() {
        let devices = "<val>\
            <VirtualDevice i:type=\"VirtualE1000e\"><key>4001</key>\
            <backing><deviceName>net b</deviceName></backing>\
            <connectable><connected>false</connected></connectable>\
            <macAddress>00:50:56:00:00:02</macAddress></VirtualDevice>\
            <VirtualDevice i:type=\"VirtualVmxnet3\"><key>4000</key>\
            <connectable><connected>true</connected></connectable>\
            <macAddress>00:50:56:00:00:01</macAddress></VirtualDevice>\
            <VirtualDevice i:type=\"VirtualDisk\"><key>2000</key><backing>\
            <fileName>[d] a.vmdk</fileName><datastore type=\"Datastore\">ds-1</datastore>\
            <diskMode>persistent</diskMode></backing><controllerKey>1000</controllerKey>\
            <unitNumber>0</unitNumber><capacityInKB>1024</capacityInKB></VirtualDevice></val>";
        let seen = "<val>\
            <GuestNicInfo><network>net a</network><ipAddress>10.0.0.1</ipAddress>\
            <ipAddress>fe80::1</ipAddress><macAddress>00:50:56:00:00:01</macAddress>\
            <connected>true</connected><deviceConfigId>4000</deviceConfigId></GuestNicInfo>\
            <GuestNicInfo><ipAddress>172.17.0.1</ipAddress><connected>true</connected>\
            <deviceConfigId>-1</deviceConfigId></GuestNicInfo></val>";
        let machine = machine(&[("config.hardware.device", devices), ("guest.net", seen)]);
        let first = MachineCard {
            key: 4000,
            mac: "00:50:56:00:00:01".to_owned(),
            network: Some("net a".to_owned()),
            connected: true,
            addresses: vec!["10.0.0.1".to_owned(), "fe80::1".to_owned()],
        };
        let second = MachineCard {
            key: 4001,
            mac: "00:50:56:00:00:02".to_owned(),
            network: Some("net b".to_owned()),
            connected: false,
            addresses: Vec::new(),
        };
        assert_eq!(machine.cards, [first, second]);
        let disk = Disk {
            key: 2000,
            kib: 1024,
            datastore: Some(Object::new("Datastore", "ds-1")),
            file: Some("[d] a.vmdk".to_owned()),
            mode: Some("persistent".to_owned()),
            controller: Some(1000),
            unit: Some(0),
        };
        assert_eq!(machine.disks, [disk]);
    }

    #[test]
    fn nested_snapshots_are_found() {
        let tree = |id: &str, name: &str, below: &str| {
            format!(
                "<snapshot type=\"VirtualMachineSnapshot\">{id}</snapshot><name>{name}</name>{below}"
            )
        };
        let child = tree("snapshot-2", "b", "");
        let child = format!("<childSnapshotList>{child}</childSnapshotList>");
        let root = tree("snapshot-1", "a", &child);
        let list =
            format!("<val><VirtualMachineSnapshotTree>{root}</VirtualMachineSnapshotTree></val>");
        let current = "<val type=\"VirtualMachineSnapshot\">snapshot-2</val>";
        let known = machine(&[
            ("snapshot.rootSnapshotList", &list),
            ("snapshot.currentSnapshot", current),
        ]);
        let names: Vec<_> = known
            .snapshots
            .iter()
            .map(|snapshot| snapshot.name.as_str())
            .collect();
        assert_eq!(names, ["a", "b"]);
        assert_eq!(
            known.current_snapshot,
            Some(known.snapshots[1].object.clone())
        );
    }
}
