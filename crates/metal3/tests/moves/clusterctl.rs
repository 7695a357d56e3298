//! `clusterctl move` moves the same objects as `insula move`, with the commands of the
//! documentation.

use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use anyhow::Context as _;
use insula_e2e::kubectl::Kubectl;
use insula_testkit::bare_metal::State;
use insula_testkit::peer;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::task::spawn_blocking;

use crate::elsewhere::versions;
use crate::scene::{Identity, Scene, health_checks, initialize, inventory, ready};
use crate::world::{Entry, HostSide, Management, kubeconfig};

/// As pinned in `tools/peers/cluster-api/go.mod`.
const VERSION: &str = "1.14.2";
const INSTALLED: &str = "clusterctl.cluster.x-k8s.io";
const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

/// The programs, and the definition of clusterctl's inventory.
struct Clusterctl {
    program: PathBuf,
    kubectl: PathBuf,
    inventory: PathBuf,
}

impl Clusterctl {
    fn find() -> Option<Self> {
        let name = |name: &str| format!("{name}-{VERSION}");
        let program = peer::installed("INSULA_CLUSTERCTL", &name("clusterctl"));
        let folder = "INSULA_CLUSTER_API_CRDS";
        let folder = peer::installed_folder(folder, &name("cluster-api-crds"));
        match (program, folder) {
            (Some(program), Some(folder)) => Some(Self {
                program,
                kubectl: Kubectl::find()?,
                inventory: folder.join("clusterctl.cluster.x-k8s.io_providers.yaml"),
            }),
            _ => {
                peer::skipped("clusterctl is not installed (run make peers)");
                None
            }
        }
    }

    /// Does what `clusterctl init` does to a server that has the providers: labels and inventory.
    async fn init(&self, side: &Management) -> anyhow::Result<()> {
        let text = std::fs::read_to_string(&self.inventory)?;
        let definition: Value = serde_saphyr::from_str(&text)?;
        side.plain.install(&[definition]).await?;
        let definitions = side.plain.get(DEFINITIONS).await?.json();
        for definition in definitions["items"].as_array().into_iter().flatten() {
            let name = definition["metadata"]["name"].as_str().unwrap_or_default();
            let patch = json!({"metadata": {"labels": {INSTALLED: ""}}});
            let path = format!("{DEFINITIONS}/{name}");
            let labelled = side.plain.patch(&path, "merge", &patch).await?;
            anyhow::ensure!(labelled.status == 200, "{}", labelled.text());
        }
        side.namespace("capi-system").await?;
        for (namespace, name, kind, label) in [
            ("capi-system", "cluster-api", "CoreProvider", "cluster-api"),
            (
                "capm3-system",
                "metal3",
                "InfrastructureProvider",
                "infrastructure-metal3",
            ),
        ] {
            let provider = json!({
                "apiVersion": "clusterctl.cluster.x-k8s.io/v1alpha3", "kind": "Provider",
                "metadata": {"name": label, "namespace": namespace, "labels": {
                    INSTALLED: "", "clusterctl.cluster.x-k8s.io/core": "inventory",
                    "cluster.x-k8s.io/provider": label,
                }},
                "providerName": name, "type": kind, "version": format!("v{VERSION}"),
            });
            side.put(&provider).await?;
        }
        Ok(())
    }

    /// Prepares both servers. The source has no more controllers of Cluster API, which would
    /// overwrite what they do not know.
    async fn prepare(&self, scene: &Scene) -> anyhow::Result<()> {
        scene.source.core.stop();
        initialize(&scene.source, "team-a", "c").await?;
        for side in [&scene.source, &scene.target] {
            self.init(side).await?;
        }
        Ok(())
    }

