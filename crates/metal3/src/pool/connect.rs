//! Opens pools of hosts.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use insula_identity::credential::{Credential, Source};
use insula_identity::endpoint::Endpoint;
use insula_identity::reason::Reason;
use insula_identity::session::{Connector, Key, LoginError};
use insula_operator::outbound::{HttpClients, kubernetes_login_error};
use insula_operator::provider::Requeue;
use insula_operator::spaces;
use kube::Client;
use kube::api::ListParams;
use tokio::task::AbortHandle;

use super::{HostPool, client, rights, watch};
use crate::kubeconfig::HostAccess;

/// The name of the operator's own server, as the endpoint of a credential.
pub const IN_CLUSTER: &str = "kubernetes.default.svc";

/// How long the access to hosts may take.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);

/// Returns the credential for hosts of the operator's own server, next to machines of a namespace.
///
/// # Errors
///
/// Never: the name of the server is valid. The error is that of parsing it.
pub fn in_cluster(
    namespace: &str,
) -> Result<Credential, insula_identity::endpoint::InvalidEndpoint> {
    let endpoint = Endpoint::parse(IN_CLUSTER, 443)?;
    Ok(Credential {
        scope: Some(namespace.to_owned()),
        ..Credential::of_operator(BTreeMap::new(), endpoint)
    })
}

/// Opens pools: one for each namespace of hosts and credential, however many machines use it.
#[derive(Clone)]
pub struct Pools {
    /// The client of the operator's own server.
    pub own: Client,
    /// The clients of servers that kubeconfigs name.
    pub clients: HttpClients,
    /// Takes the objects that changes of hosts trigger.
    pub requeue: Arc<Requeue>,
}

/// An open pool. Its watch ends with it.
pub struct OpenPool {
    pool: Arc<HostPool>,
    watch: AbortHandle,
}

impl std::ops::Deref for OpenPool {
    type Target = HostPool;

    fn deref(&self) -> &HostPool {
        &self.pool
    }
}

impl Drop for OpenPool {
    fn drop(&mut self) {
        self.watch.abort();
    }
}

impl Pools {
    fn client(&self, key: &Key, credential: &Credential) -> Result<Client, LoginError> {
        if credential.source == Source::Operator {
            return Ok(match key.space.as_deref() {
                Some(space) => spaces::client_for(&self.own, space),
                None => self.own.clone(),
            });
        }
        let invalid = || LoginError {
            reason: Reason::InvalidCredentials,
            message: "the kubeconfig has a certificate or a key that cannot be used".to_owned(),
            answered: false,
        };
        let access = HostAccess::of(credential).ok_or_else(invalid)?;
        let config = client::config(&access).ok_or_else(invalid)?;
        let client = self.clients.kubernetes(&config, REQUEST_TIMEOUT);
        client.map_err(|_| invalid())
    }
}

impl Connector for Pools {
    type Session = OpenPool;

    async fn log_in(&self, key: &Key, credential: &Credential) -> Result<OpenPool, LoginError> {
        let client = self.client(key, credential)?;
        let namespace = credential.scope.clone().unwrap_or_default();
        let is_in_cluster = credential.source == Source::Operator;
        let (endpoint, requeue) = (credential.endpoint.clone(), Arc::clone(&self.requeue));
        let pool = HostPool::new(client, endpoint, namespace, is_in_cluster, requeue);
        let pool = Arc::new(pool);
        pool.verify().await?;
        let watch = watch::start(&pool).await.abort_handle();
        Ok(OpenPool { pool, watch })
    }

    async fn is_alive(&self, session: &OpenPool) -> Result<bool, LoginError> {
        match session.list_one().await {
            Err(error) if error.reason == Reason::InvalidCredentials => Ok(false),
            listed => listed.map(|()| true),
        }
    }

    async fn log_out(&self, _: &OpenPool) {}
}

impl HostPool {
    /// Verifies that the server can be reached, accepts the credential, serves hosts, and permits
    /// what the operator does with them. The rights of the operator's own account are not checked.
    ///
    /// # Errors
    ///
    /// If one of these is not so.
    pub async fn verify(&self) -> Result<(), LoginError> {
        self.list_one().await?;
        if !self.is_in_cluster {
            rights::check(&self.client, &self.namespace).await?;
        }
        self.state().is_in_doubt = false;
        Ok(())
    }

    async fn list_one(&self) -> Result<(), LoginError> {
        let (hosts, one) = (self.hosts(), ListParams::default().limit(1));
        let error = match hosts.list_metadata(&one).await {
            Ok(_) => return Ok(()),
            Err(error) => kubernetes_login_error(&error, &self.endpoint),
        };
        Err(match error.reason {
            Reason::Forbidden => rights::forbidden(&self.namespace, "list baremetalhosts"),
            Reason::NotServed => LoginError {
                message: format!(
                    "{} does not serve BareMetalHosts: install the Bare Metal Operator's \
                     definitions there",
                    self.endpoint
                ),
                ..error
            },
            _ => error,
        })
    }
}
