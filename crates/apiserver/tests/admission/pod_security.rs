//! PodSecurity: what labels of a namespace mean for pods, their controllers and the namespace.
//! Which pods violate which level is proved in `insula-admission`.

use http::Method;
use insula_apiserver::pod_security::{ConfigSource, PodSecurity};
use insula_testkit::server::{Answer, Audit, AuditLog, Client, Setup, TestServer};
use serde_json::{Value, json};

use super::{assert_refused, audited, start_tenant};

const NAMESPACES: &str = "/api/v1/namespaces";
const PODS: &str = "/api/v1/namespaces/n/pods";
const LABEL: &str = "pod-security.kubernetes.io";

/// What a pod that sets nothing violates.
const PLAIN: &str = "allowPrivilegeEscalation != false (container \"c\" must set \
    securityContext.allowPrivilegeEscalation=false), unrestricted capabilities (container \"c\" \
    must set securityContext.capabilities.drop=[\"ALL\"]), runAsNonRoot != true (pod or container \
    \"c\" must set securityContext.runAsNonRoot=true), seccompProfile (pod or container \"c\" must \
    set securityContext.seccompProfile.type to \"RuntimeDefault\" or \"Localhost\")";

fn plain() -> Value {
    json!({"containers": [{"name": "c", "image": "i"}]})
}

