//! Table rows match those of a real kube-apiserver, for its objects and for constructed
//! states.
#![expect(clippy::unwrap_used, reason = "a failed step fails the test")]

use insula_kinds::print::{cells, column_definitions, decode_parts, row_conditions, row_part};
use insula_kinds::{Kind, Object, Value, kinds};
use serde_json::json;

const OBJECTS: &str = include_str!("data/print/objects.json");
const SAMPLES: &str = include_str!("data/print/samples.json");

/// 2026-11-15T20:50:37Z, when the objects were recorded.
const NOW: i64 = 1_794_775_837;

fn kind_of(object: &Object) -> &'static Kind {
    let api_version = object["apiVersion"].as_str().unwrap();
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    let kind = object["kind"].as_str().unwrap();
    kinds().get(kinds().find_by_kind(group, version, kind).unwrap())
}

fn object(value: Value) -> Object {
    match value {
        Value::Object(object) => object,
        other => panic!("{other} is no object"),
    }
}

/// Returns the cell in the column.
fn cell(value: &Value, column: &str) -> Value {
    let object = object(value.clone());
    let kind = kind_of(&object);
    let at = kind.columns.iter().position(|found| found.name == column);
    cells(kind, &object, NOW)[at.unwrap()].clone()
}

#[track_caller]
fn expect(value: &Value, column: &str, wanted: impl Into<Value>) {
    assert_eq!(cell(value, column), wanted.into(), "{value:#}");
}

#[test]
fn recorded_objects_print_as_recorded() {
    let objects: Object = serde_json::from_str(OBJECTS).unwrap();
    let samples: Object = serde_json::from_str(SAMPLES).unwrap();
    for (key, wanted) in &samples {
        let object = object(objects[key].clone());
        let kind = kind_of(&object);
        let names = kind.columns.iter().map(|column| column.name.clone());
        let row: Object = names.zip(cells(kind, &object, NOW)).collect();
        assert_eq!(&Value::Object(row), wanted, "{key}");
        // The parts that a row needs are enough for it.
        let text = Value::Object(object.clone()).to_string();
        let parts = decode_parts(text.as_bytes(), |member| row_part(kind, member));
        assert_eq!(cells(kind, &parts, NOW), cells(kind, &object, NOW), "{key}");
    }
    assert_eq!(samples.len(), 59);
}

#[test]
fn every_kind_fills_its_columns_even_for_an_empty_object() {
    let empty = object(json!({"metadata": {"name": "a"}}));
    for (_, kind) in kinds().iter() {
        let row = cells(kind, &empty, NOW);
        assert_eq!(row.len(), kind.columns.len(), "{}", kind.kind);
        let column = kind
            .columns
            .iter()
            .position(|column| column.format == "name");
        if let Some(at) = column {
            assert_eq!(row[at], "a", "{}", kind.kind);
        }
        for (column, cell) in kind.columns.iter().zip(&row) {
            match (kind.kind.as_str(), column.kind.as_str()) {
                // The column type is boolean, but the cell is a string.
                ("CronJob", "boolean") => assert!(cell.is_string()),
                (_, "integer") => assert!(cell.is_i64() || cell.is_u64(), "{}", kind.kind),
                (_, "boolean") => assert!(cell.is_boolean(), "{}", kind.kind),
                _ => {}
            }
        }
    }
}

#[test]
fn malformed_objects_still_print_a_row() {
    let strange = [
        json!({"metadata": 1, "spec": [], "status": "x", "subsets": {}, "webhooks": null}),
        json!({"metadata": {"creationTimestamp": "soon", "labels": []}, "spec": {"rules": [1]}}),
        json!({"spec": {"containers": [null]}, "status": {"containerStatuses": [[]]}}),
    ];
    for (_, kind) in kinds().iter() {
        for value in &strange {
            let row = cells(kind, &object(value.clone()), NOW);
            assert_eq!(row.len(), kind.columns.len());
        }
    }
}

