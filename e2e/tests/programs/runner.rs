//! Helpers to run programs as tenants.

use std::path::{Path, PathBuf};
use std::process::Command;

use insula_e2e::command::Running;
use insula_e2e::insula::root;
use insula_e2e::two_tenants::TwoTenants;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};

/// The directory of these tests' files.
pub fn folder() -> PathBuf {
    root().join("e2e/tests/programs")
}

/// The kubeconfig of a tenant's administrator.
pub fn kubeconfig(two_tenants: &TwoTenants, tenant: &str) -> PathBuf {
    two_tenants.folder().join(format!("{tenant}.kubeconfig"))
}

/// A kube-rs client with this kubeconfig.
pub async fn client(kubeconfig: &Path) -> anyhow::Result<Client> {
    let kubeconfig = Kubeconfig::read_from(kubeconfig)?;
    let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
    Ok(Client::try_from(config)?)
}

/// Runs a program as both tenants concurrently and asserts success and its exact output lines.
pub fn both_run(
    two_tenants: &TwoTenants,
    lines: &[&str],
    command: impl Fn(&str) -> Command + Sync,
) {
    two_tenants.both(|tenant| {
        let mut command = command(tenant.name());
        command
            .env("KUBECONFIG", kubeconfig(two_tenants, tenant.name()))
            .env("HOME", tenant.folder());
        let program = command.get_program().to_string_lossy().into_owned();
        let line = format!("{}$ {program}", tenant.name());
        let said = Running::start(line, &mut command, "").finish_while_printing();
        assert_eq!(said.code, Some(0), "{said}");
        assert_eq!(said.out.lines().collect::<Vec<_>>(), lines, "{said}");
    });
}
