//! A fake Azure on loopback: Azure Resource Manager and the token endpoint of Entra ID over HTTPS,
//! and the instance metadata service over HTTP.
//!
//! ARM answers in the manner of each type's resource provider ([`Manner`]): synchronously, with
//! `Azure-AsyncOperation`, with `Location`, or with a state in the body. Operations take a number of
//! polls and no time. The token endpoint verifies secrets, signed assertions and the assertions of
//! other issuers. All requests are recorded together with the identity behind them, and [`Fault`]s
//! are inflicted on request.

mod access;
mod act;
mod arm;
mod assertion;
mod control;
mod directory;
mod entra;
mod entra_error;
mod faults;
mod handle;
mod imds;
mod issuer;
mod journal;
mod kinds;
mod list;
mod manner;
mod message;
mod operation;
mod path;
mod place;
mod poll;
mod preconditions;
mod put;
mod read;
mod resource;
mod server;
mod state;
#[cfg(test)]
mod tests;
mod world;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use insula_access::jwt::KeySet;
use serde_json::{Value, json};

pub use directory::FederatedCredential;
pub use faults::{Availability, Fault, Service};
pub use journal::{ArmCall, Caller, Proof, TokenCall};
pub use manner::{DeleteManner, Manner, PutManner};

use directory::{ARM_AUDIENCE, Certificate, Secret};
use handle::{Shared, lock};
use path::ArmId;
use server::{Handler, Server, ServerTls};
use world::World;

/// A fake Azure. Dropping it stops its servers.
pub struct FakeAzure {
    shared: Arc<Shared>,
    arm: Server,
    entra: Server,
    imds: Server,
    control: Server,
    ca_pem: String,
}

/// How long a test waits before it fails.
const WAIT_TIMEOUT: Duration = Duration::from_secs(20);

/// The audience of the assertions that Entra ID accepts.
pub const EXCHANGE_AUDIENCE: &str = "api://AzureADTokenExchange";

impl FakeAzure {
    /// Starts one on free ports, without tenants and subscriptions.
    pub async fn start() -> anyhow::Result<Self> {
        let shared = Arc::new(Shared::default());
        let tls = ServerTls::generate()?;
        let secure = || Some(tls.acceptor.clone());
        Ok(Self {
            arm: Server::start(secure(), handler(&shared, handle::arm))?,
            entra: Server::start(secure(), handler(&shared, handle::entra))?,
            imds: Server::start(None, handler(&shared, handle::imds))?,
            control: Server::start(None, handler(&shared, control::answer))?,
            ca_pem: tls.ca_pem,
            shared,
        })
    }

    /// The endpoint of ARM: `AZURE_RESOURCE_MANAGER_ENDPOINT`.
    pub fn arm_endpoint(&self) -> String {
        format!("https://{}", self.arm.address)
    }

    /// The authority that issues tokens: `AZURE_AUTHORITY_HOST`.
    pub fn authority_host(&self) -> String {
        format!("https://{}/", self.entra.address)
    }

    /// The audience of tokens for ARM: `AZURE_RESOURCE_MANAGER_AUDIENCE`.
    pub const fn audience(&self) -> &'static str {
        ARM_AUDIENCE
    }

    /// The endpoint of the instance metadata service.
    pub fn imds_endpoint(&self) -> String {
        format!("http://{}", self.imds.address)
    }

    /// The address at which other processes read the journal and add applications.
    pub fn control_endpoint(&self) -> String {
        format!("http://{}", self.control.address)
    }

    /// The CA of its certificates.
    pub fn ca_pem(&self) -> &str {
        &self.ca_pem
    }

    /// The settings of an operator that uses this Azure, by the names of environment variables.
    pub fn settings(&self) -> Vec<(&'static str, String)> {
        vec![
            ("AZURE_RESOURCE_MANAGER_ENDPOINT", self.arm_endpoint()),
            (
                "AZURE_RESOURCE_MANAGER_AUDIENCE",
                self.audience().to_owned(),
            ),
            ("AZURE_AUTHORITY_HOST", self.authority_host()),
        ]
    }

    /// Writes each request to a file from now on, as a line of JSON without bodies and secrets.
    pub fn log_to(&self, file: &Path) -> anyhow::Result<()> {
        let opened = std::fs::OpenOptions::new()
            .create(true)
            .append(true)
            .open(file);
        *lock(&self.shared.log) = Some(opened.with_context(|| format!("open {}", file.display()))?);
        Ok(())
    }
}

/// Tenants, applications and identities.
impl FakeAzure {
    /// Adds an application without credentials, and its tenant.
    pub fn add_application(&self, tenant: &str, client: &str) {
        self.world(|world| {
            world.directory.application_mut(tenant, client);
        });
    }

