//! A cheap client: requests are built before the time is measured, and of a response only the
//! length, the beginning and the end are kept.

use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use bytes::Bytes;
use h2::RecvStream;
use h2::client::SendRequest;
use http::header::{ACCEPT, CONTENT_TYPE, USER_AGENT};
use http::{HeaderValue, Method, Request, StatusCode};
use memchr::memmem;
use rustls::pki_types::ServerName;
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio_rustls::TlsConnector;

use super::kubeconfig::Kubeconfig;

/// The window sizes of Go's client, which most Kubernetes clients use.
const STREAM_WINDOW: u32 = 4 << 20;
const CONNECTION_WINDOW: u32 = 1 << 30;
/// Longer than an object, and than the part of a list before its items.
const HEAD: usize = 4096;
const TAIL: usize = 8;
/// The length of the excerpt of an unexpected response.
const EXCERPT: usize = 400;

/// Connections to one server.
pub struct Client {
    senders: Vec<Sender>,
    /// The tasks that drive the connections, which end with this value.
    _drivers: JoinSet<()>,
}

/// One connection, for one of its users.
#[derive(Clone)]
pub struct Sender {
    connection: SendRequest<Bytes>,
    base: Arc<str>,
}

/// A request, built before the time is measured.
#[derive(Debug)]
pub struct Prepared {
    request: Request<()>,
    body: Option<Bytes>,
}

/// The kept parts of a response.
#[derive(Debug)]
pub struct Answer {
    pub status: StatusCode,
    pub length: usize,
    /// The beginning of the body.
    pub head: Vec<u8>,
    /// The end of the body.
    pub tail: Vec<u8>,
}

impl Client {
    pub async fn connect(config: &Kubeconfig, connections: usize) -> Result<Self> {
        let base = Arc::from(format!("https://{}", config.address));
        let mut drivers = JoinSet::new();
        let mut senders = vec![];
        for _ in 0..connections {
            senders.push(Sender {
                connection: connect(config, &mut drivers).await?,
                base: Arc::clone(&base),
            });
        }
        Ok(Self {
            senders,
            _drivers: drivers,
        })
    }

    /// Returns the connection for the user of this number.
    pub fn sender(&self, user: usize) -> Result<Sender> {
        let sender = self.senders.get(user % self.senders.len().max(1));
        Ok(sender.context("no connection")?.clone())
    }

    pub fn prepare(&self, method: Method, path: &str, body: Option<Bytes>) -> Result<Prepared> {
        self.sender(0)?.prepare(method, path, body)
    }

    /// Prepares a read with an `Accept` header.
    pub fn prepare_accepting(&self, path: &str, form: &'static str) -> Result<Prepared> {
        self.sender(0)?.prepare_accepting(path, form)
    }

    /// Prepares a forced server-side apply.
    pub fn prepare_apply(&self, path: &str, body: Bytes) -> Result<Prepared> {
        let path = format!("{path}?fieldManager=insula-bench&force=true");
        let mut prepared = self.prepare(Method::PATCH, &path, Some(body))?;
        let format = HeaderValue::from_static("application/apply-patch+yaml");
        prepared.request.headers_mut().insert(CONTENT_TYPE, format);
        Ok(prepared)
    }

    /// Sends one request that is not measured.
    pub async fn call(&self, method: Method, path: &str, body: Option<Bytes>) -> Result<Answer> {
        let sender = self.sender(0)?;
        sender.send(sender.prepare(method, path, body)?).await
    }

    pub async fn get(&self, path: &str) -> Result<Answer> {
        self.call(Method::GET, path, None).await
    }

    /// Returns the whole body of a successful read.
    pub async fn body(&self, path: &str) -> Result<Vec<u8>> {
        let sender = self.sender(0)?;
        let (status, mut stream) = sender
            .open(sender.prepare(Method::GET, path, None)?)
            .await?;
        ensure!(status == StatusCode::OK, "{path} is answered {status}");
        let mut body = Vec::new();
        while let Some(chunk) = chunk(&mut stream).await? {
            body.extend_from_slice(&chunk);
        }
        Ok(body)
    }
}

impl Sender {
    /// Prepares a request to a path with its query.
    pub fn prepare(&self, method: Method, path: &str, body: Option<Bytes>) -> Result<Prepared> {
        let content = if method == Method::PATCH {
            "application/merge-patch+json"
        } else {
            "application/json"
        };
        let mut request = Request::builder()
            .uri(format!("{}{path}", self.base))
            .header(ACCEPT, "application/json")
            .header(USER_AGENT, "insula-bench/0.1");
        if body.is_some() {
            request = request.header(CONTENT_TYPE, content);
        }
        let request = request.method(method).body(())?;
        Ok(Prepared { request, body })
    }

    /// Prepares a read with an `Accept` header.
    pub fn prepare_accepting(&self, path: &str, form: &'static str) -> Result<Prepared> {
        let mut prepared = self.prepare(Method::GET, path, None)?;
        let headers = prepared.request.headers_mut();
        headers.insert(ACCEPT, HeaderValue::from_static(form));
        Ok(prepared)
    }

    /// Sends a request and reads the whole response.
    pub async fn send(&self, prepared: Prepared) -> Result<Answer> {
        let (status, mut stream) = self.open(prepared).await?;
        let mut answer = Answer {
            status,
            length: 0,
            head: vec![],
            tail: vec![],
        };
        while let Some(chunk) = chunk(&mut stream).await? {
            answer.take(&chunk);
        }
        Ok(answer)
    }