#[test]
fn column_definitions_have_all_members() {
    let pods = kinds().get(kinds().find("", "v1", "pods").unwrap());
    let definitions = column_definitions(pods);
    let wanted = json!({
        "name": "Name", "type": "string", "format": "name", "description": "", "priority": 0,
    });
    assert_eq!(definitions[0], wanted);
    assert_eq!(definitions.as_array().unwrap().len(), 9);
}

fn pod(spec: &Value, status: &Value) -> Value {
    json!({
        "kind": "Pod", "apiVersion": "v1", "spec": spec, "status": status,
        "metadata": {"name": "p", "creationTimestamp": "2026-11-15T20:45:37Z"},
    })
}

#[test]
fn pod_status_follows_container_states() {
    let terminated = |exit: i64, reason: &str, signal: i64| json!({"state": {"terminated": {"exitCode": exit, "reason": reason, "signal": signal}}});
    let running = json!({"ready": true, "state": {"running": {}}});
    let waiting = |reason: &str| json!({"state": {"waiting": {"reason": reason}}});
    let ready = json!([{"type": "Ready", "status": "True"}]);
    let table = [
        (json!([running]), json!([]), "Running"),
        (
            json!([waiting("ImagePullBackOff"), running]),
            json!([]),
            "ImagePullBackOff",
        ),
        (
            json!([waiting("First"), waiting("Second")]),
            json!([]),
            "First",
        ),
        (json!([waiting("")]), json!([]), "Running"),
        (
            json!([terminated(0, "Completed", 0), running]),
            ready.clone(),
            "Running",
        ),
        (
            json!([terminated(0, "Completed", 0), running]),
            json!([]),
            "NotReady",
        ),
        (
            json!([terminated(0, "Completed", 0), terminated(1, "Error", 0)]),
            json!([]),
            "Error",
        ),
        (
            json!([terminated(0, "Completed", 0)]),
            json!([]),
            "Completed",
        ),
        (json!([terminated(1, "", 9)]), json!([]), "Signal:9"),
        (json!([terminated(3, "", 0)]), json!([]), "ExitCode:3"),
    ];
    for (statuses, conditions, wanted) in table {
        let status =
            json!({"phase": "Running", "containerStatuses": statuses, "conditions": conditions});
        expect(&pod(&json!({}), &status), "Status", wanted);
    }
}

#[test]
fn initializing_pod_prints_its_progress() {
    let spec = json!({
        "initContainers": [{"name": "a"}, {"name": "b", "restartPolicy": "Always"}, {"name": "c"}],
        "containers": [{"name": "d"}],
    });
    let done = json!({"name": "a", "state": {"terminated": {"exitCode": 0}}});
    let sidecar = json!({
        "name": "b", "started": true, "ready": true, "restartCount": 2,
        "state": {"running": {}},
    });
    let last = |state: Value| json!({"name": "c", "state": state, "restartCount": 3});
    let table = [
        (last(json!({"running": {}})), "Init:2/3"),
        (
            last(json!({"waiting": {"reason": "PodInitializing"}})),
            "Init:2/3",
        ),
        (
            last(json!({"waiting": {"reason": "CrashLoopBackOff"}})),
            "Init:CrashLoopBackOff",
        ),
        (
            last(json!({"terminated": {"exitCode": 1, "reason": "Error"}})),
            "Init:Error",
        ),
        (
            last(json!({"terminated": {"exitCode": 1}})),
            "Init:ExitCode:1",
        ),
        (
            last(json!({"terminated": {"exitCode": 1, "signal": 15}})),
            "Init:Signal:15",
        ),
    ];
    for (third, wanted) in table {
        let status = json!({"phase": "Pending", "initContainerStatuses": [done, sidecar, third]});
        let pod = pod(&spec, &status);
        expect(&pod, "Status", wanted);
        expect(&pod, "Ready", "1/2");
        expect(&pod, "Restarts", "5");
    }
}

