//! From requests of the transport to decisions: faults, the journal and the log.

use std::io::Write as _;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use bytes::Bytes;
use http::header::{AUTHORIZATION, CONTENT_TYPE, HOST, IF_MATCH, USER_AGENT};
use http::request::Parts;
use http_body_util::Full;
use insula_access::jwt::KeySet;
use percent_encoding::percent_decode_str;
use serde_json::Value;
use tokio::sync::watch;
use uuid::Uuid;

use super::entra::{self, TokenRequest};
use super::entra_error::EntraError;
use super::faults::{Candidate, Effect, Faults, Service};
use super::imds::{self, MetadataRequest};
use super::issuer;
use super::journal::{ArmCall, Journal, Proof, TokenCall};
use super::message::{ArmRequest, Content, Response};
use super::server::HttpResponse;
use super::world::World;

/// State that the servers and their owner share.
#[derive(Default)]
pub(super) struct Shared {
    pub world: Mutex<World>,
    pub faults: watch::Sender<Faults>,
    pub journal: watch::Sender<Journal>,
    /// The file that each request is written to, as a line of JSON.
    pub log: Mutex<Option<std::fs::File>>,
}

pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Answers a request to ARM.
pub(super) async fn arm(
    shared: Arc<Shared>,
    parts: Parts,
    body: Bytes,
) -> anyhow::Result<HttpResponse> {
    let request = arm_request(&parts, &body);
    let authorization = header(&parts, AUTHORIZATION.as_str());
    let (position, client) = shared.record_arm(&parts, &request);
    let candidate = Candidate {
        service: Service::Arm,
        method: parts.method.as_str(),
        path: &request.path,
        client: &client,
    };
    let fault = shared.inflict(&candidate).await?;
    let response = match &fault.response {
        Some(response) => response.clone(),
        None => {
            let mut world = lock(&shared.world);
            // The token may have expired while the request waited.
            match world.authenticate(authorization) {
                Ok(caller) => world.arm.decide(&request, &caller),
                Err(refused) => refused,
            }
        }
    };
    shared.record_status(position, response.status);
    fault.deliver(response.with("x-ms-request-id", Uuid::new_v4().to_string()))
}

/// Answers a request to the token endpoint.
pub(super) async fn entra(
    shared: Arc<Shared>,
    parts: Parts,
    body: Bytes,
) -> anyhow::Result<HttpResponse> {
    let path = parts.uri.path();
    let segments: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
    let [tenant, "oauth2", "v2.0", "token"] = segments[..] else {
        return transport(Response::empty(404));
    };
    let host = header(&parts, HOST.as_str()).unwrap_or_default();
    let request = TokenRequest {
        tenant: tenant.to_owned(),
        form: pairs(&String::from_utf8_lossy(&body)),
        endpoints: vec![
            format!("https://{host}/{tenant}/oauth2/v2.0/token"),
            format!("https://{host}/{tenant}/v2.0"),
        ],
    };
    let candidate = Candidate {
        service: Service::Entra,
        method: parts.method.as_str(),
        path,
        client: request.client(),
    };
    let fault = shared.inflict(&candidate).await?;
    if let Some(response) = fault.response.clone() {
        return fault.deliver(response);
    }
    let presented = request.presented();
    let proof = presented
        .as_ref()
        .map_or(Proof::None, entra::Presented::proof);
    let decided = match &presented {
        Ok(presented) => token(&shared, &request, presented).await,
        Err(error) => Err(error.clone()),
    };
    shared.record_token(TokenCall {
        tenant: request.tenant.clone(),
        client: request.client().to_owned(),
        proof,
        scope: request.field("scope").to_owned(),
        error: decided.as_ref().err().map(|error| error.number),
        at: Instant::now(),
    });
    fault.deliver(decided.unwrap_or_else(|error| error.response()))
}

async fn token(
    shared: &Shared,
    request: &TokenRequest,
    presented: &entra::Presented,
) -> Result<Response, EntraError> {
    let (principal, issuer) = {
        let world = lock(&shared.world);
        let application = world.application(&request.tenant, request.client());
        let issuer = entra::check(&world.directory, application.as_ref(), request, presented)?;
        (application.map(|known| known.principal), issuer)
    };
    let keys = match issuer {
        Some(issuer) => issuer_keys(shared, &issuer).await,
        None => None,
    };
    let principal = principal.unwrap_or_default();
    let mut world = lock(&shared.world);
    entra::issue(
        &mut world.directory,
        &principal,
        request,
        presented,
        keys.as_ref(),
    )
}

/// The keys of an issuer: those that a test chose, or those that it publishes.
async fn issuer_keys(shared: &Shared, issuer: &str) -> Option<KeySet> {
    let (location, authorities) = {
        let world = lock(&shared.world);
        if let Some(chosen) = world.issuer_keys.get(issuer) {
            return Some(chosen.clone());
        }
        let location = world.location_of_issuer(issuer);
        (location, world.issuer_authorities.clone())
    };
    let keys = issuer::fetch_keys(issuer, &location, &authorities).await;
    let keys = keys.inspect_err(|error| tracing::info!(%issuer, %error, "issuer keys not read"));
    keys.ok()
}

/// Answers a request to the instance metadata service.
pub(super) async fn imds(
    shared: Arc<Shared>,
    parts: Parts,
    _: Bytes,
) -> anyhow::Result<HttpResponse> {
    let request = MetadataRequest {
        path: parts.uri.path().to_owned(),
        query: pairs(parts.uri.query().unwrap_or_default()),
        metadata: header(&parts, "metadata").map(str::to_owned),
        forwarded: parts.headers.contains_key("x-forwarded-for"),
    };
    let candidate = Candidate {
        service: Service::Imds,
        method: parts.method.as_str(),
        path: &request.path,
        client: "",
    };
    let fault = shared.inflict(&candidate).await?;
    if let Some(response) = fault.response.clone() {
        return fault.deliver(response);
    }
    let (response, call) = imds::decide(&mut lock(&shared.world).directory, &request);
    shared.record_token(call);
    fault.deliver(response)
}

