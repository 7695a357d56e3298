//! A script with the Python client.

use std::process::Command;

use insula_e2e::scene::Scene;
use insula_testkit::peer;

use crate::cast::{both_run, folder};
use crate::chart;

/// As pinned in `tools/peers/clients/python/requirements.txt`.
const NAME: &str = "python-kubernetes-37.0.2";

const LAWS: [&str; 12] = [
    "objects are created read listed replaced and deleted",
    "every kind of patch does what it says",
    "a watch tells what happens and only that",
    "an informer follows",
    "kinds of ones own are used without types",
    "the dynamic client finds kinds and works with them",
    "pods are evicted as their budget allows",
    "rights and tokens are asked for",
    "one of two candidates leads and the other follows",
    "created NetworkPolicy PodDisruptionBudget ServiceAccount Secret ConfigMap \
     PersistentVolumeClaim ClusterRole ClusterRoleBinding Role RoleBinding Service Service \
     Deployment HorizontalPodAutoscaler StatefulSet CronJob Ingress Job",
    "a manifest of many kinds is created from a file",
    "the namespace goes with everything in it",
];

#[test]
fn a_python_program_does_its_work_in_two_tenants_at_once() {
    let Some(library) = peer::installed_folder("INSULA_PYTHON_CLIENT", NAME) else {
        return peer::skipped("the Python client is not installed (run tools/peers/install)");
    };
    let Some(scene) = Scene::start() else { return };
    both_run(&scene, &LAWS, |tenant| {
        let manifest = scene.folder().join(format!("{tenant}.yaml"));
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