#[test]
fn initialized_pod_counts_restarts_of_sidecars_and_containers() {
    let spec = json!({
        "initContainers": [{"name": "a"}, {"name": "b", "restartPolicy": "Always"}],
        "containers": [{"name": "c"}],
    });
    let status = json!({
        "phase": "Running",
        "conditions": [{"type": "Initialized", "status": "True"}],
        "initContainerStatuses": [
            {"name": "a", "restartCount": 7, "state": {"terminated": {"exitCode": 0}}},
            {"name": "b", "restartCount": 1, "state": {"waiting": {}}},
        ],
        "containerStatuses": [{
            "name": "c", "restartCount": 2, "ready": true, "state": {"running": {}},
            "lastState": {"terminated": {"finishedAt": "2026-11-15T20:40:37Z"}},
        }],
    });
    let pod = pod(&spec, &status);
    expect(&pod, "Restarts", "3 (10m ago)");
    expect(&pod, "Ready", "1/2");
    expect(&pod, "Age", "5m");
}

#[test]
fn deleted_or_gated_pod_prints_so() {
    let mut deleted = pod(&json!({}), &json!({"phase": "Running"}));
    deleted["metadata"]["deletionTimestamp"] = json!("2026-11-15T20:50:37Z");
    expect(&deleted, "Status", "Terminating");
    deleted["status"]["phase"] = json!("Succeeded");
    expect(&deleted, "Status", "Succeeded");
    deleted["status"]["reason"] = json!("NodeLost");
    expect(&deleted, "Status", "Unknown");
    let gated = json!({
        "phase": "Pending",
        "conditions": [{"type": "PodScheduled", "status": "False", "reason": "SchedulingGated"}],
    });
    expect(&pod(&json!({}), &gated), "Status", "SchedulingGated");
    let evicted = json!({"phase": "Failed", "reason": "Evicted"});
    expect(&pod(&json!({}), &evicted), "Status", "Evicted");
}

#[test]
fn pod_prints_node_in_wide_columns() {
    let spec = json!({
        "nodeName": "n", "readinessGates": [{"conditionType": "a"}, {"conditionType": "b"}],
    });
    let status = json!({
        "podIPs": [{"ip": "10.0.0.1"}, {"ip": "fd00::1"}], "nominatedNodeName": "m",
        "conditions": [{"type": "a", "status": "True"}, {"type": "b", "status": "False"}],
    });
    let pod = pod(&spec, &status);
    expect(&pod, "IP", "10.0.0.1");
    expect(&pod, "Node", "n");
    expect(&pod, "Nominated Node", "m");
    expect(&pod, "Readiness Gates", "1/2");
}

#[test]
fn only_finished_pods_have_a_row_condition() {
    let conditions = |phase: &str| {
        let pod = object(pod(&json!({}), &json!({"phase": phase})));
        row_conditions(kind_of(&pod), &pod)
    };
    assert_eq!(conditions("Running"), None);
    let wanted = json!([{
        "type": "Completed", "status": "True", "reason": "Succeeded",
        "message": "The pod has completed successfully.",
    }]);
    assert_eq!(conditions("Succeeded"), Some(wanted));
    assert_eq!(
        conditions("Failed").unwrap()[0]["message"],
        "The pod failed."
    );
}

fn of(api_version: &str, kind: &str, spec: &Value, status: &Value) -> Value {
    json!({
        "kind": kind, "apiVersion": api_version, "metadata": {"name": "a"},
        "spec": spec, "status": status,
    })
}

#[test]
fn external_ip_depends_on_the_service_type() {
    let table = [
        (json!({"type": "ClusterIP"}), json!([]), "<none>"),
        (
            json!({"type": "NodePort", "externalIPs": ["1.1.1.1", "2.2.2.2"]}),
            json!([]),
            "1.1.1.1,2.2.2.2",
        ),
        (json!({"type": "LoadBalancer"}), json!([]), "<pending>"),
        (
            json!({"type": "LoadBalancer"}),
            json!([{"ip": "9.9.9.9"}, {"hostname": "a.b"}, {"ip": "1.1.1.1"}]),
            "1.1.1.1,9.9.9.9,a.b",
        ),
        (
            json!({"type": "LoadBalancer", "externalIPs": ["2.2.2.2"]}),
            json!([{"ip": "9.9.9.9"}]),
            "9.9.9.9,2.2.2.2",
        ),
        (
            json!({"type": "LoadBalancer", "externalIPs": ["2.2.2.2"]}),
            json!([]),
            "2.2.2.2",
        ),
        (
            json!({"type": "ExternalName", "externalName": "a.b"}),
            json!([]),
            "a.b",
        ),
        (json!({}), json!([]), "<unknown>"),
    ];
    for (spec, ingress, wanted) in table {
        let status = json!({"loadBalancer": {"ingress": ingress}});
        expect(&of("v1", "Service", &spec, &status), "External-IP", wanted);
    }
    let ports = json!({"ports": [
        {"port": 80, "nodePort": 30080, "protocol": "TCP"}, {"port": 53, "protocol": "UDP"},
    ]});
    expect(
        &of("v1", "Service", &ports, &json!({})),
        "Port(s)",
        "80:30080/TCP,53/UDP",
    );
}

