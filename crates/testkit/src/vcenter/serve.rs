//! The server: connections, requests, and the requested faults.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use bytes::Bytes;
use http::header::{CONTENT_TYPE, COOKIE, SET_COOKIE, USER_AGENT};
use http::{HeaderMap, Method, Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::certificate::Certificate;
use super::element::Element;
use super::fault::Fault;
use super::faults::{ConnectionMode, RequestedFaults};
use super::journal::{Call, Journal, Login};
use super::state::{self, VCenterState};

/// State shared by the server and its owner.
pub(super) struct Shared {
    pub world: Mutex<VCenterState>,
    pub faults: watch::Sender<RequestedFaults>,
    pub journal: watch::Sender<Journal>,
    pub certificate: Mutex<Certificate>,
}

pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Binds an address, which stays reserved while the server does not listen.
pub(super) fn bind(address: SocketAddr) -> std::io::Result<TcpSocket> {
    let socket = TcpSocket::new_v4()?;
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    Ok(socket)
}

/// Serves until it is dropped, which ends all connections.
pub(super) async fn serve(first: TcpListener, address: SocketAddr, shared: Arc<Shared>) {
    let mut modes = shared.faults.subscribe();
    let mut connections = JoinSet::new();
    let mut listener = Some(first);
    loop {
        let connection_mode = modes.borrow_and_update().connection_mode;
        if connection_mode == ConnectionMode::Closed {
            // Existing connections are closed too.
            connections.shutdown().await;
            drop(listener.take());
            let Ok(_reserved) = bind(address) else { return };
            notify_connection_mode(&shared, connection_mode);
            let open = modes
                .wait_for(|faults| faults.connection_mode != ConnectionMode::Closed)
                .await;
            if open.is_err() {
                return;
            }
            continue;
        }
        if listener.is_none() {
            listener = bind(address).and_then(|socket| socket.listen(1024)).ok();
        }
        let Some(listening) = &listener else { return };
        notify_connection_mode(&shared, connection_mode);
        tokio::select! {
            accepted = listening.accept() => {
                let Ok((stream, _)) = accepted else { return };
                while connections.try_join_next().is_some() {}
                connections.spawn(receive(stream, Arc::clone(&shared)));
            }
            changed = modes.changed() => {
                if changed.is_err() {
                    return;
                }
            }
        }
    }
}

/// Notifies callers that wait for the mode to change.
fn notify_connection_mode(shared: &Shared, connection_mode: ConnectionMode) {
    shared.journal.send_if_modified(|journal| {
        let before = std::mem::replace(&mut journal.connection_mode, connection_mode);
        before != connection_mode
    });
}

async fn receive(stream: TcpStream, shared: Arc<Shared>) {
    let _open = Open::count(&shared);
    let connection_mode = shared.faults.borrow().connection_mode;
    match connection_mode {
        ConnectionMode::Open => serve_connection(stream, &shared).await,
        ConnectionMode::Closed | ConnectionMode::HangUp => {}
        ConnectionMode::Silent => {
            // Until the mode changes; then the connection is closed.
            let mut faults = shared.faults.subscribe();
            let other = faults.wait_for(|faults| faults.connection_mode != ConnectionMode::Silent);
            other.await.ok();
        }
    }
}

/// Counts a connection while it is open.
struct Open<'a>(&'a Shared);

impl<'a> Open<'a> {
    fn count(shared: &'a Shared) -> Self {
        shared.journal.send_modify(|journal| {
            journal.connections += 1;
            journal.open += 1;
        });
        Self(shared)
    }
}

impl Drop for Open<'_> {
    fn drop(&mut self) {
        self.0.journal.send_modify(|journal| journal.open -= 1);
    }
}

async fn serve_connection(stream: TcpStream, shared: &Shared) {
    stream.set_nodelay(true).ok();
    let tls = lock(&shared.certificate).tls.clone();
    let Ok(stream) = tls.accept(stream).await else {
        // A client that does not trust the certificate closes the connection.
        return;
    };
    let service = service_fn(|request| answer(shared, request));
    let connection = hyper::server::conn::http1::Builder::new();
    let connection = connection.serve_connection(TokioIo::new(stream), service);
    // So does a client that has read enough.
    connection.await.ok();
}

