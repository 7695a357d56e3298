//! What is written on a host for its machine.

use k8s_openapi::api::core::v1::SecretReference;

use super::*;
use crate::hosts::addresses::{HostAddress, addresses};
use crate::hosts::claim::claim;
use crate::hosts::consumer::{InvalidAnnotation, annotated_host, host_annotation};
use crate::hosts::proof::ProofDigest;
use crate::hosts::provision::{Deployment, ProvisionError, provision};
use crate::kinds::host::{HostCustomDeploy, HostImage};

fn secret(name: &str, namespace: Option<&str>) -> Option<SecretReference> {
    Some(SecretReference {
        name: Some(name.to_owned()),
        namespace: namespace.map(str::to_owned),
    })
}

fn image() -> Option<HostImage> {
    Some(HostImage {
        url: "http://images/a.qcow2".to_owned(),
        checksum: Some("abc".to_owned()),
        checksum_type: Some("sha256".to_owned()),
        format: Some("qcow2".to_owned()),
    })
}

fn deployment() -> Deployment {
    Deployment {
        image: image(),
        user_data: secret("m-1-userdata", Some("pool-a")),
        ..Deployment::default()
    }
}

#[test]
fn r16_claim_writes_consumer_and_labels_with_the_version_that_was_read() {
    let before = host(
        "h-1",
        json!({
            "metadata": {"labels": {
                "infrastructure.cluster.x-k8s.io/node-reuse": "md-workers", "size": "large",
            }},
            "spec": {"consumerRef": {
                "kind": "Cluster", "apiVersion": "cluster.x-k8s.io/v1beta2", "name": "prod",
                "namespace": "team-a", "uid": "x",
            }},
        }),
    );
    let mut after = before.clone();
    claim(&mut after, &machine(), "v1beta2", "prod");
    assert_eq!(
        between(&before, &after, Guard::SameVersion),
        Some(json!({
            "metadata": {
                "resourceVersion": "7",
                "labels": {
                    "cluster.x-k8s.io/cluster-name": "prod",
                    "infrastructure.cluster.x-k8s.io/node-reuse": null,
                },
            },
            "spec": {"consumerRef": {
                "apiVersion": "infrastructure.cluster.x-k8s.io/v1beta2", "kind": "Metal3Machine",
                "name": "m-1", "uid": null,
            }},
        }))
    );
    // A repeated claim changes nothing.
    let again = change(&after, |host| claim(host, &machine(), "v1beta2", "prod"));
    assert_eq!(again, None);
}

#[test]
fn host_gets_image_and_secrets_once() {
    let before = own(json!({}));
    let wanted = Deployment {
        meta_data: secret("m-1-metadata", None),
        network_data: secret("m-1-networkdata", Some("")),
        automated_cleaning_mode: Some("disabled".to_owned()),
        ..deployment()
    };
    let mut after = before.clone();
    provision(&mut after, &wanted).unwrap();
    assert_eq!(
        between(&before, &after, Guard::AnyVersion),
        Some(json!({
            "metadata": {"annotations": {
                "infrastructure.cluster.x-k8s.io/former-cleaning-mode": "",
            }},
            "spec": {
                "image": {
                    "url": "http://images/a.qcow2", "checksum": "abc", "checksumType": "sha256",
                    "format": "qcow2",
                },
                "userData": {"name": "m-1-userdata", "namespace": "pool-a"},
                "metaData": {"name": "m-1-metadata", "namespace": "pool-a"},
                "networkData": {"name": "m-1-networkdata", "namespace": "pool-a"},
                "automatedCleaningMode": "disabled",
                "online": true,
            },
        }))
    );
    // Another image does not replace the one that the host has.
    let other = Deployment {
        image: Some(HostImage {
            url: "http://images/b".to_owned(),
            ..HostImage::default()
        }),
        user_data: secret("other", None),
        automated_cleaning_mode: Some("metadata".to_owned()),
        ..Deployment::default()
    };
    let again = change(&after, |host| provision(host, &other).unwrap());
    let cleaning = json!({"spec": {"automatedCleaningMode": "metadata"}});
    assert_eq!(again, Some(cleaning));
}

#[test]
fn data_of_a_former_machine_is_not_given_to_the_next_one() {
    // The administrator of the host may have set its own.
    for (meta_data, network_data, kept) in [
        ("old-metadata", "old-networkdata", [false, false]),
        ("h-1-metadata", "h-1-networkdata", [true, true]),
        ("site", "old-networkdata", [true, false]),
    ] {
        let mut host = own(json!({"spec": {
            "metaData": {"name": meta_data}, "networkData": {"name": network_data},
        }}));
        host.metadata.name = Some("h-1".to_owned());
        provision(&mut host, &deployment()).unwrap();
        let found = [&host.spec.meta_data, &host.spec.network_data].map(Option::is_some);
        assert_eq!(found, kept, "{meta_data} {network_data}");
    }
}

