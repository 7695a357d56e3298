//! The rights that the user of a kubeconfig needs where the hosts are.

use futures_util::future::try_join_all;
use insula_identity::reason::Reason;
use insula_identity::session::LoginError;
use insula_operator::roles::{CORE, rights, rule};
use k8s_openapi::api::authorization::v1::{
    ResourceAttributes, SelfSubjectAccessReview, SelfSubjectAccessReviewSpec,
};
use k8s_openapi::api::rbac::v1::PolicyRule;
use kube::api::PostParams;
use kube::{Api, Client};

use crate::names::HOST_GROUP;

/// Returns the rights in the namespace of the hosts: enough, and no more.
pub fn host_access() -> Vec<PolicyRule> {
    vec![
        rule(
            HOST_GROUP,
            &["baremetalhosts"],
            &["get", "list", "watch", "patch"],
        ),
        rule(CORE, &["secrets"], &["get", "create", "patch", "delete"]),
    ]
}

/// Checks that the user has these rights. A server that does not answer the question counts as
/// one that permits it: the requests themselves will tell.
pub(super) async fn check(client: &Client, namespace: &str) -> Result<(), LoginError> {
    let reviews: Api<SelfSubjectAccessReview> = Api::all(client.clone());
    let needed = rights(&host_access());
    let questions = needed.iter().map(|right| {
        let reviews = &reviews;
        async move {
            let question = SelfSubjectAccessReview {
                spec: SelfSubjectAccessReviewSpec {
                    resource_attributes: Some(ResourceAttributes {
                        group: Some(right.group.clone()),
                        resource: Some(right.resource.clone()),
                        verb: Some(right.verb.clone()),
                        namespace: Some(namespace.to_owned()),
                        ..ResourceAttributes::default()
                    }),
                    ..SelfSubjectAccessReviewSpec::default()
                },
                ..SelfSubjectAccessReview::default()
            };
            let answer = reviews.create(&PostParams::default(), &question).await?;
            let is_allowed = answer.status.is_none_or(|status| status.allowed);
            Ok::<_, kube::Error>((!is_allowed).then_some(right))
        }
    });
    let Ok(answers) = try_join_all(questions).await else {
        return Ok(());
    };
    let missing = answers.into_iter().flatten();
    let missing: Vec<_> = missing
        .map(|right| format!("{} {}", right.verb, right.resource))
        .collect();
    match missing.is_empty() {
        true => Ok(()),
        false => Err(forbidden(namespace, &missing.join(", "))),
    }
}

/// Returns the error of a user without some rights.
pub(super) fn forbidden(namespace: &str, missing: &str) -> LoginError {
    LoginError {
        reason: Reason::Forbidden,
        message: format!(
            "the kubeconfig's user may not {missing} in namespace {namespace}: apply the output \
             of `insula operator metal3 manifests --host-access {namespace}` there"
        ),
        answered: true,
    }
}
