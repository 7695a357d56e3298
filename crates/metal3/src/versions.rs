//! Conversion of the kinds between `v1beta1` and `v1beta2`, without loss.
//!
//! | field of `v1beta1` | field of `v1beta2` |
//! |---|---|
//! | `failureDomains` of clusters, a map | a list |
//! | `noCloudProvider` of clusters | the opposite, `cloudProviderEnabled` |
//! | `image.format` of machines | `image.diskFormat` |
//! | references with `apiVersion`, `kind`, `uid`… | `name` and `namespace` |
//! | `metaData.*FromIPPool` of data templates | `metaData.*FromPool` |
//! | `parameters` of bonds, a map | a list |
//! | `templateReference` of data and their templates | missing |
//! | `strategy.timeout` of remediations, a duration | `strategy.timeoutSeconds` |
//! | empty texts, an empty endpoint, and an image without a URL | missing |
//! | `status.ready` of clusters and machines | `status.initialization.provisioned` |
//! | `status.phase` of machines | missing |
//! | `status.indexes` of data templates, a map | a list |
//! | conditions and failures | [as Cluster API converts them](insula_capi::versions) |

use insula_capi::versions::{CONDITIONS, FAILURE_DOMAINS};
use insula_operator::webhook::versions::Rule::{
    All, Custom, Each, EmptyText, In, OmitEmpty, OnlyNewer, OnlyOlder, Rename, Retain, Seconds,
    Wrap,
};
use insula_operator::webhook::versions::{Fields, Kind, Rule, Versions};
use serde_json::{Value, json};

use crate::names::GROUP;

/// Both versions of all kinds.
pub const VERSIONS: Versions = Versions {
    group: GROUP,
    older: "v1beta1",
    newer: "v1beta2",
    annotation: "infrastructure.cluster.x-k8s.io/conversion-data",
    kinds: &[
        Kind {
            name: "Metal3Cluster",
            spec: CLUSTER,
            status: &[CONDITIONS, PROVISIONED, FAILURE_DOMAINS],
        },
        Kind {
            name: "Metal3ClusterTemplate",
            spec: &[In(
                "template",
                &[OnlyNewer(&["metadata"]), In("spec", CLUSTER)],
            )],
            status: &[],
        },
        Kind {
            name: "Metal3Machine",
            spec: MACHINE,
            status: &[
                CONDITIONS,
                PROVISIONED,
                OnlyOlder(&["phase"]),
                In("renderedData", REFERENCE),
                OmitEmpty(&["renderedData"]),
                All(SECRETS),
            ],
        },
        Kind {
            name: "Metal3MachineTemplate",
            spec: &[In(
                "template",
                &[OnlyNewer(&["metadata"]), In("spec", MACHINE)],
            )],
            status: &[],
        },
        Kind {
            name: "Metal3DataTemplate",
            spec: &[
                OnlyOlder(&["templateReference"]),
                In("metaData", POOLS),
                In(
                    "networkData",
                    &[In("links", &[Each("bonds", &[PARAMETERS])])],
                ),
            ],
            status: &[INDEXES],
        },
        Kind {
            name: "Metal3DataClaim",
            spec: &[In("template", REFERENCE)],
            status: &[In("renderedData", REFERENCE), OmitEmpty(&["renderedData"])],
        },
        Kind {
            name: "Metal3Data",
            spec: &[
                OnlyOlder(&["templateReference"]),
                In("template", REFERENCE),
                In("claim", REFERENCE),
                OmitEmpty(&["template", "claim"]),
                All(SECRETS),
            ],
            status: &[],
        },
        Kind {
            name: "Metal3Remediation",
            spec: &[In("strategy", STRATEGY)],
            status: REMEDIATION_STATUS,
        },
        Kind {
            name: "Metal3RemediationTemplate",
            spec: &[In("template", &[In("spec", &[In("strategy", STRATEGY)])])],
            status: &[In("status", REMEDIATION_STATUS)],
        },
    ],
};

const CLUSTER: &[Rule] = &[
    In(
        "controlPlaneEndpoint",
        &[DEFAULT_PORT, OmitEmpty(&["host", "port"])],
    ),
    OmitEmpty(&["controlPlaneEndpoint"]),
    CLOUD_PROVIDER,
    FAILURE_DOMAINS,
];

/// The default of both versions, which the server adds only if the field is missing.
const DEFAULT_PORT: Rule = Custom {
    upgrade: |endpoint| {
        let has_host = endpoint.get("host").is_some_and(|host| host != "");
        if has_host && endpoint.get("port").is_some_and(|port| port == 0) {
            endpoint.insert("port".to_owned(), 6443.into());
        }
    },
    downgrade: |_| {},
};

