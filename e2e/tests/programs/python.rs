//! A script with the Python client.

use std::process::Command;

use insula_e2e::two_tenants::TwoTenants;
use insula_testkit::peer;

use crate::chart;
use crate::runner::{both_run, folder};

/// As pinned in `tools/peers/clients/python/requirements.txt`.
const NAME: &str = "python-kubernetes-37.0.2";

const STEPS: [&str; 12] = [
    "objects are created read listed replaced and deleted",
    "every patch type works",
    "watches deliver the namespaces events only",
    "informers follow changes",
    "custom resources work without types",
    "the dynamic client discovers and uses kinds",
    "pods are evicted as their budget allows",
    "access reviews and token requests work",
    "one of two candidates leads and the other follows",
    "created NetworkPolicy PodDisruptionBudget ServiceAccount Secret ConfigMap \
     PersistentVolumeClaim ClusterRole ClusterRoleBinding Role RoleBinding Service Service \
     Deployment HorizontalPodAutoscaler StatefulSet CronJob Ingress Job",
    "a manifest of many kinds is created from a file",
    "deleting the namespace deletes its content",
];

#[test]
fn python_client_works_in_two_tenants() {
    let Some(library) = peer::installed_folder("INSULA_PYTHON_CLIENT", NAME) else {
        return peer::skipped("the Python client is not installed (run tools/peers/install)");
    };
    let Some(two_tenants) = TwoTenants::start() else {
        return;
    };
    both_run(&two_tenants, &STEPS, |tenant| {
        let manifest = two_tenants.folder().join(format!("{tenant}.yaml"));
        // `create_from_yaml` handles built-in kinds only; custom objects have their own functions.
        let text = chart::first(tenant, "python", |kind| kind != "Berth");
        std::fs::write(&manifest, text).expect("the folder is the test's");
        let mut command = Command::new("python3");
        command
            .arg(folder().join("python/tenant.py"))
            .arg(tenant)
            .arg(manifest)
            .env("PYTHONPATH", &library)
            .env("PYTHONDONTWRITEBYTECODE", "1");
        command
    });
}
