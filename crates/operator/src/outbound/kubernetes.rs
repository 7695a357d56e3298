//! Clients of API servers that tenants choose: connections to allowed addresses, responses of
//! bounded size, and what failed requests mean for a login.

use std::error::Error as StdError;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use http::{Request, Response, Uri};
use hyper::body::{Body, Frame, Incoming, SizeHint};
use hyper_util::client::legacy;
use hyper_util::rt::{TokioExecutor, TokioIo};
use insula_dialer::{DialError, Dialer, Reach};
use insula_identity::endpoint::{AllowedEndpoints, Endpoint};
use insula_identity::reason::Reason;
use insula_identity::session::LoginError;
use kube::client::{Body as KubeBody, ConfigExt};
use kube::{Client, Config};
use tokio::net::TcpStream;
use tokio::time::{Instant, Sleep, sleep, timeout};
use tower::util::BoxCloneSyncService;
use tower::{BoxError, Service, ServiceBuilder, ServiceExt, service_fn};

use super::HttpClients;
use super::error::{authority, unreachable};
use super::trust::describe;
use crate::deadline::{self, NoAnswer};

/// The largest response, and the largest event of a watch.
const MAX_RESPONSE: usize = 8 << 20;
/// The most memory that the same may need after it is parsed, as estimated from its text: a few
/// bytes of an empty object become some hundred.
const MAX_PARSED: usize = 64 << 20;
/// The estimated memory of an object, in bytes.
const OBJECT_COST: usize = 256;
/// The estimated memory of an item or of a field, in bytes.
const ITEM_COST: usize = 32;
/// The shortest interval between requests of a client, after some that are sent at once. A server
/// that ends each watch at once must not cause requests without end.
const REQUEST_INTERVAL: Duration = Duration::from_millis(20);
/// How many requests are sent at once.
const REQUEST_BURST: u32 = 100;
/// How long connecting may take, without the TLS handshake.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// The port of a server whose URL has none.
const PORT: u16 = 443;

impl HttpClients {
    /// Returns a client of an API server, with the same rules for addresses as for other servers.
    /// Of the configuration, certificates, account, impersonation and headers count; no proxy is
    /// used, and no request is retried. A response must begin within the timeout, and end within
    /// the same time again unless it is a watch.
    ///
    /// # Errors
    ///
    /// If the configuration is invalid.
    pub fn kubernetes(&self, config: &Config, limit: Duration) -> Result<Client, kube::Error> {
        let connector = RuledConnector {
            dialer: Arc::clone(&self.dialer),
            trusted: self.trusted.clone(),
        };
        let connector = config.rustls_https_connector_with_connector(connector)?;
        let http: legacy::Client<_, KubeBody> =
            legacy::Client::builder(TokioExecutor::new()).build(connector);
        let service = ServiceBuilder::new()
            .layer(config.base_uri_layer())
            .option_layer(config.auth_layer()?)
            .layer(config.extra_headers_layer()?)
            .map_err(BoxError::from)
            .service(http);
        let service: Sender = BoxCloneSyncService::new(service);
        let pace = Arc::<Pace>::default();
        let service = service_fn(move |request: Request<KubeBody>| {
            let (service, pace) = (service.clone(), Arc::clone(&pace));
            async move {
                sleep(pace.delay(Instant::now())).await;
                let is_watch = is_watch(request.uri());
                let response: Response<Incoming> = service.oneshot(request).await?;
                // The body of an error is read as a whole, also that of a watch.
                let bound = match is_watch && response.status().is_success() {
                    true => Bound::Line,
                    false => Bound::Whole,
                };
                Ok::<_, BoxError>(response.map(|body| BoundedBody::new(body, bound, limit)))
            }
        });
        let client = Client::new(service, &*config.default_namespace);
        Ok(deadline::with_timeout(&client, limit))
    }
}

/// Sends requests.
type Sender = BoxCloneSyncService<Request<KubeBody>, Response<Incoming>, BoxError>;

/// Connects to allowed addresses.
#[derive(Clone)]
struct RuledConnector {
    dialer: Arc<Dialer<Endpoint>>,
    trusted: AllowedEndpoints,
}

impl Service<Uri> for RuledConnector {
    type Response = TokioIo<TcpStream>;
    type Error = io::Error;
    type Future = BoxFuture<'static, io::Result<Self::Response>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        let this = self.clone();
        Box::pin(async move {
            let host = uri.host().unwrap_or_default();
            let host = host.trim_start_matches('[').trim_end_matches(']');
            let port = uri.port_u16().unwrap_or(PORT);
            let endpoint = Endpoint::parse(uri.authority().map_or(host, |it| it.as_str()), PORT)
                .map_err(io::Error::other)?;
            let reach = match this.trusted.admits(&endpoint) {
                Some(_) => Reach::Any,
                None => Reach::Ruled,
            };
            let dialed = this.dialer.connect(&endpoint, reach, host, port);
            let dialed = timeout(CONNECT_TIMEOUT, dialed).await?;
            let stream = dialed.map_err(io::Error::other)?;
            // An optimization only: its failure does not matter.
            let _ = stream.set_nodelay(true);
            Ok(TokioIo::new(stream))
        })
    }
}

/// What of a response is bounded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Bound {
    /// The whole response.
    Whole,
    /// Each line, which is an event of a watch.
    Line,
}

/// What was received of that which is bounded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Received {
    bytes: usize,
    /// The estimated memory after parsing.
    parsed: usize,
}

