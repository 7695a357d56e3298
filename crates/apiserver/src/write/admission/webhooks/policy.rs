//! Evaluation of admission policies.

use std::sync::Arc;

use insula_admission::Context;
use insula_admission::policy::{Binding, Params, Policy, PolicyDecision};
use insula_core::Space;
use insula_kinds::{Object, kinds};

use super::authorizer::CelAuthorizer;
use super::version::{Equivalents, Versions};
use super::{Attributes, CommonFields};
use crate::registry::Address;
use crate::registry::resource::Resource;
use crate::request::annotations::AnnotationOwner;
use crate::request::context::RequestContext;
use crate::status::{Result, StatusError};
use crate::write::strategy;
use insula_cache::Stored;

/// Evaluates all policies that apply to a request.
///
/// # Errors
///
/// If a policy rejects the request.
pub(super) async fn evaluate(
    attributes: &Attributes<'_>,
    common: &CommonFields,
    versions: &Versions<'_>,
) -> Result<()> {
    let context = attributes.caller.context;
    let mut decision = PolicyDecision::default();
    for (owner, configured) in attributes.configurations() {
        let from_system = owner != attributes.address.space;
        for (policy, bindings) in configured.policies().active() {
            if from_system && !policy.admits_tenants {
                continue;
            }
            let evaluation = PolicyEvaluation {
                attributes,
                common,
                versions,
                owner: &owner,
                policy,
            };
            evaluation.evaluate(&bindings, &mut decision).await?;
            let annotations = std::mem::take(&mut decision.annotations);
            annotate(context, &owner, policy, annotations);
        }
    }
    context.warn(decision.warnings);
    let refusal = decision.refusal.map(StatusError::not_admitted);
    refusal.map_or(Ok(()), Err)
}

/// Adds the annotations of a policy: those of its expressions begin with its name.
fn annotate(
    context: &RequestContext,
    owner: &Space,
    policy: &Policy,
    annotations: Vec<(String, String)>,
) {
    let owner = AnnotationOwner::of(owner);
    let is_configured = |key: &str| {
        let rest = key.strip_prefix(policy.name.as_str());
        rest.is_some_and(|rest| rest.starts_with('/'))
    };
    for (key, value) in annotations {
        match is_configured(&key) {
            true => context.annotate_configured(owner, [(key, value)]),
            false => context.annotate(owner, [(key, value)]),
        }
    }
}

/// The evaluation of one policy.
struct PolicyEvaluation<'a> {
    attributes: &'a Attributes<'a>,
    common: &'a CommonFields,
    versions: &'a Versions<'a>,
    owner: &'a Space,
    policy: &'a Policy,
}

impl PolicyEvaluation<'_> {
    async fn evaluate(
        &self,
        bindings: &[&Arc<Binding>],
        decision: &mut PolicyDecision,
    ) -> Result<()> {
        let request = self.attributes.request(self.common);
        let objects = self.versions.unconverted();
        let namespace = self.common.namespace.as_ref();
        let served = Equivalents::of(self.attributes);
        let matched = self.policy.matches(&request, objects, namespace, &served);
        let target = match matched {
            Ok(Some(target)) => target,
            Ok(None) => return Ok(()),
            Err(error) => {
                let why = &error.message;
                decision.record_misconfiguration(&request, objects, self.policy, None, why);
                return Ok(());
            }
        };
        let converted = self.versions.converted(&target).await?;
        let authorizer = CelAuthorizer(self.attributes);
        let context = Context::new(
            &request,
            &target,
            converted.objects(),
            namespace,
            &authorizer,
        );
        for binding in bindings {
            let found = match binding.matches(&request, objects, namespace, &served) {
                Ok(false) => continue,
                Ok(true) => self.params(binding).await?,
                Err(error) => Err(error.message),
            };
            match found {
                Ok(params) => {
                    for params in params {
                        decision.evaluate(self.policy, binding, &context, params.as_ref());
                        // Expressions may take long: let other tasks run.
                        tokio::task::yield_now().await;
                    }
                }
                Err(why) => {
                    let (policy, binding) = (self.policy, Some(&***binding));
                    decision.record_misconfiguration(&request, objects, policy, binding, &why);
                }
            }
        }
        decision.finish(self.policy);
        Ok(())
    }

    /// Returns the parameters of a binding, which are in the space of the policy; a single `None` if
    /// it has none.
    async fn params(&self, binding: &Binding) -> Result<Result<Vec<Option<Object>>, String>> {
        let kind = self.param_kind();
        let request = self.attributes.request(self.common);
        let scope = kind.as_ref().map(|kind| kind.scope);
        let resolved = match binding.resolve_params(self.policy, &request, scope) {
            Ok(resolved) => resolved,
            Err(why) => return Ok(Err(why)),
        };
        let (Some(kind), resolved) = (kind, resolved) else {
            return Ok(Ok(vec![None]));
        };
        let registry = self.attributes.registry;
        let found: Vec<Arc<Stored>> = match resolved {
            Params::None => return Ok(Ok(vec![None])),
            Params::One { namespace, name } => {
                let address = Address {
                    kind: kind.storage(),
                    space: self.owner.clone(),
                    namespace,
                    name: name.to_owned(),
                };
                registry.cached(&address).into_iter().collect()
            }
            Params::Selected {
                namespace,
                selector,
            } => {
                let all = registry.cache().find(kind.storage(), self.owner);
                let prefix = namespace.map(|name| format!("{name}/")).unwrap_or_default();
                let all = all.map(|all| all.snapshot(&prefix, None).objects);
                let mut all = all.unwrap_or_default();
                all.retain(|object| selector.matches_labels(labels(&object.tree())));
                all
            }
        };
        let mut params = Vec::with_capacity(found.len());
        for object in &found {
            let mut converted = strategy::convert_from_storage(
                registry,
                Some(self.attributes.caller),
                &kind,
                object,
            )
            .await?;
            converted.insert("apiVersion".to_owned(), kind.api_version().into());
            converted.insert("kind".to_owned(), kind.kind.as_str().into());
            params.push(Some(converted));
        }
        if params.is_empty()
            && let Err(why) = binding.handle_missing_params()
        {
            return Ok(Err(why));
        }
        Ok(Ok(params))
    }

    fn param_kind(&self) -> Option<Resource> {
        let param_kind = self.policy.param_kind.as_ref()?;
        let version = param_kind.api_version.as_str();
        let (group, version) = version.split_once('/').unwrap_or(("", version));
        let built_in = kinds().find_by_kind(group, version, &param_kind.kind);
        built_in.map(Resource::BuiltIn).or_else(|| {
            let apis = self.attributes.registry.apis(self.owner)?;
            apis.of_kind(group, version, &param_kind.kind)
        })
    }
}

fn labels(object: &Object) -> Option<&Object> {
    object.get("metadata")?.get("labels")?.as_object()
}
