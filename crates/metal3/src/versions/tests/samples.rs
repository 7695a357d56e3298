//! Fields of the kinds with values that they may have.

use serde_json::{Value, json};

use super::{NEW, OLD};

/// Fields of an object, each with values that it may have.
type Choices = Vec<(&'static str, Vec<Value>)>;

fn list(values: Value) -> Vec<Value> {
    values.as_array().unwrap().clone()
}

/// Returns the values of references to objects.
fn references(version: &str) -> Vec<Value> {
    let mut values = list(json!([
        {"name": "n"}, {"namespace": "s"}, {"name": "n", "namespace": "s"},
    ]));
    if version == OLD {
        values.extend(list(json!([
            {},
            {"name": "", "namespace": ""},
            {"apiVersion": "v1", "kind": "K"},
            {"name": "n", "uid": "u", "resourceVersion": "1", "fieldPath": "f"},
        ])));
    }
    values
}

/// Returns the values of references to Secrets.
fn secrets(version: &str) -> Vec<Value> {
    let mut values = list(json!([{}, {"name": "n"}, {"name": "n", "namespace": "s"}]));
    if version == OLD {
        values.extend(list(json!([{"name": ""}, {"name": "n", "namespace": ""}])));
    }
    values
}

fn domains(version: &str) -> Vec<Value> {
    list(match version {
        OLD => json!([{}, {"b": {"controlPlane": true}, "a": {"attributes": {"x": ""}}}]),
        _ => json!([[], [{"name": "b"}, {"name": "a", "controlPlane": false}]]),
    })
}

fn cluster(version: &str) -> Choices {
    let mut fields = vec![
        ("cloudProviderEnabled", list(json!([false, true]))),
        ("failureDomains", domains(version)),
        (
            "identityRef",
            list(json!([{"name": "s"}, {"name": "s", "context": "c"}])),
        ),
    ];
    match version {
        OLD => fields.extend([
            ("noCloudProvider", list(json!([false, true]))),
            (
                "controlPlaneEndpoint",
                list(json!([
                    {}, {"host": "", "port": 0}, {"host": "h", "port": 0}, {"host": "h"},
                    {"host": "h", "port": 1}, {"host": "", "port": 6443},
                ])),
            ),
        ]),
        _ => fields.push((
            "controlPlaneEndpoint",
            list(json!([{"host": "h", "port": 6443}, {"port": 1}])),
        )),
    }
    fields
}

fn machine(version: &str) -> Choices {
    let mut fields = vec![
        ("customDeploy", list(json!([{"method": "m"}]))),
        (
            "hostSelector",
            list(json!([
                {}, {"matchLabels": {"a": ""}},
                {"matchExpressions": [{"key": "k", "operator": "in", "values": ["v"]}]},
            ])),
        ),
        ("dataTemplate", references(version)),
        ("userData", secrets(version)),
        ("metaData", secrets(version)),
        ("networkData", secrets(version)),
        ("identityRef", list(json!([{"name": "s", "context": "c"}]))),
    ];
    match version {
        OLD => fields.extend([
            ("providerID", list(json!(["", "metal3://a/b/c"]))),
            ("failureDomain", list(json!(["", "d"]))),
            (
                "image",
                list(json!([
                    {"url": ""}, {"url": "", "checksum": "c"}, {"url": "u", "checksum": ""},
                    {"url": "u", "format": "raw"},
                ])),
            ),
        ]),
        _ => fields.extend([
            ("providerID", list(json!(["metal3://a/b/c"]))),
            ("failureDomain", list(json!(["d"]))),
            (
                "image",
                list(json!([{"url": "u"}, {"url": "u", "diskFormat": "raw", "checksum": ""}])),
            ),
        ]),
    }
    fields
}

fn data_template(version: &str) -> Choices {
    let pools = || list(json!([[], [{"key": "k", "name": "p", "kind": "IPPool"}]]));
    let mut fields = vec![
        ("clusterName", list(json!(["c"]))),
        ("metaData", list(json!([{}]))),
        (
            "metaData/strings",
            list(json!([[{"key": "k", "value": ""}]])),
        ),
        ("networkData", list(json!([{}, {"links": {}}]))),
    ];
    match version {
        OLD => fields.extend([
            ("templateReference", list(json!(["", "t"]))),
            ("metaData/ipAddressesFromIPPool", pools()),
            ("metaData/prefixesFromIPPool", pools()),
            ("metaData/gatewaysFromIPPool", pools()),
            ("metaData/dnsServersFromIPPool", pools()),
            (
                "networkData/links/bonds",
                list(json!([
                    [], [{"id": "i"}, {"id": "j", "parameters": {}}],
                    [{"id": "i", "parameters": {"b": "x", "a": 1, "c": {"d": []}}}],
                ])),
            ),
        ]),
        _ => fields.extend([
            ("metaData/ipAddressesFromPool", pools()),
            ("metaData/prefixesFromPool", pools()),
            ("metaData/gatewaysFromPool", pools()),
            ("metaData/dnsServersFromPool", pools()),
            (
                "networkData/links/bonds",
                list(json!([
                    [], [{"id": "i"}, {"id": "j", "parameters": []}],
                    [{"id": "i", "parameters": [
                        {"name": "b", "value": "x"}, {"name": "a", "value": 1},
                    ]}],
                ])),
            ),
        ]),
    }
    fields
}

fn data(version: &str) -> Choices {
    let mut fields = vec![
        ("index", list(json!([0, 7]))),
        ("template", references(version)),
        ("claim", references(version)),
        ("metaData", secrets(version)),
        ("networkData", secrets(version)),
    ];
    if version == OLD {
        fields.push(("templateReference", list(json!(["", "t"]))));
    }
    fields
}

fn remediation(version: &str) -> Choices {
    match version {
        OLD => vec![
            ("strategy", list(json!([{}]))),
            ("strategy/type", list(json!(["", "Reboot"]))),
            ("strategy/retryLimit", list(json!([0, 3]))),
            (
                "strategy/timeout",
                list(json!(["0s", "0", "10m0s", "600s", "100001ms"])),
            ),
        ],
        _ => vec![
            ("strategy", list(json!([{}]))),
            ("strategy/type", list(json!(["Reboot"]))),
            ("strategy/retryLimit", list(json!([1, 3]))),
            ("strategy/timeoutSeconds", list(json!([100, 600]))),
        ],
    }
}

fn remediation_status(version: &str) -> Choices {
    let phases = match version {
        OLD => json!(["", "Running"]),
        _ => json!(["Running"]),
    };
    vec![
        ("phase", list(phases)),
        ("retryCount", list(json!([0, 1]))),
        ("lastRemediated", list(json!(["2026-01-01T00:00:00Z"]))),
    ]
}

/// Returns the fields of a status that clusters and machines have.
fn provisioned(version: &str) -> Choices {
    let old = list(json!([[], [{"type": "Ready", "status": "True", "severity": ""}]]));
    let new = list(json!([[], [{"type": "Ready", "status": "True", "observedGeneration": 3}]]));
    let failure = list(json!(["CreateError"]));
    match version {
        OLD => vec![
            ("ready", list(json!([false, true]))),
            ("conditions", old),
            ("v1beta2", list(json!([{}]))),
            ("v1beta2/conditions", new),
            ("failureReason", failure.clone()),
            ("failureMessage", failure),
        ],
        _ => vec![
            (
                "initialization",
                list(json!([{}, {"provisioned": false}, {"provisioned": true}])),
            ),
            ("conditions", new),
            ("deprecated", list(json!([{}, {"v1beta1": {}}]))),
            ("deprecated/v1beta1/conditions", old),
            ("deprecated/v1beta1/failureReason", failure),
        ],
    }
}

fn machine_status(version: &str) -> Choices {
    let mut fields = provisioned(version);
    fields.extend([
        (
            "addresses",
            list(json!([[], [{"type": "Hostname", "address": "h"}]])),
        ),
        ("renderedData", references(version)),
        ("userData", secrets(version)),
        ("metaData", secrets(version)),
        ("networkData", secrets(version)),
    ]);
    if version == OLD {
        fields.push(("phase", list(json!(["", "Running"]))));
    }
    fields
}

/// Returns the fields of a kind that the conversion treats, with values that they may have.
pub(super) fn values(version: &str, kind: &str) -> Vec<(String, Vec<Value>)> {
    let metadata = || vec![("metadata", list(json!([{"labels": {"a": ""}}])))];
    let mut domains_status = provisioned(version);
    domains_status.push(("failureDomains", domains(version)));
    let claims = match version {
        OLD => json!([{}, {"b": 0, "a": 3, "c": 1}]),
        _ => json!([[], [{"name": "b", "index": 5}, {"name": "a", "index": 3}]]),
    };
    let parts: Vec<(&str, Choices)> = match kind {
        "Metal3Cluster" => vec![("spec", cluster(version)), ("status", domains_status)],
        "Metal3ClusterTemplate" => vec![
            (
                "spec/template",
                if version == NEW { metadata() } else { vec![] },
            ),
            ("spec/template/spec", cluster(version)),
        ],
        "Metal3Machine" => vec![
            ("spec", machine(version)),
            ("status", machine_status(version)),
        ],
        "Metal3MachineTemplate" => vec![
            ("spec", vec![("nodeReuse", list(json!([false, true])))]),
            (
                "spec/template",
                if version == NEW { metadata() } else { vec![] },
            ),
            ("spec/template/spec", machine(version)),
        ],
        "Metal3DataTemplate" => vec![
            ("spec", data_template(version)),
            ("status", vec![("indexes", list(claims))]),
        ],
        "Metal3DataClaim" => vec![
            ("spec", vec![("template", references(version))]),
            (
                "status",
                vec![
                    ("renderedData", references(version)),
                    ("errorMessage", list(json!(["", "e"]))),
                ],
            ),
        ],
        "Metal3Data" => vec![
            ("spec", data(version)),
            ("status", vec![("ready", list(json!([true, false])))]),
        ],
        "Metal3Remediation" => vec![
            ("spec", remediation(version)),
            ("status", remediation_status(version)),
        ],
        _ => vec![
            ("spec/template/spec", remediation(version)),
            ("status/status", remediation_status(version)),
        ],
    };
    let under = |(root, fields): (&str, Choices)| {
        let root = root.to_owned();
        let fields = fields.into_iter();
        fields.map(move |(field, values)| (format!("/{root}/{field}"), values))
    };
    parts.into_iter().flat_map(under).collect()
}
