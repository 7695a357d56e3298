//! The source or the target of a move.

use k8s_openapi::api::core::v1::Namespace;
use kube::api::{Api, DynamicObject};
use kube::{Client, ResourceExt};

use crate::error::Error;
use crate::kind::{Kind, discover};

/// An API server, or one space of it.
pub struct End {
    /// The client for it.
    pub client: Client,
    /// "source" or "target", for messages.
    pub place: &'static str,
    /// The UID of its `kube-system` namespace, which identifies the server or space.
    pub uid: String,
    /// The kinds of Cluster API and its providers that it defines.
    pub kinds: Vec<Kind>,
}

/// The namespace with the UID that identifies a server or space.
const HOME: &str = "kube-system";

impl End {
    /// Connects to a server and discovers its kinds.
    pub async fn meet(client: &Client, place: &'static str) -> Result<Self, Error> {
        let namespaces: Api<Namespace> = Api::all(client.clone());
        let attempted = format!("read namespace {HOME} at the {place}");
        let home = namespaces.get(HOME).await.map_err(Error::when(attempted))?;
        Ok(Self {
            client: client.clone(),
            place,
            uid: home.uid().unwrap_or_default(),
            kinds: discover(client, place).await?,
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