fn hardened() -> Value {
    json!({
        "securityContext": {"runAsNonRoot": true, "seccompProfile": {"type": "RuntimeDefault"}},
        "containers": [{"name": "c", "image": "i", "securityContext": {
            "allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]}}}],
    })
}

fn privileged() -> Value {
    let mut spec = plain();
    spec["containers"][0]["securityContext"] = json!({"privileged": true});
    spec
}

fn pod(name: &str, spec: Value) -> Value {
    json!({"metadata": {"name": name}, "spec": spec})
}

/// A namespace with labels of PodSecurity, given without their prefix.
fn namespace(name: &str, labels: &[(&str, &str)]) -> Value {
    json!({"metadata": {"name": name, "labels": with_prefix(labels)}})
}

fn with_prefix(labels: &[(&str, &str)]) -> Value {
    let labels = labels.iter();
    labels
        .map(|(mode, value)| (format!("{LABEL}/{mode}"), Value::from(*value)))
        .collect()
}

async fn label(client: &Client, labels: &[(&str, &str)]) -> anyhow::Result<Answer> {
    let patch = json!({"metadata": {"labels": with_prefix(labels)}});
    client
        .patch(&format!("{NAMESPACES}/n"), "merge", &patch)
        .await
}

/// A tenant with the namespace `n`, which has these labels.
async fn labelled(labels: &[(&str, &str)]) -> anyhow::Result<(TestServer, Client)> {
    let (server, client) = start_tenant().await?;
    let created = client.post(NAMESPACES, &namespace("n", labels)).await?;
    assert_eq!(created.status, 201, "{}", created.text());
    Ok((server, client))
}

fn warnings(answer: &Answer) -> Vec<String> {
    let all = answer.headers.get_all("warning").iter();
    let texts = all.map(|text| text.to_str().unwrap());
    let quoted = texts.map(|text| text.strip_prefix("299 - ").unwrap());
    quoted
        .map(|quoted| serde_json::from_str(quoted).unwrap())
        .collect()
}

fn accepted(answer: &Answer, code: u16, wanted: &[&str]) {
    assert_eq!(answer.status, code, "{}", answer.text());
    assert_eq!(warnings(answer), wanted);
}

fn config(members: Value) -> PodSecurity {
    let mut config = members;
    config["apiVersion"] = "pod-security.admission.config.k8s.io/v1".into();
    config["kind"] = "PodSecurityConfiguration".into();
    match PodSecurity::read(config).unwrap() {
        ConfigSource::Inline(config) => *config,
        ConfigSource::File(path) => panic!("{path}"),
    }
}

#[tokio::test]
async fn pods_that_violate_the_enforced_level_are_refused() -> anyhow::Result<()> {
    let (_server, client) = labelled(&[("enforce", "restricted")]).await?;
    let why = format!("violates PodSecurity \"restricted:latest\": {PLAIN}");
    let refused = client.post(PODS, &pod("p", plain())).await?;
    let message = format!("pods \"p\" is forbidden: {why}");
    assert_refused(&refused, 403, "Forbidden", &message);
    let details = json!({"name": "p", "kind": "pods"});
    assert_eq!(refused.json()["details"], details);
    assert_eq!(warnings(&refused), Vec::<String>::new());
    assert_eq!(client.get(&format!("{PODS}/p")).await?.status, 404);
    let dry = format!("{PODS}?dryRun=All");
    let refused = client.post(&dry, &pod("p", plain())).await?;
    assert_refused(&refused, 403, "Forbidden", &message);
    // A generated name is in the message.
    let generated = json!({"metadata": {"generateName": "p-"}, "spec": plain()});
    let refused = client.post(PODS, &generated).await?.message();
    assert!(
        refused.starts_with("pods \"p-") && refused.ends_with(&why),
        "{refused}"
    );
    let name = refused.split('"').nth(1).unwrap();
    assert_eq!(name.len(), "p-".len() + 5);
    accepted(&client.post(PODS, &pod("p", hardened())).await?, 201, &[]);
    // An invalid pod is invalid, whatever the policy.
    let invalid = client
        .post(PODS, &pod("q", json!({"containers": []})))
        .await?;
    assert_eq!(invalid.status, 422);
    // Another namespace has another policy.
    let elsewhere = "/api/v1/namespaces/default/pods";
    accepted(
        &client.post(elsewhere, &pod("p", privileged())).await?,
        201,
        &[],
    );
    Ok(())
}

#[tokio::test]
async fn applied_pods_are_refused_too() -> anyhow::Result<()> {
    let (_server, client) =
        labelled(&[("enforce", "baseline"), ("enforce-version", "v1.20")]).await?;
    let mut applied = pod("p", privileged());
    (applied["apiVersion"], applied["kind"]) = ("v1".into(), "Pod".into());
    let path = format!("{PODS}/p?fieldManager=m");
    let headers = [("content-type", "application/apply-patch+yaml")];
    let refused = client
        .send(Method::PATCH, &path, &headers, applied.to_string())
        .await?;
    let message = "pods \"p\" is forbidden: violates PodSecurity \"baseline:v1.20\": privileged \
                   (container \"c\" must not set securityContext.privileged=true)";
    assert_refused(&refused, 403, "Forbidden", message);
    Ok(())
}

#[tokio::test]
async fn violations_are_warned_about_and_annotated_in_the_audit_log() -> anyhow::Result<()> {
    let (server, log) = audited().await?;
    let client = server.tenant("t1").await?;
    let labels = [
        ("enforce", "baseline"),
        ("audit", "restricted"),
        ("warn", "restricted"),
    ];
    client.post(NAMESPACES, &namespace("n", &labels)).await?;
    let annotations = async |answer: &Answer| -> anyhow::Result<Value> {
        let line = log.event(answer.header("audit-id")).await?;
        let mut event: Value = serde_json::from_str(&line)?;
        let annotations = event["annotations"].as_object_mut().unwrap();
        annotations.retain(|key, _| key.starts_with(LABEL));
        Ok(Value::from(annotations.clone()))
    };
    let would = format!("would violate PodSecurity \"restricted:latest\": {PLAIN}");
    let created = client.post(PODS, &pod("p", plain())).await?;
    accepted(&created, 201, &[&would]);
    assert_eq!(
        annotations(&created).await?,
        json!({"pod-security.kubernetes.io/enforce-policy": "baseline:latest",
            "pod-security.kubernetes.io/audit-violations": would})
    );
    let refused = client.post(PODS, &pod("q", privileged())).await?;
    assert_eq!((refused.status, warnings(&refused)), (403, Vec::new()));
    let noted = annotations(&refused).await?;
    assert_eq!(
        noted["pod-security.kubernetes.io/enforce-policy"],
        "baseline:latest"
    );
    let violations = noted["pod-security.kubernetes.io/audit-violations"].as_str();
    let privileged =
        "would violate PodSecurity \"restricted:latest\": privileged (container \"c\" ";
    assert!(violations.unwrap().starts_with(privileged), "{noted}");
    // Without labels nothing is evaluated, and the event says so.
    let elsewhere = "/api/v1/namespaces/default/pods";
    let created = client.post(elsewhere, &pod("p", plain())).await?;
    assert_eq!(
        annotations(&created).await?,
        json!({"pod-security.kubernetes.io/enforce-policy": "privileged:latest"})
    );
    Ok(())
}

#[tokio::test]
async fn controllers_are_warned_about_and_never_refused() -> anyhow::Result<()> {
    let (_server, client) = labelled(&[("enforce", "restricted")]).await?;
    let would = format!("would violate PodSecurity \"restricted:latest\": {PLAIN}");
    let labels = json!({"a": "b"});
    let template = |restart: &str| {
        let mut spec = plain();
        spec["restartPolicy"] = restart.into();
        json!({"metadata": {"labels": labels}, "spec": spec})
    };
    let selected = json!({"selector": {"matchLabels": labels}, "template": template("Always")});
    let job = json!({"template": template("Never")});
    for (resources, object) in [
        (
            "api/v1/namespaces/n/podtemplates",
            json!({"template": template("Always")}),
        ),
        (
            "api/v1/namespaces/n/replicationcontrollers",
            json!({"spec": {"template": template("Always")}}),
        ),
        (
            "apis/apps/v1/namespaces/n/daemonsets",
            json!({"spec": selected}),
        ),
        (
            "apis/apps/v1/namespaces/n/deployments",
            json!({"spec": selected}),
        ),
        (
            "apis/apps/v1/namespaces/n/replicasets",
            json!({"spec": selected}),
        ),
        (
            "apis/apps/v1/namespaces/n/statefulsets",
            json!({"spec": selected}),
        ),
        ("apis/batch/v1/namespaces/n/jobs", json!({"spec": job})),
        (
            "apis/batch/v1/namespaces/n/cronjobs",
            json!({"spec": {"schedule": "@daily", "jobTemplate": {"spec": job}}}),
        ),
    ] {
        let mut object = object;
        object["metadata"] = json!({"name": "x"});
        let created = client.post(&format!("/{resources}"), &object).await?;
        accepted(&created, 201, &[&would]);
        let path = format!("/{resources}/x");
        let patch = json!({"metadata": {"labels": {"new": "one"}}});
        accepted(&client.patch(&path, "merge", &patch).await?, 200, &[&would]);
    }
    let scale = "/apis/apps/v1/namespaces/n/deployments/x/scale";
    let patch = json!({"spec": {"replicas": 3}});
    accepted(&client.patch(scale, "merge", &patch).await?, 200, &[]);
    Ok(())
}

#[tokio::test]
async fn changes_are_evaluated_if_they_bring_other_images_or_containers() -> anyhow::Result<()> {
    let (_server, client) = labelled(&[]).await?;
    client.post(PODS, &pod("p", plain())).await?;
    client.post(PODS, &pod("h", hardened())).await?;
    assert_eq!(
        label(&client, &[("enforce", "restricted")]).await?.status,
        200
    );
    let at = |name: &str, rest: &str| format!("{PODS}/{name}{rest}");
    let labels = json!({"metadata": {"labels": {"a": "b"}}});
    accepted(
        &client.patch(&at("p", ""), "merge", &labels).await?,
        200,
        &[],
    );
    let running = json!({"status": {"phase": "Running"}});
    accepted(
        &client.patch(&at("p", "/status"), "merge", &running).await?,
        200,
        &[],
    );
    let image = json!({"spec": {"containers": [{"name": "c", "image": "j"}]}});
    let refused = client
        .patch(&at("p", ""), "strategic-merge", &image)
        .await?;
    let why = format!("violates PodSecurity \"restricted:latest\": {PLAIN}");
    let message = format!("pods \"p\" is forbidden: {why}");
    assert_refused(&refused, 403, "Forbidden", &message);
    let changed = client
        .patch(&at("h", ""), "strategic-merge", &image)
        .await?;
    accepted(&changed, 200, &[]);
    let debug = json!({"spec": {"ephemeralContainers": [{"name": "e", "image": "i",
        "securityContext": {"privileged": true}}]}});
    let debugged = at("h", "/ephemeralcontainers");
    let refused = client.patch(&debugged, "strategic-merge", &debug).await?;
    assert_eq!(refused.status, 403, "{}", refused.text());
    let message = refused.message();
    let why = "pods \"h\" is forbidden: violates PodSecurity \"restricted:latest\": privileged \
               (container \"e\" must not set securityContext.privileged=true), ";
    assert!(message.starts_with(why), "{message}");
    Ok(())
}

#[tokio::test]
async fn labels_of_namespaces_must_be_levels_and_versions() -> anyhow::Result<()> {
    let (_server, client) = labelled(&[]).await?;
    let level = "metadata.labels[pod-security.kubernetes.io/enforce]";
    let version = "metadata.labels[pod-security.kubernetes.io/warn-version]";
    let labels = [("enforce", "strict"), ("warn-version", "1.2")];
    let levels = "Invalid value: \"strict\": must be one of privileged, baseline, restricted";
    let versions = "Invalid value: \"1.2\": must be \"latest\" or \"v1.x\"";
    let refused = client.post(NAMESPACES, &namespace("m", &labels)).await?;
    let said = format!("is invalid: [{level}: {levels}, {version}: {versions}]");
    assert_refused(&refused, 422, "Invalid", &format!("Namespace \"m\" {said}"));
    assert_eq!(
        refused.json()["details"],
        json!({"name": "m", "kind": "Namespace", "causes": [
            {"reason": "FieldValueInvalid", "message": levels, "field": level},
            {"reason": "FieldValueInvalid", "message": versions, "field": version},
        ]})
    );
    let refused = label(&client, &labels).await?;
    assert_refused(&refused, 422, "Invalid", &format!("Namespace \"n\" {said}"));
    let valid = [
        ("enforce", "baseline"),
        ("enforce-version", "v1.99"),
        ("audit", "privileged"),
    ];
    accepted(&label(&client, &valid).await?, 200, &[]);
    Ok(())
}

#[tokio::test]
async fn stricter_labels_warn_about_existing_pods() -> anyhow::Result<()> {
    let (_server, client) = labelled(&[]).await?;
    for (name, spec) in [
        ("b", plain()),
        ("a", plain()),
        ("h", hardened()),
        ("p", privileged()),
    ] {
        accepted(&client.post(PODS, &pod(name, spec)).await?, 201, &[]);
    }
    // A pod of another namespace with a name that begins like this one.
    client.post(NAMESPACES, &namespace("n2", &[])).await?;
    client
        .post("/api/v1/namespaces/n2/pods", &pod("q", privileged()))
        .await?;
    let violate = |level: &str| {
        format!(
            "existing pods in namespace \"n\" violate the new PodSecurity enforce level \"{level}\""
        )
    };
    let baseline = violate("baseline:latest");
    let answer = label(&client, &[("enforce", "baseline")]).await?;
    accepted(&answer, 200, &[&baseline, "p: privileged"]);
    let reasons = "allowPrivilegeEscalation != false, unrestricted capabilities, \
                   runAsNonRoot != true, seccompProfile";
    let restricted = violate("restricted:latest");
    let wanted = [
        &restricted,
        &format!("a (and 1 other pod): {reasons}"),
        &format!("p: privileged, {reasons}"),
    ];
    let answer = label(&client, &[("enforce", "restricted")]).await?;
    accepted(&answer, 200, &wanted.map(String::as_str));
    // Neither a relaxed nor an unchanged level is checked.
    accepted(&label(&client, &[("enforce", "baseline")]).await?, 200, &[]);
    accepted(&label(&client, &[("warn", "restricted")]).await?, 200, &[]);
    Ok(())
}

#[tokio::test]
async fn defaults_and_exemptions_apply_in_every_space() -> anyhow::Result<()> {
    let log = AuditLog::default();
    let setup = Setup {
        audit: Some(Audit::Memory(log.clone())),
        tokens: "robot,robot,9,\"system:masters,tenant:system\"\n".to_owned(),
        pod_security: config(json!({
            "defaults": {"enforce": "baseline", "enforce-version": "v1.30"},
            "exemptions": {"usernames": ["robot"], "namespaces": ["free"], "runtimeClasses": ["vm"]},
        })),
        ..Setup::default()
    };
    let server = TestServer::start_with(setup).await?;
    let exemption = async |answer: &Answer| -> anyhow::Result<Value> {
        let line = log.event(answer.header("audit-id")).await?;
        let event: Value = serde_json::from_str(&line)?;
        Ok(event["annotations"]["pod-security.kubernetes.io/exempt"].clone())
    };
    let (system, tenant) = (server.system().await?, server.tenant("t1").await?);
    for client in [&system, &tenant] {
        client.post(NAMESPACES, &namespace("n", &[])).await?;
        let refused = client.post(PODS, &pod("p", privileged())).await?;
        let message = "pods \"p\" is forbidden: violates PodSecurity \"baseline:v1.30\": \
                       privileged (container \"c\" must not set securityContext.privileged=true)";
        assert_refused(&refused, 403, "Forbidden", message);
        let mut vm = privileged();
        vm["runtimeClassName"] = "vm".into();
        let class = json!({"metadata": {"name": "vm"}, "handler": "vm"});
        let classes = "/apis/node.k8s.io/v1/runtimeclasses";
        accepted(&client.post(classes, &class).await?, 201, &[]);
        let created = client.post(PODS, &pod("vm", vm)).await?;
        accepted(&created, 201, &[]);
        assert_eq!(exemption(&created).await?, "runtimeClass");
        let ignored = "namespace \"free\" is exempt from Pod Security, and the policy \
                       (enforce=restricted:v1.30) will be ignored";
        let free = namespace("free", &[("enforce", "restricted")]);
        accepted(&client.post(NAMESPACES, &free).await?, 201, &[ignored]);
        let path = "/api/v1/namespaces/free/pods";
        let created = client.post(path, &pod("p", privileged())).await?;
        accepted(&created, 201, &[]);
        assert_eq!(exemption(&created).await?, "namespace");
        // Labels override the defaults.
        accepted(
            &label(client, &[("enforce", "privileged")]).await?,
            200,
            &[],
        );
        accepted(&client.post(PODS, &pod("p", privileged())).await?, 201, &[]);
    }
    let robot = server.client("robot").await?;
    let created = robot
        .post("/api/v1/namespaces/default/pods", &pod("p", privileged()))
        .await?;
    accepted(&created, 201, &[]);
    assert_eq!(exemption(&created).await?, "user");
    Ok(())
}

#[tokio::test]
async fn labels_of_one_tenant_do_not_affect_the_same_namespace_of_another() -> anyhow::Result<()> {
    let (server, one) = labelled(&[("enforce", "restricted")]).await?;
    let (other, system) = (server.tenant("t2").await?, server.system().await?);
    for client in [&other, &system] {
        client.post(NAMESPACES, &namespace("n", &[])).await?;
        accepted(&client.post(PODS, &pod("p", privileged())).await?, 201, &[]);
    }
    assert_eq!(one.post(PODS, &pod("p", privileged())).await?.status, 403);
    // Only pods of the own space are warned about.
    accepted(&label(&one, &[("enforce", "privileged")]).await?, 200, &[]);
    accepted(&label(&one, &[("enforce", "baseline")]).await?, 200, &[]);
    let answer = label(&other, &[("enforce", "baseline")]).await?;
    assert_eq!(warnings(&answer).len(), 2);
    // The system is refused by a tenant's labels when it writes in that tenant's space.
    let path = "/api/v1/tenants/t1/namespaces/n/pods";
    assert_eq!(
        system.post(path, &pod("p", privileged())).await?.status,
        403
    );
    Ok(())
}
