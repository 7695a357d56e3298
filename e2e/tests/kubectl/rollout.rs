//! rollout.

use insula_e2e::scene::Scene;

/// Nothing runs pods here, so a rollout begins and does not end.
#[test]
fn a_rollout_is_paused_resumed_restarted_and_waited_for() {
    let Some(scene) = Scene::start() else { return };
    scene.both(|tenant| {
        tenant.get("create deployment web --image=nginx:1.25");
        tenant.shows("rollout history deployment/web", &["deployment.apps/web"]);
        tenant.prints("rollout pause deployment/web", "deployment.apps/web paused");
        tenant.prints("get deploy web -o jsonpath={.spec.paused}", "true");
        tenant.refuses(
            "rollout restart deployment/web",
            "can't restart paused deployment",
        );
        tenant.prints(
            "rollout resume deployment/web",
            "deployment.apps/web resumed",
        );
        tenant.prints("get deploy web -o jsonpath={.spec.paused}", "");
        tenant.prints(
            "rollout restart deployment/web",
            "deployment.apps/web restarted",
        );
        tenant.shows(
            "get deploy web -o yaml",
            &["kubectl.kubernetes.io/restartedAt:"],
        );
        let status = tenant.run("rollout status deployment/web --timeout=1s");
        assert!(status.out.starts_with("Waiting for deployment"), "{status}");
        assert!(
            status.err.contains("timed out waiting for the condition"),
            "{status}"
        );
        assert_eq!(status.code, Some(1), "{status}");
        tenant.prints("get deploy web -o jsonpath={.metadata.generation}", "4");
    });
}