#[test]
fn ingress_prints_at_most_three_hosts() {
    let rules = |hosts: &[&str]| {
        let rules: Vec<_> = hosts.iter().map(|host| json!({"host": host})).collect();
        of(
            "networking.k8s.io/v1",
            "Ingress",
            &json!({"rules": rules}),
            &json!({}),
        )
    };
    expect(&rules(&[]), "Hosts", "*");
    expect(&rules(&["", "b"]), "Hosts", "b");
    expect(&rules(&["a", "b", "c"]), "Hosts", "a,b,c");
    expect(
        &rules(&["a", "b", "c", "d", "e"]),
        "Hosts",
        "a,b,c + 2 more...",
    );
    let tls = of(
        "networking.k8s.io/v1",
        "Ingress",
        &json!({"tls": [{}]}),
        &json!({}),
    );
    expect(&tls, "Ports", "80, 443");
}

#[test]
fn endpoints_print_every_address_and_port() {
    let endpoints = |subsets: Value| json!({"kind": "Endpoints", "apiVersion": "v1", "metadata": {"name": "a"}, "subsets": subsets});
    expect(&endpoints(json!([])), "Endpoints", "<none>");
    let two = json!([{"addresses": [{"ip": "1.1.1.1"}, {"ip": "::1"}], "ports": [{"port": 80}, {"port": 81}]}]);
    expect(
        &endpoints(two),
        "Endpoints",
        "1.1.1.1:80,[::1]:80,1.1.1.1:81 + 1 more...",
    );
    let bare = json!([{"addresses": [{"ip": "1.1.1.1"}]}]);
    expect(&endpoints(bare), "Endpoints", "1.1.1.1");
    let slice = json!({
        "kind": "EndpointSlice", "apiVersion": "discovery.k8s.io/v1", "metadata": {"name": "a"},
        "ports": [{"port": 80}, {"name": "b"}, {}],
        "endpoints": [{"addresses": ["1", "2"]}, {"addresses": ["3", "4"]}],
    });
    expect(&slice, "Ports", "80,b,*");
    expect(&slice, "Endpoints", "1,2,3 + 1 more...");
}

#[test]
fn selectors_are_sorted_by_key() {
    let spec = json!({"selector": {
        "matchLabels": {"b": "1"},
        "matchExpressions": [
            {"key": "c", "operator": "In", "values": ["y", "x"]},
            {"key": "a", "operator": "Exists"},
            {"key": "d", "operator": "DoesNotExist"},
            {"key": "e", "operator": "NotIn", "values": ["z"]},
        ],
    }});
    let wanted = "a,b=1,c in (x,y),!d,e notin (z)";
    expect(
        &of("apps/v1", "Deployment", &spec, &json!({})),
        "Selector",
        wanted,
    );
    expect(
        &of("apps/v1", "ReplicaSet", &spec, &json!({})),
        "Selector",
        wanted,
    );
    let empty = json!({"selector": {}});
    expect(
        &of("apps/v1", "Deployment", &empty, &json!({})),
        "Selector",
        "",
    );
    expect(
        &of("apps/v1", "ReplicaSet", &empty, &json!({})),
        "Selector",
        "<none>",
    );
}

