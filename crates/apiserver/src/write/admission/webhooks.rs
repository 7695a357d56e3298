//! Webhooks and policies: those that a space configures for itself, and those of the system
//! that apply to all spaces.
//!
//! A space's own see the writes in that space only. The server's own writes, such as deleting
//! the content of a namespace or a tenant, call none: otherwise a tenant could block its own
//! deletion, and delay that of other tenants with slow responses.

mod authorizer;
mod configuration;
mod policy;
mod review;
mod steps;
mod version;

use std::sync::Arc;

use bytes::Bytes;
use futures_util::future::join_all;
use insula_admission::review::{Answer, Mode, Review};
use insula_admission::webhook::{Failure, Rounds, Webhook};
use insula_admission::{
    Context, GroupVersionKind, GroupVersionResource, Operation, Request, Target, UserInfo,
    VersionedObjects,
};
use insula_core::Space;
use insula_kinds::{Kind, Object, Value};
use serde_json::json;

pub use configuration::AdmissionConfiguration;
pub use steps::{are_configured, mutate_object, validate_object};

use super::certificate_requester::insula_extra;
use crate::egress::{Call, MAX_RESPONSE_BYTES};
use crate::log_interval::LogInterval;
use crate::pipeline::authorize::Caller;
use crate::registry::resource::Resource;
use crate::registry::{Address, Registry, namespace_address};
use crate::request::annotations::AnnotationOwner;
use crate::status::{Result, StatusError};
use authorizer::CelAuthorizer;
use insula_kinds::core_kind;
use review::review;
use version::{Equivalents, Versions};

/// The admission attributes of a request, as in Kubernetes.
#[derive(Clone, Copy)]
pub struct Attributes<'a> {
    /// The objects of all spaces.
    pub registry: &'a Registry,
    /// The caller.
    pub caller: Caller<'a>,
    /// The resource in the version of the request.
    pub kind: &'a Resource,
    /// The object, which may have no name yet.
    pub address: &'a Address,
    /// The name in the request; empty if it deletes a collection.
    pub name: &'a str,
    /// The subresource that is written, if any.
    pub subresource: Option<&'a str>,
    /// The operation.
    pub operation: Operation,
    /// Whether the request is a dry run.
    pub dry_run: bool,
    /// The options of a delete.
    pub options: Option<&'a Object>,
    /// The kind of the body, if it is not that of the object.
    pub body: Option<BodyKind>,
}

/// The kind of a body that is written to a subresource and is not its object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BodyKind {
    /// Its group.
    pub group: &'static str,
    /// Its version.
    pub version: &'static str,
    /// Its kind.
    pub kind: &'static str,
}

impl BodyKind {
    /// The body of `scale`.
    pub const SCALE: Self = Self::new("autoscaling", "v1", "Scale");

    /// The body of `eviction`.
    pub const EVICTION: Self = Self::new("policy", "v1", "Eviction");

    /// The body of `binding`.
    pub const BINDING: Self = Self::new("", "v1", "Binding");

    /// The body of `token`.
    pub const TOKEN: Self = Self::new("authentication.k8s.io", "v1", "TokenRequest");

    const fn new(group: &'static str, version: &'static str, kind: &'static str) -> Self {
        Self {
            group,
            version,
            kind,
        }
    }
}

/// A webhook, and the space that configures it.
struct Hook {
    owner: Space,
    webhook: Arc<Webhook>,
}

impl Hook {
    /// Returns the owner of the annotations about the webhook.
    const fn annotates_as(&self) -> AnnotationOwner {
        AnnotationOwner::of(&self.owner)
    }

    /// Logs a failure that is ignored. Those of a tenant's webhook are the tenant's to see, in its
    /// audit events.
    fn log_ignored(&self, why: &str) {
        let (space, webhook) = (&self.owner, &*self.webhook.name);
        if !space.is_system() {
            tracing::debug!(%space, webhook, why, "webhook failure ignored");
            return;
        }
        let now = jiff::Timestamp::now().as_second();
        if let Some(suppressed) = IGNORED_FAILURES.next(now) {
            tracing::warn!(webhook, why, suppressed, "webhook failure ignored");
        }
    }
}

/// The log of ignored failures of the system's webhooks.
static IGNORED_FAILURES: LogInterval = LogInterval::new();

/// The fields of an admission request that are the same for every webhook and policy.
struct CommonFields {
    user: UserInfo,
    target: Target,
    namespace: Option<Object>,
    options: Value,
}

