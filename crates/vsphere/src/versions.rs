//! Conversion of the kinds between `v1beta1` and `v1beta2`, without loss.
//!
//! | field of `v1beta1` | field of `v1beta2` |
//! |---|---|
//! | `spec.guestSoftPowerOffTimeout` of machines, a duration | `spec.guestSoftPowerOffTimeoutSeconds` |
//! | `spec.namingStrategy` of machines | `spec.naming` |
//! | `spec.bootstrapRef.{apiVersion,kind,name}` of virtual machines | `spec.bootstrapRef.name` |
//! | `spec.secretRef.name` of identities | `spec.secretName` |
//! | empty texts, and an empty `spec.controlPlaneEndpoint` | missing |
//! | the status | [as Cluster API converts it](insula_capi::versions) |

use insula_capi::versions::{CONDITIONS, FAILURE_DOMAINS, PROVISIONED};
use insula_operator::webhook::versions::Rule::{
    All, Custom, Each, EmptyText, In, OmitEmpty, OnlyNewer, Rename, Retain, Seconds,
};
use insula_operator::webhook::versions::{Kind, Rule, Versions};

use crate::names::GROUP;

/// Both versions of all kinds.
pub const VERSIONS: Versions = Versions {
    group: GROUP,
    older: "v1beta1",
    newer: "v1beta2",
    annotation: "infrastructure.cluster.x-k8s.io/conversion-data",
    kinds: &[
        Kind {
            name: "VSphereClusterIdentity",
            spec: &[SECRET_REFERENCE],
            status: &[CONDITIONS],
        },
        Kind {
            name: "VSphereCluster",
            spec: CLUSTER,
            status: &[CONDITIONS, PROVISIONED, FAILURE_DOMAINS],
        },
        Kind {
            name: "VSphereClusterTemplate",
            spec: &[In(
                "template",
                &[
                    OmitEmpty(&["metadata"]),
                    OnlyNewer(&["metadata"]),
                    In("spec", CLUSTER),
                ],
            )],
            status: &[CONDITIONS],
        },
        Kind {
            name: "VSphereMachine",
            spec: MACHINE,
            status: &[CONDITIONS, PROVISIONED],
        },
        Kind {
            name: "VSphereMachineTemplate",
            spec: &[In(
                "template",
                &[OmitEmpty(&["metadata"]), In("spec", MACHINE)],
            )],
            status: &[CONDITIONS],
        },
        Kind {
            name: "VSphereVM",
            spec: &[
                OmitEmpty(&["datacenter"]),
                All(CLONE),
                In("bootstrapRef", &[Retain(&["name"])]),
            ],
            status: &[CONDITIONS],
        },
        Kind {
            name: "VSphereDeploymentZone",
            spec: &[In(
                "placementConstraint",
                &[OmitEmpty(&["resourcePool", "folder"])],
            )],
            status: &[CONDITIONS],
        },
        Kind {
            name: "VSphereFailureDomain",
            spec: &[In(
                "topology",
                &[OmitEmpty(&["computeCluster", "datastore"])],
            )],
            status: &[CONDITIONS],
        },
    ],
};

/// The Secret of an identity. The older version has both fields.
const SECRET_REFERENCE: Rule = Custom {
    upgrade: |spec| {
        let secret = spec.remove("secretRef");
        let name = secret.and_then(|secret| secret.get("name").cloned());
        // A client that still writes the older field means this one.
        spec.extend(name.map(|name| ("secretName".to_owned(), name)));
    },
    downgrade: |_| {},
};

const CLUSTER: &[Rule] = &[
    In("controlPlaneEndpoint", &[OmitEmpty(&["host", "port"])]),
    OmitEmpty(&["controlPlaneEndpoint"]),
];

const MACHINE: &[Rule] = &[
    // The default of v1beta2, which the server would add when it reads the object.
    EmptyText {
        field: "datacenter",
        newer: "*",
    },
    All(CLONE),
    In("namingStrategy", &[OmitEmpty(&["template"])]),
    OmitEmpty(&["namingStrategy"]),
    Rename {
        older: "namingStrategy",
        newer: "naming",
    },
];

/// The fields that machines and virtual machines share.
const CLONE: &[Rule] = &[
    OmitEmpty(&[
        "cloneMode",
        "snapshot",
        "server",
        "folder",
        "datastore",
        "storagePolicyName",
        "resourcePool",
        "os",
        "hardwareVersion",
    ]),
    Seconds {
        older: "guestSoftPowerOffTimeout",
        newer: "guestSoftPowerOffTimeoutSeconds",
    },
    In(
        "network",
        &[
            OmitEmpty(&["preferredAPIServerCidr"]),
            Each(
                "devices",
                &[OmitEmpty(&[
                    "deviceName",
                    "gateway4",
                    "gateway6",
                    "macAddr",
                ])],
            ),
        ],
    ),
];

#[cfg(test)]
mod tests;
