use serde_json::json;

use super::*;

const NOW: i64 = 1_700_000_000;

fn object(value: Value) -> Object {
    value.as_object().cloned().unwrap_or_default()
}

fn usage(of: CountedResource<'_>, value: Value) -> String {
    format_amounts(&of.usage(&object(value), NOW))
}

#[test]
fn every_kind_uses_one_of_its_count() {
    let deployments = CountedResource {
        group: "apps",
        resource: "deployments",
    };
    assert_eq!(usage(deployments, json!({})), "count/deployments.apps=1");
    assert_eq!(
        usage(CountedResource::core("configmaps"), json!({})),
        "configmaps=1,count/configmaps=1"
    );
    assert_eq!(
        usage(CountedResource::core("limitranges"), json!({})),
        "count/limitranges=1"
    );
    assert!(deployments.uses("count/deployments.apps"));
    assert!(!deployments.uses("count/deployments"));
    assert!(!deployments.uses("deployments"));
    assert!(!CountedResource::core("events").is_counted());
}

#[test]
fn services_use_node_ports_and_load_balancers_by_spec() {
    let ports = json!([{"port": 1, "nodePort": 30000}, {"port": 2}]);
    for (spec, wanted) in [
        (json!({"ports": ports}), (0, 0)),
        (json!({"type": "NodePort", "ports": ports}), (0, 2)),
        (json!({"type": "LoadBalancer", "ports": ports}), (1, 2)),
        (
            json!({"type": "LoadBalancer", "ports": ports,
                "allocateLoadBalancerNodePorts": false}),
            (1, 1),
        ),
    ] {
        let (balancers, nodes) = wanted;
        let found = usage(CountedResource::SERVICES, json!({"spec": spec}));
        let wanted = format!(
            "count/services=1,services=1,services.loadbalancers={balancers},\
             services.nodeports={nodes}"
        );
        assert_eq!(found, wanted, "{spec}");
    }
}

#[test]
fn claims_use_storage_by_class_in_whole_bytes() {
    let claim = |request: &str| {
        json!({"spec": {"storageClassName": "gold",
            "resources": {"requests": {"storage": request}}}})
    };
    assert_eq!(
        usage(CountedResource::CLAIMS, claim("1Gi")),
        "count/persistentvolumeclaims=1,\
         gold.storageclass.storage.k8s.io/persistentvolumeclaims=1,\
         gold.storageclass.storage.k8s.io/requests.storage=1Gi,\
         persistentvolumeclaims=1,requests.storage=1Gi"
    );
    let rounded = CountedResource::CLAIMS.usage(&object(claim("0.1Ki")), NOW);
    assert_eq!(rounded["requests.storage"].to_string(), "103");
    assert!(CountedResource::CLAIMS.uses("gold.storageclass.storage.k8s.io/requests.storage"));
    assert!(!CountedResource::CLAIMS.uses("gold.storageclass.storage.k8s.io/pods"));
}

#[test]
fn pods_use_container_sum_or_largest_init_container() {
    let asks = |cpu: &str| json!({"requests": {"cpu": cpu}});
    let pod = json!({"spec": {
        "containers": [{"name": "a", "resources": asks("1")}, {"name": "b", "resources": asks("2")}],
        "initContainers": [
            {"name": "stays", "restartPolicy": "Always", "resources": asks("500m")},
            {"name": "first", "resources": asks("4")},
        ],
        "overhead": {"cpu": "100m"},
    }});
    // 4 plus the sidecar is more than 1 + 2 + 500m.
    assert_eq!(
        usage(CountedResource::PODS, pod),
        "count/pods=1,cpu=4600m,pods=1,requests.cpu=4600m"
    );
}