    /// Removes an application. Its tokens stay valid until they expire.
    pub fn remove_application(&self, tenant: &str, client: &str) {
        self.world(|world| world.directory.remove_application(tenant, client));
    }

    /// Adds a client secret.
    pub fn add_secret(&self, tenant: &str, client: &str, secret: &str) {
        let secret = Secret {
            value: secret.to_owned(),
            expired: false,
        };
        self.world(|world| {
            world
                .directory
                .application_mut(tenant, client)
                .secrets
                .push(secret)
        });
    }

    /// Makes a client secret expire.
    pub fn expire_secret(&self, tenant: &str, client: &str, secret: &str) {
        self.world(|world| {
            let secrets = &mut world.directory.application_mut(tenant, client).secrets;
            let expired = secrets.iter_mut().filter(|known| known.value == secret);
            expired.for_each(|known| known.expired = true);
        });
    }

    /// Removes a client secret, so that it is wrong.
    pub fn remove_secret(&self, tenant: &str, client: &str, secret: &str) {
        self.world(|world| {
            let secrets = &mut world.directory.application_mut(tenant, client).secrets;
            secrets.retain(|known| known.value != secret);
        });
    }

    /// Adds a certificate in PEM.
    pub fn add_certificate(&self, tenant: &str, client: &str, pem: &str) -> anyhow::Result<()> {
        let certificate = Certificate::read(pem)?;
        self.world(|world| {
            let application = world.directory.application_mut(tenant, client);
            application.certificates.push(certificate);
        });
        Ok(())
    }

    /// Lets an application accept assertions of another issuer with the usual audience.
    pub fn add_federated_credential(
        &self,
        tenant: &str,
        client: &str,
        issuer: &str,
        subject: &str,
    ) {
        let credential = FederatedCredential {
            issuer: issuer.to_owned(),
            subject: subject.to_owned(),
            audience: EXCHANGE_AUDIENCE.to_owned(),
        };
        self.world(|world| {
            let application = world.directory.application_mut(tenant, client);
            application.federated.push(credential);
        });
    }

    /// Trusts these CAs in PEM when keys are read from issuers over HTTPS, besides earlier ones.
    pub fn trust_issuers(&self, ca_pem: &str) {
        self.world(|world| {
            world.issuer_authorities.push_str(ca_pem);
            world.issuer_authorities.push('\n');
        });
    }

    /// Reaches issuers that begin with a URL at another one, as in `https://insula.test` at
    /// `https://127.0.0.1:6443`.
    pub fn reach_issuers(&self, from: &str, to: &str) {
        let route = (from.to_owned(), to.to_owned());
        self.world(|world| world.issuer_routes.push(route));
    }

    /// Uses this JSON Web Key Set for an issuer instead of asking it.
    pub fn set_issuer_keys(&self, issuer: &str, jwks: &str) -> anyhow::Result<()> {
        let keys = KeySet::from_jwks(jwks.as_bytes())?;
        self.world(|world| world.issuer_keys.insert(issuer.to_owned(), keys));
        Ok(())
    }

    /// Assigns an identity to the machine of the instance metadata service.
    pub fn assign_identity(&self, tenant: &str, client: &str) {
        self.world(|world| {
            let application = world.directory.application_mut(tenant, client);
            let principal = application.principal.clone();
            world.directory.machine.push(Caller {
                tenant: tenant.to_owned(),
                client: client.to_owned(),
                principal,
                proof: Proof::ManagedIdentity,
            });
        });
    }

    /// Tokens are valid for this long from now on.
    pub fn set_token_lifetime(&self, lifetime: Duration) {
        self.world(|world| world.directory.lifetime = lifetime);
    }

    /// Makes all issued tokens invalid.
    pub fn revoke_tokens(&self) {
        self.world(|world| world.directory.revoke_tokens());
    }

    /// Moves the clock of all services ahead.
    pub fn advance_clock(&self, by: Duration) {
        self.world(|world| world.directory.clock += by);
    }

    /// Issues a token of an application without a request, for requests of the test itself.
    pub fn token(&self, tenant: &str, client: &str) -> String {
        self.world(|world| {
            let principal = world
                .application(tenant, client)
                .map(|known| known.principal);
            let caller = Caller {
                tenant: tenant.to_owned(),
                client: client.to_owned(),
                principal: principal.unwrap_or_default(),
                proof: Proof::None,
            };
            world.directory.issue(&caller, ARM_AUDIENCE)
        })
    }
}

/// Subscriptions and resources.
impl FakeAzure {
    /// Adds a subscription that accepts tokens of a tenant, and lets these clients use it.
    pub fn add_subscription(&self, id: &str, tenant: &str, clients: &[&str]) {
        self.world(|world| {
            world.directory.add_tenant(tenant);
            world.arm.subscriptions.add(id, tenant);
        });
        for client in clients {
            self.grant(client, id);
        }
    }

