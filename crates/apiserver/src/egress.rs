//! Calls to admission and conversion webhooks.
//!
//! Tenants choose the addresses of webhooks, so nothing about them is trusted. A name is
//! resolved once, and the connection goes to an address that was checked. Addresses around
//! the server are no targets for tenants. Redirects are not followed, and responses are
//! limited in size and time. No credentials are sent. An idle connection is reused only by
//! the same space, for the same backend and the same CA bundle.
//!
//! Webhooks of the system that name a Service of an operator in this process are called without
//! a connection, by the same limits: see [`InProcessServices`].

mod connection;
mod dial;
mod endpoint;
mod error;
mod in_process;
mod pool;
mod service;
mod target;
mod tls;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_TYPE, HOST, USER_AGENT};
use http_body_util::Full;
use insula_admission::review::unexpected;
use insula_admission::webhook::Client;
use insula_core::Space;
use insula_dialer::{AddressRules, Cidr, Dialer, KeyedLimit, Reach, Resolver};
use tokio::time::{Instant, timeout_at};

pub use endpoint::{Endpoint, EndpointError, EndpointSettings, PostError};
pub use error::CallError;
pub use in_process::{InProcessHandler, InProcessServices};
pub use service::{Backend, Services};

use connection::{Connection, Reply};
use pool::{Key, Pool};
use target::Target;
use tls::Trusts;

/// The settings of calls.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Addresses around the server that tenants may call nevertheless.
    pub allow: Vec<Cidr>,
    /// Addresses that tenants may never call. Takes precedence over `allow`.
    pub deny: Vec<Cidr>,
    /// The most concurrent calls of one space.
    pub each: usize,
    /// The most idle connections, over all spaces.
    pub idle: usize,
    /// The Services of the system space that are served in this process.
    pub in_process: InProcessServices,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            allow: Vec::new(),
            deny: Vec::new(),
            // A call holds a connection and some kilobytes, and most take milliseconds.
            each: 64,
            // Each costs a file descriptor, perhaps without ever being reused.
            idle: 256,
            in_process: InProcessServices::default(),
        }
    }
}

/// The client that calls webhooks.
pub struct Egress {
    dialer: Dialer<Space>,
    calls: Arc<KeyedLimit<Space>>,
    trusts: Trusts,
    pool: Pool,
    in_process: InProcessServices,
}

/// A call to a webhook.
#[derive(Clone, Debug)]
pub struct Call<'a> {
    /// The space that configured the webhook.
    pub space: &'a Space,
    /// The space of the object under review, if the call is about one object. Handlers in this
    /// process get it; other webhooks do not.
    pub object_space: Option<&'a Space>,
    /// The address of the webhook.
    pub client: &'a Client,
    /// The request body, in JSON.
    pub body: Bytes,
    /// The timeout, [`MAX_TIMEOUT`] at most.
    pub timeout: Duration,
    /// The most bytes of the response.
    pub max_bytes: usize,
}

/// The most bytes of an admission webhook's response.
pub const MAX_RESPONSE_BYTES: usize = 1 << 20;

/// The most bytes of a conversion webhook's response.
pub const MAX_CONVERSION_BYTES: usize = 3 << 20;

/// The longest timeout of a call.
pub const MAX_TIMEOUT: Duration = Duration::from_secs(30);

const AGENT: &str = "kube-apiserver-admission";

impl Egress {
    /// Creates the client of a server that listens at `own`.
    pub fn new(settings: Settings, own: SocketAddr) -> Self {
        let rules = AddressRules {
            allow: settings.allow,
            deny: settings.deny,
            own: Some(own),
        };
        Self {
            dialer: Dialer::new(rules, Resolver::system()),
            calls: Arc::new(KeyedLimit::new(settings.each)),
            trusts: Trusts::default(),
            pool: Pool::new(settings.idle),
            in_process: settings.in_process,
        }
    }

