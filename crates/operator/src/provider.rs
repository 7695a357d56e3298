//! The shell of a provider: an operator that acts for tenants at servers outside of the cluster,
//! with the credential that each object is entitled to.
//!
//! A provider consists of its kinds, a client for its servers, and one reconciler per kind.
//! Everything else is here, and the same for all providers.
//!
//! | module | is |
//! |---|---|
//! | `run` | settings and start; read it first |
//! | `triggers` | the watches that trigger reconciliations |
//! | `context` | the state that all reconciliations share |
//! | `reconciliation` | the reconciliation of one object: reads with dependencies, events, sessions |
//! | `resolve` | which credential an object gets |
//! | `access` | the session that an object gets, or why it gets none |
//! | `hold` | holds on Secrets: owner reference and finalizer |
//! | `secret` | the reconciler of held Secrets |
//! | `identity` | the reconciler of identities |
//! | [`explain`], [`users`] | which credential an object gets, and which objects use an identity |
//! | `static_credentials`, `account_file` | the file with the operator's own credentials |
//! | `servers` | the servers that a credential may be sent to |
//! | `session_liveness` | when sessions were last checked |
//! | `requeue` | objects to reconcile again |
//! | `own_writes` | writes of the operator itself, which trigger nothing |

mod access;
mod account_file;
mod context;
pub mod explain;
mod hold;
mod identity;
mod own_writes;
mod reconciliation;
mod requeue;
mod resolve;
mod run;
mod secret;
mod servers;
mod session_liveness;
mod static_credentials;
mod triggers;
pub mod users;

use insula_identity::credential::Source;
use insula_identity::endpoint::AllowedEndpoints;
use insula_identity::reason::Reason;
use insula_identity::session::Connector;
use insula_identity::shape::Shape;
use k8s_openapi::{ClusterResourceScope, NamespaceResourceScope};
use kube::Resource;
use kube::api::{ApiResource, DynamicObject, ObjectMeta};
use serde_json::Value;

pub use access::{Access, Closed, MAX_WAIT};
pub use account_file::account_file;
pub use context::{Bounds, Context, Dependency, StaticCredentials};
pub use hold::{
    EndingHold, HOLD_ENDING, HoldOutcome, announce_hold_end, end_hold, end_shared_hold, take_hold,
};
pub use identity::IdentityStatus;
pub use reconciliation::Reconciliation;
pub use requeue::Requeue;
pub use resolve::{
    as_identity, as_secret, full_message, named_reference, parse_endpoint, parse_thumbprint,
    question, source_text,
};
pub use run::{Settings, run};
pub use servers::{AllowedServer, identity_servers};
pub use session_liveness::SessionLiveness;
pub use static_credentials::CredentialsFile;

use crate::key::{GroupKind, Key};
use crate::retry::Outcome;

/// A provider: its names and kinds, the client for its servers, and its reconcilers.
pub trait Provider: Send + Sync + Sized + 'static {
    /// Opens sessions at the provider's servers.
    type Connector: Connector;

    /// Well-known names of the provider.
    const NAMES: &'static Names;

    /// What a Secret with a credential contains.
    const SHAPE: &'static dyn Shape;

    /// The kind of identities that namespaces share, if the provider has one.
    const IDENTITIES: Option<&'static IdentityKind>;

    /// Whether every write is guarded by the version that was read. Then a Secret is read once in a
    /// reconciliation, and an object is not reconciled again because of the operator's own writes.
    const GUARDS_WRITES: bool = false;

    /// Returns the kinds that are watched, besides Secrets, Namespaces and identities.
    fn kinds(&self) -> Vec<WatchedKind>;

    /// Called before watches of reconciled kinds start, with the kind of each: at the beginning of
    /// each term of leadership.
    fn watches_started(&self, kinds: &[GroupKind]) {
        let _ = kinds;
    }

    /// Called when all existing objects of one of these watches were observed.
    fn watch_listed(&self, watch: usize) {
        let _ = watch;
    }

    /// Called when the objects of one of these watches may not be listed.
    fn watch_forbidden(&self, watch: usize) {
        let _ = watch;
    }

    /// Called when a watch observes an object of a reconciled kind; without metadata if it was
    /// deleted.
    fn object_observed(&self, key: &Key, metadata: Option<&ObjectMeta>) {
        let _ = (key, metadata);
    }

    /// Returns which user has to do what, so that a login that failed for this reason succeeds.
    fn login_hint(source: &Source, reason: Reason) -> Option<&'static str> {
        let _ = (source, reason);
        None
    }

    /// Reconciles one object, of which no other reconciliation is running.
    ///
    /// # Errors
    ///
    /// If a request to the API server fails; the object is retried.
    fn reconcile(
        of: &Reconciliation<'_, Self>,
    ) -> impl Future<Output = Result<Outcome, kube::Error>> + Send;
}