#[test]
fn pod_usage_has_all_quota_resource_names() {
    let pod = json!({"spec": {"containers": [{"name": "a", "resources": {
        "requests": {"cpu": "1", "memory": "1Gi", "ephemeral-storage": "2Gi",
            "hugepages-2Mi": "4Mi", "example.com/gpu": "2"},
        "limits": {"cpu": "2", "memory": "2Gi"},
    }}]}});
    assert_eq!(
        usage(CountedResource::PODS, pod),
        "count/pods=1,cpu=1,ephemeral-storage=2Gi,hugepages-2Mi=4Mi,limits.cpu=2,\
         limits.memory=2Gi,memory=1Gi,pods=1,requests.cpu=1,requests.ephemeral-storage=2Gi,\
         requests.example.com/gpu=2,requests.hugepages-2Mi=4Mi,requests.memory=1Gi"
    );
    for (name, used) in [
        ("requests.example.com/gpu", true),
        ("limits.cpu", true),
        ("limits.example.com/gpu", false),
        ("example.com/gpu", false),
        ("requests.storage", false),
        ("hugepages-1Gi", true),
        ("limits.hugepages-1Gi", false),
        ("services", false),
    ] {
        assert_eq!(CountedResource::PODS.uses(name), used, "{name}");
    }
}

#[test]
fn finished_pod_is_counted_but_uses_no_resources() {
    let deleted = |at: i64| {
        let at = crate::time::Time {
            seconds: at,
            nanos: 0,
        };
        json!({"metadata": {"deletionTimestamp": at.print(crate::time::Precision::Seconds),
            "deletionGracePeriodSeconds": 30}})
    };
    for (pod, over) in [
        (json!({"status": {"phase": "Succeeded"}}), true),
        (json!({"status": {"phase": "Failed"}}), true),
        (json!({"status": {"phase": "Running"}}), false),
        (deleted(NOW - 31), true),
        (deleted(NOW - 30), false),
    ] {
        let wanted = if over {
            "count/pods=1"
        } else {
            "count/pods=1,pods=1"
        };
        assert_eq!(usage(CountedResource::PODS, pod.clone()), wanted, "{pod}");
    }
}

#[test]
fn pod_being_resized_uses_the_larger_of_requested_and_allocated() {
    let pod = |reason: &str| {
        json!({
            "spec": {"containers": [{"name": "a", "resources": {"requests": {"cpu": "3"}}}]},
            "status": {
                "conditions": [{"type": "PodResizePending", "reason": reason}],
                "containerStatuses": [{"name": "a", "allocatedResources": {"cpu": "2"},
                    "resources": {"requests": {"cpu": "1"}}}],
            },
        })
    };
    let cpu = |reason| CountedResource::PODS.usage(&object(pod(reason)), NOW)["cpu"].to_string();
    assert_eq!(cpu("Deferred"), "3");
    assert_eq!(cpu("Infeasible"), "2");
}

#[test]
fn pod_level_resources_take_precedence() {
    let pod = json!({"spec": {
        "containers": [{"name": "a", "resources": {"requests": {"cpu": "3"}}}],
        "resources": {"requests": {"cpu": "5"}, "limits": {"memory": "1Gi"}},
    }});
    assert_eq!(
        usage(CountedResource::PODS, pod.clone()),
        "count/pods=1,cpu=5,limits.memory=1Gi,pods=1,requests.cpu=5"
    );
    let quota = Quota::read(&object(json!({"spec": {"hard": {"limits.cpu": "1"}}})));
    assert_eq!(CountedResource::PODS.missing(&quota, &object(pod)), None);
}

#[test]
fn containers_must_set_resources_limited_by_quota() {
    let quota = json!({"spec": {"hard": {"requests.cpu": "1", "limits.memory": "1", "pods": "1"}}});
    let quota = Quota::read(&object(quota));
    let pod = json!({"spec": {
        "containers": [{"name": "b"}, {"name": "a", "resources": {"requests": {"cpu": "1"}}}],
        "initContainers": [{"name": "i", "resources": {"limits": {"memory": "1"}}}],
    }});
    assert_eq!(
        CountedResource::PODS
            .missing(&quota, &object(pod))
            .as_deref(),
        Some("must specify limits.memory for: a,b; requests.cpu for: b,i")
    );
}