#[test]
fn node_prints_status_and_roles() {
    let mut node = of(
        "v1",
        "Node",
        &json!({"unschedulable": true}),
        &json!({
            "conditions": [{"type": "Ready", "status": "Unknown"}],
            "addresses": [{"type": "InternalIP", "address": "10.0.0.1"}],
            "nodeInfo": {"kernelVersion": "6.1", "architecture": "amd64", "osImage": "Linux"},
        }),
    );
    node["metadata"]["labels"] = json!({
        "node-role.kubernetes.io/worker": "", "node-role.kubernetes.io/": "",
        "kubernetes.io/role": "edge",
    });
    expect(&node, "Status", "NotReady,SchedulingDisabled");
    expect(&node, "Roles", "edge,worker");
    expect(&node, "Internal-IP", "10.0.0.1");
    expect(&node, "External-IP", "<none>");
    expect(&node, "Kernel-Version", "6.1 (amd64)");
}

#[test]
fn job_status_conditions_have_precedence() {
    let job = |conditions: &[&str]| {
        let conditions: Vec<_> = conditions
            .iter()
            .map(|name| json!({"type": name, "status": "True"}))
            .collect();
        of(
            "batch/v1",
            "Job",
            &json!({}),
            &json!({"conditions": conditions}),
        )
    };
    expect(&job(&[]), "Status", "Running");
    expect(
        &job(&["SuccessCriteriaMet"]),
        "Status",
        "SuccessCriteriaMet",
    );
    expect(
        &job(&["SuccessCriteriaMet", "FailureTarget"]),
        "Status",
        "FailureTarget",
    );
    let mut job = job(&["Suspended", "FailureTarget"]);
    expect(&job, "Status", "Suspended");
    job["metadata"]["deletionTimestamp"] = json!("2026-11-15T20:50:37Z");
    expect(&job, "Status", "Terminating");
    job["status"]["conditions"] = json!([{"type": "Complete", "status": "True"}]);
    expect(&job, "Status", "Complete");
}

#[test]
fn job_prints_completions_and_duration() {
    let job = |spec: Value, status: Value| of("batch/v1", "Job", &spec, &status);
    expect(
        &job(json!({"completions": 3}), json!({"succeeded": 2})),
        "Completions",
        "2/3",
    );
    expect(
        &job(json!({"parallelism": 4}), json!({})),
        "Completions",
        "0/1 of 4",
    );
    expect(
        &job(json!({"parallelism": 1}), json!({})),
        "Completions",
        "0/1",
    );
    let start = "2026-11-15T20:45:37Z";
    expect(
        &job(json!({}), json!({"startTime": start})),
        "Duration",
        "5m",
    );
    let both = json!({"startTime": start, "completionTime": "2026-11-15T20:46:08Z"});
    expect(&job(json!({}), both), "Duration", "31s");
}

#[test]
fn autoscaler_prints_at_most_two_metrics() {
    let resource = |name: &str| json!({"type": "Resource", "resource": {"name": name, "target": {"averageUtilization": 80}}});
    let autoscaler = |metrics: Value, current: Value| {
        let status = json!({"currentMetrics": current});
        of(
            "autoscaling/v2",
            "HorizontalPodAutoscaler",
            &json!({"metrics": metrics}),
            &status,
        )
    };
    let current = json!([
        {"type": "Resource", "resource": {"name": "cpu", "current": {"averageUtilization": 33}}},
    ]);
    let three = autoscaler(
        json!([resource("cpu"), resource("memory"), resource("x")]),
        current,
    );
    expect(
        &three,
        "Targets",
        "cpu: 33%/80%, memory: <unknown>/80% + 1 more...",
    );
    expect(&three, "MinPods", "<unset>");
    expect(&autoscaler(json!([]), json!([])), "Targets", "<none>");
    let table = [
        (
            json!({"type": "External", "external": {"target": {"averageValue": "50m"}}}),
            json!({"external": {"current": {"averageValue": "20m"}}}),
            "20m/50m (avg)",
        ),
        (
            json!({"type": "Object", "object": {"target": {"value": "5"}}}),
            json!({"object": {"current": {"value": "3"}}}),
            "3/5",
        ),
        (
            json!({"type": "Pods", "pods": {"target": {"averageValue": "5"}}}),
            json!({}),
            "<unknown>/5",
        ),
        (
            json!({"type": "ContainerResource", "containerResource": {"name": "cpu", "target": {"averageValue": "5"}}}),
            json!({"containerResource": {"current": {"averageValue": "4"}}}),
            "cpu: 4/5",
        ),
        (json!({"type": "Other"}), json!({}), "<unknown type>"),
    ];
    for (metric, current, wanted) in table {
        expect(
            &autoscaler(json!([metric]), json!([current])),
            "Targets",
            wanted,
        );
    }
}

