//! The methods of the fake plugin.

use std::collections::{BTreeMap, HashMap};
use std::convert::Infallible;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use anyhow::anyhow;
use http::{Request, Response};
use hyper::body::Incoming;
use insula_kms::wire::{
    DECRYPT_PATH, DecryptRequest, DecryptResponse, ENCRYPT_PATH, EncryptRequest, EncryptResponse,
    STATUS_PATH, StatusRequest, StatusResponse,
};
use ring::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use ring::rand::{SecureRandom as _, SystemRandom};
use tonic::Status;
use tonic::body::Body;
use tonic::server::{Grpc, UnaryService};
use tonic_prost::ProstCodec;

use super::Call;

/// An annotation that Decrypt requires, as real plugins with local keys do.
const ANNOTATION: (&str, &[u8]) = ("scheme.kms.insula.test", b"aes-256-gcm");

/// The keys and the settings of a plugin.
#[derive(Debug)]
pub(super) struct Plugin {
    settings: Mutex<Settings>,
}

#[derive(Debug)]
pub(super) struct Settings {
    pub(super) keys: HashMap<String, LessSafeKey>,
    pub(super) current: String,
    pub(super) delay: Duration,
    pub(super) healthz: String,
    pub(super) version: String,
    pub(super) encrypt_response: Option<EncryptResponse>,
    pub(super) calls: Vec<Call>,
}

impl Settings {
    pub(super) fn rotate(&mut self, key_id: &str) -> anyhow::Result<()> {
        if !self.keys.contains_key(key_id) {
            self.keys.insert(key_id.to_owned(), new_key()?);
        }
        key_id.clone_into(&mut self.current);
        Ok(())
    }

    fn record(&mut self, method: &'static str, uid: &str) {
        let uid = uid.to_owned();
        self.calls.push(Call { method, uid });
    }
}

impl Plugin {
    pub(super) fn new(key_id: &str) -> anyhow::Result<Self> {
        let mut settings = Settings {
            keys: HashMap::new(),
            current: String::new(),
            delay: Duration::ZERO,
            healthz: "ok".to_owned(),
            version: "v2".to_owned(),
            encrypt_response: None,
            calls: Vec::new(),
        };
        settings.rotate(key_id)?;
        let settings = Mutex::new(settings);
        Ok(Self { settings })
    }

    pub(super) fn settings(&self) -> MutexGuard<'_, Settings> {
        self.settings.lock().expect("no holder panics")
    }

    /// Answers one request of gRPC.
    pub(super) async fn answer(
        self: Arc<Self>,
        request: Request<Incoming>,
    ) -> Result<Response<Body>, Infallible> {
        let delay = self.settings().delay;
        tokio::time::sleep(delay).await;
        let request = request.map(Body::new);
        Ok(match request.uri().path() {
            STATUS_PATH => unary(request, move |body| self.status(&body)).await,
            ENCRYPT_PATH => unary(request, move |body| self.encrypt(&body)).await,
            DECRYPT_PATH => unary(request, move |body| self.decrypt(body)).await,
            _ => Status::unimplemented("unknown method").into_http(),
        })
    }

    fn status(&self, _: &StatusRequest) -> Result<StatusResponse, Status> {
        let mut settings = self.settings();
        settings.record("Status", "");
        Ok(StatusResponse {
            version: settings.version.clone(),
            healthz: settings.healthz.clone(),
            key_id: settings.current.clone(),
        })
    }

    fn encrypt(&self, request: &EncryptRequest) -> Result<EncryptResponse, Status> {
        let mut settings = self.settings();
        settings.record("Encrypt", &request.uid);
        if let Some(response) = &settings.encrypt_response {
            return Ok(response.clone());
        }
        let key_id = settings.current.clone();
        let key = settings.keys.get(&key_id).ok_or_else(|| no_key(&key_id))?;
        Ok(EncryptResponse {
            ciphertext: seal(key, &request.plaintext)
                .map_err(|error| Status::internal(error.to_string()))?,
            key_id,
            annotations: BTreeMap::from([(ANNOTATION.0.to_owned(), ANNOTATION.1.to_vec())]),
        })
    }

    fn decrypt(&self, request: DecryptRequest) -> Result<DecryptResponse, Status> {
        let mut settings = self.settings();
        settings.record("Decrypt", &request.uid);
        if request.annotations.get(ANNOTATION.0).map(Vec::as_slice) != Some(ANNOTATION.1) {
            return Err(Status::invalid_argument("the annotation is missing"));
        }
        let key = settings
            .keys
            .get(&request.key_id)
            .ok_or_else(|| no_key(&request.key_id))?;
        let plaintext = open(key, request.ciphertext)
            .ok_or_else(|| Status::invalid_argument("the ciphertext is not authentic"))?;
        Ok(DecryptResponse { plaintext })
    }
}

fn no_key(key_id: &str) -> Status {
    Status::not_found(format!("there is no key {key_id:?}"))
}

fn new_key() -> anyhow::Result<LessSafeKey> {
    let mut bytes = [0; 32];
    let generated = SystemRandom::new().fill(&mut bytes);
    generated.map_err(|_| anyhow!("no randomness"))?;
    let key = UnboundKey::new(&AES_256_GCM, &bytes).map_err(|_| anyhow!("not a key"))?;
    Ok(LessSafeKey::new(key))
}

/// Encrypts with a random nonce, which comes first in the result.
fn seal(key: &LessSafeKey, plaintext: &[u8]) -> anyhow::Result<Vec<u8>> {
    let mut nonce = [0; NONCE_LEN];
    let generated = SystemRandom::new().fill(&mut nonce);
    generated.map_err(|_| anyhow!("no randomness"))?;
    let mut sealed = plaintext.to_vec();
    let unique = Nonce::assume_unique_for_key(nonce);
    key.seal_in_place_append_tag(unique, Aad::empty(), &mut sealed)
        .map_err(|_| anyhow!("the plaintext is too long"))?;
    sealed.splice(0..0, nonce);
    Ok(sealed)
}

fn open(key: &LessSafeKey, mut sealed: Vec<u8>) -> Option<Vec<u8>> {
    let (nonce, sealed) = sealed.split_at_mut_checked(NONCE_LEN)?;
    let nonce = Nonce::try_assume_unique_for_key(nonce).ok()?;
    let plaintext = key.open_in_place(nonce, Aad::empty(), sealed).ok()?;
    Some(plaintext.to_vec())
}

async fn unary<In, Out, F>(request: Request<Body>, method: F) -> Response<Body>
where
    In: prost::Message + Default + 'static,
    Out: prost::Message + 'static,
    F: FnOnce(In) -> Result<Out, Status> + Unpin + Send,
{
    let codec = ProstCodec::<Out, In>::default();
    Grpc::new(codec).unary(Method(Some(method)), request).await
}

/// A method as Tonic's server calls it, once.
struct Method<F>(Option<F>);

impl<In, Out, F> UnaryService<In> for Method<F>
where
    F: FnOnce(In) -> Result<Out, Status>,
    Out: Send + 'static,
{
    type Response = Out;
    type Future = std::future::Ready<Result<tonic::Response<Out>, Status>>;

    fn call(&mut self, request: tonic::Request<In>) -> Self::Future {
        let method = self.0.take().expect("one request has one call");
        std::future::ready(method(request.into_inner()).map(tonic::Response::new))
    }
}
