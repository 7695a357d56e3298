//! Raw HTTP/2 frames, for requests that no proper client sends.

use insula_testkit::server::{TestServer, TlsStream};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::TIMEOUT;

pub const DATA: u8 = 0;
pub const HEADERS: u8 = 1;
pub const RST_STREAM: u8 = 3;
pub const SETTINGS: u8 = 4;
pub const PING: u8 = 6;
pub const GOAWAY: u8 = 7;
const WINDOW_UPDATE: u8 = 8;
pub const CONTINUATION: u8 = 9;

pub const END_STREAM: u8 = 1;
pub const END_HEADERS: u8 = 4;

pub const REFUSED_STREAM: u32 = 7;
pub const CANCEL: u32 = 8;
pub const ENHANCE_YOUR_CALM: u32 = 11;

/// SETTINGS_INITIAL_WINDOW_SIZE.
pub const INITIAL_WINDOW: u16 = 4;

/// A raw HTTP/2 connection.
pub struct Wire {
    stream: TlsStream<TcpStream>,
    token: String,
    next: u32,
}

/// A raw HTTP/2 frame.
#[derive(Debug)]
pub struct Frame {
    pub kind: u8,
    pub flags: u8,
    pub stream: u32,
    pub payload: Vec<u8>,
}

impl Frame {
    /// Whether this is the end of a stream: its last frame, or its reset.
    pub const fn ends_stream(&self) -> bool {
        let last = matches!(self.kind, DATA | HEADERS) && self.flags & END_STREAM != 0;
        last || self.kind == RST_STREAM
    }

    /// The error code of a RST_STREAM or GOAWAY frame.
    pub fn code(&self) -> u32 {
        let from = if self.kind == GOAWAY { 4 } else { 0 };
        let code = self.payload[from..].first_chunk();
        code.map_or(0, |code| u32::from_be_bytes(*code))
    }
}

impl Wire {
    /// Opens a connection for requests with the token of tenant `t1`.
    pub async fn open(server: &TestServer, settings: &[(u16, u32)]) -> anyhow::Result<Self> {
        Self::open_as(server, "t1", settings).await
    }

    /// Opens a connection for requests with this token.
    pub async fn open_as(
        server: &TestServer,
        token: &str,
        settings: &[(u16, u32)],
    ) -> anyhow::Result<Self> {
        let stream = server.dial("h2").await?;
        let token = token.to_owned();
        let mut wire = Self {
            stream,
            token,
            next: 1,
        };
        wire.stream
            .write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
            .await?;
        let mut payload = Vec::new();
        for (name, value) in settings {
            payload.extend_from_slice(&name.to_be_bytes());
            payload.extend_from_slice(&value.to_be_bytes());
        }
        wire.send(SETTINGS, 0, 0, &payload).await?;
        Ok(wire)
    }

    /// Sends a frame. A closed connection is only noticed when reading.
    pub async fn send(
        &mut self,
        kind: u8,
        flags: u8,
        stream: u32,
        payload: &[u8],
    ) -> anyhow::Result<()> {
        let mut frame = Vec::with_capacity(9 + payload.len());
        frame.extend_from_slice(&u32::try_from(payload.len())?.to_be_bytes()[1..]);
        frame.extend_from_slice(&[kind, flags]);
        frame.extend_from_slice(&stream.to_be_bytes());
        frame.extend_from_slice(payload);
        self.stream.write_all(&frame).await.ok();
        Ok(())
    }

    /// Starts a request and returns its stream number.
    pub async fn request(&mut self, method: &str, path: &str, flags: u8) -> anyhow::Result<u32> {
        let headers = headers(method, path, &self.token);
        self.request_with(&headers, flags).await
    }

    /// Starts a request with this header block and returns its stream number.
    pub async fn request_with(&mut self, headers: &[u8], flags: u8) -> anyhow::Result<u32> {
        let stream = self.next;
        self.next += 2;
        self.send(HEADERS, flags, stream, headers).await?;
        Ok(stream)
    }

    /// Lets the server send this many bytes more, on a stream or, with 0, on the connection.
    pub async fn widen(&mut self, stream: u32, bytes: u32) -> anyhow::Result<()> {
        self.send(WINDOW_UPDATE, 0, stream, &bytes.to_be_bytes())
            .await
    }

    pub async fn get(&mut self, path: &str) -> anyhow::Result<u32> {
        self.request("GET", path, END_HEADERS | END_STREAM).await
    }

    pub async fn reset(&mut self, stream: u32) -> anyhow::Result<()> {
        self.send(RST_STREAM, 0, stream, &CANCEL.to_be_bytes())
            .await
    }

    /// The next frame that matches, or `None` if the connection ends first.
    pub async fn find(&mut self, wanted: impl Fn(&Frame) -> bool) -> anyhow::Result<Option<Frame>> {
        let find = async {
            loop {
                match self.read().await {
                    Some(frame) if wanted(&frame) => return Some(frame),
                    Some(_) => {}
                    None => return None,
                }
            }
        };
        let found = tokio::time::timeout(TIMEOUT, find).await;
        found.map_err(|_| anyhow::anyhow!("the frame did not come, and no end either"))
    }

    async fn read(&mut self) -> Option<Frame> {
        let mut head = [0; 9];
        self.stream.read_exact(&mut head).await.ok()?;
        let length = u32::from_be_bytes([0, head[0], head[1], head[2]]);
        let mut payload = vec![0; length as usize];
        self.stream.read_exact(&mut payload).await.ok()?;
        Some(Frame {
            kind: head[3],
            flags: head[4],
            stream: u32::from_be_bytes([head[5], head[6], head[7], head[8]]),
            payload,
        })
    }
}

/// An uncompressed header block of a request.
pub fn headers(method: &str, path: &str, token: &str) -> Vec<u8> {
    let mut block = Vec::new();
    for (name, value) in [
        (":method", method),
        (":scheme", "https"),
        (":path", path),
        (":authority", "insula.test"),
        ("authorization", &format!("Bearer {token}")),
    ] {
        block.extend(header(name, value));
    }
    block
}

/// A literal header field without indexing.
pub fn header(name: &str, value: &str) -> Vec<u8> {
    let mut block = vec![0];
    for text in [name, value] {
        let length = text.len();
        if length < 127 {
            block.push(length as u8);
        } else {
            block.push(127);
            let mut rest = length - 127;
            while rest >= 128 {
                block.push((rest % 128) as u8 | 128);
                rest /= 128;
            }
            block.push(rest as u8);
        }
        block.extend_from_slice(text.as_bytes());
    }
    block
}