/// Calls the mutating webhooks for an object, which is in the version that is validated. Returns
/// whether they changed it.
///
/// # Errors
///
/// If a webhook or policy rejects the request, or a required webhook fails.
pub async fn mutate(
    attributes: &Attributes<'_>,
    object: Option<&mut Object>,
    old: Option<&Object>,
) -> Result<bool> {
    let hooks = attributes.hooks(Mode::Mutating);
    if hooks.is_empty() {
        return Ok(false);
    }
    let common = attributes.common_fields();
    let mut versions = Versions::new(attributes, object.as_deref(), old);
    let mut rounds = Rounds::default();
    let mut changed = false;
    loop {
        for (index, hook) in hooks.iter().enumerate() {
            let Some(target) = attributes.matches(hook, &common, &versions)? else {
                continue;
            };
            if !rounds.includes(index) {
                continue;
            }
            let Some(mutated) = attributes
                .call_mutating(hook, &common, &target, &mut versions, &rounds, index)
                .await?
            else {
                continue;
            };
            rounds.record_call(index, hook.webhook.reinvoked, mutated);
            changed |= mutated;
        }
        if !rounds.start_second() {
            break;
        }
    }
    if let (true, Some(object), Some(mutated)) = (changed, object, versions.into_object()) {
        *object = mutated;
    }
    Ok(changed)
}

/// Calls all webhooks and policies for the body of a subresource, which is not stored.
///
/// # Errors
///
/// If a webhook or policy rejects the request, or a required webhook fails.
pub async fn admit(attributes: &Attributes<'_>, body: &mut Object) -> Result<()> {
    mutate(attributes, Some(body), None).await?;
    validate(attributes, Some(body), None).await
}

/// Evaluates policies and calls the validating webhooks.
///
/// # Errors
///
/// If a webhook or policy rejects the request, or a required webhook fails.
pub async fn validate(
    attributes: &Attributes<'_>,
    object: Option<&Object>,
    old: Option<&Object>,
) -> Result<()> {
    if !attributes.has_configurations() {
        return Ok(());
    }
    let common = attributes.common_fields();
    let versions = Versions::new(attributes, object, old);
    policy::evaluate(attributes, &common, &versions).await?;
    let hooks = attributes.hooks(Mode::Validating);
    let mut reviews = Vec::new();
    for hook in &hooks {
        let Some(target) = attributes.matches(hook, &common, &versions)? else {
            continue;
        };
        let converted = versions.converted(&target).await?;
        let request = attributes.request(&common);
        if !matches_conditions(
            attributes,
            hook,
            &common,
            &request,
            &target,
            converted.objects(),
        )? {
            continue;
        }
        let mode = Mode::Validating;
        reviews.push((
            hook,
            review(
                attributes,
                hook,
                mode,
                &request,
                &target,
                converted.objects(),
            ),
        ));
    }
    if reviews.is_empty() {
        return Ok(());
    }
    let calls = reviews.iter().map(|(hook, review)| async move {
        let review = review.as_ref().map_err(Clone::clone)?;
        attributes.call(hook, review).await
    });
    let answers = attributes
        .caller
        .context
        .without_seat(join_all(calls))
        .await?;
    let mut rejected = None;
    for (index, ((hook, _), answer)) in reviews.iter().zip(answers).enumerate() {
        let recorded = attributes.record_answer(hook, Mode::Validating, 0, index, answer);
        if let Err(first) = recorded {
            rejected.get_or_insert(first);
        }
    }
    rejected.map_or(Ok(()), Err)
}

impl<'a> Attributes<'a> {
    /// Returns the attributes of an operation on an object.
    pub fn new(
        registry: &'a Registry,
        caller: Caller<'a>,
        operation: Operation,
        kind: &'a Resource,
        address: &'a Address,
    ) -> Self {
        Self {
            registry,
            caller,
            kind,
            address,
            name: &address.name,
            subresource: None,
            operation,
            dry_run: false,
            options: None,
            body: None,
        }
    }

    /// Returns the attributes for the body of a subresource.
    #[must_use]
    pub fn for_subresource(self, subresource: &'a str, body: BodyKind, dry_run: bool) -> Self {
        Self {
            subresource: Some(subresource),
            body: Some(body),
            dry_run,
            ..self
        }
    }

    /// Whether any webhook or policy is configured for the space.
    pub fn has_configurations(&self) -> bool {
        !self.configurations().is_empty()
    }