    /// Types the documented commands, except those that label this.
    async fn relocate(&self, scene: &Scene, unlabelled: &str) -> anyhow::Result<()> {
        let home = TempDir::new()?;
        let file = |name: &str, side: &Management| {
            let entry = Entry::new("admin", "system", "default");
            let text = kubeconfig(&side.server, &[entry]).to_string();
            std::fs::write(home.path().join(name), text)
        };
        file("source.kubeconfig", &scene.source)?;
        file("target.kubeconfig", &scene.target)?;
        for (program, name) in [(&self.program, "clusterctl"), (&self.kubectl, "kubectl")] {
            symlink(program, home.path().join(name))?;
        }
        let page = include_str!("../../../../docs/metal3.md");
        let section = page.split("**With `clusterctl move`**").nth(1);
        let block = section.and_then(|section| section.split("```\n").nth(1));
        let lines = block.context("the commands")?.lines();
        let prefix = format!("kubectl label {unlabelled} ");
        let lines: Vec<_> = lines.filter(|line| !line.starts_with(&prefix)).collect();
        anyhow::ensure!((2..4).contains(&lines.len()), "{lines:?}");
        let mut command = Command::new("bash");
        let path = std::env::var("PATH")?;
        command
            .args(["-euc", &lines.join("\n")])
            .current_dir(home.path())
            .env("PATH", format!("{}:{path}", home.path().display()))
            .env("KUBECONFIG", "source.kubeconfig")
            .env("HOME", home.path())
            .env("XDG_CONFIG_HOME", home.path())
            .env("CLUSTERCTL_DISABLE_VERSIONCHECK", "true")
            .env("GOPROXY", "off")
            .stdin(Stdio::null());
        let ran = spawn_blocking(move || command.output()).await??;
        let said = String::from_utf8_lossy(&ran.stderr);
        anyhow::ensure!(ran.status.success(), "{said}");
        Ok(())
    }
}

#[tokio::test]
async fn r35_x08_clusterctl_moves_hosts_with_their_machines() -> anyhow::Result<()> {
    let Some(clusterctl) = Clusterctl::find() else {
        return Ok(());
    };
    let scene = Scene::start().await?;
    let (source, target) = (&scene.source, &scene.target);
    let (mut here, there) = (source.serve_hosts().await?, target.serve_hosts().await?);
    source.hosts("team-a", &["h0", "h1"]).await?;
    scene
        .cluster(json!({}), &["m0", "m1"], (source, "team-a"))
        .await?;
    health_checks(&scene, &["c"]).await?;
    clusterctl.prepare(&scene).await?;
    let before = Identity::of(source, "team-a").await?;
    let had = inventory(source, "team-a").await?;
    let past = ["team-a/h0", "team-a/h1"].map(|host| (here.path(host), here.power(host)));
    // As documented.
    here.stop().await;
    clusterctl.relocate(&scene, "secret").await?;
    assert_eq!(inventory(source, "team-a").await?, Vec::<String>::new());
    assert_eq!(inventory(target, "team-a").await?, had);
    for name in ["m0", "m1"] {
        ready(target, "team-a", name).await?;
    }
    assert_eq!(Identity::of(target, "team-a").await?, before);
    for host in ["h0", "h1"] {
        target.wait_for_host("team-a", host, "provisioned").await?;
        assert_eq!(there.path(&format!("team-a/{host}")), []);
    }
    let after = ["team-a/h0", "team-a/h1"].map(|host| (here.path(host), here.power(host)));
    assert_eq!(after, past);
    for (path, power) in after {
        assert_eq!(path.last(), Some(&State::Provisioned));
        assert!(!path.contains(&State::Deprovisioning), "{path:?}");
        assert_eq!(power.last(), Some(&true));
    }
    Ok(())
}

#[tokio::test]
async fn r34_x08_clusterctl_leaves_hosts_of_another_server_alone() -> anyhow::Result<()> {
    let Some(clusterctl) = Clusterctl::find() else {
        return Ok(());
    };
    let scene = Scene::start().await?;
    let (source, target) = (&scene.source, &scene.target);
    let hosts = HostSide::start().await?;
    hosts.hosts("pool-a", &["h0"]).await?;
    let identity = hosts.kubeconfig("user-a", "pool-a")?;
    // The Secret of the documentation.
    let name = "prod-bmh-identity";
    source.identity("team-a", name, &identity).await?;
    let spec = json!({"identityRef": {"name": name}});
    scene.cluster(spec, &["m0"], (&hosts, "pool-a")).await?;
    ready(source, "team-a", "m0").await?;
    clusterctl.prepare(&scene).await?;
    let before = Identity::of(source, "team-a").await?;
    let untouched = versions(&hosts, "pool-a").await?;
    clusterctl.relocate(&scene, "crd").await?;
    assert_eq!(inventory(source, "team-a").await?, Vec::<String>::new());
    ready(target, "team-a", "m0").await?;
    assert_eq!(Identity::of(target, "team-a").await?, before);
    let after = versions(&hosts, "pool-a").await?;
    assert_eq!(after, untouched);
    Ok(())
}
