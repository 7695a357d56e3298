//! Encryption, rotation, revocation, limits and the audit log, as docs/security.md shows them.

use insula_e2e::insula::root;
use insula_e2e::kubectl::Kubectl;

use crate::shell::{Expect, blocks, check_lines, prints, run_lines, set_up, shell};

const fn refused(refused: &'static [&'static str]) -> Expect {
    Expect {
        code: 1,
        says: &[],
        refused,
    }
}

const LINES: [Expect; 27] = [
    // Encrypt.
    prints(&[]),
    prints(&["acme"]),
    prints(&["secret/database created"]),
    prints(&["not readable on the disk"]),
    prints(&["aesgcm:key1", "2 data keys in use, 0 destroyed"]),
    // Rotate.
    prints(&[]),
    prints(&["aesgcm:key2"]),
    prints(&[]),
    prints(&[]),
    prints(&[]),
    prints(&["Signing", "Published"]),
    // Revoke.
    prints(&[]),
    prints(&["dora"]),
    prints(&["dora", "Certificate"]),
    prints(&["dora"]),
    refused(&["Unauthorized"]),
    prints(&["dora", "left the company"]),
    prints(&["dora"]),
    prints(&["dora"]),
    prints(&["dora"]),
    // Limit.
    prints(&["acme"]),
    prints(&["requestsPerSecond: 200", "bytes: 100Mi", "watches: 500"]),
    prints(&["namespace/default labeled"]),
    refused(&["violates PodSecurity \"restricted:latest\"", "privileged"]),
    // Audit.
    prints(&["default/secrets/database"]),
    prints(&["\"kind\":\"EventList\""]),
    // Delete.
    prints(&[]),
];

/// The last line.
const DELETED: Expect = prints(&["1 data keys in use, 1 destroyed"]);

#[test]
fn documented_security_session_works() {
    let Some(kubectl) = Kubectl::find() else {
        return;
    };
    let page = std::fs::read_to_string(root().join("docs/security.md")).unwrap();
    let all = blocks(&page);
    let [init, serve, rest @ ..] = &all[..] else {
        panic!("docs/security.md has a session");
    };
    let folder = tempfile::tempdir().unwrap();
    set_up(folder.path(), &kubectl);
    let written = shell(folder.path(), init).finish().succeeds();
    assert!(written.contains("keys.yaml written, readable by you only."));
    // `exec` replaces the shell with the server, so that it ends with this test.
    let mut server = shell(folder.path(), &format!("exec {serve}"));
    server.await_line("insula ready ");
    let lines: Vec<&str> = rest.iter().flat_map(|block| block.lines()).collect();
    let expected: Vec<&Expect> = LINES.iter().chain([&DELETED]).collect();
    let ended = run_lines(folder.path(), &lines);
    check_lines(&lines, &expected, &ended);
    let log = std::fs::read_to_string(folder.path().join("audit.log")).unwrap();
    assert!(log.contains("\"verb\":\"create\"") && !log.contains("correct-horse"));
}
