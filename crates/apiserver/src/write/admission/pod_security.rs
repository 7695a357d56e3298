//! PodSecurity: pods must comply with the level that the labels of their namespace set.
//!
//! The labels are those of the namespace in the space of the write; defaults and exemptions are
//! the server's, for all spaces.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Instant;

use insula_admission::pod_security::{
    LABELS, LevelVersion, NamespaceReview, NamespaceWrite, POD_CHECK_TIMEOUT, PodWrite, Review,
    Written, is_evaluated, is_significant_update,
};
use insula_cache::Stored;
use insula_kinds::{Object, core_kind};

use super::Admission;
use super::lifecycle::Lifecycle;
use crate::pipeline::authorize::Caller;
use crate::registry::{Address, Registry, namespace_address};
use crate::request::annotations::AnnotationOwner;
use crate::status::{Result, StatusError};

/// Whether the write is of a pod, of one of its controllers or of a namespace.
pub fn applies(admission: &Admission<'_>) -> bool {
    let kind = admission.address.of();
    admission.caller.is_some() && is_evaluated(&kind.group, &kind.resource, admission.subresource)
}

/// Refuses pods that violate the enforced level and invalid labels of namespaces, and warns.
pub async fn validate(admission: &mut Admission<'_>) -> Result<()> {
    let Some(caller) = admission.caller else {
        return Ok(());
    };
    let (registry, address) = (admission.registry, admission.address);
    if address.kind.is(core_kind("namespaces")) {
        return validate_namespace(admission, caller).await;
    }
    let write = Write {
        registry,
        caller,
        address,
        old: admission.old,
        object: admission.object,
    };
    // The transaction of a create checks that the namespace is the one that was seen. That of a
    // change does not, so the namespace must be current.
    let of_create = admission.lifecycle.as_ref().and_then(Lifecycle::namespace);
    if of_create.is_none() && write.is_significant_update() {
        registry.catch_up().await?;
    }
    let seen = of_create.cloned().or_else(|| write.namespace());
    let mut review = write.review(seen.as_deref())?;
    if review.forbidden.is_some() {
        // The labels in the cache may be outdated.
        registry.catch_up().await?;
        let fresh = write.namespace();
        if fresh.as_ref().map(|it| it.revision) != seen.map(|it| it.revision) {
            review = write.review(fresh.as_deref())?;
        }
    }
    write.conclude(review)
}

/// Evaluates a create again, if the policy of its namespace was changed since.
///
/// # Errors
///
/// If the pod violates the level that is enforced now.
pub fn validate_again(
    registry: &Registry,
    caller: Option<Caller<'_>>,
    address: &Address,
    value: &[u8],
    before: &Lifecycle,
    now: &Lifecycle,
) -> Result<()> {
    let kind = address.of();
    let (Some(caller), Some(before), Some(now)) = (caller, before.namespace(), now.namespace())
    else {
        return Ok(());
    };
    let is_same = |label: &&str| before.label(label) == now.label(label);
    if !is_evaluated(&kind.group, &kind.resource, None) || LABELS.iter().all(is_same) {
        return Ok(());
    }
    let object: Object = serde_json::from_slice(value).map_err(StatusError::internal)?;
    let write = Write {
        registry,
        caller,
        address,
        old: None,
        object: &object,
    };
    let review = write.review(Some(now))?;
    write.conclude(review)
}

/// A write of a pod or of one of its controllers.
struct Write<'a> {
    registry: &'a Registry,
    caller: Caller<'a>,
    address: &'a Address,
    old: Option<&'a Object>,
    object: &'a Object,
}

impl Write<'_> {
    fn namespace(&self) -> Option<Arc<Stored>> {
        let name = self.address.namespace.as_deref()?;
        let address = namespace_address(&self.address.space, name);
        self.registry.cached(&address)
    }

    /// Whether the write changes what a pod may do.
    fn is_significant_update(&self) -> bool {
        let is_pod = self.address.kind.is(core_kind("pods"));
        let is_significant = |old| is_significant_update(old, self.object);
        is_pod && self.old.is_some_and(is_significant)
    }

    fn review(&self, namespace: Option<&Stored>) -> Result<Review> {
        let kind = self.address.of();
        let Some(namespace) = namespace else {
            let name = self.address.namespace.as_deref().unwrap_or_default();
            let why = format!("failed to lookup namespace \"{name}\"");
            return Err(StatusError::internal(why));
        };
        let written = match self.address.kind.is(core_kind("pods")) {
            true => Written::Pod {
                old: self.old,
                new: self.object,
            },
            false => Written::Controller {
                group: &kind.group,
                resource: &kind.resource,
                object: self.object,
            },
        };
        let write = PodWrite {
            namespace: namespace.name(),
            username: &self.caller.principal().user,
            written,
        };
        let plugin = self.registry.pod_security();
        Ok(plugin.review(&write, |label| namespace.label(label)))
    }

    /// Adds warnings and audit annotations to the request, and returns the refusal, if any.
    fn conclude(&self, review: Review) -> Result<()> {
        let context = self.caller.context;
        context.warn(review.warnings);
        let annotations = review.annotations.into_iter();
        let annotations = annotations.map(|(key, value)| (key.to_owned(), value));
        context.annotate(AnnotationOwner::Server, annotations);
        let refuse = |why: String| {
            let (kind, name) = (self.address.of(), &self.address.name);
            Err(StatusError::not_allowed(kind, name, &why))
        };
        review.forbidden.map_or(Ok(()), refuse)
    }
}

async fn validate_namespace(admission: &Admission<'_>, caller: Caller<'_>) -> Result<()> {
    let address = admission.address;
    let plugin = admission.registry.pod_security();
    let reviewed = plugin.review_namespace(&NamespaceWrite {
        name: &address.name,
        old: admission.old,
        new: admission.object,
    });
    match reviewed {
        NamespaceReview::Accepted(warning) => caller.context.warn(warning),
        NamespaceReview::CheckPods(level) => {
            let check = || check_existing_pods(admission.registry, address, level);
            let warnings = caller.context.cpu_bound(check).await?;
            caller.context.warn(warnings);
        }
        NamespaceReview::Invalid(errors) => {
            return Err(StatusError::invalid(address.of(), &address.name, &errors));
        }
    }
    Ok(())
}

fn check_existing_pods(registry: &Registry, address: &Address, level: LevelVersion) -> Vec<String> {
    let Some(pods) = registry.cache().find(core_kind("pods"), &address.space) else {
        return Vec::new();
    };
    let pods = pods.snapshot(&format!("{}/", address.name), None).objects;
    let start = Instant::now();
    registry.pod_security().review_existing_pods(
        &address.name,
        level,
        &pods,
        |pod| match pod.body() {
            Cow::Borrowed(body) => Cow::Borrowed(&body[..]),
            Cow::Owned(body) => Cow::Owned(body.to_vec()),
        },
        || start.elapsed() > POD_CHECK_TIMEOUT,
    )
}
