//! Connections of a client, and those that are idle.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use http::Request;
use http_body_util::Full;
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::task::JoinHandle;
use tokio::time::Instant;

use super::error::RequestError;
use super::response::{HttpResponse, receive};

/// The maximum number of idle connections of a client.
const MAX_IDLE_CONNECTIONS: usize = 8;
/// How long idle connections are kept: a firewall in between may drop them silently.
const IDLE_TIMEOUT: Duration = Duration::from_secs(60);

/// A connection, which is closed when it is dropped.
pub(super) struct Connection {
    sender: SendRequest<Full<Bytes>>,
    driver: JoinHandle<()>,
    last_used: Instant,
}

/// A request without a response.
pub(super) struct SendError {
    /// Whether it certainly was not sent.
    pub(super) is_unsent: bool,
    pub(super) error: RequestError,
}

impl Connection {
    pub(super) async fn new(
        stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    ) -> Result<Self, RequestError> {
        let handshake = http1::handshake(TokioIo::new(stream)).await;
        let (sender, connection) = handshake.map_err(|error| RequestError::of_http(&error))?;
        let driver = tokio::spawn(async move {
            // Errors are also reported to the pending request.
            let _ = connection.await;
        });
        Ok(Self {
            sender,
            driver,
            last_used: Instant::now(),
        })
    }

    /// Sends a request and reads the response.
    pub(super) async fn send(
        &mut self,
        request: Request<Full<Bytes>>,
        max_response_kib: usize,
    ) -> Result<HttpResponse, SendError> {
        let failed = |is_unsent, error| SendError { is_unsent, error };
        let ready = self.sender.ready().await;
        ready.map_err(|error| failed(true, RequestError::of_http(&error)))?;
        let response = self.sender.try_send_request(request).await;
        let response = response.map_err(|error| {
            failed(
                error.message().is_some(),
                RequestError::of_http(error.error()),
            )
        })?;
        let received = receive(response, max_response_kib).await;
        received.map_err(|error| failed(false, error))
    }

    fn is_usable(&self) -> bool {
        !self.sender.is_closed() && self.last_used.elapsed() < IDLE_TIMEOUT
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.driver.abort();
    }
}

/// The idle connections of a client.
#[derive(Default)]
pub(super) struct IdleConnections(Mutex<Vec<Connection>>);

impl IdleConnections {
    pub(super) fn take(&self) -> Option<Connection> {
        let mut idle = self.lock();
        idle.retain(Connection::is_usable);
        idle.pop()
    }

    pub(super) fn put(&self, mut connection: Connection) {
        connection.last_used = Instant::now();
        let mut idle = self.lock();
        if idle.len() < MAX_IDLE_CONNECTIONS && connection.is_usable() {
            idle.push(connection);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Connection>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