impl Bound {
    /// Returns what was received after some more.
    fn count(self, mut received: Received, more: &[u8]) -> Result<Received, TooLarge> {
        for byte in more {
            if self == Self::Line && *byte == b'\n' {
                received = Received::default();
                continue;
            }
            received.bytes += 1;
            received.parsed += match byte {
                b'{' => OBJECT_COST,
                b'[' | b',' => ITEM_COST,
                _ => 1,
            };
            if received.bytes > MAX_RESPONSE {
                return Err(TooLarge::Text);
            }
            if received.parsed > MAX_PARSED {
                return Err(TooLarge::Parsed);
            }
        }
        Ok(received)
    }
}

fn is_watch(uri: &Uri) -> bool {
    let mut query = uri.query().unwrap_or_default().split('&');
    query.any(|part| matches!(part, "watch=true" | "watch=1"))
}

/// Delays the requests of a client that are too many.
#[derive(Debug, Default)]
struct Pace(Mutex<Option<Instant>>);

impl Pace {
    /// Returns how long the next request is delayed.
    fn delay(&self, now: Instant) -> Duration {
        let mut next = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let earliest = now.checked_sub(REQUEST_INTERVAL * REQUEST_BURST);
        let at = next.max(earliest).unwrap_or(now);
        *next = Some(at + REQUEST_INTERVAL);
        at.saturating_duration_since(now)
    }
}

/// The body of a response that ends with an error if it is too large, or takes too long.
struct BoundedBody {
    body: Incoming,
    bound: Bound,
    received: Received,
    /// The time after which a whole response is late.
    late: Pin<Box<Sleep>>,
    limit: Duration,
}

impl BoundedBody {
    fn new(body: Incoming, bound: Bound, limit: Duration) -> Self {
        Self {
            body,
            bound,
            received: Received::default(),
            late: Box::pin(sleep(limit)),
            limit,
        }
    }
}

/// A response of a server is too large.
#[derive(Debug, thiserror::Error)]
enum TooLarge {
    #[error("the response has more than {} MiB", MAX_RESPONSE >> 20)]
    Text,
    #[error("the response has too many values")]
    Parsed,
}

impl Body for BoundedBody {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        if self.bound == Bound::Whole && self.late.as_mut().poll(context).is_ready() {
            return Poll::Ready(Some(Err(NoAnswer(self.limit).into())));
        }
        let polled = Pin::new(&mut self.body).poll_frame(context);
        polled.map(|frame| {
            let frame = frame?.map_err(BoxError::from);
            Some(frame.and_then(|frame| {
                let more = frame.data_ref().map_or(&[][..], Bytes::as_ref);
                self.received = self.bound.count(self.received, more)?;
                Ok(frame)
            }))
        })
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// Returns the error of a login, or of the check of a session, from a failed request. What the
/// server answers is not repeated, because it was sent a credential.
pub fn kubernetes_login_error(error: &kube::Error, endpoint: &Endpoint) -> LoginError {
    let place = authority(endpoint);
    let answered = |reason, message| LoginError {
        reason,
        message,
        answered: true,
    };
    let kube::Error::Api(status) = error else {
        return transport_error(error, endpoint);
    };
    match status.code {
        401 => answered(
            Reason::InvalidCredentials,
            format!("{place} does not accept the credential"),
        ),
        403 => answered(
            Reason::Forbidden,
            format!("{place} does not permit the request"),
        ),
        404 => answered(Reason::NotServed, format!("{place} does not serve the API")),
        // Of a server that several tenants use, one may choose a path or a user that it cannot
        // serve. That is no reason not to try the others.
        code => LoginError {
            answered: true,
            ..unreachable(endpoint, &format!("it answers HTTP {code}"))
        },
    }
}

/// Returns the error of a request without a response.
fn transport_error(error: &kube::Error, endpoint: &Endpoint) -> LoginError {
    let mut cause: Option<&(dyn StdError + 'static)> = Some(error);
    while let Some(error) = cause {
        if let Some(dial) = cause_in::<DialError>(error) {
            return unreachable(endpoint, &format!("cannot connect ({dial})"));
        }
        if let Some(rustls::Error::InvalidCertificate(why)) = cause_in::<rustls::Error>(error) {
            return LoginError {
                reason: Reason::CertificateNotTrusted,
                // The text of the error may repeat all names in the certificate.
                message: format!(
                    "the certificate of {} is not trusted: {}",
                    authority(endpoint),
                    describe(why)
                ),
                answered: false,
            };
        }
        let too_large = error.downcast_ref::<TooLarge>().map(ToString::to_string);
        let no_answer = error.downcast_ref::<NoAnswer>().map(ToString::to_string);
        if let Some(message) = too_large.or(no_answer) {
            return unreachable(endpoint, &message);
        }
        cause = error.source();
    }
    unreachable(endpoint, "the request failed")
}

/// Returns an error of that type, or one that I/O errors wrap, which is not their source.
fn cause_in<'a, E: StdError + 'static>(error: &'a (dyn StdError + 'static)) -> Option<&'a E> {
    let mut error = error;
    while let Some(wrapped) = error
        .downcast_ref::<io::Error>()
        .and_then(io::Error::get_ref)
    {
        error = wrapped;
    }
    error.downcast_ref()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_paced_after_the_first_hundred() {
        let (pace, begin) = (Pace::default(), Instant::now() + Duration::from_secs(60));
        let delays: Vec<_> = (0..103).map(|_| pace.delay(begin)).collect();
        assert_eq!(delays[..101], [Duration::ZERO; 101]);
        let interval = REQUEST_INTERVAL;
        assert_eq!(delays[101..], [interval, interval * 2]);
        let later = begin + Duration::from_secs(1);
        assert_eq!(pace.delay(later), Duration::ZERO);
    }
}
