//! describe.

use insula_e2e::two_tenants::TwoTenants;

use crate::manifests::{POD, write_app};

#[test]
fn describe_shows_objects() {
    let Some(two_tenants) = TwoTenants::start() else {
        return;
    };
    two_tenants.both(|tenant| {
        write_app(tenant, "red", 3);
        tenant.get("apply -f app");
        tenant.given(POD).get("apply -f -");
        let image = format!("Image: {}/web:1.0", tenant.name());
        tenant.shows(
            "describe deployment web",
            &[
                "Name: web",
                "Selector: app=web",
                "Replicas: 3 desired | 0 updated | 0 total | 0 available | 0 unavailable",
                "RollingUpdateStrategy: 25% max unavailable, 25% max surge",
                &image,
                "Port: 8080/TCP",
            ],
        );
        tenant.shows(
            "describe pod lonely",
            &[
                "Name: lonely",
                "Service Account: default",
                "Status: Pending",
                "Image: busybox:1.36",
                "QoS Class: BestEffort",
            ],
        );
        tenant.shows(
            "describe service web",
            &[
                "Type: ClusterIP",
                "IP: 10.",
                "Port: http 80/TCP",
                "TargetPort: 8080/TCP",
            ],
        );
        tenant.shows(
            "describe namespace default",
            &[
                "Name: default",
                "Labels: kubernetes.io/metadata.name=default",
                "Status: Active",
            ],
        );
        // kubectl prints map entries in any order.
        tenant.shows("describe configmap web", &["colour:", "red"]);
        tenant.shows("describe configmap web", &["owner:", tenant.name()]);
        let secret = tenant.get("describe secret web");
        assert!(secret.contains("password:  7 bytes"), "{secret}");
        assert!(
            !secret.contains("hunter2") && !secret.contains("aHVudGVyMg"),
            "{secret}"
        );
        tenant.shows(
            "describe statefulset db",
            &["Replicas: 1 desired | 0 total", "Image: postgres:16"],
        );
        tenant.shows("describe ingress web", &["web.example", "/ web:http"]);
        tenant.refuses("describe cm nothing", "configmaps \"nothing\" not found");
    });
}
