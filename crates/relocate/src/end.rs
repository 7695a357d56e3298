//! One end of a move.

use k8s_openapi::api::core::v1::Namespace;
use kube::api::{Api, DynamicObject};
use kube::{Client, ResourceExt};

use crate::error::Error;
use crate::kind::{Kind, discover};

/// A server, or one space of it.
pub struct End {
    /// How it is reached.
    pub client: Client,
    /// Which end it is, in texts.
    pub place: &'static str,
    /// What tells it from all others.
    pub uid: String,
    /// What is moved there.
    pub kinds: Vec<Kind>,
}

/// The namespace whose UID tells a server, or a space, from all others.
const HOME: &str = "kube-system";

impl End {
    /// Who is there.
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

    /// Objects of a kind, in a namespace if it is a kind that has them there.
    pub fn api(&self, kind: &Kind, namespace: Option<&str>) -> Api<DynamicObject> {
        match namespace {
            Some(namespace) if kind.namespaced => {
                Api::namespaced_with(self.client.clone(), namespace, &kind.resource)
            }
            _ => Api::all_with(self.client.clone(), &kind.resource),
        }
    }
}