#[test]
fn host_waits_for_user_data() {
    let without = Deployment {
        user_data: None,
        ..deployment()
    };
    let patch = change(&own(json!({})), |host| provision(host, &without).unwrap());
    assert_eq!(patch, Some(json!({"spec": {"online": true}})));
}

#[test]
fn host_is_deployed_in_another_way() {
    let wanted = Deployment {
        image: None,
        custom_deploy: Some(HostCustomDeploy {
            method: "install".to_owned(),
        }),
        ..deployment()
    };
    let patch = change(&own(json!({})), |host| provision(host, &wanted).unwrap());
    assert_eq!(
        patch,
        Some(json!({"spec": {
            "customDeploy": {"method": "install"},
            "userData": {"name": "m-1-userdata", "namespace": "pool-a"},
            "online": true,
        }}))
    );
}

#[test]
fn host_is_not_provisioned_with_nothing_or_with_secrets_of_elsewhere() {
    let nothing = Deployment {
        image: Some(HostImage::default()),
        ..deployment()
    };
    let elsewhere = || secret("s", Some("team-a"));
    let of = |field| ProvisionError::OtherNamespace { field };
    for (wanted, expected) in [
        (nothing, ProvisionError::NothingToDeploy),
        (
            Deployment {
                user_data: elsewhere(),
                ..deployment()
            },
            of("userData"),
        ),
        (
            Deployment {
                meta_data: elsewhere(),
                ..deployment()
            },
            of("metaData"),
        ),
        (
            Deployment {
                network_data: elsewhere(),
                ..deployment()
            },
            of("networkData"),
        ),
    ] {
        let before = own(json!({}));
        let mut after = before.clone();
        assert_eq!(provision(&mut after, &wanted), Err(expected));
        assert_eq!(after, before);
    }
}

#[test]
fn r41_annotation_leads_only_to_the_namespace_of_hosts() {
    assert_eq!(host_annotation("pool-a", "h-1"), "pool-a/h-1");
    for (text, expected) in [
        ("pool-a/h-1", Ok("h-1")),
        ("pool-b/h-1", Err(InvalidAnnotation::Namespace)),
        ("/h-1", Err(InvalidAnnotation::Namespace)),
        ("h-1", Err(InvalidAnnotation::Form)),
        ("pool-a/", Err(InvalidAnnotation::Form)),
        ("pool-a/h-1/x", Err(InvalidAnnotation::Form)),
        ("", Err(InvalidAnnotation::Form)),
    ] {
        assert_eq!(annotated_host(text, "pool-a"), expected, "{text}");
    }
    // A machine whose reference got lost does not find its host beside itself.
    let lost = annotated_host("pool-a/h-1", "team-a");
    assert_eq!(lost, Err(InvalidAnnotation::Namespace));
}

#[test]
fn addresses_are_those_of_the_hardware() {
    let of = |hardware: Value| addresses(&host("h-1", json!({"status": {"hardware": hardware}})));
    let address = |kind, address: &str| HostAddress {
        kind,
        address: address.to_owned(),
    };
    let nics = json!([
        {"name": "a", "ip": "10.0.0.1"}, {"name": "b", "ip": ""}, {"name": "c"},
        {"name": "d", "ip": "2001:db8::1"},
    ]);
    assert_eq!(
        of(json!({"nics": nics, "hostname": "node-1"})),
        [
            address("InternalIP", "10.0.0.1"),
            address("InternalIP", "2001:db8::1"),
            address("Hostname", "node-1"),
            address("InternalDNS", "node-1"),
        ]
    );
    assert_eq!(of(json!({"nics": null, "hostname": ""})), []);
    assert_eq!(addresses(&host("h-1", json!({}))), []);
}

#[test]
fn s02_host_without_a_digest_is_that_of_a_machine_only_if_the_machine_names_it() {
    let digest = |proof: &str| Some(ProofDigest::of(proof));
    let beside = machine();
    let through_kubeconfig = machine().with_digest(digest("uid-1"));
    let stranger = machine().with_digest(digest("uid-2"));
    let marks = |consumer: &Consumer| {
        let mut host = host("h-1", json!({}));
        consumer.take(&mut host, "v1beta1");
        host
    };
    for (host, owners, named) in [
        (marks(&beside), [true, false, false], [true, true, true]),
        (
            marks(&through_kubeconfig),
            [false, true, false],
            [false, true, false],
        ),
    ] {
        let consumers = [&beside, &through_kubeconfig, &stranger];
        assert_eq!(consumers.map(|consumer| consumer.has(&host)), owners);
        assert_eq!(consumers.map(|consumer| consumer.has_named(&host)), named);
    }
    let of_tenant = machine().in_space(Some("t1"));
    assert!(!beside.has_named(&marks(&of_tenant)) && of_tenant.has_named(&marks(&of_tenant)));
}
