//! Azure resources: one operator for all tenants, a tenant that is refused, and an operator of a
//! tenant's own.

mod cluster;

use std::path::Path;
use std::time::{Duration, Instant};

use insula_e2e::command::Running;
use insula_e2e::kubectl::Kubectl;
use insula_testkit::peer;

use self::cluster::Cluster;
use crate::shell::{
    Expect, LineResult, blocks, check_lines, prints, run_lines, section, set_up, shell,
};

/// How often a file is looked for.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// Commands of the cluster administrator.
const ADMINISTRATOR: [Expect; 4] = [
    prints(&[]),
    prints(&["resourcegroups.resources.azure.com serverside-applied"]),
    prints(&["red"]),
    prints(&["blue"]),
];

/// Commands of a tenant with a credential.
const RED: [Expect; 5] = [
    prints(&["secret/aso-credential created"]),
    prints(&[
        "resourcegroup.resources.azure.com/shop created",
        "web created",
    ]),
    prints(&[
        "shop condition met",
        "shopfiles condition met",
        "web condition met",
    ]),
    prints(&["True", "Succeeded"]),
    prints(&["the key is there"]),
];

/// Commands of a tenant without one, and with one that may not use the subscription.
const BLUE: [Expect; 5] = [
    prints(&["resourcegroup.resources.azure.com/shop created"]),
    prints(&["shop condition met"]),
    prints(&["secret/aso-credential created"]),
    prints(&["shop condition met"]),
    prints(&["False", "Warning", "AuthorizationFailed"]),
];

/// Commands of a team with an operator of its own.
const GREEN: [Expect; 10] = [
    prints(&["namespace/green-apps created"]),
    prints(&["namespace/green-system created", "rolebinding"]),
    prints(&[]),
    prints(&["secret/azureoperatorsettings created"]),
    prints(&[]),
    prints(&["resourcegroup.resources.azure.com/shop created"]),
    prints(&["shop condition met", "web condition met"]),
    Expect {
        code: 1,
        says: &["no"],
        refused: &[],
    },
    prints(&["\"shop\" deleted"]),
    prints(&[]),
];

#[test]
fn documented_azure_session_works() {
    let Some(kubectl) = Kubectl::find() else {
        return;
    };
    let section = section("Azure");
    let [azure, serve, parts @ ..] = &blocks(&section)[..] else {
        panic!("the section has parts");
    };
    let folder = tempfile::tempdir().unwrap();
    set_up(folder.path(), &kubectl);
    let _azure = start_azure(folder.path(), azure);
    let Some(_cluster) = Cluster::start(folder.path(), serve) else {
        return;
    };
    let lines: Vec<&str> = parts.iter().flat_map(|part| part.lines()).collect();
    let all = ADMINISTRATOR.iter().chain(&RED).chain(&BLUE);
    let all: Vec<&Expect> = all.chain(&GREEN).collect();
    let ended = run_lines(folder.path(), &lines);
    let logs = LogsOnFailure(folder.path());
    check_lines(&lines, &all, &ended);
    let refused = lines
        .iter()
        .position(|it| it.ends_with("get resourcegroup shop"));
    assert_shown(&section, &ended[refused.unwrap()].out);
    for (line, LineResult { out, .. }) in lines.iter().zip(&ended) {
        assert!(!out.contains("-secret\""), "a secret from {line}:\n{out}");
    }
    drop(logs);
}

/// The operator of a tenant, in a cluster whose own part has webhooks and nothing else.
#[test]
fn operator_of_a_tenant_works_on_kubernetes_beside_webhooks_alone() {
    let Some(kubectl) = Kubectl::find() else {
        return;
    };
    if !cluster::is_kubernetes() {
        return peer::skipped("it runs on a real Kubernetes only (make azure-session)");
    }
    let blocks = blocks(&section("Azure"));
    let [azure, _, administrator, .., green] = &blocks[..] else {
        panic!("the section has parts");
    };
    let folder = tempfile::tempdir().unwrap();
    set_up(folder.path(), &kubectl);
    let _azure = start_azure(folder.path(), azure);
    let Some(_cluster) = Cluster::start_with_webhooks_alone(folder.path()) else {
        return;
    };
    let install = [
        administrator.lines().next().unwrap(),
        "insula operator azure manifests | kubectl apply --server-side -f -",
        "until kubectl apply --dry-run=server -f docs/azure/network.yaml; do sleep 0.2; done >/dev/null 2>&1",
    ];
    let group = "kubectl patch resourcegroup shop -n green-apps --type merge -p";
    let renamed = format!(r#"{group} '{{"spec":{{"azureName":"other"}}}}'"#);
    let reviews = [
        "kubectl get resourcegroup shop -n green-apps -o jsonpath='{.spec.azureName}'",
        renamed.as_str(),
    ];
    let green: Vec<&str> = green.lines().collect();
    let delete = green.iter().position(|it| it.starts_with("kubectl delete"));
    let (life, end) = green.split_at(delete.unwrap());
    let lines = [&install, life, &reviews, end].concat();
    let installed = [
        prints(&[]),
        prints(&["resourcegroups.resources.azure.com serverside-applied"]),
        prints(&[]),
    ];
    let reviewed = [
        prints(&["shop"]),
        Expect {
            code: 1,
            says: &[],
            refused: &["spec.azureName", "denied"],
        },
    ];
    let (life, end) = GREEN.split_at(delete.unwrap());
    let expected = installed.iter().chain(life).chain(&reviewed).chain(end);
    let expected: Vec<&Expect> = expected.collect();
    let ended = run_lines(folder.path(), &lines);
    let logs = LogsOnFailure(folder.path());
    check_lines(&lines, &expected, &ended);
    drop(logs);
}

/// Starts the stand-in for Azure by the README's line, and waits until its address is known.
fn start_azure(folder: &Path, line: &str) -> Running {
    // A pipe as its input would end it.
    let azure = shell(folder, &format!("exec {} </dev/null", line.trim()));
    await_settings(folder);
    azure
}

/// Checks that a command printed what the section shows, which leaves out words at each `…`.
fn assert_shown(section: &str, printed: &str) {
    let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    let (_, shown) = section.split_once("\n```\nNAME").unwrap();
    let shown = shown.split("\n```\n").next().unwrap();
    let printed = words(printed);
    let mut rest = printed.as_str();
    for part in format!("NAME{shown}").split(['…', '\n']).map(words) {
        let (_, after) = rest.split_once(&part).unwrap_or_else(|| {
            panic!("no {part:?} in {printed}");
        });
        rest = after;
    }
}

/// Prints the logs of the operators if the test fails. On Insula the first one is in the server.
struct LogsOnFailure<'a>(&'a Path);

impl Drop for LogsOnFailure<'_> {
    fn drop(&mut self) {
        use std::io::Write;
        if std::thread::panicking() {
            for name in ["operator.log", "green.log"] {
                let log = std::fs::read_to_string(self.0.join(name)).unwrap_or_default();
                // A failure to print it must not hide the other one.
                writeln!(std::io::stderr(), "{name}:\n{log}").ok();
            }
        }
    }
}

/// Waits until the stand-in for Azure has written where it is.
fn await_settings(folder: &Path) {
    let deadline = Instant::now() + Duration::from_secs(60);
    let file = folder.join("azure.env");
    let is_complete = || {
        let text = std::fs::read_to_string(&file).unwrap_or_default();
        text.contains("FAKE_AZURE_CONTROL=") && text.ends_with('\n')
    };
    while !is_complete() {
        assert!(Instant::now() < deadline, "the stand-in does not start");
        std::thread::sleep(POLL_INTERVAL);
    }
}
