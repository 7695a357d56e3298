//! Doing what was planned.

use std::fmt::Debug;

use k8s_openapi::NamespaceResourceScope;
use kube::api::{DeleteParams, DynamicObject, Patch, PatchParams, PostParams, Preconditions};
use kube::{Api, Client, Resource, ResourceExt};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::json;
use tracing::debug;

use super::object::{Act, Deed, Object, space_kind};
use super::run::Context;
use crate::error::Error;
use crate::names::{AXON, FINALIZER};
use crate::tenant::{Tenant, TenantStatus};

/// Where acts are done: the spaces are the server's, the rest is the ground's.
pub(super) struct Field<'a> {
    pub context: &'a Context,
    pub ground: &'a Client,
    pub namespace: &'a str,
}

impl Field<'_> {
    /// Does one thing.
    pub async fn act(&self, act: &Act) -> Result<(), Error> {
        debug!(namespace = self.namespace, %act, "acts");
        let done = match &act.object {
            Object::Space(space) => {
                let system = self.context.client.clone();
                let spaces = Api::<DynamicObject>::all_with(system, &space_kind());
                write(&spaces, act.deed, &**space).await
            }
            Object::Definition(definition) => {
                write(&Api::all(self.ground.clone()), act.deed, &**definition).await
            }
            Object::Namespace(namespace) => {
                write(&Api::all(self.ground.clone()), act.deed, &**namespace).await
            }
            Object::Account(account) => write(&self.inside(), act.deed, &**account).await,
            Object::Role(role) => write(&self.inside(), act.deed, &**role).await,
            Object::Binding(binding) => write(&self.inside(), act.deed, &**binding).await,
            Object::Token(token) => write(&self.inside(), act.deed, &**token).await,
        };
        done.map_err(Error::when(act.to_string()))
    }

    fn inside<K>(&self) -> Api<K>
    where
        K: Resource<Scope = NamespaceResourceScope, DynamicType = ()>,
    {
        Api::namespaced(self.ground.clone(), self.namespace)
    }
}

async fn write<K>(api: &Api<K>, deed: Deed, object: &K) -> kube::Result<()>
where
    K: Resource + Clone + Debug + Serialize + DeserializeOwned,
{
    let name = object.name_any();
    match deed {
        Deed::Create => {
            api.create(&PostParams::default(), object).await?;
        }
        Deed::Replace => {
            api.replace(&name, &PostParams::default(), object).await?;
        }
        Deed::Delete => {
            let only_this = DeleteParams::default().preconditions(Preconditions {
                uid: object.uid(),
                resource_version: None,
            });
            match api.delete(&name, &only_this).await {
                Err(kube::Error::Api(status)) if status.is_not_found() => {}
                done => {
                    done?;
                }
            }
        }
    }
    Ok(())
}

/// Puts our finalizer on a Tenant, or takes it off, if it is still as it was seen.
pub(super) async fn hold(context: &Context, tenant: &Tenant, hold: Hold) -> Result<Tenant, Error> {
    let mut finalizers = tenant.finalizers().to_vec();
    finalizers.retain(|finalizer| finalizer != FINALIZER);
    if hold == Hold::On {
        finalizers.push(FINALIZER.to_owned());
    }
    let patch = json!({"metadata": {
        "uid": tenant.uid(),
        "resourceVersion": tenant.resource_version(),
        "finalizers": finalizers,
    }});
    let name = tenant.name_any();
    let tenants: Api<Tenant> = Api::namespaced(context.client.clone(), AXON);
    let parameters = PatchParams::default();
    let done = tenants
        .patch(&name, &parameters, &Patch::Merge(patch))
        .await;
    done.map_err(Error::when(format!("hold or release tenant {name}")))
}

/// Whether a Tenant is held until we have cleaned up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Hold {
    On,
    Off,
}

/// Writes a Tenant's status, if the Tenant is still as it was seen.
pub(super) async fn report(
    context: &Context,
    tenant: &Tenant,
    status: TenantStatus,
) -> Result<Tenant, Error> {
    let name = tenant.name_any();
    let mut tenant = tenant.clone();
    tenant.status = Some(status);
    let tenants: Api<Tenant> = Api::namespaced(context.client.clone(), AXON);
    let parameters = PostParams::default();
    let done = tenants.replace_status(&name, &parameters, &tenant).await;
    done.map_err(Error::when(format!("tell how tenant {name} is")))
}
