//! The managed objects as a tree: folders, datacenters, clusters, pools, datastores, networks and
//! virtual machines.

use std::collections::BTreeMap;

use super::value::{Data, Reference, Value};

/// The tree.
#[derive(Debug)]
pub(super) struct Inventory {
    nodes: BTreeMap<String, Node>,
    /// The number of the next ID.
    next: u64,
}

/// A node of the tree.
#[derive(Clone, Debug)]
pub(super) struct Node {
    pub kind: &'static str,
    pub name: String,
    pub parent: Option<String>,
    pub children: Vec<String>,
    /// Properties that are derived neither from the tree nor from a virtual machine.
    pub further: Vec<(&'static str, Value)>,
}

/// The ID of the root.
pub(super) const ROOT: &str = "group-d1";

impl Inventory {
    pub fn empty() -> Self {
        let mut inventory = Self {
            nodes: BTreeMap::new(),
            next: 2,
        };
        inventory.put(ROOT, "Folder", "Datacenters", None);
        inventory
    }

    /// Adds a datacenter with a cluster, a pool, a host, a datastore, a standard network and a
    /// distributed one, with the usual names. Returns its ID.
    pub fn add_datacenter(&mut self, name: &str) -> String {
        let datacenter = self.add("Datacenter", "datacenter-", name, ROOT);
        for (folder, prefix) in FOLDERS {
            let of = format!("{folder}Folder");
            let id = self.add("Folder", prefix, folder, &datacenter);
            let of = FOLDER_PROPERTIES.iter().find(|property| **property == of);
            self.link(&datacenter, of.copied().unwrap_or("vmFolder"), &id);
        }
        let cluster = format!("{name}_C0");
        let hosts = self.below(&datacenter, "host").unwrap_or_default();
        let cluster = self.add("ClusterComputeResource", "domain-c", &cluster, &hosts);
        let pool = self.add("ResourcePool", "resgroup-", "Resources", &cluster);
        self.link(&cluster, "resourcePool", &pool);
        let host = format!("{name}_C0_H0");
        self.add("HostSystem", "host-", &host, &cluster);
        let datastores = self.below(&datacenter, "datastore").unwrap_or_default();
        self.add("Datastore", "datastore-", "LocalDS_0", &datastores);
        let networks = self.below(&datacenter, "network").unwrap_or_default();
        self.add("Network", "network-", "VM Network", &networks);
        self.add_switch(name, &networks);
        datacenter
    }

    fn add_switch(&mut self, datacenter: &str, networks: &str) {
        let name = format!("{datacenter}_DVS0");
        let switch = self.add("VmwareDistributedVirtualSwitch", "dvs-", &name, networks);
        let uuid = uuid::Uuid::new_v4().to_string();
        let name = format!("{datacenter}_DVPG0");
        let group = self.add(
            "DistributedVirtualPortgroup",
            "dvportgroup-",
            &name,
            networks,
        );
        let of = Reference::new("VmwareDistributedVirtualSwitch", switch.clone());
        let config = Data::new("DVPortgroupConfigInfo")
            .with("key", group.clone())
            .with("name", name)
            .with("distributedVirtualSwitch", of);
        self.further(&group, "key", group.clone().into());
        self.further(&group, "config", config.into());
        self.further(&switch, "uuid", uuid.clone().into());
        let config = Data::new("VMwareDVSConfigInfo").with("uuid", uuid);
        self.further(&switch, "config", config.into());
    }

    /// Adds a node below a parent; returns its ID.
    pub fn add(&mut self, kind: &'static str, prefix: &str, name: &str, parent: &str) -> String {
        let id = self.fresh(prefix);
        self.put(&id, kind, name, Some(parent));
        id
    }

    /// Adds a node at a path. Its parent must exist.
    pub fn add_at(&mut self, kind: &'static str, prefix: &str, path: &str) -> Option<String> {
        let (parent, name) = path.rsplit_once('/')?;
        let parent = self.find(parent)?;
        Some(self.add(kind, prefix, name, &parent))
    }

    /// A new ID with this prefix.
    pub fn fresh(&mut self, prefix: &str) -> String {
        let id = format!("{prefix}{}", self.next);
        self.next += 1;
        id
    }

