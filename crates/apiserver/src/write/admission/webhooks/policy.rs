//! Policies, asked about a request.

use std::sync::Arc;

use insula_admission::Context;
use insula_admission::policy::{Binding, Params, Policy, PolicyDecision};
use insula_core::Space;
use insula_kinds::{Object, kinds};

use super::authorizer::Decider;
use super::version::{Equivalents, Versions};
use super::{Act, Frame};
use crate::registry::Address;
use crate::registry::resource::Resource;
use crate::status::{Result, StatusError};
use crate::write::rules;
use insula_cache::Stored;

/// Asks all policies.
///
/// # Errors
///
/// If one of them refuses the request.
pub(super) async fn judge(act: &Act<'_>, frame: &Frame, versions: &Versions<'_>) -> Result<()> {
    let mut judgement = PolicyDecision::default();
    for (owner, configured) in act.owners() {
        let theirs = owner != act.address.space;
        for (policy, bindings) in configured.policies().active() {
            if theirs && !policy.admits_tenants {
                continue;
            }
            let asked = Asked {
                act,
                frame,
                versions,
                owner: &owner,
                policy,
            };
            asked.judge(&bindings, &mut judgement).await?;
        }
    }
    let context = act.by.context;
    context.warn(judgement.warnings);
    context.annotate(judgement.annotations);
    let refusal = judgement.refusal.map(StatusError::not_admitted);
    refusal.map_or(Ok(()), Err)
}

/// A policy that is asked.
struct Asked<'a> {
    act: &'a Act<'a>,
    frame: &'a Frame,
    versions: &'a Versions<'a>,
    owner: &'a Space,
    policy: &'a Policy,
}

impl Asked<'_> {
    async fn judge(
        &self,
        bindings: &[&Arc<Binding>],
        judgement: &mut PolicyDecision,
    ) -> Result<()> {
        let request = self.act.request(self.frame);
        let subject = self.versions.judged();
        let namespace = self.frame.namespace.as_ref();
        let served = Equivalents::of(self.act);
        let matched = self.policy.matches(&request, subject, namespace, &served);
        let target = match matched {
            Ok(Some(target)) => target,
            Ok(None) => return Ok(()),
            Err(error) => {
                let why = &error.message;
                judgement.record_misconfiguration(&request, subject, self.policy, None, why);
                return Ok(());
            }
        };
        let shown = self.versions.shown(&target).await?;
        let authorizer = Decider(self.act);
        let context = Context::new(&request, &target, shown.subject(), namespace, &authorizer);
        for binding in bindings {
            let found = match binding.matches(&request, subject, namespace, &served) {
                Ok(false) => continue,
                Ok(true) => self.params(binding).await?,
                Err(error) => Err(error.message),
            };
            match found {
                Ok(params) => {
                    for params in params {
                        judgement.evaluate(self.policy, binding, &context, params.as_ref());
                        // Others have waited long enough.
                        tokio::task::yield_now().await;
                    }
                }
                Err(why) => {
                    let (policy, binding) = (self.policy, Some(&***binding));
                    judgement.record_misconfiguration(&request, subject, policy, binding, &why);
                }
            }
        }
        judgement.finish(self.policy);
        Ok(())
    }

    /// The parameters, one by one; nothing once if there are to be none. They are in the
    /// space of the policy.
    async fn params(&self, binding: &Binding) -> Result<Result<Vec<Option<Object>>, String>> {
        let kind = self.param_kind();
        let request = self.act.request(self.frame);
        let scope = kind.as_ref().map(|kind| kind.scope);
        let wanted = match binding.resolve_params(self.policy, &request, scope) {
            Ok(wanted) => wanted,
            Err(why) => return Ok(Err(why)),
        };
        let (Some(kind), wanted) = (kind, wanted) else {
            return Ok(Ok(vec![None]));
        };
        let registry = self.act.registry;
        let found: Vec<Arc<Stored>> = match wanted {
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
            let mut shown = rules::shown(registry, Some(self.act.by), &kind, object).await?;
            shown.insert("apiVersion".to_owned(), kind.api_version().into());
            shown.insert("kind".to_owned(), kind.kind.as_str().into());
            params.push(Some(shown));
        }
        if params.is_empty()
            && let Err(why) = binding.handle_missing_params()
        {
            return Ok(Err(why));
        }
        Ok(Ok(params))
    }

    fn param_kind(&self) -> Option<Resource> {
        let wanted = self.policy.param_kind.as_ref()?;
        let version = wanted.api_version.as_str();
        let (group, version) = version.split_once('/').unwrap_or(("", version));
        let built_in = kinds().find_by_kind(group, version, &wanted.kind);
        built_in.map(Resource::BuiltIn).or_else(|| {
            let apis = self.act.registry.apis(self.owner)?;
            apis.of_kind(group, version, &wanted.kind)
        })
    }
}

fn labels(object: &Object) -> Option<&Object> {
    object.get("metadata")?.get("labels")?.as_object()
}
