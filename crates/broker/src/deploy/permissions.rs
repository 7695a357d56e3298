//! Permission checks before anything is written.

use std::collections::{BTreeMap, BTreeSet};

use futures_util::{StreamExt, TryStreamExt, stream};
use k8s_openapi::api::authorization::v1::{
    ResourceAttributes, SelfSubjectAccessReview, SelfSubjectAccessReviewSpec,
};
use k8s_openapi::api::rbac::v1::PolicyRule;
use kube::api::PostParams;
use kube::{Api, Client};

use crate::error::Error;

/// The number of concurrent access reviews.
const MAX_CONCURRENT_REVIEWS: usize = 8;

/// A permission: a verb on a resource, in a namespace or in all.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Permission {
    verb: String,
    group: String,
    resource: String,
    /// All namespaces if `None`.
    namespace: Option<String>,
    name: Option<String>,
}

impl Permission {
    pub(crate) fn new(verb: &str, group: &str, resource: &str, namespace: Option<&str>) -> Self {
        Self {
            verb: verb.to_owned(),
            group: group.to_owned(),
            resource: resource.to_owned(),
            namespace: namespace.map(str::to_owned),
            name: None,
        }
    }

    /// Returns every permission that rules grant where they are bound.
    pub(crate) fn granted_by(rules: &[PolicyRule], namespace: Option<&str>) -> Vec<Self> {
        let mut permissions = Vec::new();
        for rule in rules {
            let names = match rule.resource_names.as_deref() {
                None | Some([]) => vec![None],
                Some(names) => names.iter().cloned().map(Some).collect(),
            };
            for group in rule.api_groups.iter().flatten() {
                for resource in rule.resources.iter().flatten() {
                    for verb in &rule.verbs {
                        permissions.extend(names.iter().map(|name| Self {
                            name: name.clone(),
                            ..Self::new(verb, group, resource, namespace)
                        }));
                    }
                }
            }
        }
        permissions
    }

    /// Returns whether rules grant this permission, wherever they are bound.
    pub(crate) fn is_granted_by(&self, rules: &[PolicyRule]) -> bool {
        let names = |words: &[String], word: &str| {
            let mut words = words.iter();
            words.any(|named| named == "*" || named == word)
        };
        let resource_matches = |words: &[String]| {
            let of_any = self
                .resource
                .split_once('/')
                .map(|(_, sub)| format!("*/{sub}"));
            names(words, &self.resource) || of_any.is_some_and(|any| words.contains(&any))
        };
        rules.iter().any(|rule| {
            let groups = rule.api_groups.as_deref().unwrap_or_default();
            let resources = rule.resources.as_deref().unwrap_or_default();
            let only = rule.resource_names.as_deref().unwrap_or_default();
            names(groups, &self.group)
                && resource_matches(resources)
                && names(&rule.verbs, &self.verb)
                && (only.is_empty() || self.name.as_ref().is_some_and(|name| only.contains(name)))
        })
    }

    fn attributes(&self) -> ResourceAttributes {
        let (resource, subresource) = match self.resource.split_once('/') {
            Some((resource, subresource)) => (resource, Some(subresource.to_owned())),
            None => (self.resource.as_str(), None),
        };
        ResourceAttributes {
            verb: Some(self.verb.clone()),
            group: Some(self.group.clone()),
            resource: Some(resource.to_owned()),
            subresource,
            namespace: self.namespace.clone(),
            name: self.name.clone(),
            ..ResourceAttributes::default()
        }
    }

    fn object(&self) -> String {
        let attributes = self.attributes();
        let mut text = attributes.resource.unwrap_or_default();
        if !self.group.is_empty() {
            text = format!("{text}.{}", self.group);
        }
        if let Some(subresource) = attributes.subresource {
            text = format!("{text}/{subresource}");
        }
        if let Some(name) = &self.name {
            text = format!("{text} {name}");
        }
        match &self.namespace {
            Some(namespace) => format!("{text} in namespace {namespace}"),
            None => text,
        }
    }
}

