//! Whether whoever asks may do what has to be done, before any of it is.

use std::collections::{BTreeMap, BTreeSet};

use futures_util::{StreamExt, TryStreamExt, stream};
use k8s_openapi::api::authorization::v1::{
    ResourceAttributes, SelfSubjectAccessReview, SelfSubjectAccessReviewSpec,
};
use k8s_openapi::api::rbac::v1::PolicyRule;
use kube::api::PostParams;
use kube::{Api, Client};

use crate::error::Error;

/// Questions that are asked at the same time.
const AT_ONCE: usize = 8;

/// To do this to such objects, in a namespace or everywhere.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Right {
    verb: String,
    group: String,
    resource: String,
    /// Everywhere, if none is named.
    namespace: Option<String>,
    name: Option<String>,
}

impl Right {
    pub(super) fn new(verb: &str, group: &str, resource: &str, namespace: Option<&str>) -> Self {
        Self {
            verb: verb.to_owned(),
            group: group.to_owned(),
            resource: resource.to_owned(),
            namespace: namespace.map(str::to_owned),
            name: None,
        }
    }

    /// Every right that rules give where they are bound.
    pub(super) fn given(rules: &[PolicyRule], namespace: Option<&str>) -> Vec<Self> {
        let mut rights = Vec::new();
        for rule in rules {
            let names = match rule.resource_names.as_deref() {
                None | Some([]) => vec![None],
                Some(names) => names.iter().cloned().map(Some).collect(),
            };
            for group in rule.api_groups.iter().flatten() {
                for resource in rule.resources.iter().flatten() {
                    for verb in &rule.verbs {
                        rights.extend(names.iter().map(|name| Self {
                            name: name.clone(),
                            ..Self::new(verb, group, resource, namespace)
                        }));
                    }
                }
            }
        }
        rights
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

/// Those that the caller does not have.
pub(super) async fn lacking(client: &Client, wanted: Vec<Right>) -> Result<Vec<Right>, Error> {
    // Whoever may do everything is asked once.
    if wanted.is_empty() || may(client, &Right::new("*", "*", "*", None)).await? {
        return Ok(Vec::new());
    }
    let wanted: BTreeSet<Right> = wanted.into_iter().collect();
    let asked = stream::iter(wanted).map(|right| async move {
        let may = may(client, &right).await?;
        Ok::<_, Error>((!may).then_some(right))
    });
    let asked = asked.buffered(AT_ONCE).try_collect::<Vec<_>>().await?;
    Ok(asked.into_iter().flatten().collect())
}

/// Whether the caller has a right.
pub(super) async fn may(client: &Client, right: &Right) -> Result<bool, Error> {
    let reviews: Api<SelfSubjectAccessReview> = Api::all(client.clone());
    let review = SelfSubjectAccessReview {
        spec: SelfSubjectAccessReviewSpec {
            resource_attributes: Some(right.attributes()),
            ..SelfSubjectAccessReviewSpec::default()
        },
        ..SelfSubjectAccessReview::default()
    };
    let answer = reviews.create(&PostParams::default(), &review).await;
    let answer = answer.map_err(Error::when("ask what this user may do"))?;
    Ok(answer.status.is_some_and(|status| status.allowed))
}

/// For people: one entry for each sort of object, with its verbs.
pub(super) fn name(rights: &[Right]) -> Vec<String> {
    let mut verbs = BTreeMap::<String, BTreeSet<&str>>::new();
    for right in rights {
        verbs.entry(right.object()).or_default().insert(&right.verb);
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
    fn rights_are_named_by_object_with_all_their_verbs() {
        let rights = [
            Right::new("get", "", "namespaces", None),
            Right::new("create", "", "namespaces", None),
            Right::new("create", "apps", "deployments", Some("n")),
            Right::new("get", "submariner.io", "tenants/status", Some("n")),
        ];
        let named = [
            "create deployments.apps in namespace n",
            "create/get namespaces",
            "get tenants.submariner.io/status in namespace n",
        ];
        assert_eq!(name(&rights), named);
        let own = Right::given(&roles::tenant_admin("n")[..1], Some("n"));
        assert_eq!(name(&own), ["get namespaces n in namespace n"]);
    }
}
