//! Whether tenants can have spaces of their own.

use k8s_openapi::api::authorization::v1::{
    ResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec,
};
use kube::api::PostParams;
use kube::{Api, Client};

use crate::error::Error;
use crate::mode;
use crate::names::AXON;

/// Checks that the server has spaces and that the operator may create them. Otherwise the
/// operator would only report that it cannot provision the tenant.
///
/// # Errors
///
/// [`Error::NoSpaces`]; any error of the server.
pub(super) async fn check(client: &Client) -> Result<(), Error> {
    if !mode::has_spaces(client).await? {
        return Err(Error::NoSpaces { is_served: false });
    }
    match may_operator_create(client).await? {
        Some(false) => Err(Error::NoSpaces { is_served: true }),
        Some(true) | None => Ok(()),
    }
}

/// Returns whether the operator may create spaces; `None` if the caller may not ask, as an
/// axon-admin.
async fn may_operator_create(client: &Client) -> Result<Option<bool>, Error> {
    let reviews: Api<SubjectAccessReview> = Api::all(client.clone());
    let groups = [
        "system:serviceaccounts".to_owned(),
        format!("system:serviceaccounts:{AXON}"),
        "system:authenticated".to_owned(),
    ];
    let review = SubjectAccessReview {
        spec: SubjectAccessReviewSpec {
            user: Some(format!("system:serviceaccount:{AXON}:{AXON}")),
            groups: Some(groups.into()),
            resource_attributes: Some(ResourceAttributes {
                verb: Some("create".to_owned()),
                resource: Some("tenants".to_owned()),
                ..ResourceAttributes::default()
            }),
            ..SubjectAccessReviewSpec::default()
        },
        ..SubjectAccessReview::default()
    };
    match reviews.create(&PostParams::default(), &review).await {
        Err(kube::Error::Api(status)) if status.is_forbidden() => Ok(None),
        answer => {
            let answer = answer.map_err(Error::when("ask what the operator may do"))?;
            Ok(Some(answer.status.is_some_and(|status| status.allowed)))
        }
    }
}