async fn answer(
    shared: &Shared,
    request: Request<Incoming>,
) -> anyhow::Result<Response<Full<Bytes>>> {
    let (head, body) = request.into_parts();
    if head.method != Method::POST || head.uri.path() != "/sdk" {
        return Ok(Response::builder().status(404).body(Full::default())?);
    }
    let body = body.collect().await?.to_bytes();
    let method = match read(&head.headers, &body) {
        Ok(method) => method,
        Err(why) => return respond(&Err(Fault::invalid_request(&why)), None),
    };
    let name = method.name.as_str();
    let cookie = cookie(&head.headers);
    record_call(shared, &method, cookie);
    delay_or_hang(shared, name).await?;
    let mut task_faults = None;
    let mut lost = false;
    shared.faults.send_if_modified(|faults| {
        task_faults = faults.take_fault(name);
        lost = faults.take_lost_answer(name);
        task_faults.is_some() || lost
    });
    let agent = head
        .headers
        .get(USER_AGENT)
        .and_then(|agent| agent.to_str().ok());
    let agent = agent.unwrap_or_default();
    let call = state::Call {
        method: &method,
        cookie,
        agent,
    };
    let answer = match task_faults {
        Some(fault) => state::Answer {
            body: Err(fault),
            cookie: None,
        },
        None => lock(&shared.world).call(&call),
    };
    if name == "Login" {
        record_login(shared, &method, answer.body.is_ok());
    } else {
        // Notifies callers that wait for the effect of this call.
        shared.journal.send_modify(|_| {});
    }
    if lost {
        anyhow::bail!("answer lost on request");
    }
    respond(&answer.body, answer.cookie.as_deref())
}

fn read(headers: &HeaderMap, body: &[u8]) -> Result<Element, String> {
    let of = headers.get(CONTENT_TYPE).and_then(|of| of.to_str().ok());
    if !of.is_some_and(|of| of.starts_with("text/xml")) {
        return Err("the content is to be text/xml".to_owned());
    }
    let action = headers
        .get("SOAPAction")
        .and_then(|action| action.to_str().ok());
    if !action.is_some_and(|action| action.trim_matches('"').starts_with("urn:vim25")) {
        return Err("there is no SOAPAction of urn:vim25".to_owned());
    }
    let text = std::str::from_utf8(body).map_err(|error| error.to_string())?;
    Element::read(text)
}

/// Delays a call as requested.
async fn delay_or_hang(shared: &Shared, method: &str) -> anyhow::Result<()> {
    let delay = shared.faults.borrow().delay(method);
    if let Some(delay) = delay {
        tokio::time::sleep(delay).await;
    }
    let mut faults = shared.faults.subscribe();
    faults.wait_for(|faults| !faults.hangs(method)).await?;
    Ok(())
}

fn record_call(shared: &Shared, method: &Element, cookie: Option<&str>) {
    let account = cookie.and_then(|cookie| {
        let world = lock(&shared.world);
        world
            .accounts
            .peek(cookie)
            .map(|session| session.account.clone())
    });
    let call = Call {
        method: method.name.clone(),
        account,
        object: method
            .child("_this")
            .map(Element::reference)
            .unwrap_or_default(),
        at: Instant::now(),
    };
    shared
        .journal
        .send_modify(|journal| journal.calls.push(call));
}

fn record_login(shared: &Shared, method: &Element, ok: bool) {
    let login = Login {
        account: method.text_of("userName").unwrap_or_default().to_owned(),
        ok,
        at: Instant::now(),
    };
    shared
        .journal
        .send_modify(|journal| journal.logins.push(login));
}

const COOKIE_NAME: &str = "vmware_soap_session";

fn cookie(headers: &HeaderMap) -> Option<&str> {
    let all = headers.get_all(COOKIE).iter();
    let all = all.filter_map(|cookies| cookies.to_str().ok());
    let mut each = all.flat_map(|cookies| cookies.split(';'));
    let value = each.find_map(|cookie| cookie.trim().strip_prefix(COOKIE_NAME)?.strip_prefix('='));
    value.map(|value| value.trim_matches('"'))
}

fn respond(
    body: &Result<String, Fault>,
    cookie: Option<&str>,
) -> anyhow::Result<Response<Full<Bytes>>> {
    let (code, body) = match body {
        Ok(body) => (200, body.clone()),
        Err(fault) => (500, fault.body()),
    };
    let response = Response::builder().status(code);
    let mut response = response.header(CONTENT_TYPE, "text/xml; charset=utf-8");
    if let Some(cookie) = cookie {
        let cookie = format!("{COOKIE_NAME}=\"{cookie}\"; Path=/; HttpOnly; Secure;");
        response = response.header(SET_COOKIE, cookie);
    }
    let body = format!("{BEFORE}{body}{AFTER}");
    Ok(response.body(Full::from(body))?)
}

const BEFORE: &str = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<soapenv:Envelope \
    xmlns:soapenv=\"http://schemas.xmlsoap.org/soap/envelope/\" \
    xmlns:xsd=\"http://www.w3.org/2001/XMLSchema\" \
    xmlns:xsi=\"http://www.w3.org/2001/XMLSchema-instance\"><soapenv:Body>";
const AFTER: &str = "</soapenv:Body></soapenv:Envelope>";