    /// Cancels a subscription without the client's knowledge.
    pub fn cancel_subscription(&self, id: &str) {
        self.world(|world| world.arm.subscriptions.cancel(id));
    }

    /// Whether a subscription was cancelled.
    pub fn is_cancelled(&self, id: &str) -> bool {
        self.world(|world| {
            let subscription = world.arm.subscriptions.get(id);
            subscription.is_some_and(|subscription| subscription.state() == "Disabled")
        })
    }

    /// Lets a client use a scope: the id of a subscription, or the ARM id of a group or resource.
    pub fn grant(&self, client: &str, scope: &str) {
        self.world(|world| world.arm.subscriptions.grant(client, scope));
    }

    /// Takes a scope from a client.
    pub fn revoke(&self, client: &str, scope: &str) {
        self.world(|world| world.arm.subscriptions.revoke(client, scope));
    }

    /// Makes a resource provider unknown to a subscription until a client registers it.
    pub fn unregister_provider(&self, subscription: &str, namespace: &str) {
        self.world(|world| world.arm.subscriptions.unregister(subscription, namespace));
    }

    /// A resource provider that is being registered refuses this many more requests.
    pub fn registration_takes(&self, requests: u32) {
        self.world(|world| world.arm.subscriptions.registration_takes = requests);
    }

    /// Changes the manner of a type, as in `Microsoft.Storage/storageAccounts`.
    pub fn set_manner(&self, resource_type: &str, change: impl FnOnce(&mut Manner)) {
        self.world(|world| world.arm.manners.change(resource_type, change));
    }

    /// Operations are in progress for this many polls, unless their type has a number of its own.
    pub fn set_polls(&self, polls: u32) {
        self.world(|world| world.arm.manners.polls = polls);
    }

    /// Collections are answered in pages of this many elements from now on.
    pub fn set_page_size(&self, elements: usize) {
        self.world(|world| world.arm.page_size = Some(elements));
    }

    /// The seconds of `Retry-After`, unless a type has a number of its own; `None` sends none.
    pub fn set_retry_after(&self, seconds: Option<u32>) {
        self.world(|world| world.arm.manners.retry_after = seconds);
    }

    /// The next operation on a resource of this type is accepted, and fails with this error.
    pub fn fail_next_operation(&self, resource_type: &str, code: &str, message: &str) {
        let failure = (
            resource_type.to_ascii_lowercase(),
            json!({"code": code, "message": message}),
        );
        self.world(|world| world.arm.failures.push_back(failure));
    }

    /// Forgets the URLs of all operations, so that polls of them get 404. The operations continue.
    pub fn forget_operations(&self) {
        self.world(|world| world.arm.forget_operations());
    }

    /// The answer to a POST of an action, as in `listKeys`, on all resources of a type.
    pub fn set_answer(&self, resource_type: &str, action: &str, answer: Value) {
        let key = (
            resource_type.to_ascii_lowercase(),
            action.to_ascii_lowercase(),
        );
        self.world(|world| world.arm.answers.insert(key, answer));
    }

    /// Creates a resource or group without a request.
    pub fn add_resource(&self, id: &str, body: Value) {
        let (Some(id), Value::Object(body)) = (ArmId::parse(id), body) else {
            return;
        };
        let caller = Caller::default();
        self.world(|world| world.arm.write(&id, body, &caller, PutManner::Done));
    }

    /// Removes a resource and all below it without the client's knowledge.
    pub fn remove_resource(&self, id: &str) {
        let key = id.to_ascii_lowercase();
        self.world(|world| world.arm.remove(&key));
        self.shared.journal.send_modify(|_| {});
    }

    /// Changes the content of a resource without the client's knowledge.
    pub fn change_resource(&self, id: &str, change: impl FnOnce(&mut Value)) {
        self.world(|world| {
            if let Some(resource) = world.arm.resources.get_mut(&id.to_ascii_lowercase()) {
                let mut body = Value::Object(std::mem::take(&mut resource.body));
                change(&mut body);
                if let Value::Object(body) = body {
                    resource.body = body;
                }
                resource.touch();
            }
        });
    }

    /// A resource as a GET shows it. Reading it here is no observation of its operation.
    pub fn resource(&self, id: &str) -> Option<Value> {
        let id = ArmId::parse(id)?;
        self.world(|world| world.arm.get(&id).map(|resource| world.arm.view(resource)))
    }

    /// The ids of all resources and groups, ordered without case.
    pub fn resource_ids(&self) -> Vec<String> {
        self.world(|world| {
            world
                .arm
                .resources
                .values()
                .map(|one| one.id.text())
                .collect()
        })
    }

