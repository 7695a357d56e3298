//! A fake etcd member: it reports its version, counts requests, and fails in one chosen way.

use std::collections::HashMap;
use std::future::pending;
use std::sync::{Arc, Mutex};

use bytes::{BufMut, Bytes, BytesMut};
use h2::RecvStream;
use h2::server::{Connection, SendResponse};
use http::{HeaderMap, Request, Response};
use insula_store::etcd::wire::etcdserverpb::StatusResponse;
use prost::Message;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

/// The answer to every request but the one for the version.
#[derive(Clone, Copy, Debug)]
pub enum Answer {
    /// No answer.
    Silence,
    /// The connection is closed.
    Hangup,
    /// A status code and a message.
    Status(u16, &'static str),
}

pub struct FakeEtcd {
    endpoint: String,
    requests: Requests,
    task: JoinHandle<()>,
}

/// The number of requests per method.
type Requests = Arc<Mutex<HashMap<String, usize>>>;

impl FakeEtcd {
    pub async fn start(version: &'static str, answer: Answer) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await;
        let listener = listener.expect("a port is free");
        let address = listener.local_addr().expect("it is bound");
        let requests = Requests::default();
        let serve = serve(listener, version, answer, Arc::clone(&requests));
        Self {
            endpoint: format!("http://{address}"),
            requests,
            task: tokio::spawn(serve),
        }
    }

    pub fn endpoint(&self) -> String {
        self.endpoint.clone()
    }

    pub fn count(&self, method: &str) -> usize {
        let requests = self.requests.lock().expect("no holder panics");
        requests.get(method).copied().unwrap_or(0)
    }
}

impl Drop for FakeEtcd {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn serve(listener: TcpListener, version: &'static str, answer: Answer, requests: Requests) {
    while let Ok((stream, _)) = listener.accept().await {
        tokio::spawn(serve_connection(
            stream,
            version,
            answer,
            Arc::clone(&requests),
        ));
    }
}

/// Serves one connection until one side closes it.
async fn serve_connection(
    stream: TcpStream,
    version: &'static str,
    answer: Answer,
    requests: Requests,
) {
    let Ok(connection) = h2::server::handshake(stream).await else {
        return;
    };
    let mut connection: Connection<TcpStream, Bytes> = connection;
    while let Some(Ok((request, respond))) = connection.accept().await {
        let method = request.uri().path().to_owned();
        if method == "/etcdserverpb.Maintenance/Status" {
            send_version(respond, version);
            continue;
        }
        let mut requests = requests.lock().expect("no holder panics");
        *requests.entry(method).or_default() += 1;
        match answer {
            Answer::Hangup => return,
            Answer::Silence => drop(tokio::spawn(hold(request, respond))),
            Answer::Status(code, text) => send_status(respond, code, text),
        }
    }
}

/// Dropping a request would answer it.
async fn hold(_request: Request<RecvStream>, _respond: SendResponse<Bytes>) {
    pending().await
}

fn send_version(mut respond: SendResponse<Bytes>, version: &str) {
    let status = StatusResponse {
        header: None,
        version: version.to_owned(),
    };
    // A message is preceded by a compression flag and its length.
    let mut frame = BytesMut::new();
    frame.put_u8(0);
    frame.put_u32(u32::try_from(status.encoded_len()).expect("it is short"));
    frame.put(&status.encode_to_vec()[..]);
    let stream = respond.send_response(head(None), false);
    let mut stream = stream.expect("the client listens");
    let sent = stream.send_data(frame.freeze(), false);
    sent.expect("the client listens");
    let mut trailers = HeaderMap::new();
    trailers.insert("grpc-status", 0.into());
    stream.send_trailers(trailers).expect("the client listens");
}

fn send_status(mut respond: SendResponse<Bytes>, code: u16, text: &str) {
    let sent = respond.send_response(head(Some((code, text))), true);
    sent.expect("the client listens");
}

fn head(status: Option<(u16, &str)>) -> Response<()> {
    let mut head = Response::builder().header("content-type", "application/grpc");
    if let Some((code, text)) = status {
        head = head
            .header("grpc-status", code)
            .header("grpc-message", text);
    }
    head.body(()).expect("the headers are valid")
}
