//! PodSecurity compared with what Kubernetes' own said about the same pods and requests, word for
//! word. `make pod-security` records it (`tools/kindgen/podsecurity`).
#![expect(clippy::unwrap_used, reason = "a failed step fails the test")]

use std::borrow::Cow;
use std::collections::BTreeMap;

use insula_admission::pod_security::{
    ConfigSource, Level, LevelVersion, NamespaceReview, NamespaceWrite, Pod, PodSecurity, PodWrite,
    Policy, Review, Version, Written, evaluate, is_evaluated,
};
use insula_kinds::{Object, Value, field};
use serde_json::json;

/// The newest minor version that was recorded.
const NEWEST_MINOR: i64 = 40;

#[test]
fn violations_of_every_level_and_version_are_those_of_kubernetes() {
    let mut pods = 0;
    for record in lines(include_str!("data/pod_security.jsonl")) {
        pods += 1;
        let pod = record["pod"].as_object().unwrap();
        for (name, level) in [
            ("privileged", Level::Privileged),
            ("baseline", Level::Baseline),
            ("restricted", Level::Restricted),
        ] {
            let verdicts = record[name].as_array().cloned().unwrap_or_default();
            let versions = (0..=NEWEST_MINOR).map(Version::Minor);
            for version in versions.chain([Version::Latest]) {
                let minor = match version {
                    Version::Minor(minor) => minor,
                    Version::Latest => NEWEST_MINOR,
                };
                let recorded = verdicts.iter().rev();
                let recorded = recorded
                    .clone()
                    .find(|it| it["from"].as_i64() <= Some(minor));
                let wanted = recorded.and_then(|it| it["message"].as_str());
                let policy = LevelVersion { level, version };
                let found = evaluate(policy, Pod::of(pod)).to_string();
                assert_eq!(
                    found,
                    wanted.unwrap_or(""),
                    "{} at {policy}",
                    record["name"]
                );
            }
        }
    }
    assert_eq!(pods, 448);
}

#[test]
fn answers_to_requests_are_those_of_kubernetes() {
    let mut requests = 0;
    for record in lines(include_str!("data/pod_security_reviews.jsonl")) {
        requests += 1;
        let wanted = Answer {
            message: record["message"].as_str().map(str::to_owned),
            warnings: texts(&record["warnings"]),
            annotations: record["annotations"]
                .as_object()
                .into_iter()
                .flatten()
                .map(|(key, value)| (key.clone(), value.as_str().unwrap().to_owned()))
                .collect(),
        };
        assert_eq!(record["allowed"], wanted.message.is_none());
        assert_eq!(answer(&record), wanted, "{}", record["name"]);
    }
    assert_eq!(requests, 212);
}

#[test]
fn only_some_of_many_existing_pods_are_checked() {
    let plugin = PodSecurity::default();
    let restricted = LevelVersion {
        level: Level::Restricted,
        version: Version::Minor(7),
    };
    // Replicas of one controller come first by name, and are checked last but for one of them.
    let replicas = (0..3000).map(|index| pod(&format!("a{index:04}"), Some("u")));
    let pods: Vec<_> = replicas.chain([pod("z", None)]).collect();
    let review = |late_after: usize| {
        let asked = std::cell::Cell::new(0);
        plugin.review_existing_pods(
            "n",
            restricted,
            &pods,
            |pod| Cow::Borrowed(pod.as_bytes()),
            || {
                asked.set(asked.get() + 1);
                asked.get() > late_after
            },
        )
    };
    let violated = "existing pods in namespace \"n\" violate the new PodSecurity enforce level \
                    \"restricted:v1.7\"";
    assert_eq!(
        review(usize::MAX),
        [
            "new PodSecurity enforce level only checked against the first 3000 of 3001 existing \
             pods",
            violated,
            "a0000 (and 2999 other pods): runAsNonRoot != true",
        ]
    );
    // The time ends after two pods have been checked.
    assert_eq!(
        review(3001 + 1),
        [
            "new PodSecurity enforce level only checked against the first 2 of 3001 existing pods",
            violated,
            "a0000 (and 1 other pod): runAsNonRoot != true",
        ]
    );
    // The time ends before the first: what is not looked at is not prioritized either.
    assert_eq!(
        review(0),
        [
            "new PodSecurity enforce level only checked against the first 1 of 3001 existing pods",
            violated,
            "a0000: runAsNonRoot != true",
        ]
    );
}