#[test]
fn scopes_select_pods() {
    let scoped = |spec: Value| Quota::read(&object(json!({"spec": spec})));
    let class = |operator: &str, values: Value| {
        json!({"hard": {"pods": "1"}, "scopeSelector": {"matchExpressions": [
            {"scopeName": "PriorityClass", "operator": operator, "values": values}]}})
    };
    let scope = |name: &str| json!({"hard": {"pods": "1"}, "scopes": [name]});
    let high = json!({"spec": {"priorityClassName": "high"}});
    let deadline = json!({"spec": {"activeDeadlineSeconds": 5}});
    let asks = json!({"spec": {"containers": [{"resources": {"requests": {"cpu": "1"}}}]}});
    let elsewhere = json!({"spec": {"affinity": {"podAntiAffinity": {
        "preferredDuringSchedulingIgnoredDuringExecution": [
            {"weight": 1, "podAffinityTerm": {"namespaceSelector": {}}}]}}}});
    for (spec, pod, wanted) in [
        (json!({"hard": {"pods": "1"}}), &high, true),
        (json!({"hard": {"services": "1"}}), &high, false),
        (class("In", json!(["high", "low"])), &high, true),
        (class("In", json!(["low"])), &high, false),
        (class("NotIn", json!(["low"])), &high, true),
        (class("NotIn", json!(["low"])), &asks, true),
        (class("Exists", json!([])), &high, true),
        (class("Exists", json!([])), &asks, false),
        (class("DoesNotExist", json!([])), &asks, true),
        (scope("Terminating"), &deadline, true),
        (scope("NotTerminating"), &deadline, false),
        (scope("Terminating"), &high, false),
        (scope("BestEffort"), &high, true),
        (scope("BestEffort"), &asks, false),
        (scope("NotBestEffort"), &asks, true),
        (scope("CrossNamespacePodAffinity"), &elsewhere, true),
        (scope("CrossNamespacePodAffinity"), &asks, false),
        (scope("VolumeAttributesClass"), &asks, false),
    ] {
        let matches = scoped(spec.clone()).matches(CountedResource::PODS, &object(pod.clone()));
        assert_eq!(matches, wanted, "{spec} {pod}");
    }
    let claims = scoped(json!({"hard": {"persistentvolumeclaims": "1"},
        "scopes": ["VolumeAttributesClass"]}));
    let claim = |spec: Value| object(json!({"spec": spec}));
    let fast = claim(json!({"volumeAttributesClassName": "fast"}));
    assert!(claims.matches(CountedResource::CLAIMS, &fast));
    assert!(!claims.matches(CountedResource::CLAIMS, &claim(json!({}))));
}

#[test]
fn quota_knows_its_resources_and_whether_status_is_complete() {
    let quota = Quota::read(&object(json!({
        "spec": {"hard": {"count/widgets.example.com": "1", "secrets": "2", "count/secrets": "3",
            "requests.storage": "1Gi", "cpu": "1", "count/events": "4"}},
        "status": {"hard": {"secrets": "2"}, "used": {"secrets": "0"}},
    })));
    let counted: Vec<String> = quota
        .counted_resources()
        .iter()
        .map(|of| of.count())
        .collect();
    let wanted = [
        "count/persistentvolumeclaims",
        "count/pods",
        "count/secrets",
        "count/widgets.example.com",
    ];
    assert_eq!(counted, wanted);
    assert!(!quota.is_fully_counted());
    let counted = json!({"spec": {"hard": {"cpu": "1000m"}},
        "status": {"hard": {"cpu": "1"}, "used": {"cpu": "0"}}});
    assert!(Quota::read(&object(counted)).is_fully_counted());
}

#[test]
fn increase_ignores_decreases() {
    let amounts = |of: &[(&str, i64)]| -> Amounts {
        let each = of.iter();
        each.map(|(name, count)| ((*name).to_owned(), Quantity::new(*count, Format::Decimal)))
            .collect()
    };
    let before = amounts(&[("a", 2), ("b", 1)]);
    let after = amounts(&[("a", 1), ("b", 3), ("c", 1), ("d", 0)]);
    assert_eq!(format_amounts(&increase(&before, &after)), "b=2,c=1");
}
