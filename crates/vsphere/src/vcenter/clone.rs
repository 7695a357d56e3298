//! Clones of templates.

use insula_identity::credential::Hidden;

use super::machine::Disk;
use super::properties::{ObjectContent, PropertySpec, RETRIEVE, Traversal};
use super::xml_writer::XmlWriter;
use super::{Error, Object, Session};

/// The first key of new cards: negative, because positive keys are assigned by the vCenter.
const FIRST_CARD: i32 = -100;
const KIB_IN_GIB: i64 = 1 << 20;

/// The specification of a clone.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Clone {
    /// Its name in the inventory.
    pub name: String,
    /// The UID of its VSphereVM: a clone is found by it before its BIOS UUID is known.
    pub instance_uuid: String,
    /// Its folder; that of the template if `None`.
    pub folder: Option<Object>,
    /// Its resource pool.
    pub pool: Option<Object>,
    /// Its datastore.
    pub datastore: Option<Object>,
    /// The snapshot that a linked clone is based on.
    pub snapshot: Option<Object>,
    /// Its size.
    pub hardware: Hardware,
    /// Extra configuration. Values are secret: they contain the bootstrap data.
    pub extra: Vec<(String, Hidden)>,
    /// The cards to add; those of the template are removed.
    pub cards: Vec<Card>,
    /// The keys of the template's cards.
    pub cards_of_template: Vec<i32>,
    /// The key of a disk of the template, and its new size in GiB. A larger disk stays as it is,
    /// because disks cannot shrink.
    pub first_disk: Option<(i32, i64)>,
}

/// The size of a virtual machine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Hardware {
    /// The number of processors.
    pub cpus: i32,
    /// Cores per socket; chosen by the vCenter if `None`.
    pub cores_per_socket: Option<i32>,
    /// The size of its memory.
    pub memory_mib: i64,
}

/// A network card to add.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Card {
    /// Its network.
    pub network: Object,
    /// Its MAC address; chosen by the vCenter if `None`.
    pub mac: Option<String>,
}

/// The backing of a card.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Backing {
    Network {
        name: String,
        network: Object,
    },
    Port {
        switch_uuid: String,
        portgroup_key: String,
    },
    Opaque {
        id: String,
        kind: String,
    },
}

impl Session {
    /// Starts the clone of a template, powered off. Returns the task.
    pub async fn clone_vm(&self, template: &Object, clone: &Clone) -> Result<Object, Error> {
        let folder = match &clone.folder {
            Some(folder) => folder.clone(),
            None => self.folder_of(template).await?,
        };
        let disks = self.disks(template).await?;
        let mut backings = Vec::new();
        for card in &clone.cards {
            backings.push(self.backing(&card.network).await?);
        }
        let started = self.caller().start(CLONE, template, |text| {
            text.object("folder", &folder).leaf("name", &clone.name);
            text.element("spec", |spec| write(spec, clone, &disks, &backings));
        });
        started.await
    }

    async fn folder_of(&self, template: &Object) -> Result<Object, Error> {
        let found = self.retrieve_one(template, &["parent"]).await?;
        let folder = found.and_then(|found| found.object("parent"));
        folder.ok_or_else(|| Error::unexpected(CLONE, "its template is in no folder"))
    }

    async fn backing(&self, network: &Object) -> Result<Backing, Error> {
        let switches = ["DistributedVirtualSwitch", "VmwareDistributedVirtualSwitch"];
        let (wanted, step) = match network.kind.as_str() {
            PORTGROUP => {
                let switches = switches.map(|kind| PropertySpec::new(kind, &["uuid"]));
                let step = Traversal {
                    kind: PORTGROUP,
                    path: "config.distributedVirtualSwitch",
                };
                let itself = PropertySpec::new(PORTGROUP, &["key"]);
                ([itself].into_iter().chain(switches).collect(), Some(step))
            }
            "OpaqueNetwork" => (vec![PropertySpec::new("OpaqueNetwork", &["summary"])], None),
            _ => (vec![PropertySpec::new(&network.kind, &["name"])], None),
        };
        let found = self
            .retrieve(std::slice::from_ref(network), &wanted, step)
            .await?;
        read_backing(network, &found).ok_or_else(|| {
            let why = format!("it does not say how to plug a card into {network}");
            Error::unexpected(RETRIEVE, why)
        })
    }
}

const CLONE: &str = "CloneVM_Task";
const PORTGROUP: &str = "DistributedVirtualPortgroup";