    fn put(&mut self, id: &str, kind: &'static str, name: &str, parent: Option<&str>) {
        let node = Node {
            kind,
            name: name.replace('%', "%25").replace('/', "%2f"),
            parent: parent.map(str::to_owned),
            children: Vec::new(),
            further: Vec::new(),
        };
        self.nodes.insert(id.to_owned(), node);
        if let Some(parent) = parent.and_then(|parent| self.nodes.get_mut(parent)) {
            parent.children.push(id.to_owned());
        }
    }

    pub fn remove(&mut self, id: &str) {
        let Some(node) = self.nodes.remove(id) else {
            return;
        };
        let parent = node.parent.and_then(|parent| self.nodes.get_mut(&parent));
        if let Some(parent) = parent {
            parent.children.retain(|child| child != id);
        }
    }

    pub fn rename(&mut self, id: &str, name: &str) {
        if let Some(node) = self.nodes.get_mut(id) {
            name.clone_into(&mut node.name);
        }
    }

    fn link(&mut self, id: &str, property: &'static str, to: &str) {
        if let Some(to) = self.reference(to) {
            self.further(id, property, to.into());
        }
    }

    pub fn further(&mut self, id: &str, property: &'static str, value: Value) {
        if let Some(node) = self.nodes.get_mut(id) {
            node.further.push((property, value));
        }
    }

    pub fn get(&self, id: &str) -> Option<&Node> {
        self.nodes.get(id)
    }

    pub fn reference(&self, id: &str) -> Option<Reference> {
        Some(Reference::new(self.nodes.get(id)?.kind, id))
    }

    /// The child with this name.
    pub fn below(&self, id: &str, name: &str) -> Option<String> {
        let mut children = self.nodes.get(id)?.children.iter();
        let child = children.find(|child| self.nodes.get(*child).is_some_and(|it| it.name == name));
        child.cloned()
    }

    /// The node at a path from the root, with or without a leading slash.
    pub fn find(&self, path: &str) -> Option<String> {
        let mut at = ROOT.to_owned();
        for name in path.split('/').filter(|name| !name.is_empty()) {
            at = self.below(&at, name)?;
        }
        Some(at)
    }

    /// The first node of this kind and name.
    pub fn named(&self, kind: &str, name: &str) -> Option<String> {
        let mut nodes = self.nodes.iter();
        let found = nodes.find(|(_, node)| node.kind == kind && node.name == name);
        Some(found?.0.clone())
    }

    /// The path of a node, as in `/DC0/vm/ubuntu`.
    pub fn path(&self, id: &str) -> String {
        let mut names = Vec::new();
        let mut at = self.nodes.get(id);
        while let Some((node, parent)) = at.and_then(|at| Some((at, at.parent.as_deref()?))) {
            names.push(node.name.as_str());
            at = self.nodes.get(parent);
        }
        names.iter().rev().flat_map(|name| ["/", name]).collect()
    }

    /// The datacenter of a node.
    pub fn datacenter_of(&self, id: &str) -> Option<String> {
        let mut at = id.to_owned();
        loop {
            let node = self.nodes.get(&at)?;
            if node.kind == "Datacenter" {
                return Some(at);
            }
            at = node.parent.clone()?;
        }
    }

    /// Everything below a node, nearest first.
    pub fn descendants(&self, id: &str, deep: bool) -> Vec<String> {
        let mut found = Vec::new();
        let mut next = vec![id.to_owned()];
        while let Some(node) = next.pop().and_then(|id| self.nodes.get(&id)) {
            found.extend(node.children.iter().cloned());
            if deep {
                next.extend(node.children.iter().cloned());
            }
        }
        found
    }