fn pod(name: &str, controller: Option<&str>) -> String {
    let owners = controller.map(|uid| json!([{"uid": uid, "controller": true}]));
    let metadata = json!({"name": name, "ownerReferences": owners.unwrap_or(json!([]))});
    json!({"metadata": metadata, "spec": {"containers": [{"name": "c"}]}}).to_string()
}

#[test]
fn configurations_are_read_with_their_defaults() {
    let level = |level, version| LevelVersion { level, version };
    let inline = |config: Value| match PodSecurity::read(config).unwrap() {
        ConfigSource::Inline(plugin) => *plugin,
        ConfigSource::File(path) => panic!("{path}"),
    };
    assert_eq!(inline(configuration(json!({}))), PodSecurity::default());
    let config = configuration(json!({
        "defaults": {"enforce": "baseline", "enforce-version": "v1.30", "audit": "restricted",
            "warn-version": "v1.2"},
        "exemptions": {"usernames": ["u"], "namespaces": ["n"], "runtimeClasses": ["a.b"]}}));
    let read = inline(config.clone());
    assert_eq!(
        read.defaults,
        Policy {
            enforce: level(Level::Baseline, Version::Minor(30)),
            audit: level(Level::Restricted, Version::Latest),
            warn: level(Level::Privileged, Version::Minor(2)),
        }
    );
    assert_eq!(read.exemptions.runtime_classes, ["a.b"]);
    let admission = |plugin: Value| {
        json!({"apiVersion": "apiserver.config.k8s.io/v1", "kind": "AdmissionConfiguration",
            "plugins": [{"name": "EventRateLimit", "path": "x"}, plugin]})
    };
    let wrapped = admission(json!({"name": "PodSecurity", "configuration": config}));
    assert_eq!(inline(wrapped), read);
    let file = admission(json!({"name": "PodSecurity", "path": "p.yaml"}));
    assert_eq!(
        PodSecurity::read(file).unwrap(),
        ConfigSource::File("p.yaml".to_owned())
    );
}

#[test]
fn configurations_with_errors_are_refused() {
    let refused = |config: Value| PodSecurity::read(config).unwrap_err().to_string();
    assert_eq!(
        refused(configuration(json!({
            "defaults": {"enforce": "strict", "warn-version": "1.2"},
            "exemptions": {"usernames": ["", "u", "u"], "namespaces": ["n", "n", "A"]}}))),
        "defaults.enforce: Invalid value: \"strict\": must be one of privileged, baseline, \
         restricted; defaults.warn-version: Invalid value: \"1.2\": must be \"latest\" or \
         \"v1.x\"; exemptions.namespaces[1]: Duplicate value: \"n\"; exemptions.namespaces[2]: \
         Invalid value: \"A\": a lowercase RFC 1123 label must consist of lower case alphanumeric \
         characters or '-', and must start and end with an alphanumeric character (e.g. \
         'my-name',  or '123-abc', regex used for validation is \
         '[a-z0-9]([-a-z0-9]*[a-z0-9])?'); exemptions.usernames[0]: Invalid value: \"\": username \
         must not be empty; exemptions.usernames[2]: Duplicate value: \"u\""
    );
    let misspelt = refused(configuration(json!({"defaults": {"enforced": "baseline"}})));
    assert!(
        misspelt.starts_with("unknown field `enforced`"),
        "{misspelt}"
    );
    assert_eq!(
        refused(json!({"apiVersion": "v1", "kind": "Pod"})),
        "expected PodSecurityConfiguration of pod-security.admission.config.k8s.io/v1 or \
         AdmissionConfiguration of apiserver.config.k8s.io/v1, got \"Pod\" of \"v1\""
    );
    let admission = |plugins: Value| {
        refused(json!({"apiVersion": "apiserver.config.k8s.io/v1",
            "kind": "AdmissionConfiguration", "plugins": plugins}))
    };
    let file = json!({"name": "PodSecurity", "path": "p"});
    assert_eq!(admission(json!([])), "it does not configure PodSecurity");
    assert_eq!(
        admission(json!([file, file])),
        "it configures PodSecurity twice"
    );
    assert_eq!(
        admission(json!([{"name": "PodSecurity"}])),
        "the plugin PodSecurity has neither a configuration nor a path"
    );
}

