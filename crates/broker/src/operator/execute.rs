//! Execution of a plan.

use std::fmt::Debug;

use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::core::v1::Namespace;
use kube::api::{DeleteParams, DynamicObject, Patch, PatchParams, PostParams, Preconditions};
use kube::core::Status;
use kube::{Api, Client, Resource, ResourceExt};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::json;
use tracing::debug;

use super::context::Context;
use super::object::{Action, Object, Operation, space_kind};
use crate::error::Error;
use crate::names::{AXON, FINALIZER};
use crate::tenant::{Tenant, TenantStatus};

/// Executes actions: on spaces at the server, on all other objects at the tenant's location.
pub(super) struct Executor<'a> {
    pub context: &'a Context,
    pub location: &'a Client,
    pub namespace: &'a str,
    /// The UID of the namespace when it was observed, if it existed.
    pub seen: Option<&'a str>,
}

impl Executor<'_> {
    /// Executes all actions. A failed action does not stop the others unless they depend on
    /// it; the first error is returned.
    pub async fn execute(&self, actions: &[Action]) -> Result<(), Error> {
        if actions.iter().any(Action::creates_in_namespace) {
            self.verify_namespace().await?;
        }
        let mut first = None;
        for action in actions {
            let Err(error) = self.execute_one(action).await else {
                continue;
            };
            debug!(namespace = self.namespace, %error, "action failed");
            first.get_or_insert(error);
            if action.creates_container() {
                break;
            }
        }
        first.map_or(Ok(()), Err)
    }

    /// Checks that the namespace is still the observed one: nothing may be created in a
    /// namespace that another user created in the meantime.
    async fn verify_namespace(&self) -> Result<(), Error> {
        let Some(seen) = self.seen else {
            return Ok(());
        };
        let attempted = format!("create objects in namespace {}", self.namespace);
        let namespaces: Api<Namespace> = Api::all(self.location.clone());
        let found = namespaces.get_metadata_opt(self.namespace).await;
        let found = found.map_err(Error::when(attempted.clone()))?;
        if found.is_some_and(|found| found.uid().as_deref() == Some(seen)) {
            return Ok(());
        }
        let status = Status::failure("it was replaced in the meantime", "Conflict");
        let status = status.with_code(409).boxed();
        Err(Error::when(attempted)(kube::Error::Api(status)))
    }

    /// Executes one action.
    async fn execute_one(&self, action: &Action) -> Result<(), Error> {
        debug!(namespace = self.namespace, %action, "action started");
        let done = match &action.object {
            Object::Space(space) => {
                let system = self.context.client.clone();
                let spaces = Api::<DynamicObject>::all_with(system, &space_kind());
                write(&spaces, action.operation, &**space).await
            }
            Object::Definition(definition) => {
                write(
                    &Api::all(self.location.clone()),
                    action.operation,
                    &**definition,
                )
                .await
            }
            Object::Namespace(namespace) => {
                write(
                    &Api::all(self.location.clone()),
                    action.operation,
                    &**namespace,
                )
                .await
            }
            Object::Account(account) => {
                write(&self.namespaced_api(), action.operation, &**account).await
            }
            Object::Role(role) => {
                write_exclusively(&self.namespaced_api(), action.operation, &**role).await
            }
            Object::Binding(binding) => {
                write_exclusively(&self.namespaced_api(), action.operation, &**binding).await
            }
            Object::Token(token) => write(&self.namespaced_api(), action.operation, &**token).await,
            Object::Quota(quota) => {
                write_exclusively(&self.namespaced_api(), action.operation, &**quota).await
            }
        };
        done.map_err(Error::when(action.to_string()))
    }

    fn namespaced_api<K>(&self) -> Api<K>
    where
        K: Resource<Scope = NamespaceResourceScope, DynamicType = ()>,
    {
        Api::namespaced(self.location.clone(), self.namespace)
    }
}

async fn write<K>(api: &Api<K>, operation: Operation, object: &K) -> kube::Result<()>
where
    K: Resource + Clone + Debug + Serialize + DeserializeOwned,
{
    let name = object.name_any();
    match operation {
        Operation::Create => {
            api.create(&PostParams::default(), object).await?;
        }
        Operation::Replace => {
            api.replace(&name, &PostParams::default(), object).await?;
        }
        Operation::Delete => {
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
        Operation::RemoveFinalizers => remove_finalizers(api, object).await?,
    }
    Ok(())
}

/// Writes an object that belongs to the operator alone: on a conflict it is overwritten, so
/// that a concurrent writer cannot keep permissions that are being removed.
async fn write_exclusively<K>(api: &Api<K>, operation: Operation, object: &K) -> kube::Result<()>
where
    K: Resource + Clone + Debug + Serialize + DeserializeOwned,
{
    match write(api, operation, object).await {
        Err(kube::Error::Api(status))
            if operation == Operation::Replace && status.is_conflict() =>
        {
            let mut object = object.clone();
            object.meta_mut().resource_version = None;
            write(api, operation, &object).await
        }
        done => done,
    }
}

/// The maximum number of attempts on write conflicts.
const MAX_ATTEMPTS: usize = 5;

/// Removes all finalizers from an object that is to be deleted, whatever its version.
async fn remove_finalizers<K>(api: &Api<K>, object: &K) -> kube::Result<()>
where
    K: Resource + Clone + Debug + Serialize + DeserializeOwned,
{
    let (name, uid) = (object.name_any(), object.uid());
    let mut object = object.clone();
    for attempts in (0..MAX_ATTEMPTS).rev() {
        object.finalizers_mut().clear();
        object.meta_mut().resource_version = None;
        match api.replace(&name, &PostParams::default(), &object).await {
            Err(kube::Error::Api(status)) if status.is_not_found() => return Ok(()),
            Err(kube::Error::Api(status)) if status.is_conflict() && attempts > 0 => {}
            done => return done.map(drop),
        }
        match api.get_opt(&name).await? {
            Some(found) if found.uid() == uid => object = found,
            _ => return Ok(()),
        }
    }
    Ok(())
}

/// Adds our finalizer to a Tenant, or removes it, if the Tenant is unchanged.
pub(super) async fn set_finalizer(
    context: &Context,
    tenant: &Tenant,
    set_finalizer: FinalizerState,
) -> Result<Tenant, Error> {
    let mut finalizers = tenant.finalizers().to_vec();
    finalizers.retain(|finalizer| finalizer != FINALIZER);
    if set_finalizer == FinalizerState::Present {
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
    done.map_err(Error::when(format!("set the finalizer of tenant {name}")))
}

/// Whether the Tenant has our finalizer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FinalizerState {
    Present,
    Absent,
}

/// Writes a Tenant's status, if the Tenant is unchanged.
pub(super) async fn write_status(
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
    done.map_err(Error::when(format!("write the status of tenant {name}")))
}
