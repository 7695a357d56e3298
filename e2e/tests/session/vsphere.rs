//! Clusters on vSphere: an account for two teams, a team's own, and none for a third.

use std::net::TcpListener;
use std::path::Path;

use insula_e2e::insula::root;
use insula_e2e::kubectl::Kubectl;
use insula_testkit::vcsim::VcSim;

use crate::typing::{Does, Ended, blocks, furnish, prints, section, shell, typed};

/// The platform engineer.
const PLATFORM: [Does; 8] = [
    prints(&[]),
    prints(&[]),
    prints(&[]),
    prints(&[]),
    prints(&[
        "vsphereclusters.infrastructure.cluster.x-k8s.io created",
        "namespace/capv-system created",
    ]),
    prints(&["secret/shared created"]),
    prints(&["vsphereclusteridentity.infrastructure.cluster.x-k8s.io/shared created"]),
    prints(&["shared condition met"]),
];

/// The teams.
const TEAMS: [Does; 14] = [
    prints(&["namespace/grey created", "prod created"]),
    prints(&["secret/own created"]),
    prints(&["prod condition met"]),
    prints(&["prod condition met"]),
    prints(&["prod condition met"]),
    prints(&["prod condition met"]),
    prints(&["NamespaceNotAllowed", "Available"]),
    prints(&["VSphereClusterIdentity shared"]),
    Does {
        code: 1,
        says: &["(NamespaceNotAllowed)", "hint: "],
        refused: &["error: VSphereCluster grey/prod gets no credential"],
    },
    prints(&["blue", "red", "grey"]),
    Does {
        code: 1,
        says: &[],
        refused: &["(Forbidden)", "it is used by", "VSphereCluster blue/prod"],
    },
    prints(&["namespace/grey labeled"]),
    prints(&["prod condition met"]),
    prints(&[]),
];

#[test]
fn the_session_of_vsphere_does_what_it_says() {
    let (Some(kubectl), Some(vcsim)) = (Kubectl::find(), VcSim::find()) else {
        return;
    };
    let [first, second] = [free_port(), free_port()];
    let on_free_ports = |text: &str| {
        let text = text.replace("8989", &first.to_string());
        text.replace("8990", &second.to_string())
    };
    let section = on_free_ports(&section("vSphere"));
    let [serve, platform, teams] = &blocks(&section)[..] else {
        panic!("the section has three parts");
    };
    let folder = tempfile::tempdir().unwrap();
    furnish(folder.path(), &kubectl);
    lay_out(folder.path(), &vcsim, on_free_ports);
    let mut server = shell(folder.path(), &format!("exec {serve}"));
    server.await_line("insula ready ");
    let lines: Vec<&str> = platform.lines().chain(teams.lines()).collect();
    let all: Vec<&Does> = PLATFORM.iter().chain(&TEAMS).collect();
    assert_eq!(lines.len(), all.len(), "{lines:#?}");
    for ((line, does), ended) in lines.iter().zip(all).zip(typed(folder.path(), &lines)) {
        let Ended { code, out, err } = &ended;
        assert_eq!(*code, does.code.to_string(), "{line}:\n{out}{err}");
        assert_eq!(
            err.is_empty(),
            does.refused.is_empty(),
            "{line}:\n{out}{err}"
        );
        for text in does.says {
            assert!(out.contains(text), "no {text:?} from {line}:\n{out}");
        }
        for text in does.refused {
            assert!(err.contains(text), "no {text:?} from {line}:\n{err}");
        }
        let told = out.contains("sesame") || out.contains("mellon");
        assert!(!told, "a password from {line}:\n{out}");
    }
}

/// What the session has beside: a script that says where vcsim is, and the pages' files.
fn lay_out(folder: &Path, vcsim: &Path, on_free_ports: impl Fn(&str) -> String) {
    let install = folder.join("tools/peers/install");
    std::fs::create_dir_all(install.parent().unwrap()).unwrap();
    let text = format!("#!/bin/sh\necho INSULA_VCSIM={}\n", vcsim.display());
    crate::typing::write_program(&install, &text);
    std::fs::remove_file(folder.join("docs")).unwrap();
    let pages = folder.join("docs/vsphere");
    std::fs::create_dir_all(&pages).unwrap();
    for page in ["identity.yaml", "teams.yaml"] {
        let text = std::fs::read_to_string(root().join("docs/vsphere").join(page)).unwrap();
        std::fs::write(pages.join(page), on_free_ports(&text)).unwrap();
    }
}

fn free_port() -> u16 {
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    listener.local_addr().unwrap().port()
}
