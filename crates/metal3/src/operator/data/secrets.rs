//! Writes the Secrets next to the host.

use std::collections::BTreeMap;

use insula_capi::names::CLUSTER_LABEL;
use insula_operator::retry::{Class, Outcome};
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::{Secret, SecretReference};
use kube::api::{ObjectMeta, PostParams};
use kube::{Api, Resource, ResourceExt};
use serde_json::{Value, json};

use super::super::access::Problem;
use super::super::host_secret::{
    Existing, HostSecret, SECRET_CONFLICT, SecretOwner, create_or_check,
};
use super::conclude::State;
use super::family::Family;
use super::{DataReconciler, Halt, HostAccess, Recorded, Step};
use crate::data::secret::DataSecret;
use crate::data::sources::{Addresses, Sources};
use crate::data::{metadata, network};
use crate::hosts::consumer::annotated_host;
use crate::kinds::data::Metal3Data;
use crate::kinds::host::BareMetalHost;
use crate::names::{CLAIM_ANNOTATION, IDENTITY_ANNOTATION, SECRET_TYPE};
use crate::pool::HostPool;

/// The reason of a template that cannot be rendered.
pub(super) const RENDERING_FAILED: &str = "RenderingFailed";

impl DataReconciler<'_> {
    /// Creates the Secrets that do not exist. Those that exist are never rewritten, so that a host
    /// is provisioned the same way again.
    pub(super) async fn write_secrets(&mut self, family: &Family, access: &HostAccess) -> Step<()> {
        let pool: &HostPool = &access.pool;
        let mut missing = Vec::new();
        for kind in wanted(family) {
            if !self.exists(kind, family, pool).await? {
                missing.push(kind);
            }
        }
        if missing.is_empty() {
            return self.record(family, access).await;
        }
        let host = self.host(family, pool).await?;
        let index = u32::try_from(self.data.stored.spec.index).unwrap_or_default();
        let namespace = self.namespace().to_owned();
        let sources = Sources {
            machine: &family.machine.metadata,
            metal3_machine: &family.metal3_machine.metadata,
            host: &host,
            namespace: &namespace,
            index,
        };
        let addresses = self.addresses(&family.template.spec, &sources).await?;
        // What has to be deleted is known before it exists.
        self.record(family, access).await?;
        for kind in missing {
            let content = self.content(kind, family, &sources, &addresses)?;
            self.create(kind, family, pool, content).await?;
        }
        Ok(())
    }

    /// Returns whether a Secret exists. One that belongs to another object is a conflict.
    async fn exists(&self, kind: DataSecret, family: &Family, pool: &HostPool) -> Step<bool> {
        let name = kind.name(&family.metal3_machine.name_any());
        let found = match pool.is_in_cluster() {
            true => self.of.read::<Secret>(&name).await?,
            false => pool.secrets().get_opt(&name).await.map_err(Halt::Hosts)?,
        };
        let Some(found) = found else {
            return Ok(false);
        };
        let is_own = match pool.is_in_cluster() {
            true => is_usable(&found, &self.data.stored),
            false => self.owner(family).owns(&found),
        };
        match is_own {
            true => Ok(true),
            false => {
                let message = format!(
                    "Secret {name:?} exists next to the host and does not belong to this \
                     machine: delete it there, or give the machine another name"
                );
                Err(conflict(message))
            }
        }
    }

    /// Returns the host of the machine.
    async fn host(&self, family: &Family, pool: &HostPool) -> Step<BareMetalHost> {
        let name = match annotated_host(&family.host, pool.namespace()) {
            Ok(name) => name,
            Err(error) => return Err(self.problem("BareMetalHostNotFound", error.to_string())),
        };
        pool.follow_host(self.of.key.text(), name);
        let found = pool.hosts().get_opt(name).await.map_err(Halt::Hosts)?;
        let machine = family.metal3_machine.name_any();
        let consumer = self.consumer(pool, &machine, Some(&family.metal3_machine));
        match found {
            Some(host) if consumer.has_named(&host) => Ok(host),
            // The machine reports what is wrong with its host.
            _ => Err(self.wait()),
        }
    }

    fn content(
        &self,
        kind: DataSecret,
        family: &Family,
        sources: &Sources<'_>,
        addresses: &Addresses,
    ) -> Step<String> {
        let template = &family.template.spec;
        let rendered = match (kind, &template.meta_data, &template.network_data) {
            (DataSecret::Metadata, Some(data), _) => metadata::render(data, sources, addresses),
            (DataSecret::NetworkData, _, Some(data)) => network::render(data, sources, addresses),
            _ => Ok(String::new()),
        };
        rendered.map_err(|error| self.problem(RENDERING_FAILED, error.to_string()))
    }

    async fn create(
        &self,
        kind: DataSecret,
        family: &Family,
        pool: &HostPool,
        content: String,
    ) -> Step<()> {
        let name = kind.name(&family.metal3_machine.name_any());
        let data = BTreeMap::from([(kind.key().to_owned(), ByteString(content.into_bytes()))]);
        if pool.is_in_cluster() {
            let secret = owned_secret(&self.data.stored, name, &family.cluster, data);
            let secrets = self.of.secrets(self.namespace());
            secrets.create(&PostParams::default(), &secret).await?;
            return Ok(());
        }
        let owner = self.owner(family);
        let wanted = HostSecret {
            name,
            owner: &owner,
            cluster: &family.cluster,
            data,
        };
        let secrets: Api<Secret> = pool.secrets();
        let created = create_or_check(&secrets, &wanted, Existing::Keep).await;
        let created = created.map_err(Halt::Hosts)?;
        created.map_err(|error| conflict(error.to_string()))
    }

    fn owner(&self, family: &Family) -> SecretOwner {
        let machine = &family.metal3_machine;
        self.secret_owner(&machine.name_any(), Some(machine))
    }

    /// Records where the Secrets are, and what reaches them.
    async fn record(&mut self, family: &Family, access: &HostAccess) -> Step<()> {
        let pool: &HostPool = &access.pool;
        let machine = family.metal3_machine.name_any();
        let references = |kind: DataSecret| {
            let is_wanted = wanted(family).contains(&kind);
            is_wanted.then(|| SecretReference {
                name: Some(kind.name(&machine)),
                namespace: Some(pool.namespace().to_owned()),
            })
        };
        let (metadata, network) = (
            references(DataSecret::Metadata),
            references(DataSecret::NetworkData),
        );
        let recorded = self.recorded();
        let identity = family.identity(&recorded).effective();
        let stored = &self.data.stored;
        let mut patch = json!({});
        if stored.spec.meta_data != metadata {
            patch["spec"]["metaData"] = json!(metadata);
        }
        if stored.spec.network_data != network {
            patch["spec"]["networkData"] = json!(network);
        }
        if let (Recorded::Nowhere, Some(identity)) = (&recorded, identity) {
            let identity = json!(identity).to_string();
            patch["metadata"]["annotations"][IDENTITY_ANNOTATION] = json!(identity);
        }
        // The machine may no longer exist when the Secrets are deleted.
        let proof = self.proof(Some(&family.metal3_machine));
        let known = stored.annotations().get(CLAIM_ANNOTATION);
        if !pool.is_in_cluster() && known != proof.as_ref() {
            patch["metadata"]["annotations"][CLAIM_ANNOTATION] = json!(proof);
        }
        if patch != Value::Object(serde_json::Map::new()) {
            self.data.patch(patch).await?;
        }
        Ok(())
    }
}

