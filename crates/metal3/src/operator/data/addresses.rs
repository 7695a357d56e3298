//! The addresses from pools: claims, and what they got.

use std::fmt::Debug;

use insula_operator::commit::{self, has_finalizer};
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::core::v1::ObjectReference;
use kube::api::PostParams;
use kube::{Resource, ResourceExt};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::secrets::RENDERING_FAILED;
use super::{DataReconciler, Step};
use crate::data::pools::{PoolKind, claim_name, pools};
use crate::data::sources::{Addresses, PoolAddress, Sources};
use crate::ipam::contract::{self, PoolReference};
use crate::ipam::kinds::{IPAddress, IPClaim, IPClaimSpec};
use crate::kinds::data_template::Metal3DataTemplateSpec;
use crate::names::DATA_FINALIZER;

/// The reason of a claim that gets no address.
const ALLOCATION_FAILED: &str = "AddressAllocationFailed";

impl DataReconciler<'_> {
    /// Returns the addresses of the pools that a template names, or waits for them. All claims are
    /// made first, so that one pool does not wait for another.
    pub(super) async fn addresses(
        &self,
        template: &Metal3DataTemplateSpec,
        sources: &Sources<'_>,
    ) -> Step<Addresses> {
        let pools = pools(template, sources);
        let pools = pools.map_err(|error| self.problem(RENDERING_FAILED, error.to_string()))?;
        let mut addresses = Addresses::new();
        let mut halts = Vec::new();
        for (name, pool) in pools {
            let address = match PoolKind::of(&pool) {
                PoolKind::Metal3 => self.metal3_address(&name).await,
                PoolKind::Other => self.other_address(&pool).await,
            };
            match address {
                Ok(Some(address)) => drop(addresses.insert(name, address)),
                Ok(None) => halts.push(self.wait()),
                // A problem is reported rather than that another claim waits.
                Err(halt) => halts.insert(0, halt),
            }
        }
        match halts.into_iter().next() {
            Some(halt) => Err(halt),
            None => Ok(addresses),
        }
    }

    /// Returns the address of a claim on a pool of Metal3; none if there is none yet.
    async fn metal3_address(&self, pool: &str) -> Step<Option<PoolAddress>> {
        let name = claim_name(&self.of.key.name, pool);
        let spec = IPClaimSpec {
            pool: ObjectReference {
                name: Some(pool.to_owned()),
                namespace: self.of.key.namespace.clone(),
                ..ObjectReference::default()
            },
        };
        let Some(claim) = self.claim(IPClaim::new(&name, spec)).await? else {
            return Ok(None);
        };
        let status = claim.status.unwrap_or_default();
        if let Some(error) = status.error_message {
            let message = format!("IP allocation for {pool} failed: {error}");
            return Err(self.problem(ALLOCATION_FAILED, message));
        }
        let address = status.address.and_then(|address| address.name);
        let Some(address) = address else {
            return Ok(None);
        };
        let address = self.of.read::<IPAddress>(&address).await?;
        Ok(address.map(|address| PoolAddress {
            address: address.spec.address,
            prefix: address.spec.prefix,
            gateway: address.spec.gateway,
            dns_servers: address.spec.dns_servers,
        }))
    }

    /// Returns the address of a claim on a pool of another provider; none if there is none yet.
    async fn other_address(&self, pool: &PoolReference) -> Step<Option<PoolAddress>> {
        let name = claim_name(&self.of.key.name, &pool.name);
        let spec = contract::IPAddressClaimSpec {
            cluster_name: None,
            pool_ref: pool.clone(),
        };
        let claim = contract::IPAddressClaim::new(&name, spec);
        let Some(claim) = self.claim(claim).await? else {
            return Ok(None);
        };
        let address = claim.status.and_then(|status| status.address_ref);
        let Some(address) = address.filter(|address| !address.name.is_empty()) else {
            return Ok(None);
        };
        let address = self.of.read::<contract::IPAddress>(&address.name).await?;
        Ok(address.map(|address| PoolAddress {
            address: address.spec.address,
            prefix: address.spec.prefix,
            gateway: address.spec.gateway,
            dns_servers: Vec::new(),
        }))
    }

    /// Returns a claim of this data, which is created if there is none. A claim of former data of
    /// the same name has to end first.
    async fn claim<K>(&self, mut claim: K) -> Step<Option<K>>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>,
        K: Clone + Debug + Serialize + DeserializeOwned,
    {
        let name = claim.name_any();
        let data = &self.data.stored;
        let found = self.of.read::<K>(&name).await?;
        let Some(found) = found else {
            let metadata = claim.meta_mut();
            metadata.namespace.clone_from(&data.metadata.namespace);
            metadata.labels.clone_from(&data.metadata.labels);
            metadata.finalizers = Some(vec![DATA_FINALIZER.to_owned()]);
            let owner = data.controller_owner_ref(&());
            metadata.owner_references = owner.map(|owner| vec![owner]);
            let claims = self.of.api::<K>();
            claims.create(&PostParams::default(), &claim).await?;
            return Ok(None);
        };
        let owners = found.owner_references();
        if owners
            .iter()
            .any(|owner| Some(&owner.uid) == data.metadata.uid.as_ref())
        {
            return Ok(Some(found));
        }
        if found.meta().deletion_timestamp.is_none() {
            let message = format!("{} {name:?} belongs to another object", K::kind(&()));
            return Err(self.problem("AddressClaimConflict", message));
        }
        if has_finalizer(&found, DATA_FINALIZER) {
            commit::remove_finalizer(&self.of.api::<K>(), &found, DATA_FINALIZER).await?;
        }
        Ok(None)
    }

    /// Deletes the claims of this data. They are found by their owner: the pools that a template
    /// names can depend on annotations that have changed.
    pub(super) async fn release_claims(&self) -> Result<(), kube::Error> {
        self.release_all::<IPClaim>().await?;
        match self.release_all::<contract::IPAddressClaim>().await {
            // The kind is not served.
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
            done => done,
        }
    }

    async fn release_all<K>(&self) -> Result<(), kube::Error>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>,
        K: Clone + Debug + DeserializeOwned,
    {
        let uid = self.data.stored.metadata.uid.as_ref();
        let claims = self.of.api::<K>();
        for claim in self.of.list::<K>().await? {
            let mut owners = claim.owner_references().iter();
            if owners.any(|owner| Some(&owner.uid) == uid) {
                commit::remove_finalizer(&claims, &claim, DATA_FINALIZER).await?;
                commit::delete(&claims, &claim).await?;
            }
        }
        Ok(())
    }
}