/// The effect of a fault on the request that it was taken for.
#[derive(Debug, Default)]
struct Inflicted {
    response: Option<Response>,
    lose_response: bool,
}

impl Inflicted {
    fn deliver(&self, response: Response) -> anyhow::Result<HttpResponse> {
        anyhow::ensure!(!self.lose_response, "response lost on request");
        transport(response)
    }
}

impl Shared {
    /// Takes the fault of a request. Delays and hangs take place here.
    async fn inflict(&self, candidate: &Candidate<'_>) -> anyhow::Result<Inflicted> {
        let mut effect = None;
        let mut faults = self.faults.subscribe();
        let mut cleared = 0;
        self.faults.send_modify(|faults| {
            effect = faults.take(candidate);
            cleared = faults.cleared;
        });
        let mut inflicted = Inflicted::default();
        match effect {
            None => {}
            Some(Effect::Respond(response)) => inflicted.response = Some(response),
            Some(Effect::LoseResponse) => inflicted.lose_response = true,
            Some(Effect::Reset) => anyhow::bail!("connection closed on request"),
            Some(Effect::Delay(by)) => tokio::time::sleep(by).await,
            Some(Effect::Hang) => {
                faults.wait_for(|faults| faults.cleared > cleared).await?;
            }
        }
        Ok(inflicted)
    }

    /// Records a request to ARM. Returns its position in the journal, and the client behind it.
    fn record_arm(&self, parts: &Parts, request: &ArmRequest) -> (usize, String) {
        let text = |name: &str| header(parts, name).unwrap_or_default();
        let (caller, auxiliary_tenants) = {
            let world = lock(&self.world);
            let caller = |token: &str| world.authenticate(Some(token.trim())).ok();
            let auxiliary = text("x-ms-authorization-auxiliary");
            let auxiliary = auxiliary.split(',').filter_map(caller);
            let auxiliary = auxiliary.map(|caller| caller.tenant).collect();
            (caller(text(AUTHORIZATION.as_str())), auxiliary)
        };
        let client = caller.as_ref().map(|caller| caller.client.clone());
        let call = ArmCall {
            method: parts.method.to_string(),
            path: request.path.clone(),
            query: parts.uri.query().unwrap_or_default().to_owned(),
            api_version: request.parameter("api-version").map(str::to_owned),
            body: request.body.clone().unwrap_or_default(),
            caller,
            auxiliary_tenants,
            user_agent: text(USER_AGENT.as_str()).to_owned(),
            status: None,
            at: Instant::now(),
        };
        let mut position = 0;
        self.journal.send_modify(|journal| {
            position = journal.forgotten + journal.arm.len();
            journal.arm.push(call);
        });
        (position, client.unwrap_or_default())
    }

    fn record_status(&self, position: usize, status: u16) {
        let mut entry = None;
        self.journal.send_modify(|journal| {
            // The journal may have been cleared in between.
            let call = position.checked_sub(journal.forgotten);
            if let Some(call) = call.and_then(|at| journal.arm.get_mut(at)) {
                call.status = Some(status);
                entry = Some(call.log_entry());
            }
        });
        self.write_log(entry);
    }

    fn record_token(&self, call: TokenCall) {
        self.write_log(Some(call.log_entry()));
        self.journal
            .send_modify(|journal| journal.tokens.push(call));
    }

    fn write_log(&self, entry: Option<Value>) {
        let mut log = lock(&self.log);
        if let (Some(log), Some(entry)) = (log.as_mut(), entry) {
            // A log that cannot be written does not keep the fake from answering.
            writeln!(log, "{entry}").ok();
        }
    }
}

fn arm_request(parts: &Parts, body: &[u8]) -> ArmRequest {
    let host = header(parts, HOST.as_str()).unwrap_or_default();
    ArmRequest {
        method: parts.method.clone(),
        path: parts.uri.path().to_owned(),
        query: pairs(parts.uri.query().unwrap_or_default()),
        body: serde_json::from_slice(body).ok(),
        if_match: header(parts, IF_MATCH.as_str()).map(str::to_owned),
        endpoint: format!("https://{host}"),
    }
}

fn header<'a>(parts: &'a Parts, name: &str) -> Option<&'a str> {
    parts
        .headers
        .get(name)
        .and_then(|value| value.to_str().ok())
}

/// The pairs of a query or a form.
pub(super) fn pairs(text: &str) -> Vec<(String, String)> {
    let decode = |part: &str| {
        let part = part.replace('+', " ");
        percent_decode_str(&part).decode_utf8_lossy().into_owned()
    };
    let pairs = text.split('&').filter(|pair| !pair.is_empty());
    pairs
        .map(|pair| {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            (decode(name), decode(value))
        })
        .collect()
}

/// A response in the form of the transport.
pub(super) fn transport(response: Response) -> anyhow::Result<HttpResponse> {
    let mut built = http::Response::builder().status(response.status);
    for (name, value) in response.headers {
        built = built.header(name, value);
    }
    Ok(match response.content {
        Content::Empty => built.body(Full::default())?,
        Content::Json(body) => {
            let built = built.header(CONTENT_TYPE, "application/json; charset=utf-8");
            built.body(Full::from(body.to_string()))?
        }
        Content::Text(of, text) => built.header(CONTENT_TYPE, of).body(Full::from(text))?,
    })
}
