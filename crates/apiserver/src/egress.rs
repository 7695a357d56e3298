//! Calls to webhooks: of admission, and those that convert objects.
//!
//! Where a webhook is says a tenant, so that nothing here is believed: names are looked up
//! once, and the connection goes to an address that was judged; what surrounds the server is
//! nobody's target; no answer sends us elsewhere, is longer or takes longer than agreed; and
//! nothing is sent that would open a door somewhere. Connections are kept for the next call
//! by the same space to the same place in the same trust, and by nobody else.

mod address;
mod call_limiter;
mod cidr;
mod connection;
mod error;
mod pool;
mod service;
mod target;
mod tls;
pub mod trust;

use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_TYPE, HOST, USER_AGENT};
use http_body_util::Full;
use insula_admission::review::unexpected;
use insula_admission::webhook::Client;
use insula_core::Space;
use tokio::time::{Instant, timeout_at};

pub use cidr::{Cidr, CidrError};
pub use error::CallError;
pub use service::{Backend, Services};

use address::Rules;
use call_limiter::CallLimiter;
use connection::{Connection, Reply};
use pool::{Key, Pool};
use target::Target;
use tls::Trusts;

/// How calls are made.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Addresses that tenants may reach although they surround the server.
    pub allow: Vec<Cidr>,
    /// Addresses that tenants may not reach, whatever else is said.
    pub deny: Vec<Cidr>,
    /// How many calls of one space are under way at once.
    pub each: usize,
    /// How many connections are kept for the next call, of all spaces.
    pub idle: usize,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            allow: Vec::new(),
            deny: Vec::new(),
            // A call holds a connection and some kilobytes, and most take milliseconds.
            each: 64,
            // Descriptors that nobody may need again.
            idle: 256,
        }
    }
}

/// Makes calls.
pub struct Egress {
    rules: Rules,
    call_limiter: CallLimiter,
    trusts: Trusts,
    pool: Pool,
}

/// A call to a webhook.
#[derive(Clone, Debug)]
pub struct Call<'a> {
    /// Whose configuration it is.
    pub space: &'a Space,
    /// Where the webhook is.
    pub client: &'a Client,
    /// What it is sent, in JSON.
    pub body: Bytes,
    /// How long it may take: [`MAX_TIMEOUT`] at most.
    pub timeout: Duration,
    /// How many bytes the answer may have.
    pub max_bytes: usize,
}

/// How many bytes the answer of a webhook of admission may have.
pub const MAX_RESPONSE_BYTES: usize = 1 << 20;

/// How many bytes the answer of a webhook that converts may have.
pub const MAX_CONVERSION_BYTES: usize = 3 << 20;

/// How long a call may take at most.
pub const MAX_TIMEOUT: Duration = Duration::from_secs(30);

const AGENT: &str = "kube-apiserver-admission";

impl Egress {
    /// For a server that listens there.
    pub fn new(settings: Settings, own: SocketAddr) -> Self {
        Self {
            rules: Rules::new(settings.allow, settings.deny, own),
            call_limiter: CallLimiter::new(settings.each),
            trusts: Trusts::default(),
            pool: Pool::new(settings.idle),
        }
    }

    /// Posts the body, and gives the body of the answer. Services are those of the space.
    ///
    /// # Errors
    ///
    /// If there is no answer, or one with another code than 200 to 206.
    pub async fn post(&self, services: &dyn Services, call: Call<'_>) -> Result<Bytes, CallError> {
        let timeout = call.timeout.min(MAX_TIMEOUT);
        let target = Target::of(&call.client.endpoint, timeout)?;
        let until = Instant::now() + timeout;
        let made = timeout_at(until, self.exchange(services, &call, &target));
        let reply = match made.await {
            Ok(made) => made?,
            Err(_) => return Err(target.failed("context deadline exceeded")),
        };
        match reply.code {
            200..=206 => Ok(reply.body),
            code => {
                let of = reply.content_type.as_deref();
                Err(CallError::Call(unexpected(code, of, &reply.body)))
            }
        }
    }

    async fn exchange(
        &self,
        services: &dyn Services,
        call: &Call<'_>,
        target: &Target<'_>,
    ) -> Result<Reply, CallError> {
        let _seat = self.call_limiter.take(call.space).await;
        let backend = target.backend(services, call.space);
        let backend = backend.map_err(|why| target.failed(&why))?;
        let key = Key::of(call, target, &backend);
        while let Some(kept) = self.pool.take(&key) {
            // Whoever hung up meanwhile has seen nothing of the call.
            let Some(mut connection) = kept.ready().await else {
                continue;
            };
            match connection
                .send(request(call, target)?, call.max_bytes)
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
            .send(request(call, target)?, call.max_bytes)
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
        let stream = self.rules.connect(call.space, backend).await;
        let stream = stream.map_err(|why| target.failed(&why))?;
        let connected = Connection::open(stream, &tls, &target.host).await;
        connected.map_err(|why| target.failed(&why))
    }
}

fn request(call: &Call<'_>, target: &Target<'_>) -> Result<http::Request<Full<Bytes>>, CallError> {
    http::Request::post(target.path.as_str())
        .header(HOST, target.authority.as_str())
        .header(ACCEPT, "application/json, */*")
        .header(CONTENT_TYPE, "application/json")
        .header(USER_AGENT, AGENT)
        .body(Full::new(call.body.clone()))
        .map_err(|error| target.failed(&error.to_string()))
}
