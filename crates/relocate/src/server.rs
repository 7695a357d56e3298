//! The source or the target of a move.

use insula_capi::relocation::MoveRules;
use k8s_openapi::api::core::v1::Namespace;
use kube::api::{Api, DynamicObject};
use kube::{Client, ResourceExt};

use crate::error::Error;
use crate::kind::{Kind, discover};

/// An API server, or one space of it.
pub struct Server {
    /// The client for it.
    pub client: Client,
    /// "source" or "target", for messages.
    pub role: &'static str,
    /// The UID of its `kube-system` namespace, which identifies the server or space.
    pub uid: String,
    /// The kinds of Cluster API and its providers that it defines.
    pub kinds: Vec<Kind>,
}

/// The namespace with the UID that identifies a server or space.
const IDENTIFYING_NAMESPACE: &str = "kube-system";

impl Server {
    /// Connects to a server and discovers its kinds.
    pub async fn connect(
        client: &Client,
        role: &'static str,
        providers: &[&dyn MoveRules],
    ) -> Result<Self, Error> {
        let namespaces: Api<Namespace> = Api::all(client.clone());
        let attempted = format!("read namespace {IDENTIFYING_NAMESPACE} at the {role}");
        let home = namespaces
            .get(IDENTIFYING_NAMESPACE)
            .await
            .map_err(Error::failed_to(attempted))?;
        Ok(Self {
            client: client.clone(),
            role,
            uid: home.uid().unwrap_or_default(),
            kinds: discover(client, role, providers).await?,
        })
    }

    /// Returns a client for objects of a kind, in a namespace if the kind is namespaced.
    pub fn api(&self, kind: &Kind, namespace: Option<&str>) -> Api<DynamicObject> {
        match namespace {
            Some(namespace) if kind.namespaced => {
                Api::namespaced_with(self.client.clone(), namespace, &kind.resource)
            }
            _ => Api::all_with(self.client.clone(), &kind.resource),
        }
    }
}
