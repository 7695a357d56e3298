//! What every cluster has beside its roles: the Service `kubernetes` with its endpoints, the range
//! of cluster IPs, and the priority classes of system pods.

use std::net::{IpAddr, SocketAddr};

use insula_kinds::{KindId, Object, Value, core_kind, kinds};
use serde_json::json;

use crate::registry::service_range::ServiceRange;

/// The objects of one kind, sorted by key.
#[derive(Debug)]
struct Table {
    kind: KindId,
    objects: Vec<ClusterObject>,
    /// Whether a deleted object comes back with another UID; otherwise it cannot be deleted.
    restored: bool,
}

/// One object as every space has it.
#[derive(Debug)]
pub struct ClusterObject {
    /// Its key among the objects of its kind: `name` or `namespace/name`.
    pub key: Box<str>,
    /// The object, without what each space adds.
    pub object: Object,
}

/// The objects of all kinds.
#[derive(Debug)]
pub struct ClusterObjects {
    tables: Vec<Table>,
}

/// The namespace of the API server's Service and of its endpoints.
const NAMESPACE: &str = "default";

/// The name of the API server's Service, of its endpoints and of the range of cluster IPs.
const NAME: &str = "kubernetes";

impl ClusterObjects {
    /// The objects of a server that clients of all spaces reach at this address.
    pub fn new(endpoint: SocketAddr, range: &ServiceRange) -> Self {
        let networking = |resource| kind("networking.k8s.io", resource);
        let slices = kind("discovery.k8s.io", "endpointslices");
        let classes = kind("scheduling.k8s.io", "priorityclasses");
        Self {
            tables: vec![
                Table::restored(core_kind("services"), service(endpoint.port(), range)),
                Table::restored(core_kind("endpoints"), endpoints(endpoint)),
                Table::restored(slices, endpoint_slice(endpoint)),
                Table::lasting(networking("servicecidrs"), vec![service_cidr(range)]),
                Table::lasting(networking("ipaddresses"), vec![ip_address(range)]),
                Table::lasting(classes, priority_classes()),
            ],
        }
    }

    /// Returns the objects of a kind, in key order.
    pub fn of(&self, kind: KindId) -> &[ClusterObject] {
        self.table(kind).map_or(&[], |table| &table.objects)
    }

    /// Whether deleted objects of this kind come back with another UID, as those do that a loop of
    /// kube-apiserver keeps.
    pub fn are_restored(&self, kind: KindId) -> bool {
        self.table(kind).is_some_and(|table| table.restored)
    }

    fn table(&self, kind: KindId) -> Option<&Table> {
        self.tables.iter().find(|table| table.kind == kind)
    }
}

impl Table {
    fn restored(kind: KindId, object: Value) -> Self {
        Self {
            restored: true,
            ..Self::lasting(kind, vec![object])
        }
    }

    fn lasting(kind: KindId, objects: Vec<Value>) -> Self {
        let mut objects: Vec<_> = objects.into_iter().filter_map(ClusterObject::of).collect();
        objects.sort_by(|one, other| one.key.cmp(&other.key));
        Self {
            kind,
            objects,
            restored: false,
        }
    }
}

impl ClusterObject {
    fn of(object: Value) -> Option<Self> {
        let text = |member: &str| object["metadata"][member].as_str();
        let key = match (text("namespace"), text("name")?) {
            (Some(namespace), name) => format!("{namespace}/{name}"),
            (None, name) => name.to_owned(),
        };
        let Value::Object(object) = object else {
            return None;
        };
        Some(Self {
            key: key.into(),
            object,
        })
    }
}

fn kind(group: &str, resource: &str) -> KindId {
    let found = kinds().find(group, "v1", resource);
    found.expect("the table has the kinds of every cluster")
}

fn service(target: u16, range: &ServiceRange) -> Value {
    json!({
        "metadata": {
            "name": NAME,
            "namespace": NAMESPACE,
            "labels": {"component": "apiserver", "provider": "kubernetes"},
        },
        "spec": {
            "clusterIP": range.first(),
            "clusterIPs": [range.first()],
            "internalTrafficPolicy": "Cluster",
            "ipFamilies": [range.family()],
            "ipFamilyPolicy": "SingleStack",
            "ports": [{"name": "https", "port": 443, "protocol": "TCP", "targetPort": target}],
            "sessionAffinity": "None",
            "type": "ClusterIP",
        },
        "status": {"loadBalancer": {}},
    })
}

fn endpoints(endpoint: SocketAddr) -> Value {
    json!({
        "metadata": {
            "name": NAME,
            "namespace": NAMESPACE,
            "labels": {"endpointslice.kubernetes.io/skip-mirror": "true"},
        },
        "subsets": [{
            "addresses": [{"ip": endpoint.ip()}],
            "ports": [{"name": "https", "port": endpoint.port(), "protocol": "TCP"}],
        }],
    })
}

fn endpoint_slice(endpoint: SocketAddr) -> Value {
    let family = match endpoint.ip() {
        IpAddr::V4(_) => "IPv4",
        IpAddr::V6(_) => "IPv6",
    };
    json!({
        "metadata": {
            "name": NAME,
            "namespace": NAMESPACE,
            "labels": {"kubernetes.io/service-name": NAME},
        },
        "addressType": family,
        "endpoints": [{"addresses": [endpoint.ip()], "conditions": {"ready": true}}],
        "ports": [{"name": "https", "port": endpoint.port(), "protocol": "TCP"}],
    })
}

/// Without the finalizer that Kubernetes gives it: it cannot be deleted, and nothing would remove
/// the finalizer when its space is.
fn service_cidr(range: &ServiceRange) -> Value {
    json!({
        "metadata": {"name": NAME},
        "spec": {"cidrs": [range.to_string()]},
        "status": {
            "conditions": [{
                "type": "Ready",
                "status": "True",
                "reason": "",
                "message": "Kubernetes Service CIDR is ready",
                "lastTransitionTime": null,
            }],
        },
    })
}

fn ip_address(range: &ServiceRange) -> Value {
    let parent = json!({
        "group": "",
        "resource": "services",
        "namespace": NAMESPACE,
        "name": NAME,
    });
    json!({
        "metadata": {
            "name": range.first(),
            "labels": {
                "ipaddress.kubernetes.io/ip-family": range.family(),
                "ipaddress.kubernetes.io/managed-by": "ipallocator.k8s.io",
            },
        },
        "spec": {"parentRef": parent},
    })
}

fn priority_classes() -> Vec<Value> {
    let class = |name: &str, value: i64, description: &str| {
        json!({
            "metadata": {"name": name, "generation": 1},
            "value": value,
            "description": description,
            "preemptionPolicy": "PreemptLowerPriority",
        })
    };
    vec![
        class(
            "system-cluster-critical",
            2_000_000_000,
            "For system pods that the cluster needs, and that may run on another node.",
        ),
        class(
            "system-node-critical",
            2_000_001_000,
            "For system pods that their node needs.",
        ),
    ]
}
