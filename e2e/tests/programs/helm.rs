//! Helm with a chart that has one object of each kind.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use insula_e2e::command::{Running, Said, words};
use insula_e2e::kubectl::Kubectl;
use insula_e2e::two_tenants::TwoTenants;
use insula_testkit::peer;
use serde_json::{Value, json};

use crate::chart::{is_gone, shows};
use crate::runner::{folder, kubeconfig};

/// As pinned in `tools/peers/clients/helm/go.mod`.
const NAME: &str = "helm-4.3.1";

/// The status of a completed Job, set by the test because no kubelet runs it.
const COMPLETE: &str = r#"{"status":{"succeeded":1,"startTime":"2026-01-01T00:00:00Z","completionTime":"2026-01-01T00:00:01Z","conditions":[{"type":"SuccessCriteriaMet","status":"True"},{"type":"Complete","status":"True"}]}}"#;

/// Helm as a tenant's administrator.
struct Helm<'a> {
    program: &'a Path,
    kubeconfig: PathBuf,
    tenant: &'a Kubectl,
}

/// Sets a flag on drop, even during a panic.
struct Ended<'a>(&'a AtomicBool);

impl Drop for Ended<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}

impl Helm<'_> {
    /// Runs a command and waits for it.
    #[track_caller]
    fn run(&self, line: &str) -> Said {
        let mut command = Command::new(self.program);
        command
            .args(words(line))
            .current_dir(folder())
            .env("KUBECONFIG", &self.kubeconfig)
            .env("HOME", self.tenant.folder());
        let name = format!("{}$ helm {line}", self.tenant.name());
        Running::start(name, &mut command, "").finish()
    }

    /// Runs a command while repeating an action.
    #[track_caller]
    fn run_while(&self, line: &str, meanwhile: impl Fn(&Self) + Sync) -> Said {
        let ended = AtomicBool::new(false);
        thread::scope(|scope| {
            scope.spawn(|| {
                while !ended.load(Ordering::Acquire) {
                    meanwhile(self);
                }
            });
            // Also on a timeout, which panics.
            let _ended = Ended(&ended);
            self.run(line)
        })
    }

    /// Completes the Job of a hook, if there is one.
    fn complete(&self) {
        self.set_status("job harbour-migrate", COMPLETE);
    }

    fn set_status(&self, what: &str, status: &str) {
        let patch = format!("patch {what} --subresource=status --type=merge -p '{status}'");
        // A missing object is updated in the next round.
        drop(self.tenant.run(&patch));
    }

    /// Sets the status that other controllers would set.
    fn set_all_ready(&self) {
        self.complete();
        self.set_status("pvc harbour", r#"{"status":{"phase":"Bound"}}"#);
        for (what, condition) in [
            ("deployment harbour", true),
            ("statefulset harbour-store", false),
        ] {
            let read = format!(
                "get {what} --ignore-not-found -o jsonpath='{{.metadata.generation}} {{.spec.replicas}}'"
            );
            let said = self.tenant.run(&read).out;
            let mut numbers = said.split(' ').filter_map(|text| text.parse::<u64>().ok());
            let (Some(generation), Some(replicas)) = (numbers.next(), numbers.next()) else {
                continue;
            };
            let mut status = json!({
                "observedGeneration": generation,
                "replicas": replicas,
                "updatedReplicas": replicas,
                "readyReplicas": replicas,
                "availableReplicas": replicas,
            });
            if condition {
                status["conditions"] = json!([
                    {"type": "Available", "status": "True"},
                    {"type": "Progressing", "status": "True", "reason": "NewReplicaSetAvailable"},
                ]);
            } else {
                status["currentReplicas"] = json!(replicas);
            }
            self.set_status(what, &json!({ "status": status }).to_string());
        }
    }

    #[track_caller]
    fn json(&self, line: &str) -> Value {
        let said = self.run(&format!("{line} -o json")).succeeds();
        serde_json::from_str(&said).unwrap_or_else(|error| panic!("{line}: {error}: {said}"))
    }
}

#[test]
fn helm_installs_upgrades_rolls_back_and_uninstalls() {
    let Some(program) = peer::installed("INSULA_HELM", NAME) else {
        return peer::skipped("helm is not installed (run tools/peers/install --all)");
    };
    let Some(two_tenants) = TwoTenants::start() else {
        return;
    };
    two_tenants.both(|tenant| {
        let helm = Helm {
            program: &program,
            kubeconfig: kubeconfig(&two_tenants, tenant.name()),
            tenant,
        };
        // First with Helm's own patches, as version 3 does, then with server-side apply.
        for server_side in [false, true] {
            run_release(&helm, server_side);
        }
    });
}

fn run_release(helm: &Helm<'_>, server_side: bool) {
    let tenant = helm.tenant;
    let how = format!("--server-side={server_side} --timeout 60s");
    let owner = tenant.name();
    let install = format!("install harbour chart --set owner={owner} {how}");
    helm.run_while(&install, Helm::complete).succeeds();
    shows(tenant, 0);
    let why = helm.run(&install).fails();
    assert!(
        why.contains("cannot reuse a name that is still in use"),
        "{why}"
    );
    let second =
        format!("owner={owner},image=harbour:2.0,replicas=3,greeting=welcome,metrics=false");
    let upgrade = format!("upgrade harbour chart --set {second} {how}");
    helm.run_while(&upgrade, Helm::complete).succeeds();
    shows(tenant, 1);
    helm.run(&format!("rollback harbour 1 {how}")).succeeds();
    shows(tenant, 0);
    // Helm watches until everything is ready.
    let upgrade = format!("upgrade harbour chart --reuse-values --set replicas=4 --wait {how}");
    helm.run_while(&upgrade, Helm::set_all_ready).succeeds();
    tenant.prints(
        "get deployment harbour -o jsonpath='{.status.readyReplicas}'",
        "4",
    );
    let releases = helm.json("list");
    assert_eq!(releases[0]["revision"], "4", "{releases}");
    assert_eq!(releases[0]["status"], "deployed", "{releases}");
    let history = helm.json("history harbour");
    let states = history.as_array().into_iter().flatten();
    let states: Vec<_> = states.map(|it| it["status"].clone()).collect();
    assert_eq!(
        states,
        ["superseded", "superseded", "superseded", "deployed"]
    );
    let kept = "get secrets -l owner=helm -o jsonpath='{.items[*].metadata.name}'";
    let name = |revision: u32| format!("sh.helm.release.v1.harbour.v{revision}");
    tenant.prints(kept, &[1, 2, 3, 4].map(name).join(" "));
    helm.run("uninstall harbour --timeout 60s").succeeds();
    is_gone(tenant);
}