/// Returns the halt of data whose Secret belongs to another object. Secrets next to hosts are not
/// watched, so it is tried again.
fn conflict(message: String) -> Halt {
    let problem = Problem {
        reason: SECRET_CONFLICT,
        message,
    };
    Halt::Stop(State::Problem(problem), Outcome::Failed(Class::Blocked))
}

/// Returns the Secrets that a template is rendered to.
fn wanted(family: &Family) -> Vec<DataSecret> {
    let template = &family.template.spec;
    let mut wanted = Vec::new();
    wanted.extend(template.meta_data.as_ref().map(|_| DataSecret::Metadata));
    wanted.extend(
        template
            .network_data
            .as_ref()
            .map(|_| DataSecret::NetworkData),
    );
    wanted
}

/// Returns whether an existing Secret of the same namespace may be used: that of other data, also
/// of former data of the same name, is about to be deleted with it.
fn is_usable(secret: &Secret, data: &Metal3Data) -> bool {
    let mut owners = secret.owner_references().iter();
    let controller = owners.find(|owner| owner.controller == Some(true));
    controller.is_none_or(|owner| Some(&owner.uid) == data.metadata.uid.as_ref())
}

/// Returns a Secret that is deleted with the data.
fn owned_secret(
    data: &Metal3Data,
    name: String,
    cluster: &str,
    content: BTreeMap<String, ByteString>,
) -> Secret {
    let owner = data.controller_owner_ref(&());
    Secret {
        metadata: ObjectMeta {
            name: Some(name),
            namespace: data.metadata.namespace.clone(),
            labels: Some([(CLUSTER_LABEL.to_owned(), cluster.to_owned())].into()),
            owner_references: owner.map(|owner| vec![owner]),
            ..ObjectMeta::default()
        },
        type_: Some(SECRET_TYPE.to_owned()),
        data: Some(content),
        ..Secret::default()
    }
}

#[cfg(test)]
mod tests;