/// Returns the permissions that the caller lacks.
pub(crate) async fn missing(
    client: &Client,
    wanted: Vec<Permission>,
) -> Result<Vec<Permission>, Error> {
    // One review is enough for a cluster administrator.
    if wanted.is_empty() || is_allowed(client, &Permission::new("*", "*", "*", None)).await? {
        return Ok(Vec::new());
    }
    let wanted: BTreeSet<Permission> = wanted.into_iter().collect();
    let asked = stream::iter(wanted).map(|permission| async move {
        let may = is_allowed(client, &permission).await?;
        Ok::<_, Error>((!may).then_some(permission))
    });
    let asked = asked
        .buffered(MAX_CONCURRENT_REVIEWS)
        .try_collect::<Vec<_>>()
        .await?;
    Ok(asked.into_iter().flatten().collect())
}

/// Returns whether the caller has a permission.
pub(crate) async fn is_allowed(client: &Client, permission: &Permission) -> Result<bool, Error> {
    let reviews: Api<SelfSubjectAccessReview> = Api::all(client.clone());
    let review = SelfSubjectAccessReview {
        spec: SelfSubjectAccessReviewSpec {
            resource_attributes: Some(permission.attributes()),
            ..SelfSubjectAccessReviewSpec::default()
        },
        ..SelfSubjectAccessReview::default()
    };
    let answer = reviews.create(&PostParams::default(), &review).await;
    let answer = answer.map_err(Error::when("ask what this user may do"))?;
    Ok(answer.status.is_some_and(|status| status.allowed))
}

/// Formats permissions for display: one entry per resource, with its verbs.
pub(crate) fn describe(permissions: &[Permission]) -> Vec<String> {
    let mut verbs = BTreeMap::<String, BTreeSet<&str>>::new();
    for permission in permissions {
        verbs
            .entry(permission.object())
            .or_default()
            .insert(&permission.verb);
    }
    let entries = verbs.into_iter();
    entries
        .map(|(object, verbs)| {
            let verbs: Vec<_> = verbs.into_iter().collect();
            format!("{} {object}", verbs.join("/"))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::roles;

    #[test]
    fn permissions_are_granted_by_names_and_wildcards() {
        let rule = |group: &str, resource: &str, verb: &str, only: &[&str]| PolicyRule {
            api_groups: Some(vec![group.to_owned()]),
            resources: Some(vec![resource.to_owned()]),
            verbs: vec![verb.to_owned()],
            resource_names: Some(only.iter().map(|&name| name.to_owned()).collect()),
            ..PolicyRule::default()
        };
        let get = Permission::new("get", "g", "r", None);
        let status = Permission::new("get", "g", "r/status", None);
        let named = Permission {
            name: Some("n".to_owned()),
            ..get.clone()
        };
        for (permission, rule, given) in [
            (&get, rule("g", "r", "get", &[]), true),
            (&get, rule("*", "*", "*", &[]), true),
            (&get, rule("g", "r", "list", &[]), false),
            (&get, rule("h", "r", "get", &[]), false),
            (&get, rule("g", "r", "get", &["n"]), false),
            (&get, rule("g", "r/status", "get", &[]), false),
            (&status, rule("g", "r", "get", &[]), false),
            (&status, rule("g", "*/status", "get", &[]), true),
            (&status, rule("g", "*", "get", &[]), true),
            (&named, rule("g", "r", "get", &["n"]), true),
            (&named, rule("g", "r", "get", &["m"]), false),
            (&named, rule("g", "r", "get", &[]), true),
        ] {
            assert_eq!(
                permission.is_granted_by(std::slice::from_ref(&rule)),
                given,
                "{permission:?} {rule:?}"
            );
        }
    }

    #[test]
    fn permissions_are_described_by_resource_with_their_verbs() {
        let permissions = [
            Permission::new("get", "", "namespaces", None),
            Permission::new("create", "", "namespaces", None),
            Permission::new("create", "apps", "deployments", Some("n")),
            Permission::new("get", "submariner.io", "tenants/status", Some("n")),
        ];
        let named = [
            "create deployments.apps in namespace n",
            "create/get namespaces",
            "get tenants.submariner.io/status in namespace n",
        ];
        assert_eq!(describe(&permissions), named);
        let own = Permission::granted_by(&roles::tenant_admin("n")[..1], Some("n"));
        assert_eq!(describe(&own), ["get namespaces n in namespace n"]);
    }
}