    /// Returns the configurations that apply, in order: that of the system, then the space's own.
    fn configurations(&self) -> Vec<(Space, Arc<AdmissionConfiguration>)> {
        let space = &self.address.space;
        let systems = (!space.is_system()).then_some(Space::System);
        let configurations = systems.into_iter().chain([space.clone()]);
        let configured = configurations.filter_map(|owner| {
            let configured = self.registry.admission(&owner)?;
            (!configured.is_empty()).then_some((owner, configured))
        });
        configured.collect()
    }

    /// Returns every webhook that may be called, in order.
    fn hooks(&self, mode: Mode) -> Vec<Hook> {
        let mut hooks = Vec::new();
        for (owner, configured) in self.configurations() {
            let from_system = owner != self.address.space;
            for one in configured.webhooks(mode).configurations() {
                if from_system && !one.admits_tenants {
                    continue;
                }
                hooks.extend(one.webhooks.iter().map(|webhook| Hook {
                    owner: owner.clone(),
                    webhook: Arc::clone(webhook),
                }));
            }
        }
        hooks
    }

    fn common_fields(&self) -> CommonFields {
        let principal = self.caller.principal();
        let within = self.address.namespace.as_deref();
        let of_namespaces = self.address.kind.is(core_kind("namespaces"));
        let namespace = match within {
            None if of_namespaces => Some(self.address.name.as_str()),
            within => within,
        };
        let namespace = namespace.and_then(|name| {
            let address = namespace_address(&self.address.space, name);
            self.registry.cached(&address)
        });
        CommonFields {
            user: UserInfo {
                username: principal.user.clone(),
                uid: principal.uid.clone().unwrap_or_default(),
                groups: principal.groups.clone(),
                extra: insula_extra(principal),
            },
            target: self.target(),
            namespace: namespace.map(|namespace| namespace.tree()),
            options: self.options(),
        }
    }

    fn target(&self) -> Target {
        let mut target = target_of(self.kind);
        if let Some(body) = self.body {
            target.kind = GroupVersionKind {
                group: body.group.to_owned(),
                version: body.version.to_owned(),
                kind: body.kind.to_owned(),
            };
        }
        target
    }

    fn options(&self) -> Value {
        let kind = match self.operation {
            Operation::Create => "CreateOptions",
            Operation::Update => "UpdateOptions",
            Operation::Delete => "DeleteOptions",
            Operation::Connect => "ConnectOptions",
        };
        let mut options = json!({"kind": kind, "apiVersion": "meta.k8s.io/v1"});
        if let Some(given) = self.options {
            for (member, value) in given {
                options[member] = value.clone();
            }
            return options;
        }
        let context = self.caller.context;
        let (manager, validation) = (context.requested_manager(), context.field_validation());
        for (member, value) in [("fieldManager", manager), ("fieldValidation", validation)] {
            if let Some(value) = value {
                options[member] = value.into();
            }
        }
        if self.dry_run {
            options["dryRun"] = json!(["All"]);
        }
        options
    }

    fn request<'f>(&'f self, common: &'f CommonFields) -> Request<'f> {
        // As in Kubernetes, the namespace of a namespace is itself.
        let namespace = match &self.address.namespace {
            Some(namespace) => namespace.as_str(),
            None if self.address.kind.is(core_kind("namespaces")) => &self.address.name,
            None => "",
        };
        Request {
            operation: self.operation,
            target: common.target.clone(),
            subresource: self.subresource.unwrap_or_default(),
            name: self.name,
            namespace,
            user: &common.user,
            dry_run: self.dry_run,
            options: Some(&common.options),
        }
    }

    fn matches(
        &self,
        hook: &Hook,
        common: &CommonFields,
        versions: &Versions<'_>,
    ) -> Result<Option<Target>> {
        let request = self.request(common);
        let served = Equivalents::of(self);
        let namespace = common.namespace.as_ref();
        let matched = hook
            .webhook
            .matches(&request, versions.unconverted(), namespace, &served);
        matched.map_err(StatusError::not_admitted)
    }