    /// Sends a request; the caller reads the response.
    pub async fn open(&self, prepared: Prepared) -> Result<(StatusCode, RecvStream)> {
        let mut sender = self.connection.clone().ready().await?;
        let is_all = prepared.body.is_none();
        let (response, mut stream) = sender.send_request(prepared.request, is_all)?;
        if let Some(body) = prepared.body {
            stream.send_data(body, true)?;
        }
        let response = response.await?;
        Ok((response.status(), response.into_body()))
    }
}

impl Answer {
    fn take(&mut self, chunk: &Bytes) {
        self.length += chunk.len();
        let room = HEAD.saturating_sub(self.head.len()).min(chunk.len());
        self.head.extend_from_slice(&chunk[..room]);
        self.tail
            .extend_from_slice(&chunk[chunk.len().saturating_sub(TAIL)..]);
        let surplus = self.tail.len().saturating_sub(TAIL);
        self.tail.drain(..surplus);
    }

    pub fn expect(&self, status: StatusCode) -> Result<()> {
        let head = &self.head[..self.head.len().min(EXCERPT)];
        ensure!(
            self.status == status,
            "answered {} and not {status}: {}",
            self.status,
            String::from_utf8_lossy(head)
        );
        Ok(())
    }

    /// Returns the first resource version: the object's, or the list's.
    pub fn version(&self) -> Result<u64> {
        let version = self.text(b"\"resourceVersion\":\"");
        Ok(version.context("no resourceVersion")?.parse()?)
    }

    /// Returns the continue token, if there is a next page.
    pub fn next_page(&self) -> Option<&str> {
        self.text(b"\"continue\":\"")
            .filter(|next| !next.is_empty())
    }

    /// Checks that a list is complete, and as long as a number of objects of a kilobyte.
    pub fn expect_list(&self, objects: usize) -> Result<()> {
        self.expect(StatusCode::OK)?;
        let end = self.tail.trim_ascii_end();
        ensure!(end.ends_with(b"]}"), "a list that was cut off");
        let lengths = objects * 1024..objects * 2048 + 1024;
        ensure!(
            lengths.contains(&self.length),
            "{} bytes are no list of {objects}",
            self.length
        );
        Ok(())
    }

    /// Returns the text after a mark, up to the next quote.
    fn text(&self, mark: &[u8]) -> Option<&str> {
        let rest = self
            .head
            .get(memmem::find(&self.head, mark)? + mark.len()..)?;
        let text = rest.get(..memchr::memchr(b'"', rest)?)?;
        std::str::from_utf8(text).ok()
    }
}

/// Returns the next bytes of a response, and releases flow control for as many.
pub async fn chunk(stream: &mut RecvStream) -> Result<Option<Bytes>> {
    let Some(chunk) = stream.data().await else {
        return Ok(None);
    };
    let chunk = chunk?;
    stream.flow_control().release_capacity(chunk.len())?;
    Ok(Some(chunk))
}

async fn connect(config: &Kubeconfig, drivers: &mut JoinSet<()>) -> Result<SendRequest<Bytes>> {
    let stream = TcpStream::connect(config.address).await?;
    stream.set_nodelay(true)?;
    let name = ServerName::from(config.address.ip());
    let stream = TlsConnector::from(config.tls.clone())
        .connect(name, stream)
        .await?;
    ensure!(
        stream.get_ref().1.alpn_protocol() == Some(b"h2"),
        "the server does not speak HTTP/2"
    );
    let (sender, connection) = h2::client::Builder::new()
        .initial_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .enable_push(false)
        .handshake(stream)
        .await?;
    drivers.spawn(async move {
        // Requests on this connection fail with the same error.
        let _ = connection.await;
    });
    Ok(sender)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(chunks: &[&str]) -> Answer {
        let mut answer = Answer {
            status: StatusCode::OK,
            length: 0,
            head: vec![],
            tail: vec![],
        };
        for chunk in chunks {
            answer.take(&Bytes::copy_from_slice(chunk.as_bytes()));
        }
        answer
    }

    #[test]
    fn of_an_answer_the_beginning_and_the_end_are_kept() {
        let long = "x".repeat(5000);
        let answer = answer(&["{\"a\":1", &long, "\"}", "]", "}\n"]);
        assert_eq!(answer.length, 5011);
        assert_eq!(answer.head.len(), HEAD);
        assert_eq!(answer.tail, b"xxx\"}]}\n");
    }

    #[test]
    fn version_and_next_page_are_found_across_chunks() {
        let answer = answer(&[
            "{\"metadata\":{\"resourceVer",
            "sion\":\"248\",\"continue\":\"abc\"},",
        ]);
        assert_eq!(answer.version().unwrap(), 248);
        assert_eq!(answer.next_page(), Some("abc"));
    }

    #[test]
    fn a_list_that_was_cut_off_or_has_the_wrong_length_is_refused() {
        let body = "y".repeat(3000);
        assert!(answer(&[&body, "]}\n"]).expect_list(2).is_ok());
        let cut = answer(&[&body]).expect_list(2).unwrap_err();
        assert!(cut.to_string().contains("cut off"));
        let short = answer(&[&body, "]}"]).expect_list(20).unwrap_err();
        assert!(short.to_string().contains("no list of 20"));
    }
}