/// The older version has both fields. It shows them in agreement, so that clients of either see
/// the value.
const CLOUD_PROVIDER: Rule = Custom {
    upgrade: |spec| {
        if let Some(Value::Bool(none)) = spec.remove("noCloudProvider")
            && !spec.contains_key("cloudProviderEnabled")
        {
            spec.insert("cloudProviderEnabled".to_owned(), (!none).into());
        }
    },
    downgrade: |spec| {
        if let Some(&Value::Bool(enabled)) = spec.get("cloudProviderEnabled") {
            spec.insert("noCloudProvider".to_owned(), (!enabled).into());
        }
    },
};

const MACHINE: &[Rule] = &[
    OmitEmpty(&["providerID", "failureDomain"]),
    NO_IMAGE,
    In(
        "image",
        &[Rename {
            older: "format",
            newer: "diskFormat",
        }],
    ),
    In("dataTemplate", REFERENCE),
    OmitEmpty(&["dataTemplate"]),
    All(SECRETS),
];

/// Clients of the older version write an image without a URL if there is none.
const NO_IMAGE: Rule = Custom {
    upgrade: |spec| {
        let url = spec.get("image").and_then(|image| image.get("url"));
        if url.is_some_and(|url| url == "") {
            spec.remove("image");
        }
    },
    downgrade: |_| {},
};

/// A reference to an object of a known kind.
const REFERENCE: &[Rule] = &[
    Retain(&["name", "namespace"]),
    OmitEmpty(&["name", "namespace"]),
];

const SECRETS: &[Rule] = &[
    In("userData", &[OmitEmpty(&["name", "namespace"])]),
    In("metaData", &[OmitEmpty(&["name", "namespace"])]),
    In("networkData", &[OmitEmpty(&["name", "namespace"])]),
];

const POOLS: &[Rule] = &[
    Rename {
        older: "ipAddressesFromIPPool",
        newer: "ipAddressesFromPool",
    },
    Rename {
        older: "prefixesFromIPPool",
        newer: "prefixesFromPool",
    },
    Rename {
        older: "gatewaysFromIPPool",
        newer: "gatewaysFromPool",
    },
    Rename {
        older: "dnsServersFromIPPool",
        newer: "dnsServersFromPool",
    },
];

const PROVISIONED: Rule = Wrap {
    older: "ready",
    newer: "initialization",
    member: "provisioned",
};

const STRATEGY: &[Rule] = &[
    EmptyText {
        field: "type",
        newer: "Reboot",
    },
    STRATEGY_DEFAULTS,
    Seconds {
        older: "timeout",
        newer: "timeoutSeconds",
    },
];

/// Zero means the default, which the server adds only if the field is missing.
const STRATEGY_DEFAULTS: Rule = Custom {
    upgrade: |strategy| {
        if strategy.get("retryLimit").is_some_and(|limit| limit == 0) {
            strategy.insert("retryLimit".to_owned(), 1.into());
        }
        let timeout = strategy.get("timeout").and_then(Value::as_str);
        let is_zero = |text: &str| !text.contains(|letter| matches!(letter, '1'..='9'));
        if timeout.is_some_and(is_zero) {
            strategy.insert("timeout".to_owned(), "10m0s".into());
        }
    },
    downgrade: |_| {},
};

const REMEDIATION_STATUS: &[Rule] = &[OmitEmpty(&["phase"])];

/// The parameters of a bond.
const PARAMETERS: Rule = Custom {
    upgrade: |bond| {
        replace_map(bond, "parameters", |entries| {
            let mut list: Vec<_> = entries.into_iter().collect();
            list.sort_by(|(one, _), (other, _)| one.cmp(other));
            let list = list.into_iter();
            list.map(|(name, value)| json!({"name": name, "value": value}))
                .collect()
        });
    },
    downgrade: |bond| replace_list(bond, "parameters", "value"),
};

/// The indexes of claims, sorted by index.
const INDEXES: Rule = Custom {
    upgrade: |status| {
        replace_map(status, "indexes", |entries| {
            let mut list: Vec<_> = entries.into_iter().collect();
            list.sort_by_key(|(name, index)| (index.as_i64(), name.clone()));
            let list = list.into_iter();
            list.map(|(name, index)| json!({"name": name, "index": index}))
                .collect()
        });
    },
    downgrade: |status| replace_list(status, "indexes", "index"),
};

/// Replaces a map by a list.
fn replace_map(fields: &mut Fields, name: &str, to_list: fn(Fields) -> Vec<Value>) {
    if let Some(value) = fields.get_mut(name)
        && let Value::Object(entries) = value.take()
    {
        *value = to_list(entries).into();
    }
}

/// Replaces a list of objects by a map from their names to one of their fields.
fn replace_list(fields: &mut Fields, name: &str, field: &str) {
    if let Some(value) = fields.get_mut(name)
        && let Value::Array(list) = value.take()
    {
        let entries = list.into_iter().filter_map(|mut entry| {
            let entry = entry.as_object_mut()?;
            let Value::String(name) = entry.remove("name")? else {
                return None;
            };
            Some((name, entry.remove(field)?))
        });
        *value = Value::Object(entries.collect());
    }
}

#[cfg(test)]
mod tests;
