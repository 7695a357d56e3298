//! One plugin, and calls to it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::Duration;

use http::uri::PathAndQuery;
use hyper_util::rt::TokioIo;
use tokio::net::UnixStream;
use tokio::time::{Instant, sleep_until, timeout_at};
use tonic::client::Grpc;
use tonic::transport::{Channel, Endpoint};
use tonic_prost::ProstCodec;
use tower::service_fn;

use crate::endpoint::socket_path;
use crate::error::{Error, ErrorKind, Failure, Result};
use crate::validate;
use crate::wire::{
    DECRYPT_PATH, DecryptRequest, DecryptResponse, ENCRYPT_PATH, EncryptRequest, EncryptResponse,
    STATUS_PATH, StatusRequest, StatusResponse,
};

/// The timeout of a call unless the configuration has another, as in Kubernetes.
pub const DEFAULT_TIMEOUT: Duration = Duration::from_secs(3);

/// The interval between attempts to reach a plugin that restarts.
const RETRY_INTERVAL: Duration = Duration::from_millis(50);

/// The largest accepted message: twice what the rules allow, so that most answers that break a
/// rule are reported with the rule.
const MAX_MESSAGE_BYTES: usize = 64 * 1024;

/// A KMS v2 plugin, by the socket that it listens on.
///
/// The connection is opened by the first call, and again after the plugin has restarted: a call
/// waits for the plugin until its timeout. All calls must be made in the same Tokio runtime, which
/// drives the connection.
#[derive(Debug)]
pub struct KmsPlugin {
    name: String,
    endpoint: String,
    socket: PathBuf,
    timeout: Duration,
    channel: OnceLock<Channel>,
}

/// The plugin's report about itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Status {
    /// The version of the protocol: `v2` or `v2beta1`.
    pub version: String,
    /// The plugin's health: `ok`.
    pub healthz: String,
    /// The key that the plugin encrypts with now. Data encrypted with another is stale.
    pub key_id: String,
}

/// Encrypted data, with everything that is needed to decrypt it. All of it is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Encrypted {
    /// The encrypted data.
    pub ciphertext: Vec<u8>,
    /// The key that encrypted it.
    pub key_id: String,
    /// Data of the plugin's own, by domain name.
    pub annotations: BTreeMap<String, Vec<u8>>,
}