/// Well-known names of a provider.
#[derive(Clone, Copy, Debug)]
pub struct Names {
    /// The name of the controller, as its events show it.
    pub controller: &'static str,
    /// The Lease for leader election.
    pub lease: &'static str,
    /// Label that assigns an object to one of several operators.
    pub watch_label: &'static str,
    /// Annotation of objects that must not be reconciled.
    pub pause_annotation: &'static str,
    /// Label with the name of the group that an object belongs to, such as its cluster.
    pub member_label: &'static str,
    /// Group and version of the kinds that hold Secrets, as in owner references.
    pub api_version: &'static str,
    /// The kinds that hold Secrets.
    pub claimant_kinds: &'static [&'static str],
    /// The resources of the namespaced ones.
    pub claimants: &'static [Claimant],
    /// Finalizer of Secrets that are held.
    pub secret_finalizer: &'static str,
}

/// A kind of objects that hold the Secrets that they reference.
#[derive(Clone, Copy, Debug)]
pub struct Claimant {
    /// The kind.
    pub kind: &'static str,
    /// Its resource.
    pub resource: fn() -> ApiResource,
}

/// A kind of cluster-scoped objects with a Secret in the operator's namespace, which other
/// objects reference in `spec.identityRef`. Its fields are the same for all providers:
/// `spec.secretName`, `spec.allowedNamespaces`, `spec.allowedTenants` and [`IdentityStatus`].
#[derive(Clone, Copy, Debug)]
pub struct IdentityKind {
    /// The kind.
    pub kind: &'static str,
    /// Its resource.
    pub resource: fn() -> ApiResource,
    /// Its finalizer.
    pub finalizer: &'static str,
    /// Returns the endpoints that a spec allows, or what is wrong with it. None of them are
    /// allowed then.
    pub bound: fn(&Value) -> Result<AllowedEndpoints, String>,
    /// The kinds that count as users.
    pub users: &'static [IdentityUser],
}

/// A kind of objects that reference identities in `spec.identityRef`.
#[derive(Clone, Copy, Debug)]
pub struct IdentityUser {
    /// The kind.
    pub kind: &'static str,
    /// Its resource.
    pub resource: fn() -> ApiResource,
    /// The members that keep an object a user even if its namespace may not use the identity any
    /// more, because they could not be cleaned up otherwise.
    pub members: Option<Members>,
}

/// The members of an object: all objects of these kinds with its value of the member label.
#[derive(Clone, Copy, Debug)]
pub struct Members {
    /// The kinds of members.
    pub kinds: &'static [fn() -> ApiResource],
    /// Returns the value of the label.
    pub value: fn(&DynamicObject) -> String,
}

/// A kind that is watched.
#[derive(Clone, Debug)]
pub struct WatchedKind {
    /// Its resource.
    pub resource: ApiResource,
    /// Whether its objects are namespaced.
    pub is_namespaced: bool,
    /// Whether its objects are reconciled; otherwise they only trigger their dependents.
    pub is_reconciled: bool,
    /// Whether the operator waits for the kind before it starts. A kind of another provider may
    /// be missing, and its watch starts when it is served.
    pub is_required: bool,
}

impl WatchedKind {
    /// Returns a kind of the provider, which is reconciled.
    pub fn reconciled<K>() -> Self
    where
        K: Resource<DynamicType = ()>,
        K::Scope: Scope,
    {
        Self {
            is_required: true,
            ..Self::reconciled_if_served::<K>()
        }
    }

    /// Returns a kind that is reconciled, and that not every server has.
    pub fn reconciled_if_served<K>() -> Self
    where
        K: Resource<DynamicType = ()>,
        K::Scope: Scope,
    {
        Self {
            is_reconciled: true,
            ..Self::dependency::<K>()
        }
    }

    /// Returns a kind that reconciled objects depend on. A kind that is not served does no harm:
    /// the watch starts when it is.
    pub fn dependency<K>() -> Self
    where
        K: Resource<DynamicType = ()>,
        K::Scope: Scope,
    {
        Self {
            resource: ApiResource::erase::<K>(&()),
            is_namespaced: K::Scope::IS_NAMESPACED,
            is_reconciled: false,
            is_required: false,
        }
    }

    /// Returns a kind that is known only at run time: it is namespaced and reconciled.
    pub fn reconciled_resource(resource: ApiResource) -> Self {
        Self {
            resource,
            is_namespaced: true,
            is_reconciled: true,
            is_required: false,
        }
    }

    fn group_kind(&self) -> GroupKind {
        GroupKind::of_resource(&self.resource)
    }
}

/// The scope of a kind.
pub trait Scope {
    /// Whether objects are namespaced.
    const IS_NAMESPACED: bool;
}

impl Scope for NamespaceResourceScope {
    const IS_NAMESPACED: bool = true;
}

impl Scope for ClusterResourceScope {
    const IS_NAMESPACED: bool = false;
}
