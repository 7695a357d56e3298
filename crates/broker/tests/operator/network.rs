//! Faults between the operator and the server.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use http::{Method, Request, Response, StatusCode};
use kube::client::Body;
use kube::{Client, Config};
use serde_json::json;
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;
use tokio::task::{JoinHandle, JoinSet};
use tower::{BoxError, service_fn};

/// The outcome of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    Pass,
    /// The server does not receive it, and the operator is killed.
    KillBefore,
    /// The server receives it, and the operator is killed before the response.
    KillAfter,
    /// It is answered like this, and the server does not receive it.
    Refuse(u16),
    /// The server receives it, and the response is lost.
    Lose,
    /// The connection is cut before the server receives it.
    Cut,
    /// It is never answered.
    Hang,
}

/// Decides the outcome of a request by its number and content.
type Decides = dyn Fn(u64, &Request<Body>) -> Fate + Send + Sync;

/// A filter of all requests of an operator.
pub struct Chaos {
    fate: Box<Decides>,
    /// Returns the number of requests.
    pub requests: AtomicU64,
    dead: AtomicBool,
    killed: Notify,
}

impl Chaos {
    /// Creates a filter that decides by the number of a request, from one, and the request.
    pub fn new(fate: impl Fn(u64, &Request<Body>) -> Fate + Send + Sync + 'static) -> Arc<Self> {
        Arc::new(Self {
            fate: Box::new(fate),
            requests: AtomicU64::new(0),
            dead: AtomicBool::new(false),
            killed: Notify::new(),
        })
    }

    /// Creates a filter that counts only requests that change something.
    pub fn counting() -> Arc<Self> {
        Self::of_writes(|_, _| Fate::Pass)
    }

    /// Only requests that change something are counted and decided.
    pub fn of_writes(
        fate: impl Fn(u64, &Request<Body>) -> Fate + Send + Sync + 'static,
    ) -> Arc<Self> {
        let writes = AtomicU64::new(0);
        Self::new(move |_, request| match *request.method() {
            Method::GET => Fate::Pass,
            _ => fate(writes.fetch_add(1, Ordering::SeqCst) + 1, request),
        })
    }

    /// Wraps a client.
    pub fn around(self: &Arc<Self>, client: &Client) -> Client {
        let (chaos, client) = (Arc::clone(self), client.clone());
        let service = service_fn(move |request: Request<Body>| {
            let (chaos, client) = (Arc::clone(&chaos), client.clone());
            async move { chaos.send(&client, request).await }
        });
        Client::new(service, "default")
    }

    pub fn is_dead(&self) -> bool {
        self.dead.load(Ordering::SeqCst)
    }

    /// Returns when the operator is to be killed.
    pub async fn killed(&self) {
        self.killed.notified().await;
    }

    async fn send(
        self: &Arc<Self>,
        client: &Client,
        request: Request<Body>,
    ) -> Result<Response<Body>, BoxError> {
        if self.is_dead() {
            return std::future::pending().await;
        }
        let number = self.requests.fetch_add(1, Ordering::SeqCst) + 1;
        match (self.fate)(number, &request) {
            Fate::Pass => Ok(client.send(request).await?),
            Fate::KillBefore => {
                self.kill();
                std::future::pending().await
            }
            Fate::KillAfter => {
                // The awaiting task may time out; the operator is killed anyway.
                let (chaos, client) = (Arc::clone(self), client.clone());
                tokio::spawn(async move {
                    client.send(request).await.ok();
                    chaos.kill();
                });
                std::future::pending().await
            }
            Fate::Refuse(code) => refuse(code),
            Fate::Lose => {
                client.send(request).await?;
                Err("the connection was reset".into())
            }
            Fate::Cut => Err("the connection was reset".into()),
            Fate::Hang => std::future::pending().await,
        }
    }

    fn kill(&self) {
        self.dead.store(true, Ordering::SeqCst);
        self.killed.notify_one();
    }
}

fn refuse(code: u16) -> Result<Response<Body>, BoxError> {
    let reason = match code {
        409 => "Conflict",
        410 => "Expired",
        _ => "InternalError",
    };
    let status = json!({
        "apiVersion": "v1", "kind": "Status", "status": "Failure", "code": code,
        "reason": reason, "message": "so it was decided",
    });
    let mut response = Response::new(Body::from(serde_json::to_vec(&status)?));
    *response.status_mut() = StatusCode::from_u16(code)?;
    Ok(response)
}

/// A connection that can be cut: connections through it end, and new ones are refused, until
/// it is restored.
pub struct Wire {
    address: SocketAddr,
    whole: Arc<AtomicBool>,
    connections: Arc<Mutex<JoinSet<()>>>,
    task: JoinHandle<()>,
}

impl Wire {
    pub async fn to(server: SocketAddr) -> anyhow::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let address = listener.local_addr()?;
        let whole = Arc::new(AtomicBool::new(true));
        let connections = Arc::new(Mutex::new(JoinSet::new()));
        let (passes, made) = (Arc::clone(&whole), Arc::clone(&connections));
        let task = tokio::spawn(async move {
            while let Ok((mut near, _)) = listener.accept().await {
                if !passes.load(Ordering::SeqCst) {
                    continue;
                }
                made.lock().expect("no panic").spawn(async move {
                    if let Ok(mut far) = TcpStream::connect(server).await {
                        copy_bidirectional(&mut near, &mut far).await.ok();
                    }
                });
            }
        });
        Ok(Self {
            address,
            whole,
            connections,
            task,
        })
    }

    /// Wraps a client that uses the connection.
    pub fn through(&self, mut config: Config) -> anyhow::Result<Client> {
        config.cluster_url = format!("https://{}", self.address).parse()?;
        Ok(Client::try_from(config)?)
    }

    pub fn cut(&self) {
        self.whole.store(false, Ordering::SeqCst);
        self.connections.lock().expect("no panic").abort_all();
    }

    pub fn mend(&self) {
        self.whole.store(true, Ordering::SeqCst);
    }
}

impl Drop for Wire {
    fn drop(&mut self) {
        self.task.abort();
    }
}
