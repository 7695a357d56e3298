//! Submariner brokers.

use insula_e2e::kubectl::Kubectl;

use crate::shell::{Expect, LineResult, blocks, errors, prints, run_lines, section, set_up, shell};

/// Commands of the offering admin.
const OFFERING: [Expect; 6] = [
    prints(&[]),
    prints(&[]),
    prints(&[]),
    prints(&["red\n"]),
    prints(&["blue\n"]),
    prints(&[
        "blue   Provisioned   submariner-broker-blue",
        "red    Provisioned   submariner-broker-red",
    ]),
];

/// Commands of the ClusterSet admins.
const BROKERS: [Expect; 2] = [prints(&[]), prints(&[])];

/// Commands of the cluster admins.
const CLUSTERS: [Expect; 12] = [
    prints(&["red-east\n"]),
    prints(&["red-west\n"]),
    prints(&["blue-east\n"]),
    prints(&["blue-west\n"]),
    prints(&[]),
    prints(&[]),
    prints(&[]),
    prints(&[]),
    prints(&[
        "NAMESPACE",
        "submariner-broker-blue",
        "submariner-broker-red",
        "connectivity, service-discovery",
        "242.0.0.0/8",
    ]),
    prints(&["cluster-east", "cluster-west"]),
    prints(&["submariner"]),
    prints(&[]),
];

#[test]
fn documented_broker_session_works() {
    let Some(kubectl) = Kubectl::find() else {
        return;
    };
    let section = section("Submariner brokers");
    let [serve, offering, brokers, clusters] = &blocks(&section)[..] else {
        panic!("the section has four parts");
    };
    let folder = tempfile::tempdir().unwrap();
    set_up(folder.path(), &kubectl);
    let mut server = shell(folder.path(), &format!("exec {serve}"));
    server.await_line("insula ready ");
    let lines = [offering, brokers, clusters].map(|block| block.lines());
    let lines: Vec<&str> = lines.into_iter().flatten().collect();
    let all: Vec<&Expect> = OFFERING.iter().chain(&BROKERS).chain(&CLUSTERS).collect();
    assert_eq!(lines.len(), all.len(), "{lines:#?}");
    for ((line, does), ended) in lines.iter().zip(all).zip(run_lines(folder.path(), &lines)) {
        let LineResult { code, out, err } = &ended;
        assert_eq!(*code, does.code.to_string(), "{line}:\n{out}{err}");
        // Progress is reported by `subctl` only, and without errors.
        let tells = line.starts_with("subctl ");
        let quiet = errors(err).next().is_none() || tells && !err.contains("error");
        assert!(quiet, "{line}:\n{out}{err}");
        for text in does.says {
            assert!(out.contains(text), "no {text:?} from {line}:\n{out}");
        }
    }
    let left = shell(
        folder.path(),
        "KUBECONFIG=insula-data/admin.kubeconfig kubectl get tenants.submariner.io,ns -A -o name",
    );
    let left = left.finish().succeeds();
    assert!(left.contains("tenant.submariner.io/red\n"), "{left}");
    assert!(left.contains("namespace/submariner-broker-red\n"), "{left}");
    assert!(!left.contains("blue"), "{left}");
}
