//! Facts that a decision needs, as far as the caller may read them.

use std::sync::{Mutex, PoisonError};

use insula_identity::decide::{self, CredentialReader, Known, Need};
use insula_identity::endpoint::AllowedEndpoints;
use k8s_openapi::api::core::v1::{Namespace, Secret};
use kube::api::DynamicObject;
use kube::{Api, Client, ResourceExt};

use super::question::{Error, Inspect};
use crate::provider::{as_identity, as_secret};
use crate::read::get_named;

/// Reads facts with the caller's rights.
pub(super) struct FactReader<'a> {
    pub(super) client: &'a Client,
    pub(super) provider: &'static dyn Inspect,
    pub(super) notes: Mutex<Notes>,
}

/// What is reported beside the decision.
#[derive(Default)]
pub(super) struct Notes {
    /// The number of facts read so far. Step 0 is the reference, before anything is read.
    read: usize,
    /// Texts that replace steps of the explanation.
    pub(super) steps: Vec<(usize, String)>,
    pub(super) assumptions: Vec<String>,
    /// Whether the identity names its servers.
    identity_names_servers: bool,
}

/// Why a fact was not read.
#[derive(Debug)]
pub(super) enum ReadError {
    Forbidden(String),
    Failed(Error),
}

impl FactReader<'_> {
    fn note(&self, note: impl FnOnce(&mut Notes)) {
        note(&mut self.notes.lock().unwrap_or_else(PoisonError::into_inner));
    }

    fn assume(&self, step: String, assumption: String) {
        self.note(|notes| {
            notes.steps.push((notes.read, step));
            notes.assumptions.push(assumption);
        });
    }

    async fn secret(
        &self,
        namespace: &str,
        name: &str,
    ) -> Result<Option<decide::Secret>, ReadError> {
        let secrets: Api<Secret> = Api::namespaced(self.client.clone(), namespace);
        let what = format!("Secrets of {namespace}");
        let is_identitys = namespace == self.provider.operator_namespace();
        match secrets.get_opt(name).await {
            Ok(found) => {
                let finalizer = self.provider.names().secret_finalizer;
                let found = found.map(|found| as_secret(found, finalizer));
                let key = self.provider.endpoint_key();
                let names_servers =
                    |secret: &decide::Secret| key.is_none_or(|key| secret.data.contains_key(key));
                if found.as_ref().is_some_and(|secret| !names_servers(secret)) && is_identitys {
                    self.assume_bound();
                }
                Ok(found)
            }
            Err(error) if is_forbidden(&error) => {
                // The name of an identity's Secret is not revealed.
                let secret = match is_identitys {
                    true => "its Secret".to_owned(),
                    false => format!("Secret {name}"),
                };
                self.assume(
                    format!("you may not read {secret}"),
                    format!("you may not read {what}: whether it has what it needs is not known"),
                );
                Ok(Some(decide::Secret {
                    data: self.provider.shape().sample(),
                    ..decide::Secret::default()
                }))
            }
            Err(source) => Err(ReadError::Failed(Error::Read { what, source })),
        }
    }

    /// Only shared accounts have to name their servers.
    fn assume_bound(&self) {
        self.note(|notes| {
            if !notes.identity_names_servers {
                notes.assumptions.push(
                    "neither the identity nor its Secret names its servers: only the operator knows its --allowed-server"
                        .to_owned(),
                );
            }
        });
    }

    async fn identity(&self, name: &str) -> Result<Option<decide::Identity>, ReadError> {
        let Some(kind) = self.provider.identities() else {
            return Ok(None);
        };
        let identities: Api<DynamicObject> = Api::all_with(self.client.clone(), &(kind.resource)());
        let what = format!("{} {name}", kind.kind);
        let found = allowed_read(get_named(&identities, name).await, what)?;
        let namespace = self.provider.operator_namespace();
        let found = found.map(|found| as_identity(kind, &found, namespace));
        let says = found
            .as_ref()
            .is_some_and(|it| it.bound != AllowedEndpoints::Nowhere);
        self.note(|notes| notes.identity_names_servers = says);
        Ok(found)
    }
}

impl CredentialReader for FactReader<'_> {
    type Error = ReadError;

    async fn read(&self, need: Need, known: &mut Known) -> Result<(), ReadError> {
        self.note(|notes| notes.read += 1);
        match need {
            Need::Identity(name) => known.identity = Some(self.identity(&name).await?),
            // The caller's client reads its own space only.
            Need::LentIdentity(name) => {
                let kind = self.provider.identities().map_or("identity", |it| it.kind);
                return Err(ReadError::Forbidden(format!(
                    "this space has no {kind} {name}, and only the operator knows whether the \
                     system lends one to it"
                )));
            }
            Need::Tenant(name) => {
                let what = format!("Tenant {name}");
                return Err(ReadError::Forbidden(format!("you may not read {what}")));
            }
            Need::Namespace(name) => {
                let namespaces: Api<Namespace> = Api::all(self.client.clone());
                let what = format!("Namespace {name}");
                let found = allowed_read(namespaces.get_metadata_opt(&name).await, what)?;
                known.namespace = Some(found.map(|found| found.labels().clone()));
            }
            Need::Secret {
                namespace, name, ..
            } => known.secret = Some(self.secret(&namespace, &name).await?),
            Need::Operator => {
                if !self.provider.has_own_account() {
                    self.assume(
                    "you may not read the static credentials of the operator".to_owned(),
                    "only the operator knows whether it has static credentials for such objects, and for which servers".to_owned(),
                    );
                }
                known.operator = Some(Some(decide::Static {
                    data: self.provider.shape().sample(),
                    bound: AllowedEndpoints::Anywhere,
                }));
            }
        }
        Ok(())
    }
}

fn allowed_read<K>(
    read: Result<Option<K>, kube::Error>,
    what: String,
) -> Result<Option<K>, ReadError> {
    match read {
        Ok(found) => Ok(found),
        Err(error) if is_forbidden(&error) => {
            Err(ReadError::Forbidden(format!("you may not read {what}")))
        }
        Err(source) => Err(ReadError::Failed(Error::Read { what, source })),
    }
}

fn is_forbidden(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.code == 403)
}