fn read_backing(network: &Object, found: &[ObjectContent]) -> Option<Backing> {
    let itself = found.iter().find(|found| found.object == *network)?;
    match network.kind.as_str() {
        PORTGROUP => {
            let switch = found.iter().find_map(|found| found.text("uuid"));
            Some(Backing::Port {
                switch_uuid: switch?.to_owned(),
                portgroup_key: itself.text("key")?.to_owned(),
            })
        }
        "OpaqueNetwork" => {
            let summary = itself.get("summary")?;
            Some(Backing::Opaque {
                id: summary.text("opaqueNetworkId")?.to_owned(),
                kind: summary.text("opaqueNetworkType")?.to_owned(),
            })
        }
        _ => {
            let name = itself.text("name")?.to_owned();
            Some(Backing::Network {
                name,
                network: network.clone(),
            })
        }
    }
}

/// Writes the specification in the order of the schema, which a vCenter insists on.
fn write(spec: &mut XmlWriter, clone: &Clone, disks: &[Disk], backings: &[Backing]) {
    let linked = clone.snapshot.is_some();
    spec.element("location", |location| {
        location.maybe("datastore", clone.datastore.as_ref());
        location.leaf("diskMoveType", if linked { CHILD } else { CONSOLIDATE });
        location.maybe("pool", clone.pool.as_ref());
        for disk in disks {
            write_locator(location, disk, clone.datastore.as_ref(), linked);
        }
    });
    spec.plain("template", false);
    spec.element("config", |config| {
        write_config(config, clone, disks, backings)
    });
    spec.plain("powerOn", false);
    spec.maybe("snapshot", clone.snapshot.as_ref());
}

const CONSOLIDATE: &str = "moveAllDiskBackingsAndConsolidate";
const DISALLOW_SHARING: &str = "moveAllDiskBackingsAndDisallowSharing";
const CHILD: &str = "createNewChildDiskBacking";

fn write_locator(location: &mut XmlWriter, disk: &Disk, datastore: Option<&Object>, linked: bool) {
    // A locator needs a datastore. Without one, the disk is placed with the machine.
    let Some(datastore) = datastore.or(disk.datastore.as_ref()) else {
        return;
    };
    location.element("disk", |locator| {
        locator
            .plain("diskId", disk.key)
            .object("datastore", datastore);
        locator.leaf(
            "diskMoveType",
            if linked { CHILD } else { DISALLOW_SHARING },
        );
    });
}

fn write_config(config: &mut XmlWriter, clone: &Clone, disks: &[Disk], backings: &[Backing]) {
    config.leaf("instanceUuid", &clone.instance_uuid);
    config.element("flags", |flags| {
        // Storage drivers in the guest find disks by their UUIDs.
        flags.plain("diskUuidEnabled", true);
    });
    config.plain("numCPUs", clone.hardware.cpus);
    if let Some(cores) = clone.hardware.cores_per_socket {
        config.plain("numCoresPerSocket", cores);
    }
    config.plain("memoryMB", clone.hardware.memory_mib);
    if let Some((key, gib)) = clone.first_disk {
        let disk = disks.iter().find(|disk| disk.key == key);
        disk.into_iter()
            .for_each(|disk| write_growth(config, disk, gib));
    }
    for key in &clone.cards_of_template {
        change(config, "remove", "VirtualEthernetCard", |card| {
            card.plain("key", key);
        });
    }
    for ((card, backing), number) in clone.cards.iter().zip(backings).zip(0..) {
        write_card(config, FIRST_CARD - number, card, backing);
    }
    for (key, value) in &clone.extra {
        config.option("extraConfig", key, value.text().unwrap_or_default());
    }
    config.plain("vAppConfigRemoved", true);
}

fn change(
    config: &mut XmlWriter,
    operation: &str,
    kind: &str,
    device: impl FnOnce(&mut XmlWriter),
) {
    config.element("deviceChange", |change| {
        change
            .leaf("operation", operation)
            .typed("device", kind, device);
    });
}

fn write_growth(config: &mut XmlWriter, disk: &Disk, gib: i64) {
    let kib = gib.saturating_mul(KIB_IN_GIB);
    if kib <= disk.kib {
        return;
    }
    change(config, "edit", "VirtualDisk", |device| {
        device.plain("key", disk.key);
        if let (Some(file), Some(mode)) = (&disk.file, &disk.mode) {
            device.typed("backing", "VirtualDiskFlatVer2BackingInfo", |backing| {
                backing.leaf("fileName", file).leaf("diskMode", mode);
            });
        }
        if let Some(controller) = disk.controller {
            device.plain("controllerKey", controller);
        }
        if let Some(unit) = disk.unit {
            device.plain("unitNumber", unit);
        }
        // Both fields are set: some versions ignore a change of only one.
        device.plain("capacityInKB", kib);
        device.plain("capacityInBytes", kib.saturating_mul(1024));
    });
}

