//! The rights that an operator lacks in the namespaces that it manages.
//!
//! Without this report, an operator without its RoleBinding would repeat forbidden requests and not
//! say why.

use std::collections::BTreeSet;
use std::fmt;
use std::time::Duration;

use k8s_openapi::api::authorization::v1::{
    ResourceAttributes, SelfSubjectAccessReview, SelfSubjectAccessReviewSpec,
};
use kube::api::PostParams;
use kube::{Api, Client};
use tracing::{info, warn};

use super::served::ServedKinds;
use crate::roles::{MANAGER, MANAGER_BINDING};

/// How often missing rights are looked for while there are some.
const CHECK_INTERVAL: Duration = Duration::from_secs(30);
/// How many rights a message lists.
const MAX_LISTED: usize = 5;

/// A namespace in which an operator lacks rights.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MissingRights {
    /// The namespace.
    pub namespace: String,
    /// The rights, such as `list secrets`.
    pub rights: Vec<String>,
}

impl fmt::Display for MissingRights {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown: Vec<_> = self.rights.iter().take(MAX_LISTED).cloned().collect();
        write!(
            out,
            "namespace {}: the operator may not {}",
            self.namespace,
            shown.join(", ")
        )?;
        match self.rights.len().saturating_sub(MAX_LISTED) {
            0 => {}
            more => write!(out, " and {more} more")?,
        }
        write!(
            out,
            ": create RoleBinding {MANAGER_BINDING} to ClusterRole {MANAGER} there"
        )
    }
}

/// Returns the namespaces in which the operator lacks rights that it needs to begin.
///
/// # Errors
///
/// If a request fails.
pub async fn find(
    client: &Client,
    namespaces: &BTreeSet<String>,
    kinds: &ServedKinds,
) -> Result<Vec<MissingRights>, kube::Error> {
    let core = [
        ("get", "", "namespaces"),
        ("list", "", "secrets"),
        ("list", "", "configmaps"),
    ];
    let kinds = kinds.iter().map(|served| {
        let kind = served.kind;
        ("list", kind.group(), kind.plural())
    });
    let asked: Vec<_> = core.into_iter().chain(kinds).collect();
    let mut missing = Vec::new();
    for namespace in namespaces {
        let mut rights = Vec::new();
        for (verb, group, resource) in &asked {
            if !may(client, namespace, verb, group, resource).await? {
                let dot = if group.is_empty() { "" } else { "." };
                rights.push(format!("{verb} {resource}{dot}{group}"));
            }
        }
        if !rights.is_empty() {
            let namespace = namespace.clone();
            missing.push(MissingRights { namespace, rights });
        }
    }
    Ok(missing)
}

/// Reports missing rights until there are none.
pub async fn report(client: Client, namespaces: BTreeSet<String>) {
    let mut reported = Vec::new();
    // Without namespaces, a ClusterRoleBinding gives all rights.
    while !namespaces.is_empty() {
        let missing = match ServedKinds::discover(&client).await {
            Ok(kinds) => find(&client, &namespaces, &kinds).await,
            Err(error) => Err(error),
        };
        match missing {
            Ok(missing) if missing.is_empty() => {
                if !reported.is_empty() {
                    info!("missing rights granted");
                }
                return;
            }
            Ok(missing) if missing != reported => {
                for one in &missing {
                    warn!(namespace = one.namespace, why = %one, "rights missing");
                }
                reported = missing;
            }
            Ok(_) => {}
            Err(error) => warn!(%error, "rights not checked"),
        }
        tokio::time::sleep(CHECK_INTERVAL).await;
    }
}

async fn may(
    client: &Client,
    namespace: &str,
    verb: &str,
    group: &str,
    resource: &str,
) -> Result<bool, kube::Error> {
    let reviews: Api<SelfSubjectAccessReview> = Api::all(client.clone());
    let text = |text: &str| Some(text.to_owned());
    let review = SelfSubjectAccessReview {
        spec: SelfSubjectAccessReviewSpec {
            resource_attributes: Some(ResourceAttributes {
                namespace: text(namespace),
                verb: text(verb),
                group: text(group),
                resource: text(resource),
                // The name of a namespace is the namespace itself.
                name: (resource == "namespaces").then(|| namespace.to_owned()),
                ..ResourceAttributes::default()
            }),
            ..SelfSubjectAccessReviewSpec::default()
        },
        ..SelfSubjectAccessReview::default()
    };
    let review = reviews.create(&PostParams::default(), &review).await?;
    Ok(review.status.is_some_and(|status| status.allowed))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn r14_message_names_the_namespace_the_rights_and_the_binding() {
        let rights = ["list secrets", "b", "c", "d", "e", "f", "g"];
        let missing = MissingRights {
            namespace: "a1".to_owned(),
            rights: rights.map(str::to_owned).to_vec(),
        };
        assert_eq!(
            missing.to_string(),
            "namespace a1: the operator may not list secrets, b, c, d, e and 2 more: create \
             RoleBinding azureoperator-manager-rolebinding to ClusterRole \
             azureoperator-manager-role there"
        );
    }
}
