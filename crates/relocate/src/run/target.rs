//! Whether the target can take the moved objects.

use std::collections::BTreeSet;
use std::collections::btree_map::{BTreeMap, Entry};

use insula_capi::relocation::Unsuitable;
use k8s_openapi::api::core::v1::Secret;
use kube::Api;
use kube::api::{ListParams, ObjectMeta};

use super::Move;
use crate::error::Error;
use crate::kind::Kind;
use crate::names::ORIGIN;
use crate::observe::Observed;
use crate::plan::{Disposition, Node, Step};

impl Move<'_> {
    /// Fails if the target does not serve a kind in the version that the source stores.
    pub(super) fn ensure_kinds_served(
        &self,
        found: &Observed,
        steps: &[Step],
    ) -> Result<(), Error> {
        let kinds = steps.iter().map(|step| &found.objects[step.at].kind);
        let lacks = kinds.filter(|kind| !self.target_serves(kind));
        let names = lacks.map(|kind| {
            let resource = &kind.resource;
            format!("{} in {}", resource.kind, resource.api_version)
        });
        let names: BTreeSet<String> = names.collect();
        match names.is_empty() {
            true => Ok(()),
            false => Err(Error::KindsNotServed(names.into_iter().collect())),
        }
    }

    fn target_serves(&self, kind: &Kind) -> bool {
        let same = |other: &&Kind| {
            other.resource.group == kind.resource.group
                && other.resource.plural == kind.resource.plural
        };
        kind.resource.group.is_empty()
            || self.target.kinds.iter().find(same).is_some_and(|other| {
                other.namespaced == kind.namespaced && other.served.contains(&kind.resource.version)
            })
    }

    /// Fails if the target has an object of a moved one's name that is no copy of it, or if a copy
    /// is being deleted there.
    pub(super) async fn ensure_names_free(
        &self,
        found: &Observed,
        steps: &[Step],
    ) -> Result<(), Error> {
        let (mut taken, mut terminating) = (Vec::new(), Vec::new());
        let mut looked: BTreeMap<(&str, &str, Option<&str>), Vec<ObjectMeta>> = BTreeMap::new();
        for step in steps {
            let (node, kind) = (&found.nodes[step.at], &found.objects[step.at].kind);
            let (group, plural) = (&kind.resource.group, &kind.resource.plural);
            let there = match looked.entry((group, plural, node.namespace.as_deref())) {
                Entry::Occupied(had) => had.into_mut(),
                Entry::Vacant(lacks) => lacks.insert(self.list_at_target(node, kind).await?),
            };
            let is_it = |there: &&ObjectMeta| there.name.as_ref() == Some(&node.name);
            let Some(there) = there.iter().find(is_it) else {
                continue;
            };
            let origin = there.annotations.as_ref().and_then(|all| all.get(ORIGIN));
            if step.disposition == Disposition::Move && origin != Some(&node.uid) {
                taken.push(node.to_string());
            } else if there.deletion_timestamp.is_some() {
                terminating.push(node.to_string());
            }
        }
        match (taken.is_empty(), terminating.is_empty()) {
            (true, true) => Ok(()),
            (_, false) => Err(Error::CopyTerminating(terminating)),
            (false, _) => Err(Error::NameTaken(taken)),
        }
    }

    /// Lists the objects of a kind at the target, in the namespace of an object.
    async fn list_at_target(&self, node: &Node, kind: &Kind) -> Result<Vec<ObjectMeta>, Error> {
        let api = self.target.api(kind, node.namespace.as_deref());
        let attempted = format!("list {} at the target", kind.resource.plural);
        let there = api.list_metadata(&ListParams::default()).await;
        let there = there.map_err(Error::failed_to(attempted))?;
        Ok(there.items.into_iter().map(|one| one.metadata).collect())
    }

    /// Fails if a Secret that moved objects use must not be used at the target; warns if it may be
    /// of no use there. One that the target has already is not replaced, and not checked.
    pub(super) async fn ensure_secrets_suitable(
        &self,
        found: &Observed,
        steps: &[Step],
    ) -> Result<(), Error> {
        let (mut secrets, mut told, mut refused) = (BTreeMap::new(), BTreeSet::new(), Vec::new());
        for step in steps {
            let (node, object) = (&found.nodes[step.at], &found.objects[step.at]);
            for name in &node.used_secrets {
                if !secrets.contains_key(name) {
                    secrets.insert(name.clone(), self.secret_to_copy(name).await?);
                }
                let Some(Some(secret)) = secrets.get(name) else {
                    continue;
                };
                let movable = node.movable(&object.content);
                let providers = self.settings.providers.iter();
                for unsuitable in
                    providers.filter_map(|rules| rules.unsuitable_secret(movable, secret))
                {
                    let namespace = &self.settings.namespace;
                    match unsuitable {
                        Unsuitable::Refused(text) => {
                            refused.push(format!("Secret {namespace}/{name} {text}"));
                        }
                        Unsuitable::Doubtful(text) => {
                            told.insert(format!("Secret {namespace}/{name} {text}"));
                        }
                    }
                }
            }
        }
        told.iter().for_each(|text| self.report.warn(text));
        refused.sort();
        refused.dedup();
        match refused.is_empty() {
            true => Ok(()),
            false => Err(Error::NotMovable(refused)),
        }
    }

    /// Returns a Secret of the source, if the target has none of its name.
    async fn secret_to_copy(&self, name: &str) -> Result<Option<Secret>, Error> {
        let namespace = &self.settings.namespace;
        let secrets = |server: &crate::server::Server| -> Api<Secret> {
            Api::namespaced(server.client.clone(), namespace)
        };
        let attempted = |role: &str| format!("read Secret {namespace}/{name} at the {role}");
        let there = secrets(&self.target).get_metadata_opt(name).await;
        let there = there.map_err(Error::failed_to(attempted("target")))?;
        if there.is_some() {
            return Ok(None);
        }
        let here = secrets(&self.source).get_opt(name).await;
        here.map_err(Error::failed_to(attempted("source")))
    }
}
