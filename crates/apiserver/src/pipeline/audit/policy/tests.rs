use insula_access::rbac::ResourceAttributes;
use insula_core::{CredentialRef, Extra, Principal, Proof, Space, TenantBinding};
use serde::Deserialize;
use serde_json::Value;

use super::*;

/// What Kubernetes says about policies and requests, recorded by `make audit-policy`.
const RECORDED: &str = include_str!("../../../../tests/data/audit_policy.jsonl");

#[derive(Deserialize)]
struct Recorded {
    policy: Value,
    #[serde(default)]
    error: String,
    #[serde(default)]
    decisions: Vec<Decided>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Decided {
    request: Asked,
    level: String,
    #[serde(default)]
    omit_stages: Vec<String>,
    #[serde(default)]
    omit_managed_fields: bool,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Asked {
    user: String,
    groups: Vec<String>,
    verb: String,
    group: String,
    resource: String,
    subresource: String,
    namespace: String,
    name: String,
    path: String,
}

fn principal(user: &str, groups: &[String], home: &str) -> Principal {
    Principal {
        user: user.to_owned(),
        uid: None,
        groups: groups.to_vec(),
        extra: Extra::new(),
        home: Space::parse(home).unwrap(),
        tenant_binding: TenantBinding::Name,
        proof: Proof::StaticToken,
        credential: CredentialRef::default(),
        impersonator: None,
    }
}

fn evaluate(policy: &Policy, asked: &Asked, user: Option<&Principal>) -> RequestAudit {
    let given = |text: &'static str| (!text.is_empty()).then_some(text);
    let leak = |text: &String| &*text.clone().leak();
    let requested = match asked.resource.as_str() {
        "" => Requested::Path(&asked.path),
        resource => Requested::Resource(ResourceAttributes {
            verb: &asked.verb,
            group: &asked.group,
            resource,
            subresource: given(leak(&asked.subresource)),
            namespace: given(leak(&asked.namespace)),
            name: given(leak(&asked.name)),
        }),
    };
    policy.evaluate(&Attributes {
        user,
        verb: &asked.verb,
        requested,
    })
}

#[test]
fn policies_decide_and_are_refused_as_in_kubernetes() {
    let mut decisions = 0;
    for line in RECORDED.lines() {
        let recorded: Recorded = serde_json::from_str(line).unwrap();
        let policy = Policy::parse(&recorded.policy.to_string());
        let policy = match policy {
            Ok(policy) => policy,
            Err(error) => {
                assert_eq!(error.to_string(), recorded.error, "{}", recorded.policy);
                continue;
            }
        };
        assert_eq!(recorded.error, "", "{}", recorded.policy);
        for decided in recorded.decisions {
            let asked = &decided.request;
            let user = principal(&asked.user, &asked.groups, "system");
            let user = (!asked.user.is_empty()).then_some(&user);
            let stages = decided.omit_stages.iter();
            let omitted = stages
                .map(|name| Stage::parse(name).unwrap())
                .fold(Stages::default(), Stages::with);
            let expected = RequestAudit {
                level: Level::parse(&decided.level).unwrap(),
                omitted,
                omit_managed_fields: decided.omit_managed_fields,
            };
            let found = evaluate(&policy, asked, user);
            assert_eq!(found, expected, "{} of {asked:?}", recorded.policy);
            decisions += 1;
        }
    }
    assert!(decisions > 500, "{decisions}");
}

#[test]
fn group_of_a_tenant_matches_its_own_users_only() {
    let policy = "apiVersion: audit.k8s.io/v1\n\
                  kind: Policy\n\
                  rules:\n\
                  - level: Request\n  userGroups: [\"tenant:acme\", ops]\n\
                  - level: None\n  userGroups: [\"tenant:system\"]\n\
                  - level: Metadata\n";
    let policy = Policy::parse(policy).unwrap();
    let forged = ["tenant:acme".to_owned()];
    let ops = ["ops".to_owned()];
    for (home, groups, level) in [
        ("acme", &[][..], Level::Request),
        ("globex", &[], Level::Metadata),
        ("globex", &forged, Level::Metadata),
        ("globex", &ops, Level::Request),
        ("system", &[], Level::None),
    ] {
        let user = principal("u", groups, home);
        let found = evaluate(&policy, &Asked::default(), Some(&user));
        assert_eq!(found.level, level, "{home} {groups:?}");
    }
    let unknown = evaluate(&policy, &Asked::default(), None);
    assert_eq!(unknown.level, Level::Metadata);
}

#[test]
fn text_that_is_no_policy_is_refused() {
    let rules = "rules: [{level: Metadata}]";
    for (text, expected) in [
        ("", "unknown group version field , Kind= in policy"),
        (
            "apiVersion: audit.k8s.io/v1beta1\nkind: Policy\n",
            "unknown group version field audit.k8s.io/v1beta1, Kind=Policy in policy",
        ),
        (
            "apiVersion: audit.k8s.io/v1\nkind: Event\n",
            "unknown group version field audit.k8s.io/v1, Kind=Event in policy",
        ),
        (
            &format!("apiVersion: audit.k8s.io/v1\nkind: Policy\nomitstages: []\n{rules}"),
            "unknown field `omitstages`",
        ),
        (
            "apiVersion: audit.k8s.io/v1\nkind: Policy\nrules: [{level: Metadata, user: [a]}]",
            "unknown field `user`",
        ),
        ("{", ""),
    ] {
        let error = Policy::parse(text).unwrap_err().to_string();
        assert!(error.starts_with(expected), "{text:?}: {error}");
    }
}

#[test]
fn policy_knows_whether_requests_are_recorded_before_they_are_served() {
    for (rules, expected) in [
        ("rules: [{level: Metadata}]", true),
        ("rules: [{level: None}]", false),
        (
            "omitStages: [RequestReceived]\nrules: [{level: Request}]",
            false,
        ),
        (
            "rules: [{level: Request, omitStages: [RequestReceived]}, {level: Metadata}]",
            true,
        ),
    ] {
        let text = format!("apiVersion: audit.k8s.io/v1\nkind: Policy\n{rules}\n");
        let policy = Policy::parse(&text).unwrap();
        assert_eq!(policy.records_received(), expected, "{rules}");
    }
}