    /// Posts the body and returns the body of the response. Services are those of the space.
    ///
    /// # Errors
    ///
    /// If the call fails, or the status is not 200 to 206.
    pub async fn post(&self, services: &dyn Services, call: Call<'_>) -> Result<Bytes, CallError> {
        let timeout = call.timeout.min(MAX_TIMEOUT);
        let target = Target::of(&call.client.endpoint, timeout)?;
        let until = Instant::now() + timeout;
        let made = timeout_at(until, self.exchange(services, &call, &target));
        let reply = match made.await {
            Ok(made) => made?,
            Err(_) => return Err(self.late(services, &call, &target)),
        };
        match reply.code {
            200..=206 => Ok(reply.body),
            code => {
                let of = reply.content_type.as_deref();
                Err(CallError::Call(unexpected(code, of, &reply.body)))
            }
        }
    }

    /// Returns the error of a call that timed out. Packets to a cluster IP that no network routes
    /// are lost without an answer.
    fn late(&self, services: &dyn Services, call: &Call<'_>, target: &Target<'_>) -> CallError {
        let why = "context deadline exceeded";
        if self.handler(call, target).is_some() {
            return target.failed(why);
        }
        match target.backend(services, call.space) {
            Ok(backend) => target.unreachable(&backend, why),
            Err(_) => target.failed(why),
        }
    }

    fn handler(&self, call: &Call<'_>, target: &Target<'_>) -> Option<&InProcessHandler> {
        let (namespace, name) = target.service()?;
        self.in_process.find(call.space, namespace, name)
    }

    async fn exchange(
        &self,
        services: &dyn Services,
        call: &Call<'_>,
        target: &Target<'_>,
    ) -> Result<Reply, CallError> {
        let _permit = self.calls.acquire(call.space).await;
        if let Some(handler) = self.handler(call, target) {
            let mut request = request(call, target)?;
            if let Some(space) = call.object_space {
                request.extensions_mut().insert(space.clone());
            }
            let reply = in_process::call(handler, request, call.max_bytes).await;
            return reply.map_err(|why| target.failed(&why));
        }
        let backend = target.backend(services, call.space);
        let backend = backend.map_err(|why| target.failed(&why))?;
        let key = Key::of(call, target, &backend);
        while let Some(kept) = self.pool.take(&key) {
            // A peer that closed the idle connection has seen nothing of the call.
            let Some(mut connection) = kept.ready().await else {
                continue;
            };
            match connection
                .send(request(call, target)?.map(Full::new), call.max_bytes)
                .await
            {
                Ok(reply) => {
                    self.pool.keep(key, connection);
                    return Ok(reply);
                }
                Err(failure) if failure.unheard => break,
                Err(failure) => return Err(target.failed(&failure.why)),
            }
        }
        let mut connection = self.connect(call, target, &backend).await?;
        let sent = connection
            .send(request(call, target)?.map(Full::new), call.max_bytes)
            .await;
        let reply = sent.map_err(|failure| target.failed(&failure.why))?;
        self.pool.keep(key, connection);
        Ok(reply)
    }

    async fn connect(
        &self,
        call: &Call<'_>,
        target: &Target<'_>,
        backend: &Backend,
    ) -> Result<Connection, CallError> {
        let tls = self.trusts.connector(call.client.ca_bundle.as_deref())?;
        let (host, port) = backend.address();
        let reach = match call.space {
            Space::System => Reach::Any,
            Space::Tenant(_) => Reach::Ruled,
        };
        let stream = self.dialer.connect(call.space, reach, host, port).await;
        let stream = stream.map_err(|why| {
            let why = dial::failed(host, port, &why);
            target.unreachable(backend, &why)
        })?;
        let connected = Connection::open(stream, &tls, &target.host).await;
        connected.map_err(|why| target.failed(&why))
    }
}

fn request(call: &Call<'_>, target: &Target<'_>) -> Result<http::Request<Bytes>, CallError> {
    http::Request::post(target.path.as_str())
        .header(HOST, target.authority.as_str())
        .header(ACCEPT, "application/json, */*")
        .header(CONTENT_TYPE, "application/json")
        .header(USER_AGENT, AGENT)
        .body(call.body.clone())
        .map_err(|error| target.failed(&error.to_string()))
}
