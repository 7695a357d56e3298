//! What is to be done for the claims of a template. No I/O.

use std::collections::BTreeMap;

use insula_operator::commit::has_finalizer;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::{Resource, ResourceExt};

use super::super::claims::is_namespace;
use crate::data::index::data_name;
use crate::kinds::ObjectReference;
use crate::kinds::data::{Metal3Data, Metal3DataSpec};
use crate::kinds::data_claim::Metal3DataClaim;
use crate::names::{DATA_CLAIM_FINALIZER, GROUP};

/// What is to be done for the claims of a template.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Plan<'a> {
    /// The claims that are not being deleted.
    pub live: Vec<&'a Metal3DataClaim>,
    /// The indexes in use, with the names of their claims.
    pub used: BTreeMap<u32, String>,
    /// Deleted claims that are not released yet, and their data.
    pub released: Vec<(&'a Metal3DataClaim, Vec<&'a Metal3Data>)>,
    /// Deleted data of claims that no longer exist.
    pub orphaned: Vec<&'a Metal3Data>,
    /// Claims that do not name their data yet, and the name of the data.
    pub recorded: Vec<(&'a Metal3DataClaim, String)>,
    /// Claims without data, oldest first.
    pub without_data: Vec<&'a Metal3DataClaim>,
}

impl<'a> Plan<'a> {
    /// Returns what is to be done for the claims of a template, among the objects of its
    /// namespace.
    pub(super) fn of(
        template: &str,
        claims: &'a [Metal3DataClaim],
        data: &'a [Metal3Data],
    ) -> Self {
        let mut plan = Self {
            used: used(template, data),
            ..Self::default()
        };
        let data = data.iter().filter(|one| is_of_template(one, template));
        let mut of_claims: BTreeMap<&str, Vec<&Metal3Data>> = BTreeMap::new();
        for one in data {
            let claim = one.spec.claim.as_ref().map(|claim| claim.name.as_str());
            of_claims
                .entry(claim.unwrap_or_default())
                .or_default()
                .push(one);
        }
        let mut claims: Vec<_> = claims
            .iter()
            .filter(|claim| {
                let named = &claim.spec.template;
                let namespace = claim.metadata.namespace.as_deref().unwrap_or_default();
                named.name == template && is_namespace(named.namespace.as_deref(), namespace)
            })
            .collect();
        claims.sort_by_key(|claim| {
            let created = claim.metadata.creation_timestamp.as_ref();
            (created.map(|time| time.0), claim.metadata.name.clone())
        });
        for claim in claims {
            let name = claim.metadata.name.as_deref().unwrap_or_default();
            let data = of_claims.remove(name).unwrap_or_default();
            let former = data.iter().filter(|one| !is_for(one, claim));
            plan.orphaned.extend(former.copied());
            plan.add(claim, data);
        }
        plan.orphaned.extend(of_claims.into_values().flatten());
        plan.orphaned.retain(|one| {
            one.metadata.deletion_timestamp.is_some() && has_finalizer(*one, DATA_CLAIM_FINALIZER)
        });
        plan
    }

    fn add(&mut self, claim: &'a Metal3DataClaim, data: Vec<&'a Metal3Data>) {
        if claim.metadata.deletion_timestamp.is_some() {
            let is_held = |one: &&Metal3Data| has_finalizer(*one, DATA_CLAIM_FINALIZER);
            if has_finalizer(claim, DATA_CLAIM_FINALIZER) || data.iter().any(is_held) {
                self.released.push((claim, data));
            }
            return;
        }
        self.live.push(claim);
        let status = claim.status.as_ref();
        let recorded = status.and_then(|status| status.rendered_data.as_ref());
        let is_left = |one: &&&Metal3Data| one.metadata.deletion_timestamp.is_none();
        let first = data.iter().filter(is_left).min_by_key(|one| one.spec.index);
        match first.map(|one| one.name_any()) {
            Some(name) => {
                let is_recorded = recorded.is_some_and(|recorded| recorded.name == name);
                if !is_recorded || !has_finalizer(claim, DATA_CLAIM_FINALIZER) {
                    self.recorded.push((claim, name));
                }
            }
            // The data of a former claim of this name is deleted first.
            None if !data.is_empty() => {}
            None => self.without_data.push(claim),
        }
    }
}

/// Returns the indexes in use. The name of an object with data takes an index too, whatever it
/// contains.
fn used(template: &str, data: &[Metal3Data]) -> BTreeMap<u32, String> {
    let used = data.iter().filter_map(|one| {
        let name = one.metadata.name.as_deref().unwrap_or_default();
        let index = match is_of_template(one, template) {
            true => u32::try_from(one.spec.index).ok()?,
            false => index_of(name, template)?,
        };
        let claim = one.spec.claim.as_ref().map(|claim| claim.name.clone());
        Some((index, claim.unwrap_or_default()))
    });
    used.collect()
}

fn is_of_template(data: &Metal3Data, template: &str) -> bool {
    let named = data.spec.template.as_ref();
    named.is_some_and(|named| named.name == template)
}

/// Returns whether data was created for this claim, and not for a former one of its name.
fn is_for(data: &Metal3Data, claim: &Metal3DataClaim) -> bool {
    let mut owners = data.owner_references().iter();
    let owner = owners.find(|owner| owner.kind == "Metal3DataClaim");
    owner.is_none_or(|owner| Some(&owner.uid) == claim.metadata.uid.as_ref())
}

/// Returns the index in the name of an object with data.
fn index_of(name: &str, template: &str) -> Option<u32> {
    let (_, index) = name.rsplit_once('-')?;
    let index = index.parse().ok()?;
    (data_name(template, index) == name).then_some(index)
}

/// Returns the object with data of an index for a claim; none if no machine owns the claim.
pub(super) fn new_data(template: &str, claim: &Metal3DataClaim, index: u32) -> Option<Metal3Data> {
    let machine = claim.owner_references().iter().find(|owner| {
        let group = owner.api_version.split('/').next();
        owner.kind == "Metal3Machine" && group == Some(GROUP)
    })?;
    let reference = |name: &str| {
        Some(ObjectReference {
            name: name.to_owned(),
            namespace: claim.metadata.namespace.clone(),
        })
    };
    let claim_name = claim.name_any();
    let spec = Metal3DataSpec {
        index: i32::try_from(index).ok()?,
        template: reference(template),
        claim: reference(&claim_name),
        ..Metal3DataSpec::default()
    };
    let mut data = Metal3Data::new(&data_name(template, index), spec);
    data.metadata
        .namespace
        .clone_from(&claim.metadata.namespace);
    data.metadata.labels.clone_from(&claim.metadata.labels);
    data.metadata.finalizers = Some(vec![DATA_CLAIM_FINALIZER.to_owned()]);
    data.metadata.owner_references = Some(vec![
        claim.controller_owner_ref(&())?,
        OwnerReference {
            controller: None,
            block_owner_deletion: None,
            ..machine.clone()
        },
    ]);
    Some(data)
}

#[cfg(test)]
mod tests;