    /// A property of a node: `None` if there is no such property, an empty list or `Some(None)` if
    /// it is not set.
    pub fn property(&self, id: &str, name: &str) -> Option<Option<Value>> {
        let node = self.nodes.get(id)?;
        let further = node.further.iter().find(|(property, _)| *property == name);
        if let Some((_, value)) = further {
            return Some(Some(value.clone()));
        }
        let value = match (node.kind, name) {
            (_, "name") => node.name.clone().into(),
            (_, "parent") => return Some(self.parent(node).map(Value::from)),
            (_, "overallStatus") => Value::text("ManagedEntityStatus", "green"),
            ("Folder", "childEntity") => self.children(node, |_| true),
            ("Folder", "childType") => vec!["Folder".to_owned()].into(),
            ("Datacenter", "datastore") => self.inside(id, "Datastore"),
            ("Datacenter", "network") => self.inside(id, "Network"),
            ("ClusterComputeResource", "host") => self.children(node, |kind| kind == "HostSystem"),
            ("ClusterComputeResource" | "HostSystem", "datastore") => self.beside(id, "Datastore"),
            ("ClusterComputeResource" | "HostSystem", "network") => self.beside(id, "Network"),
            ("ResourcePool", "resourcePool") => self.children(node, |kind| kind == "ResourcePool"),
            ("ResourcePool", "owner") => return Some(self.owner(id).map(Value::from)),
            ("Datastore", "summary") => summary(id, node).into(),
            ("Network" | "DistributedVirtualPortgroup" | "OpaqueNetwork", "summary") => {
                network_summary(id, node).into()
            }
            ("VmwareDistributedVirtualSwitch", "portgroup") => {
                self.beside(id, "DistributedVirtualPortgroup")
            }
            _ => return None,
        };
        Some(Some(value))
    }

    fn parent(&self, node: &Node) -> Option<Reference> {
        self.reference(node.parent.as_deref()?)
    }

    fn owner(&self, id: &str) -> Option<Reference> {
        let mut at = id;
        loop {
            let node = self.nodes.get(at)?;
            if node.kind == "ClusterComputeResource" {
                return Some(Reference::new(node.kind, at));
            }
            at = node.parent.as_deref()?;
        }
    }

    fn children(&self, node: &Node, of: impl Fn(&str) -> bool) -> Value {
        let children = node.children.iter().filter_map(|id| self.reference(id));
        let children: Vec<_> = children.filter(|child| of(child.kind)).collect();
        children.into()
    }

    fn inside(&self, id: &str, kind: &str) -> Value {
        let all = self.descendants(id, true).into_iter();
        let all = all.filter_map(|id| self.reference(&id));
        let all: Vec<_> = all.filter(|object| is_a(object.kind, kind)).collect();
        all.into()
    }

    fn beside(&self, id: &str, kind: &str) -> Value {
        let datacenter = self.datacenter_of(id).unwrap_or_default();
        self.inside(&datacenter, kind)
    }
}

const FOLDERS: [(&str, &str); 4] = [
    ("vm", "group-v"),
    ("host", "group-h"),
    ("datastore", "group-s"),
    ("network", "group-n"),
];

const FOLDER_PROPERTIES: [&str; 4] = ["vmFolder", "hostFolder", "datastoreFolder", "networkFolder"];

fn summary(id: &str, node: &Node) -> Data {
    Data::new("DatastoreSummary")
        .with("datastore", Reference::new(node.kind, id))
        .with("name", node.name.as_str())
        .with("url", format!("ds:///vmfs/volumes/{id}/"))
        .with("capacity", 1_i64 << 40)
        .with("freeSpace", 1_i64 << 39)
        .with("accessible", true)
        .with("type", "VMFS")
}

fn network_summary(id: &str, node: &Node) -> Data {
    let opaque = node.kind == "OpaqueNetwork";
    let of = if opaque {
        "OpaqueNetworkSummary"
    } else {
        "NetworkSummary"
    };
    let summary = Data::new(of)
        .with("network", Reference::new(node.kind, id))
        .with("name", node.name.as_str())
        .with("accessible", true);
    if !opaque {
        return summary;
    }
    summary
        .with("opaqueNetworkId", id)
        .with("opaqueNetworkType", "nsx.LogicalSwitch")
}

/// Whether a kind is another kind or a subtype of it.
pub(super) fn is_a(kind: &str, other: &str) -> bool {
    kind == other
        || matches!(
            (kind, other),
            ("ClusterComputeResource", "ComputeResource")
                | ("DistributedVirtualPortgroup" | "OpaqueNetwork", "Network")
                | ("VmwareDistributedVirtualSwitch", "DistributedVirtualSwitch")
                | ("ContainerView", "ManagedObjectView" | "View")
        )
        || (other == "ManagedEntity"
            && !matches!(kind, "Task" | "SessionManager" | "ContainerView"))
}