fn configuration(members: Value) -> Value {
    let mut config = members;
    config["apiVersion"] = "pod-security.admission.config.k8s.io/v1".into();
    config["kind"] = "PodSecurityConfiguration".into();
    config
}

#[derive(Debug, Default, PartialEq)]
struct Answer {
    message: Option<String>,
    warnings: Vec<String>,
    annotations: BTreeMap<String, String>,
}

fn answer(record: &Value) -> Answer {
    let plugin = match record["config"].is_null() {
        true => PodSecurity::default(),
        false => match PodSecurity::read(record["config"].clone()).unwrap() {
            ConfigSource::Inline(plugin) => *plugin,
            ConfigSource::File(path) => panic!("{path}"),
        },
    };
    let resource = record["resource"].as_str().unwrap();
    let group = match resource {
        "daemonsets" | "deployments" | "replicasets" | "statefulsets" => "apps",
        "cronjobs" | "jobs" => "batch",
        _ => "",
    };
    if !is_evaluated(group, resource, record["subresource"].as_str()) {
        return Answer::default();
    }
    let (old, new) = (
        record["old"].as_object(),
        record["new"].as_object().unwrap(),
    );
    let written = match resource {
        "namespaces" => return review_namespace(&plugin, record, old, new),
        "pods" => Written::Pod { old, new },
        resource => Written::Controller {
            group,
            resource,
            object: new,
        },
    };
    let write = PodWrite {
        namespace: "n",
        username: record["user"].as_str().unwrap_or(""),
        written,
    };
    let Review {
        forbidden,
        warnings,
        annotations,
    } = plugin.review(&write, |name| record["labels"][name].as_str());
    let annotations = annotations.into_iter();
    Answer {
        message: forbidden.map(|why| format!("pods \"x\" is forbidden: {why}")),
        warnings,
        annotations: annotations
            .map(|(key, value)| (key.to_owned(), value))
            .collect(),
    }
}

fn review_namespace(
    plugin: &PodSecurity,
    record: &Value,
    old: Option<&Object>,
    new: &Object,
) -> Answer {
    let name = "n";
    match plugin.review_namespace(&NamespaceWrite { name, old, new }) {
        NamespaceReview::Invalid(errors) => Answer {
            message: Some(format!(
                "Namespace \"n\" is invalid: {}",
                field::message(&errors)
            )),
            ..Answer::default()
        },
        NamespaceReview::Accepted(warning) => Answer {
            warnings: warning.into_iter().collect(),
            ..Answer::default()
        },
        NamespaceReview::CheckPods(level) => Answer {
            warnings: plugin.review_existing_pods(
                name,
                level,
                record["pods"].as_array().map_or(&[], Vec::as_slice),
                |pod| Cow::Owned(pod.to_string().into_bytes()),
                || false,
            ),
            ..Answer::default()
        },
    }
}

fn lines(text: &str) -> impl Iterator<Item = Value> {
    text.lines().map(|line| serde_json::from_str(line).unwrap())
}

fn texts(list: &Value) -> Vec<String> {
    let list = list.as_array().into_iter().flatten();
    list.map(|text| text.as_str().unwrap().to_owned()).collect()
}
