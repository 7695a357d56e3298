//! The question which credential an object gets: what a provider knows, and what the caller may read.

use std::fmt::Debug;

use futures_util::future::BoxFuture;
use insula_identity::decide::{Question, Refusal};
use insula_identity::reason::Reason;
use insula_identity::shape::Shape;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use k8s_openapi::{ClusterResourceScope, NamespaceResourceScope};
use kube::api::ObjectMeta;
use kube::core::object::HasStatus;
use kube::{Api, Client, Resource, ResourceExt};
use serde::de::DeserializeOwned;

use crate::condition::Conditions;
use crate::provider::triggers::space_of_path;
use crate::provider::{IdentityKind, Names};
use crate::read::get_named;

/// What explanations and lists of users have to know about a provider.
pub trait Inspect: Send + Sync {
    /// Returns the kinds that get credentials, each with its plural, in any order.
    fn kinds(&self) -> &'static [(&'static str, &'static str)];

    /// Returns the kind of identities, if the provider has one.
    fn identities(&self) -> Option<&'static IdentityKind>;

    /// Returns the well-known names of the provider.
    fn names(&self) -> &'static Names;

    /// Returns what a Secret with a credential contains.
    fn shape(&self) -> &'static dyn Shape;

    /// Returns the key under which a Secret may list its servers.
    fn endpoint_key(&self) -> Option<&'static str>;

    /// Returns the namespace of the operator and of the Secrets of identities.
    fn operator_namespace(&self) -> &'static str;

    /// Returns whether the operator always has a credential for objects without a reference, such
    /// as its own account. Otherwise only the operator knows whether it has one.
    fn has_own_account(&self) -> bool {
        false
    }

    /// Returns the type of the condition of a kind that tells whether the server can be used.
    fn condition(&self, kind: &str) -> &'static str;

    /// Returns the names of reasons in the provider's conditions.
    fn reasons(&self) -> fn(Reason) -> &'static str;

    /// Reads an object, and returns the question which credential it gets.
    fn question<'a>(
        &'a self,
        objects: &'a Objects<'a>,
        kind: &'static str,
        name: &'a str,
    ) -> BoxFuture<'a, Result<Asked, Error>>;
}

/// Returns the provider and the kind of this name or plural, in any case.
pub fn find_kind(
    providers: &'static [&'static dyn Inspect],
    text: &str,
) -> Option<(&'static dyn Inspect, &'static str)> {
    let is = |(kind, plural): &&(&str, &str)| {
        text.eq_ignore_ascii_case(kind) || text.eq_ignore_ascii_case(plural)
    };
    providers.iter().find_map(|provider| {
        let (kind, _) = provider.kinds().iter().find(is)?;
        Some((*provider, *kind))
    })
}

/// The question about an object.
#[derive(Debug)]
pub struct Asked {
    /// The object, as in `VSphereCluster red/prod`.
    pub object: String,
    /// The question, or why no credential comes into question.
    pub question: Result<Question, Refusal>,
    /// The conditions of the object.
    pub conditions: Vec<Condition>,
    /// Settings of the operator that the decision depends on.
    pub settings: Vec<String>,
    /// What had to be assumed to ask the question.
    pub assumptions: Vec<String>,
    pub(super) generation: Option<i64>,
    pub(super) tenant: Option<String>,
}

impl Asked {
    /// Returns the question about an object.
    pub fn new<K>(object: &K, question: Result<Question, Refusal>) -> Self
    where
        K: Resource<DynamicType = ()> + HasStatus<Status: Conditions>,
    {
        let metadata = object.meta();
        let namespace = metadata.namespace.as_deref();
        let conditions = object.status().map(Conditions::conditions);
        let conditions = conditions.unwrap_or_default().to_vec();
        let object = text::<K>(namespace, &object.name_any());
        Self::of_object(&object, metadata, conditions, question)
    }

    /// Returns the question about an object of a kind that is known only at run time.
    pub fn of_object(
        object: &str,
        metadata: &ObjectMeta,
        conditions: Vec<Condition>,
        question: Result<Question, Refusal>,
    ) -> Self {
        let space = metadata.self_link.as_deref().and_then(space_of_path);
        Self {
            object: object.to_owned(),
            question,
            conditions,
            settings: Vec::new(),
            assumptions: Vec::new(),
            generation: metadata.generation,
            tenant: space.map(|space| space.to_string()),
        }
    }
}

/// Returns an object as text, as in `VSphereCluster red/prod`.
fn text<K: Resource<DynamicType = ()>>(namespace: Option<&str>, name: &str) -> String {
    let kind = K::kind(&());
    match namespace {
        Some(namespace) => format!("{kind} {namespace}/{name}"),
        None => format!("{kind} {name}"),
    }
}

/// The objects that the caller may read: those of a namespace, and cluster-scoped ones.
#[derive(Clone, Copy)]
pub struct Objects<'a> {
    /// The caller's client.
    pub client: &'a Client,
    /// The namespace.
    pub namespace: &'a str,
}

impl Objects<'_> {
    /// Reads an object of the namespace.
    ///
    /// # Errors
    ///
    /// If it does not exist or cannot be read.
    pub async fn read<K>(&self, name: &str) -> Result<K, Error>
    where
        K: Resource<Scope = NamespaceResourceScope, DynamicType = ()>,
        K: Clone + Debug + DeserializeOwned,
    {
        let api: Api<K> = Api::namespaced(self.client.clone(), self.namespace);
        let text = text::<K>(Some(self.namespace), name);
        found(get_named(&api, name).await, &text)
    }

    /// Reads a cluster-scoped object.
    ///
    /// # Errors
    ///
    /// If it does not exist or cannot be read.
    pub async fn read_cluster_scoped<K>(&self, name: &str) -> Result<K, Error>
    where
        K: Resource<Scope = ClusterResourceScope, DynamicType = ()>,
        K: Clone + Debug + DeserializeOwned,
    {
        let api: Api<K> = Api::all(self.client.clone());
        let text = text::<K>(None, name);
        found(get_named(&api, name).await, &text)
    }
}

/// Why there is no explanation.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The object does not exist.
    #[error("there is no {0}")]
    NotFound(String),
    /// A request to the API server failed.
    #[error("cannot read {what}")]
    Read {
        /// What was to be read.
        what: String,
        /// How the request failed.
        source: kube::Error,
    },
}

/// Returns the refusal for an object that belongs to nothing with a credential.
pub fn refused_alone(why: &str) -> Refusal {
    Refusal {
        reason: Reason::NoCredentials,
        message: format!("{why}, so it gets no credential"),
        hint: None,
    }
}

fn found<K>(read: Result<Option<K>, kube::Error>, object: &str) -> Result<K, Error> {
    match read {
        Ok(Some(found)) => Ok(found),
        Ok(None) => Err(Error::NotFound(object.to_owned())),
        Err(source) => Err(Error::Read {
            what: object.to_owned(),
            source,
        }),
    }
}