fn write_card(config: &mut XmlWriter, key: i32, card: &Card, backing: &Backing) {
    change(config, "add", "VirtualVmxnet3", |device| {
        device.plain("key", key);
        write_backing(device, backing);
        device.element("connectable", |connectable| {
            connectable.plain("startConnected", true);
            connectable.plain("allowGuestControl", true);
            connectable.plain("connected", true);
        });
        match &card.mac {
            Some(mac) => device.leaf("addressType", "manual").leaf("macAddress", mac),
            None => device.leaf("addressType", "generated"),
        };
        device.plain("wakeOnLanEnabled", true);
    });
}

fn write_backing(device: &mut XmlWriter, backing: &Backing) {
    match backing {
        Backing::Network { name, network } => device.typed(
            "backing",
            "VirtualEthernetCardNetworkBackingInfo",
            |backing| {
                backing.leaf("deviceName", name).object("network", network);
            },
        ),
        Backing::Port {
            switch_uuid,
            portgroup_key,
        } => {
            let kind = "VirtualEthernetCardDistributedVirtualPortBackingInfo";
            device.typed("backing", kind, |backing| {
                backing.element("port", |port| {
                    port.leaf("switchUuid", switch_uuid)
                        .leaf("portgroupKey", portgroup_key);
                });
            })
        }
        Backing::Opaque { id, kind } => device.typed(
            "backing",
            "VirtualEthernetCardOpaqueNetworkBackingInfo",
            |backing| {
                backing
                    .leaf("opaqueNetworkId", id)
                    .leaf("opaqueNetworkType", kind);
            },
        ),
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(kind: &str, id: &str) -> Object {
        Object::new(kind, id)
    }

    fn written(clone: &Clone, disks: &[Disk], backings: &[Backing]) -> String {
        let template = object("VirtualMachine", "vm-1");
        let text = XmlWriter::call("X", &template, |text| write(text, clone, disks, backings));
        let text = text.expect("sayable");
        let start = text.find("</_this>").expect("an object") + "</_this>".len();
        let end = text.find("</X>").expect("an end");
        text[start..end].to_owned()
    }

    fn disk() -> Disk {
        Disk {
            key: 2000,
            kib: 10 << 20,
            datastore: Some(object("Datastore", "ds-9")),
            file: Some("[a&b] t/t.vmdk".to_owned()),
            mode: Some("persistent".to_owned()),
            controller: Some(1000),
            unit: Some(0),
        }
    }

    fn card(mac: Option<&str>) -> Card {
        Card {
            network: object("Network", "n-1"),
            mac: mac.map(str::to_owned),
        }
    }

    #[test]
    fn full_clone_is_written_in_schema_order() {
        let clone = Clone {
            name: "n".to_owned(),
            instance_uuid: "u-1".to_owned(),
            folder: None,
            pool: Some(object("ResourcePool", "rp-1")),
            datastore: Some(object("Datastore", "ds-1")),
            snapshot: None,
            hardware: Hardware {
                cpus: 4,
                cores_per_socket: Some(2),
                memory_mib: 2048,
            },
            extra: vec![("guestinfo.userdata".to_owned(), Hidden::new("<&>"))],
            cards: vec![card(None), card(Some("00:50:56:00:00:01")), card(None)],
            cards_of_template: vec![4000],
            first_disk: Some((2000, 25)),
        };
        let backings = [
            Backing::Network {
                name: "VM & Network".to_owned(),
                network: object("Network", "n-1"),
            },
            Backing::Port {
                switch_uuid: "s".to_owned(),
                portgroup_key: "p".to_owned(),
            },
            Backing::Opaque {
                id: "o".to_owned(),
                kind: "nsx.LogicalSwitch".to_owned(),
            },
        ];
        let connectable = "<connectable><startConnected>true</startConnected>\
             <allowGuestControl>true</allowGuestControl><connected>true</connected></connectable>";
        let expected = [
            "<location><datastore type=\"Datastore\">ds-1</datastore>",
            "<diskMoveType>moveAllDiskBackingsAndConsolidate</diskMoveType>",
            "<pool type=\"ResourcePool\">rp-1</pool><disk><diskId>2000</diskId>",
            "<datastore type=\"Datastore\">ds-1</datastore>",
            "<diskMoveType>moveAllDiskBackingsAndDisallowSharing</diskMoveType></disk></location>",
            "<template>false</template><config><instanceUuid>u-1</instanceUuid>",
            "<flags><diskUuidEnabled>true</diskUuidEnabled></flags><numCPUs>4</numCPUs>",
            "<numCoresPerSocket>2</numCoresPerSocket><memoryMB>2048</memoryMB>",
            "<deviceChange><operation>edit</operation><device xsi:type=\"VirtualDisk\">",
            "<key>2000</key><backing xsi:type=\"VirtualDiskFlatVer2BackingInfo\">",
            "<fileName>[a&amp;b] t/t.vmdk</fileName><diskMode>persistent</diskMode></backing>",
            "<controllerKey>1000</controllerKey><unitNumber>0</unitNumber>",
            "<capacityInKB>26214400</capacityInKB>",
            "<capacityInBytes>26843545600</capacityInBytes></device></deviceChange>",
            "<deviceChange><operation>remove</operation>",
            "<device xsi:type=\"VirtualEthernetCard\"><key>4000</key></device></deviceChange>",
            "<deviceChange><operation>add</operation><device xsi:type=\"VirtualVmxnet3\">",
            "<key>-100</key><backing xsi:type=\"VirtualEthernetCardNetworkBackingInfo\">",
            "<deviceName>VM &amp; Network</deviceName><network type=\"Network\">n-1</network>",
            "</backing>",
            connectable,
            "<addressType>generated</addressType><wakeOnLanEnabled>true</wakeOnLanEnabled>",
            "</device></deviceChange>",
            "<deviceChange><operation>add</operation><device xsi:type=\"VirtualVmxnet3\">",
            "<key>-101</key>",
            "<backing xsi:type=\"VirtualEthernetCardDistributedVirtualPortBackingInfo\">",
            "<port><switchUuid>s</switchUuid><portgroupKey>p</portgroupKey></port></backing>",
            connectable,
            "<addressType>manual</addressType><macAddress>00:50:56:00:00:01</macAddress>",
            "<wakeOnLanEnabled>true</wakeOnLanEnabled></device></deviceChange>",
            "<deviceChange><operation>add</operation><device xsi:type=\"VirtualVmxnet3\">",
            "<key>-102</key><backing xsi:type=\"VirtualEthernetCardOpaqueNetworkBackingInfo\">",
            "<opaqueNetworkId>o</opaqueNetworkId>",
            "<opaqueNetworkType>nsx.LogicalSwitch</opaqueNetworkType></backing>",
            connectable,
            "<addressType>generated</addressType><wakeOnLanEnabled>true</wakeOnLanEnabled>",
            "</device></deviceChange>",
            "<extraConfig xsi:type=\"OptionValue\"><key>guestinfo.userdata</key>",
            "<value xsi:type=\"xsd:string\">&lt;&amp;&gt;</value></extraConfig>",
            "<vAppConfigRemoved>true</vAppConfigRemoved></config><powerOn>false</powerOn>",
        ];
        assert_eq!(written(&clone, &[disk()], &backings), expected.concat());
    }

    #[test]
    fn linked_clone_uses_child_disks() {
        let clone = Clone {
            instance_uuid: "u".to_owned(),
            snapshot: Some(object("VirtualMachineSnapshot", "snapshot-1")),
            hardware: Hardware {
                cpus: 2,
                cores_per_socket: None,
                memory_mib: 2048,
            },
            first_disk: Some((2000, 10)),
            ..Clone::default()
        };
        let homeless = Disk {
            key: 2001,
            ..Disk::default()
        };
        let expected = [
            "<location><diskMoveType>createNewChildDiskBacking</diskMoveType>",
            "<disk><diskId>2000</diskId><datastore type=\"Datastore\">ds-9</datastore>",
            "<diskMoveType>createNewChildDiskBacking</diskMoveType></disk></location>",
            "<template>false</template><config><instanceUuid>u</instanceUuid>",
            "<flags><diskUuidEnabled>true</diskUuidEnabled></flags><numCPUs>2</numCPUs>",
            "<memoryMB>2048</memoryMB><vAppConfigRemoved>true</vAppConfigRemoved></config>",
            "<powerOn>false</powerOn>",
            "<snapshot type=\"VirtualMachineSnapshot\">snapshot-1</snapshot>",
        ];
        assert_eq!(written(&clone, &[disk(), homeless], &[]), expected.concat());
    }

    #[test]
    fn disk_only_grows() {
        for (gib, grows) in [
            (9, false),
            (10, false),
            (11, true),
            (i64::MAX, true),
            (-1, false),
        ] {
            let clone = Clone {
                first_disk: Some((2000, gib)),
                ..Clone::default()
            };
            assert_eq!(
                written(&clone, &[disk()], &[]).contains("capacityInKB"),
                grows,
                "{gib}"
            );
        }
        let other = Clone {
            first_disk: Some((2009, 99)),
            ..Clone::default()
        };
        assert!(!written(&other, &[disk()], &[]).contains("capacityInKB"));
    }
}
