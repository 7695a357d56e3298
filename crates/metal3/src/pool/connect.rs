//! Opens pools of hosts.

use std::sync::Arc;
use std::time::Duration;

use insula_identity::credential::{Credential, Hidden, Source};
use insula_identity::endpoint::{Endpoint, InvalidEndpoint};
use insula_identity::reason::Reason;
use insula_identity::session::{Connector, Key, LoginError};
use insula_operator::account::ServiceAccount;
use insula_operator::outbound::{HttpClients, kubernetes_login_error};
use insula_operator::provider::Requeue;
use insula_operator::spaces;
use kube::Client;
use kube::api::ListParams;
use tokio::task::AbortHandle;

use super::memory::{Owner, PoolMemory};
use super::{HostMemory, HostPool, client, rights, watch};
use crate::kubeconfig::HostAccess;

/// The name of the operator's own server, as the endpoint of a credential.
pub const IN_CLUSTER: &str = "kubernetes.default.svc";

/// How long the access to hosts may take.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);

/// The key of the service account to act as, in the content of the credential for hosts of the
/// operator's own server.
const ACCOUNT: &str = "service-account";

/// Returns the credential for hosts of the operator's own server, next to machines of a namespace:
/// that of the service account to act as, or else of the operator.
///
/// Failures are counted by endpoint, and must not be counted for other spaces. So each space has an
/// endpoint of its own, and none can be named in a kubeconfig: there is no port 0.
///
/// # Errors
///
/// If the space is no name.
pub fn in_cluster(
    space: Option<&str>,
    namespace: &str,
    account: Option<&str>,
) -> Result<Credential, InvalidEndpoint> {
    let endpoint = match space {
        Some(space) => Endpoint::parse(&format!("{space}.{IN_CLUSTER}"), 0)?,
        None => Endpoint::parse(IN_CLUSTER, 0)?,
    };
    let account = account.map(|name| (ACCOUNT.to_owned(), Hidden::new(name)));
    Ok(Credential {
        scope: Some(namespace.to_owned()),
        ..Credential::of_operator(account.into_iter().collect(), endpoint)
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
    /// The memory that hosts take.
    pub memory: Arc<HostMemory>,
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
            let space = key.space.as_deref();
            let client = match space {
                Some(space) => spaces::client_for(&self.own, space),
                None => self.own.clone(),
            };
            let account = credential.text(ACCOUNT).map(|name| ServiceAccount {
                space,
                namespace: credential.scope.as_deref().unwrap_or_default(),
                name,
            });
            return Ok(match account {
                Some(account) => account.impersonate(&client),
                None => client,
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
        // Messages name the server as its clients do.
        let endpoint = match is_in_cluster {
            true => Endpoint::parse(IN_CLUSTER, 443).ok(),
            false => None,
        };
        let endpoint = endpoint.unwrap_or_else(|| credential.endpoint.clone());
        let requeue = Arc::clone(&self.requeue);
        let memory = PoolMemory::new(Arc::clone(&self.memory), Owner::of(key));
        let pool = HostPool::new(client, endpoint, namespace, is_in_cluster, memory, requeue);
        let pool = Arc::new(pool);
        pool.verify().await?;
        let (watch, is_listed) = watch::start(&pool);
        // A login that is given up ends the watch: a server may let it wait for ever.
        let open = OpenPool { pool, watch };
        // A failed watch is retried.
        is_listed.await.ok();
        Ok(open)
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
            Reason::Forbidden if !self.is_in_cluster => {
                rights::forbidden(&self.namespace, "list baremetalhosts")
            }
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