impl KmsPlugin {
    /// Creates a client of the plugin at an endpoint `unix:///PATH` or `unix:///@NAME`. It does not
    /// connect. `timeout` bounds each call; Kubernetes' is [`DEFAULT_TIMEOUT`].
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Endpoint`] if the endpoint is not a unix socket.
    pub fn new(name: &str, endpoint: &str, timeout: Duration) -> Result<Self> {
        let socket = socket_path(endpoint).map_err(|kind| Error::new(name, endpoint, kind))?;
        Ok(Self {
            name: name.to_owned(),
            endpoint: endpoint.to_owned(),
            socket,
            timeout,
            channel: OnceLock::new(),
        })
    }

    /// The name of the plugin in the configuration.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Asks the plugin for its health and its current key.
    ///
    /// # Errors
    ///
    /// If the plugin cannot be reached, is unhealthy, or serves another version.
    pub async fn status(&self) -> Result<Status> {
        let response: StatusResponse = self.call(STATUS_PATH, StatusRequest {}).await?;
        let status = Status {
            version: response.version,
            healthz: response.healthz,
            key_id: response.key_id,
        };
        validate::status(&status).map_err(|kind| self.error(kind))?;
        Ok(status)
    }

    /// Encrypts `plaintext` with the plugin's current key. `uid` names the request in the plugin's
    /// log. The plaintext is a key: plugins return at most 1 kB.
    ///
    /// # Errors
    ///
    /// If the plugin cannot be reached, refuses, or answers against the rules.
    pub async fn encrypt(&self, uid: &str, plaintext: &[u8]) -> Result<Encrypted> {
        let request = EncryptRequest {
            plaintext: plaintext.to_vec(),
            uid: uid.to_owned(),
        };
        let response: EncryptResponse = self.call(ENCRYPT_PATH, request).await?;
        let encrypted = Encrypted {
            ciphertext: response.ciphertext,
            key_id: response.key_id,
            annotations: response.annotations,
        };
        validate::encrypted(&encrypted).map_err(|kind| self.error(kind))?;
        Ok(encrypted)
    }

    /// Decrypts what [`encrypt`](Self::encrypt) returned, also with a key that the plugin has
    /// rotated out since. `uid` names the request in the plugin's log.
    ///
    /// # Errors
    ///
    /// If the plugin cannot be reached or refuses, or the data cannot have come from a plugin.
    pub async fn decrypt(&self, uid: &str, encrypted: &Encrypted) -> Result<Vec<u8>> {
        validate::encrypted(encrypted).map_err(|kind| self.error(kind))?;
        let request = DecryptRequest {
            ciphertext: encrypted.ciphertext.clone(),
            uid: uid.to_owned(),
            key_id: encrypted.key_id.clone(),
            annotations: encrypted.annotations.clone(),
        };
        let response: DecryptResponse = self.call(DECRYPT_PATH, request).await?;
        Ok(response.plaintext)
    }

    /// Calls a method. All three can be repeated, so a call is sent again when its connection breaks
    /// until the timeout: a restart of the plugin is not noticed.
    async fn call<Request, Response>(
        &self,
        path: &'static str,
        request: Request,
    ) -> Result<Response>
    where
        Request: prost::Message + Clone + 'static,
        Response: prost::Message + Default + 'static,
    {
        let deadline = Instant::now() + self.timeout;
        let mut unreachable = None;
        while Instant::now() < deadline {
            let attempt = self.attempt(path, request.clone(), deadline);
            match timeout_at(deadline, attempt).await {
                Ok(Ok(response)) => return Ok(response),
                Ok(Err(Failure::Answered(kind))) => return Err(self.error(kind)),
                Ok(Err(Failure::Unreachable(kind))) => unreachable = Some(kind),
                Err(_) => break,
            }
            sleep_until(deadline.min(Instant::now() + RETRY_INTERVAL)).await;
        }
        // The reason why the plugin was not reached says more than the timeout.
        let kind = unreachable.unwrap_or(ErrorKind::Timeout(self.timeout));
        Err(self.error(kind))
    }

    async fn attempt<Request, Response>(
        &self,
        path: &'static str,
        request: Request,
        deadline: Instant,
    ) -> std::result::Result<Response, Failure>
    where
        Request: prost::Message + 'static,
        Response: prost::Message + Default + 'static,
    {
        let failure = |status: tonic::Status| Failure::new(&status, self.timeout);
        let channel = self.channel.get_or_init(|| connect_lazily(&self.socket));
        let mut grpc = Grpc::new(channel.clone())
            .max_decoding_message_size(MAX_MESSAGE_BYTES)
            .max_encoding_message_size(MAX_MESSAGE_BYTES);
        grpc.ready()
            .await
            .map_err(|error| failure(tonic::Status::from_error(Box::new(error))))?;
        let mut request = tonic::Request::new(request);
        request.set_timeout(deadline.saturating_duration_since(Instant::now()));
        let codec = ProstCodec::<Request, Response>::default();
        let response = grpc
            .unary(request, PathAndQuery::from_static(path), codec)
            .await
            .map_err(failure)?;
        Ok(response.into_inner())
    }

    fn error(&self, kind: ErrorKind) -> Error {
        Error::new(&self.name, &self.endpoint, kind)
    }
}

/// Returns a channel that connects to the socket when it is used, and again after a disconnect.
fn connect_lazily(socket: &Path) -> Channel {
    let socket = socket.to_owned();
    let connect = move |_: http::Uri| connect(socket.clone());
    // The authority is what Kubernetes sends; there is no host.
    Endpoint::from_static("http://localhost").connect_with_connector_lazy(service_fn(connect))
}

async fn connect(socket: PathBuf) -> std::io::Result<TokioIo<UnixStream>> {
    Ok(TokioIo::new(UnixStream::connect(socket).await?))
}
