//! Help texts.

use std::path::Path;
use std::process::Command;

#[test]
fn help_matches_the_golden_files() {
    let subctl = env!("CARGO_BIN_EXE_subctl");
    let insula = env!("CARGO_BIN_EXE_insula");
    for (program, arguments, golden) in [
        (subctl, "--help", "subctl-help.txt"),
        (subctl, "deploy --help", "subctl-deploy-help.txt"),
        (
            subctl,
            "deploy axon-cp --help",
            "subctl-deploy-axon-cp-help.txt",
        ),
        (
            subctl,
            "deploy broker --help",
            "subctl-deploy-broker-help.txt",
        ),
        (
            subctl,
            "create tenant --help",
            "subctl-create-tenant-help.txt",
        ),
        (subctl, "get tenant --help", "subctl-get-tenant-help.txt"),
        (
            subctl,
            "list tenants --help",
            "subctl-list-tenants-help.txt",
        ),
        (
            subctl,
            "delete tenant --help",
            "subctl-delete-tenant-help.txt",
        ),
        (subctl, "join --help", "subctl-join-help.txt"),
        (subctl, "unjoin --help", "subctl-unjoin-help.txt"),
        (subctl, "diagnose --help", "subctl-diagnose-help.txt"),
        (
            subctl,
            "show brokers --help",
            "subctl-show-brokers-help.txt",
        ),
        (
            subctl,
            "recover-broker-info --help",
            "subctl-recover-broker-info-help.txt",
        ),
        (insula, "operator --help", "operator-help.txt"),
        (insula, "operator azure --help", "operator-azure-help.txt"),
        (
            insula,
            "operator azure manifests --help",
            "operator-azure-manifests-help.txt",
        ),
        (insula, "azure import --help", "azure-import-help.txt"),
        (insula, "operator broker --help", "operator-broker-help.txt"),
        (insula, "operator metal3 --help", "operator-metal3-help.txt"),
        (
            insula,
            "operator metal3 manifests --help",
            "operator-metal3-manifests-help.txt",
        ),
        (
            insula,
            "operator vsphere --help",
            "operator-vsphere-help.txt",
        ),
        (
            insula,
            "operator vsphere manifests --help",
            "operator-vsphere-manifests-help.txt",
        ),
        (insula, "encryption --help", "encryption-help.txt"),
        (insula, "encryption init --help", "encryption-init-help.txt"),
        (
            insula,
            "encryption status --help",
            "encryption-status-help.txt",
        ),
        (
            insula,
            "encryption accept-store --help",
            "encryption-accept-store-help.txt",
        ),
        (insula, "keys --help", "keys-help.txt"),
        (insula, "keys list --help", "keys-list-help.txt"),
        (insula, "keys rotate --help", "keys-rotate-help.txt"),
        (insula, "identity --help", "identity-help.txt"),
        (
            insula,
            "identity explain --help",
            "identity-explain-help.txt",
        ),
        (insula, "identity users --help", "identity-users-help.txt"),
    ] {
        let path = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("tests/golden")
            .join(golden);
        let output = Command::new(program).args(arguments.split(' ')).output();
        let help = String::from_utf8(output.unwrap().stdout).unwrap();
        if std::env::var_os("UPDATE_GOLDEN").is_some() {
            std::fs::write(&path, &help).unwrap();
        }
        let reviewed = std::fs::read_to_string(&path).unwrap_or_default();
        assert_eq!(help, reviewed, "{program} {arguments}");
    }
}

/// The tables of docs/brokers.md list the flags of these commands; those of a connection are
/// kubectl's.
#[test]
fn documentation_names_the_flags_of_subctl() {
    let page = include_str!("../../../../docs/brokers.md");
    for command in [
        "deploy axon-cp",
        "create tenant",
        "deploy broker",
        "unjoin",
        "diagnose",
        "join",
    ] {
        let output = Command::new(env!("CARGO_BIN_EXE_subctl"))
            .args(command.split(' '))
            .arg("--help")
            .output();
        let help = String::from_utf8(output.unwrap().stdout).unwrap();
        let own = help.split("\nConnection:").next().unwrap();
        let lines = own.lines().filter_map(|line| {
            let rest = line.trim_start();
            let start = rest.find("--")?;
            let is_flag = start == 0 || rest.starts_with('-') && start == 4;
            is_flag.then(|| &rest[start..])
        });
        let mut count = 0;
        for line in lines {
            let end = line.find(|sign: char| !(sign.is_ascii_alphanumeric() || sign == '-'));
            let flag = &line[..end.unwrap_or(line.len())];
            count += 1;
            let known = flag == "--help" || page.contains(&format!("`{flag}"));
            assert!(known, "docs/brokers.md does not name {flag} of {command}");
        }
        assert!(count > 3, "they are found: {command}");
    }
}