    /// Calls a mutating webhook. Returns whether it changed the object, or `None` if its conditions
    /// do not match.
    async fn call_mutating(
        &self,
        hook: &Hook,
        common: &CommonFields,
        target: &Target,
        versions: &mut Versions<'_>,
        rounds: &Rounds,
        index: usize,
    ) -> Result<Option<bool>> {
        let converted = versions.converted(target).await?;
        let request = self.request(common);
        if !matches_conditions(self, hook, common, &request, target, converted.objects())? {
            return Ok(None);
        }
        let mode = Mode::Mutating;
        let review = review(self, hook, mode, &request, target, converted.objects());
        let answer = match &review {
            Ok(review) => {
                self.caller
                    .context
                    .without_seat(self.call(hook, review))
                    .await?
            }
            Err(failure) => Err(failure.clone()),
        };
        let round = rounds.round();
        let answer = self.record_answer(hook, Mode::Mutating, round, index, answer);
        let mutated = match answer {
            Ok(Some(Answer {
                patch: Some(patch), ..
            })) => {
                let mut tree = converted.object().cloned().map(Value::Object);
                match patch.apply(&hook.webhook, &mut tree) {
                    Ok(true) => versions.set_patched(target, tree.unwrap_or_default()).await,
                    Ok(false) => Ok(false),
                    Err(failure) => {
                        let recorded =
                            self.record_answer(hook, Mode::Mutating, round, index, Err(failure));
                        recorded.map(|_| false)
                    }
                }
            }
            Ok(_) => Ok(false),
            Err(error) => Err(error),
        };
        let annotation = json!({
            "configuration": hook.webhook.configuration,
            "webhook": hook.webhook.name,
            "mutated": matches!(mutated, Ok(true)),
        });
        let key = format!("mutation.webhook.admission.k8s.io/round_{round}_index_{index}");
        self.caller
            .context
            .annotate(hook.annotates_as(), [(key, annotation.to_string())]);
        mutated.map(Some)
    }

    async fn call(&self, hook: &Hook, review: &Review) -> Result<Answer, Failure> {
        let call = Call {
            space: &hook.owner,
            object_space: Some(&self.address.space),
            client: &hook.webhook.client,
            body: Bytes::from(review.body.clone()),
            timeout: hook.webhook.timeout,
            max_bytes: MAX_RESPONSE_BYTES,
        };
        let answer = self
            .registry
            .egress()
            .post(&**self.registry.cache(), call)
            .await;
        let answer = answer.map_err(|error| hook.webhook.call_failure(&error.to_string()))?;
        review.read(&hook.webhook, &answer)
    }

    /// Records the warnings and annotations of an answer. Returns `None` if the call failed and the
    /// failure is ignored.
    fn record_answer(
        &self,
        hook: &Hook,
        mode: Mode,
        round: u8,
        index: usize,
        answer: Result<Answer, Failure>,
    ) -> Result<Option<Answer>> {
        let context = self.caller.context;
        match answer {
            Ok(mut answer) => {
                context.warn(std::mem::take(&mut answer.warnings));
                let annotations = std::mem::take(&mut answer.annotations);
                context.annotate_configured(hook.annotates_as(), annotations);
                match answer.refusal.take() {
                    Some(refusal) => Err(StatusError::not_admitted(refusal)),
                    None => Ok(Some(answer)),
                }
            }
            Err(Failure::Refused(refusal)) => Err(StatusError::not_admitted(refusal)),
            Err(Failure::Ignored(why)) => {
                hook.log_ignored(&why);
                let key = format!(
                    "failed-open.{}.webhook.admission.k8s.io/round_{round}_index_{index}",
                    mode.as_str()
                );
                let name = hook.webhook.name.clone();
                context.annotate(hook.annotates_as(), [(key, name)]);
                Ok(None)
            }
        }
    }
}

/// Whether the match conditions of a webhook hold.
fn matches_conditions(
    attributes: &Attributes<'_>,
    hook: &Hook,
    common: &CommonFields,
    request: &Request<'_>,
    target: &Target,
    objects: VersionedObjects<'_>,
) -> Result<bool> {
    if !hook.webhook.has_conditions() {
        return Ok(true);
    }
    let authorizer = CelAuthorizer(attributes);
    let namespace = common.namespace.as_ref();
    let context = Context::new(request, target, objects, namespace, &authorizer);
    hook.webhook
        .applies(&context)
        .map_err(StatusError::not_admitted)
}

/// Returns the kind as an admission target.
fn target_of(kind: &Kind) -> Target {
    Target {
        resource: GroupVersionResource {
            group: kind.group.clone(),
            version: kind.version.clone(),
            resource: kind.resource.clone(),
        },
        kind: GroupVersionKind {
            group: kind.group.clone(),
            version: kind.version.clone(),
            kind: kind.kind.clone(),
        },
    }
}