#[test]
fn volume_prints_class_and_access_modes() {
    let mut volume = of(
        "v1",
        "PersistentVolume",
        &json!({
            "accessModes": ["ReadWriteOncePod", "ReadOnlyMany", "ReadOnlyMany", "ReadWriteOnce"],
            "claimRef": {"namespace": "n", "name": "c"}, "storageClassName": "fast",
        }),
        &json!({"phase": "Bound"}),
    );
    expect(&volume, "Access Modes", "RWO,ROX,RWOP");
    expect(&volume, "Claim", "n/c");
    expect(&volume, "StorageClass", "fast");
    expect(&volume, "Capacity", "0");
    volume["metadata"]["deletionTimestamp"] = json!("2026-11-15T20:50:37Z");
    expect(&volume, "Status", "Terminating");
    let claim = of(
        "v1",
        "PersistentVolumeClaim",
        &json!({"volumeName": "v"}),
        &json!({"accessModes": ["ReadWriteMany"], "capacity": {"storage": "5Gi"}}),
    );
    expect(&claim, "Capacity", "5Gi");
    expect(&claim, "Access Modes", "RWX");
}

#[test]
fn default_classes_are_marked() {
    let class = |api_version: &str, kind: &str, annotation: &str| {
        json!({
            "kind": kind, "apiVersion": api_version,
            "metadata": {"name": "a", "annotations": {annotation: "true"}},
        })
    };
    let storage = "storageclass.kubernetes.io/is-default-class";
    expect(
        &class("storage.k8s.io/v1", "StorageClass", storage),
        "Name",
        "a (default)",
    );
    let ingress = "ingressclass.kubernetes.io/is-default-class";
    expect(
        &class("networking.k8s.io/v1", "IngressClass", ingress),
        "Name",
        "a (default)",
    );
}

#[test]
fn event_prints_when_it_was_last_seen() {
    let event = json!({
        "kind": "Event", "apiVersion": "v1", "metadata": {"name": "e"},
        "involvedObject": {"kind": "ReplicaSet", "name": "r"}, "message": " text\n",
        "source": {"component": "kubelet", "host": "n"},
        "firstTimestamp": "2026-11-15T20:40:37Z", "lastTimestamp": "2026-11-15T20:49:37Z", "count": 4,
    });
    expect(&event, "Last Seen", "60s");
    expect(&event, "First Seen", "10m");
    expect(&event, "Object", "replicaset/r");
    expect(&event, "Message", "text");
    expect(&event, "Source", "kubelet, n");
    expect(&event, "Count", 4);
    let series = json!({
        "kind": "Event", "apiVersion": "events.k8s.io/v1", "metadata": {"name": "e"},
        "regarding": {"kind": "Pod", "name": "p"}, "eventTime": "2026-11-15T20:40:37.000000Z",
        "series": {"count": 9, "lastObservedTime": "2026-11-15T20:50:07.000000Z"},
    });
    expect(&series, "Last Seen", "30s");
    expect(&series, "First Seen", "10m");
    expect(&series, "Count", 9);
}

#[test]
fn signing_request_prints_its_decision() {
    let request = |conditions: &[&str], certificate: &str| {
        let conditions: Vec<_> = conditions
            .iter()
            .map(|name| json!({"type": name}))
            .collect();
        let status = json!({"conditions": conditions, "certificate": certificate});
        let spec = json!({"expirationSeconds": 3600});
        of(
            "certificates.k8s.io/v1",
            "CertificateSigningRequest",
            &spec,
            &status,
        )
    };
    expect(&request(&[], ""), "Condition", "Pending");
    expect(
        &request(&["Approved"], "LS0="),
        "Condition",
        "Approved,Issued",
    );
    expect(
        &request(&["Approved", "Denied", "Failed"], ""),
        "Condition",
        "Denied,Failed",
    );
    expect(&request(&[], ""), "RequestedDuration", "60m");
}