    /// The identity that created a resource.
    pub fn creator(&self, id: &str) -> Option<Caller> {
        let id = ArmId::parse(id)?;
        self.world(|world| {
            world
                .arm
                .get(&id)
                .map(|resource| resource.created_by.clone())
        })
    }
}

/// Faults.
impl FakeAzure {
    /// Inflicts a fault until [`Self::clear_faults`]. Of several that match a request, the first one
    /// takes effect.
    pub fn inflict(&self, fault: Fault) {
        self.shared.faults.send_modify(|faults| faults.add(fault));
    }

    /// Ends all faults. Requests that hang are answered.
    pub fn clear_faults(&self) {
        self.shared.faults.send_modify(faults::Faults::clear);
    }

    /// Changes whether a service accepts connections. Existing connections are closed.
    pub async fn set_availability(&self, service: Service, availability: Availability) {
        let server = match service {
            Service::Arm => &self.arm,
            Service::Entra => &self.entra,
            Service::Imds => &self.imds,
        };
        server.set_availability(availability).await;
    }
}

/// The journal.
impl FakeAzure {
    /// All requests to ARM, in the order in which they arrived.
    pub fn requests(&self) -> Vec<ArmCall> {
        self.shared.journal.borrow().arm.clone()
    }

    /// The requests to ARM with tokens of a client.
    pub fn requests_by(&self, client: &str) -> Vec<ArmCall> {
        let by = |call: &ArmCall| {
            let caller = call.caller.as_ref();
            caller.is_some_and(|caller| caller.client.eq_ignore_ascii_case(client))
        };
        self.requests().into_iter().filter(by).collect()
    }

    /// The requests for one resource itself.
    pub fn requests_for(&self, method: &str, id: &str) -> Vec<ArmCall> {
        let of = |call: &ArmCall| call.method == method && call.is_for(id);
        self.requests().into_iter().filter(of).collect()
    }

    /// The number of PUTs of a resource.
    pub fn puts(&self, id: &str) -> usize {
        self.requests_for("PUT", id).len()
    }

    /// All requests for tokens that were answered.
    pub fn token_requests(&self) -> Vec<TokenCall> {
        self.shared.journal.borrow().tokens.clone()
    }

    /// Clears the requests so far.
    pub fn clear_journal(&self) {
        self.shared.journal.send_modify(|journal| {
            journal.forgotten += journal.arm.len();
            journal.arm.clear();
            journal.tokens.clear();
        });
    }

    /// Waits until this holds. It is checked after each request.
    pub async fn wait_for(&self, what: &str, holds: impl Fn(&Self) -> bool) -> anyhow::Result<()> {
        let mut journal = self.shared.journal.subscribe();
        let waiting = async {
            loop {
                journal.borrow_and_update();
                if holds(self) || journal.changed().await.is_err() {
                    return;
                }
            }
        };
        let waited = tokio::time::timeout(WAIT_TIMEOUT, waiting).await;
        waited.with_context(|| format!("not in time: {what}"))
    }

    /// Waits until a resource exists and no operation on it is in progress.
    pub async fn await_ready(&self, id: &str) -> anyhow::Result<Value> {
        let parsed = ArmId::parse(id).with_context(|| format!("{id} is an id"))?;
        let ready = |azure: &Self| {
            let idle = |world: &mut World| {
                let resource = world.arm.get(&parsed);
                resource.is_some_and(|resource| resource.operation.is_none())
            };
            azure.world(idle)
        };
        self.wait_for(&format!("{id} ready"), ready).await?;
        self.resource(id).with_context(|| format!("{id} exists"))
    }

    /// Waits until a resource does not exist.
    pub async fn await_gone(&self, id: &str) -> anyhow::Result<()> {
        self.wait_for(&format!("{id} gone"), |azure| azure.resource(id).is_none())
            .await
    }

    /// Waits until a resource was PUT this many times.
    pub async fn await_puts(&self, id: &str, times: usize) -> anyhow::Result<()> {
        let what = format!("{id} was PUT {times} times");
        self.wait_for(&what, |azure| azure.puts(id) >= times).await
    }

    fn world<T>(&self, act: impl FnOnce(&mut World) -> T) -> T {
        act(&mut lock(&self.shared.world))
    }
}

/// The handler of a server: a function with the shared state.
fn handler<F, Answer>(shared: &Arc<Shared>, answer: F) -> Handler
where
    F: Fn(Arc<Shared>, http::request::Parts, bytes::Bytes) -> Answer + Send + Sync + 'static,
    Answer: Future<Output = anyhow::Result<server::HttpResponse>> + Send + 'static,
{
    let shared = Arc::clone(shared);
    Arc::new(move |parts, body| Box::pin(answer(Arc::clone(&shared), parts, body)))
}
