//! Who plays in a test.

use serde_json::Value;

use crate::api::Api;
use crate::cluster::{Cluster, TENANTS, Workload};
use crate::person::{FILE, Person};
use crate::subm::Subm;
use crate::waiting::until;

/// A tenant that was made for a test.
pub struct Tenant {
    /// Its ID.
    pub id: String,
    /// Its namespace.
    pub namespace: String,
    /// Its administrator: nobody, with the file that they were given.
    pub admin: Person,
    /// That file.
    pub file: Subm,
}

impl Tenant {
    /// The offering admin makes one and hands over the file.
    #[track_caller]
    pub fn create(cluster: &Cluster, id: &str) -> Self {
        Self::create_with(cluster, id, "")
    }

    /// With further arguments.
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

    /// Its administrator deploys the broker, with nothing but the file.
    #[track_caller]
    pub fn deploy_broker(&self, more: &str) -> Subm {
        let line = format!("deploy broker --broker-info-from {FILE} {more}");
        self.admin.does(&line);
        self.admin.reads(FILE)
    }

    /// Its object.
    pub fn object(&self, api: &Api) -> Value {
        api.get(&format!("{TENANTS}/{}", self.id))
    }

    /// Requests with the token in its file.
    pub fn api(&self, cluster: &Cluster) -> Api {
        cluster.api(&self.file.token())
    }

    /// A cluster joins.
    #[track_caller]
    pub fn join(&self, joining: &Workload, id: &str, more: &str) {
        let path = joining.kubeconfig();
        let line = format!("join {FILE} --clusterid {id} --kubeconfig '{path}' {more}");
        self.admin.does(&line);
    }
}

/// One gives the file to another.
pub fn hand_over(from: &Person, to: &Person) {
    std::fs::copy(from.path(FILE), to.path(FILE)).unwrap();
}

/// A tenant's object, as kubectl would make it.
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

/// Waits until a tenant is so far.
#[track_caller]
pub fn await_phase(api: &Api, id: &str, phase: &str) -> Value {
    until(&format!("{id} becomes {phase}"), || {
        let tenant = api.find(&format!("{TENANTS}/{id}"))?;
        (tenant["status"]["phase"] == phase).then_some(tenant)
    })
}

/// Waits until nothing is at a path.
#[track_caller]
pub fn await_gone(api: &Api, path: &str) {
    until(&format!("{path} goes"), || {
        api.find(path).is_none().then_some(())
    });
}

/// Waits until a token is worth nothing: Kubernetes remembers for some seconds that one was
/// good.
#[track_caller]
pub fn await_worthless(api: &Api, path: &str) {
    until("the old token ends", || {
        (api.code(&http::Method::GET, path, None) == 401).then_some(())
    });
}
