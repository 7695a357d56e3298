use insula_operator::condition::find;
use serde_json::{Value, json};

use super::*;

const NOW: Timestamp = Timestamp::constant(1_700_000_000, 0);
const LATER: Timestamp = Timestamp::constant(1_700_000_060, 0);

fn cluster(spec: &Value) -> Metal3Cluster {
    serde_json::from_value(json!({
        "apiVersion": "infrastructure.cluster.x-k8s.io/v1beta2", "kind": "Metal3Cluster",
        "metadata": {"name": "c", "namespace": "team", "generation": 3}, "spec": spec,
    }))
    .unwrap()
}

fn verified(warnings: &[&str]) -> Hosts {
    Hosts::Verified {
        namespace: "pool-a".to_owned(),
        server: "hosts.example:6443".to_owned(),
        warnings: warnings.iter().map(|&warning| warning.to_owned()).collect(),
    }
}

/// Returns status, reason and message of the condition, and whether the cluster is provisioned.
fn summary(cluster: &Metal3Cluster) -> (String, String, String, bool) {
    let status = cluster.status.as_ref().unwrap();
    let condition = find(&status.conditions, INFRASTRUCTURE).cloned();
    let is_provisioned = status.initialization.is_some_and(|once| once.is_done());
    match condition {
        Some(it) => (it.status, it.reason, it.message, is_provisioned),
        None => (String::new(), String::new(), String::new(), is_provisioned),
    }
}

#[test]
fn r27_cluster_is_ready_only_after_its_credential_is_verified() {
    let endpoint = json!({"controlPlaneEndpoint": {"host": "1.2.3.4", "port": 6443}});
    let refused = Hosts::Refused(Problem {
        reason: "IdentityForbidden",
        message: "no".to_owned(),
    });
    let row = |status: &str, reason: &str, message: &str, done| {
        (
            status.to_owned(),
            reason.to_owned(),
            message.to_owned(),
            done,
        )
    };
    let no_endpoint = "spec.controlPlaneEndpoint has no host or no port: set both, because \
                       bare-metal clusters bring their own load balancer or virtual address";
    let no_owner = "no Cluster owns it yet: create a Cluster with an infrastructureRef to it";
    for (spec, hosts, has_owner, expected) in [
        (
            &endpoint,
            Hosts::InCluster,
            true,
            row("True", "Ready", "", true),
        ),
        (
            &endpoint,
            verified(&[]),
            true,
            row("True", "Ready", "", true),
        ),
        (
            &endpoint,
            verified(&["a", "b"]),
            true,
            row("True", "Ready", "a; b", true),
        ),
        (&endpoint, Hosts::Verifying, true, row("", "", "", false)),
        (
            &endpoint,
            refused.clone(),
            true,
            row("False", "IdentityForbidden", "no", false),
        ),
        (
            &endpoint,
            verified(&[]),
            false,
            row("False", "WaitingForOwnerCluster", no_owner, false),
        ),
        (
            &json!({}),
            verified(&[]),
            true,
            row("False", "InvalidConfiguration", no_endpoint, false),
        ),
        (
            &json!({"controlPlaneEndpoint": {"host": "", "port": 6443}}),
            Hosts::InCluster,
            true,
            row("False", "InvalidConfiguration", no_endpoint, false),
        ),
        // The credential comes first: it is what the document's example consists of.
        (
            &json!({}),
            refused,
            false,
            row("False", "IdentityForbidden", "no", false),
        ),
    ] {
        let found = Observed {
            hosts,
            has_owner,
            warnings: Vec::new(),
        };
        let after = conclude(&cluster(spec), &found, NOW);
        assert_eq!(summary(&after), expected);
    }
}

#[test]
fn provisioned_cluster_stays_so_and_both_contracts_are_told_what_broke() {
    let spec = json!({
        "controlPlaneEndpoint": {"host": "1.2.3.4", "port": 6443},
        "failureDomains": [{"name": "rack-1", "controlPlane": true}],
    });
    let found = |hosts| Observed {
        hosts,
        has_owner: true,
        warnings: Vec::new(),
    };
    let ready = conclude(&cluster(&spec), &found(verified(&[])), NOW);
    // Nothing changes if nothing changed.
    assert_eq!(conclude(&ready, &found(verified(&[])), LATER), ready);
    let verifying = conclude(&ready, &found(Hosts::Verifying), LATER);
    assert_eq!(verifying, ready);
    let problem = Problem {
        reason: "IdentityUnreachable",
        message: "gone".to_owned(),
    };
    let broken = conclude(&ready, &found(Hosts::Refused(problem)), LATER);
    let status = serde_json::to_value(broken.status).unwrap();
    let at = |second: &str| format!("2023-11-14T22:{second}Z");
    assert_eq!(
        status,
        json!({
            "initialization": {"provisioned": true},
            "lastUpdated": at("14:20"),
            "failureDomains": [{"name": "rack-1", "controlPlane": true}],
            "conditions": [
                {"type": "Paused", "status": "False", "reason": "NotPaused", "message": "",
                 "observedGeneration": 3, "lastTransitionTime": at("13:20")},
                {"type": "BaremetalInfrastructureReady", "status": "False",
                 "reason": "IdentityUnreachable", "message": "gone", "observedGeneration": 3,
                 "lastTransitionTime": at("14:20")},
                {"type": "Ready", "status": "False", "reason": "NotReady",
                 "message": "* BaremetalInfrastructureReady: gone", "observedGeneration": 3,
                 "lastTransitionTime": at("14:20")},
            ],
            "deprecated": {"v1beta1": {"conditions": [
                {"type": "Ready", "status": "False", "severity": "Error", "reason": "NotReady",
                 "message": "* BaremetalInfrastructureReady: gone",
                 "lastTransitionTime": at("14:20")},
                {"type": "BaremetalInfrastructureReady", "status": "False",
                 "severity": "Warning", "reason": "IdentityUnreachable", "message": "gone",
                 "lastTransitionTime": at("14:20")},
            ]}},
        })
    );
}
