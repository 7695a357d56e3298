//! The objects to install: definitions, roles and the operator's account.

use insula_operator::crds::Definitions;
use insula_operator::manifests::Operator;
use insula_operator::roles::{CORE, READ, events, leader_election, rule};
use serde_json::Value;

/// The namespace of the operator and of the Secrets of accounts.
pub const NAMESPACE: &str = "dns-system";
/// The ServiceAccount of the operator.
pub const ACCOUNT: &str = "dns-operator";

const GROUP: &str = "dns.example.com";

const DEFINITIONS: Definitions = Definitions {
    kinds: &[
        include_str!("../data/dnsrecords.yaml"),
        include_str!("../data/dnsaccounts.yaml"),
    ],
    parts: &[],
};

const OPERATOR: Operator<'static> = Operator {
    app: ACCOUNT,
    namespace: NAMESPACE,
    account: ACCOUNT,
    role: ACCOUNT,
};

/// Returns all objects. On an Insula, tenants get the kinds, and the operator works for them.
pub fn manifests(tenants: bool) -> Vec<Value> {
    let definitions = match tenants {
        true => DEFINITIONS.published(),
        false => DEFINITIONS.all(),
    };
    let kinds = ["dnsrecords", "dnsaccounts"];
    let status = ["dnsrecords/status", "dnsaccounts/status"];
    let writes = ["get", "list", "watch", "update", "patch"];
    let secrets = ["get", "list", "watch", "update", "patch", "delete"];
    let mut rules = vec![
        rule(GROUP, &kinds, &writes),
        rule(GROUP, &status, &["get", "update", "patch"]),
        rule(CORE, &["secrets"], &secrets),
        rule(CORE, &["namespaces"], READ),
    ];
    rules.extend(tenants.then(|| rule(CORE, &["tenants"], READ)));
    rules.extend(events());
    let mut objects = vec![OPERATOR.namespace()];
    // Every object of Kubernetes can be represented as JSON.
    let values = definitions.iter().map(serde_json::to_value);
    objects.extend(values.map(Result::unwrap_or_default));
    objects.extend(OPERATOR.account_with_roles(&rules, &[leader_election()]));
    objects
}