#[test]
fn quota_prints_limits_in_their_own_column() {
    let status = json!({
        "hard": {"pods": "10", "limits.cpu": "4", "cpu": "2"}, "used": {"pods": "3"},
    });
    let quota = of("v1", "ResourceQuota", &json!({}), &status);
    expect(&quota, "Request", "cpu: 0/2, pods: 3/10");
    expect(&quota, "Limit", "limits.cpu: 0/4");
}

#[test]
fn policy_binding_prints_its_parameters() {
    let binding = |reference: Value| {
        let spec = json!({"policyName": "p", "paramRef": reference});
        let kind = "ValidatingAdmissionPolicyBinding";
        of("admissionregistration.k8s.io/v1", kind, &spec, &json!({}))
    };
    expect(&binding(json!({"name": "a"})), "ParamRef", "*/a");
    expect(
        &binding(json!({"name": "a", "namespace": "n"})),
        "ParamRef",
        "n/a",
    );
    let selector = json!({"selector": {"matchLabels": {"k": "v"}, "matchExpressions": [
        {"key": "a", "operator": "In", "values": ["x", "y"]},
    ]}});
    let wanted = concat!(
        "&LabelSelector{MatchLabels:map[string]string{k: v,},MatchExpressions:",
        "[]LabelSelectorRequirement{LabelSelectorRequirement{Key:a,Operator:In,Values:[x y],},},}",
    );
    expect(&binding(selector), "ParamRef", wanted);
}

#[test]
fn other_kinds_print_their_fields() {
    let claim = |status: Value| of("resource.k8s.io/v1", "ResourceClaim", &json!({}), &status);
    expect(&claim(json!({"allocation": {}})), "State", "allocated");
    expect(
        &claim(json!({"allocation": {}, "reservedFor": [{}]})),
        "State",
        "allocated,reserved",
    );
    let service = |status: Value| {
        of(
            "apiregistration.k8s.io/v1",
            "APIService",
            &json!({}),
            &status,
        )
    };
    let unavailable =
        json!({"conditions": [{"type": "Available", "status": "False", "reason": "Gone"}]});
    expect(&service(unavailable), "Available", "False (Gone)");
    expect(&service(json!({})), "Service", "Local");
    let budget = json!({"maxUnavailable": "30%"});
    let budget = of("policy/v1", "PodDisruptionBudget", &budget, &json!({}));
    expect(&budget, "Max Unavailable", "30%");
    let mut revision = json!({
        "kind": "ControllerRevision", "apiVersion": "apps/v1", "revision": 7,
        "metadata": {"name": "a", "ownerReferences": [
            {"apiVersion": "v1", "kind": "Pod", "name": "no"},
            {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "s", "controller": true},
        ]},
    });
    expect(&revision, "Controller", "statefulset.apps/s");
    revision["metadata"]["ownerReferences"] = json!([]);
    expect(&revision, "Controller", "<none>");
    let tenant = of("v1", "Tenant", &json!({}), &json!({"phase": "Active"}));
    expect(&tenant, "Status", "Active");
    expect(&tenant, "Age", "<unknown>");
    let address = json!({"parentRef": {"resource": "services", "namespace": "n", "name": "s"}});
    let address = of("networking.k8s.io/v1", "IPAddress", &address, &json!({}));
    expect(&address, "ParentRef", "services/n/s");
    let level = of(
        "flowcontrol.apiserver.k8s.io/v1",
        "PriorityLevelConfiguration",
        &json!({"type": "Exempt"}),
        &json!({}),
    );
    expect(&level, "Queues", "<none>");
    let healthy = json!({
        "kind": "ComponentStatus", "apiVersion": "v1", "metadata": {"name": "etcd-0"},
        "conditions": [{"type": "Healthy", "status": "True", "message": "ok"}],
    });
    expect(&healthy, "Status", "Healthy");
}
