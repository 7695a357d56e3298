//! The tenants of a test.

use serde_json::Value;

use crate::api::Api;
use crate::cluster::{Cluster, TENANTS, Workload};
use crate::subm::Subm;
use crate::user::{FILE, User};
use crate::wait::until;

/// A tenant that was created for a test.
pub struct Tenant {
    /// Its ID.
    pub id: String,
    /// Its namespace.
    pub namespace: String,
    /// Its administrator: a user without a kubeconfig, but with the file.
    pub admin: User,
    /// The file.
    pub file: Subm,
}

impl Tenant {
    /// The offering admin creates a tenant and hands over the file.
    #[track_caller]
    pub fn create(cluster: &Cluster, id: &str) -> Self {
        Self::create_with(cluster, id, "")
    }

    /// The same with additional arguments.
    #[track_caller]
    pub fn create_with(cluster: &Cluster, id: &str, more: &str) -> Self {
        let offering = cluster.admin();
        let printed = offering.does(&format!("create tenant {id} {more}"));
        assert_eq!(printed, format!("{id}\n"));
        let admin = cluster.nobody();
        hand_over(&offering, &admin);
        Self {
            id: id.to_owned(),
            namespace: format!("submariner-broker-{id}"),
            file: admin.reads(FILE),
            admin,
        }
    }

    /// Its administrator deploys the broker with only the file.
    #[track_caller]
    pub fn deploy_broker(&self, more: &str) -> Subm {
        let line = format!("deploy broker --broker-info-from {FILE} {more}");
        self.admin.does(&line);
        self.admin.reads(FILE)
    }

    /// Returns its object.
    pub fn object(&self, api: &Api) -> Value {
        api.get(&format!("{TENANTS}/{}", self.id))
    }

    /// A client with the token in its file.
    pub fn api(&self, cluster: &Cluster) -> Api {
        cluster.api(&self.file.token())
    }

    /// Joins a cluster.
    #[track_caller]
    pub fn join(&self, joining: &Workload, id: &str, more: &str) {
        let path = joining.kubeconfig();
        let line = format!("join {FILE} --clusterid {id} --kubeconfig '{path}' {more}");
        self.admin.does(&line);
    }
}

/// Copies the file from one user to another.
pub fn hand_over(from: &User, to: &User) {
    std::fs::copy(from.path(FILE), to.path(FILE)).unwrap();
}

/// A Tenant object, as kubectl would create it.
pub fn tenant(id: &str) -> Value {
    serde_json::json!({
        "apiVersion": "submariner.io/v1alpha1", "kind": "Tenant",
        "metadata": {"name": id, "namespace": "axon-operator"},
    })
}

/// A namespace.
pub fn namespace(name: &str) -> Value {
    serde_json::json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
}

/// Waits until a tenant has this phase.
#[track_caller]
pub fn await_phase(api: &Api, id: &str, phase: &str) -> Value {
    until(&format!("{id} becomes {phase}"), || {
        let tenant = api.find(&format!("{TENANTS}/{id}"))?;
        (tenant["status"]["phase"] == phase).then_some(tenant)
    })
}

/// Waits until a path is not found.
#[track_caller]
pub fn await_gone(api: &Api, path: &str) {
    until(&format!("{path} goes"), || {
        api.find(path).is_none().then_some(())
    });
}

/// Waits until a token is refused: Kubernetes caches valid tokens for some seconds.
#[track_caller]
pub fn await_refused(api: &Api, path: &str) {
    until("the old token ends", || {
        (api.code(&http::Method::GET, path, None) == 401).then_some(())
    });
}
