//! Watches over WebSocket, as used by dashboards in browsers.

use std::time::Duration;

use bytes::{Buf, BytesMut};
use insula_testkit::server::TestServer;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::client::TlsStream;

use super::{MAPS, PROTOBUF, decode_object, envelope_type, kind, start};

/// A WebSocket connection.
struct Socket {
    stream: TlsStream<TcpStream>,
    read: BytesMut,
}

impl Socket {
    /// Sends the upgrade request and returns the response headers.
    async fn open(server: &TestServer, path: &str, more: &str) -> anyhow::Result<(Self, String)> {
        let request = format!(
            "GET {path} HTTP/1.1\r\nHost: server:1\r\nAuthorization: Bearer t1\r\n\
             Connection: keep-alive, Upgrade\r\nUpgrade: websocket\r\n\
             Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\
             {more}\r\n"
        );
        let mut stream = server.dial("http/1.1").await?;
        stream.write_all(request.as_bytes()).await?;
        let mut socket = Self {
            stream,
            read: BytesMut::new(),
        };
        loop {
            let found = socket
                .read
                .windows(4)
                .position(|bytes| bytes == b"\r\n\r\n");
            if let Some(end) = found {
                let head = socket.read.split_to(end + 4);
                return Ok((socket, String::from_utf8_lossy(&head).into_owned()));
            }
            socket.more().await?;
        }
    }

    async fn more(&mut self) -> anyhow::Result<()> {
        let read = self.stream.read_buf(&mut self.read);
        let read = tokio::time::timeout(Duration::from_secs(20), read).await??;
        anyhow::ensure!(read > 0, "it closed");
        Ok(())
    }

    /// The opcode and the payload of the next frame.
    async fn frame(&mut self) -> anyhow::Result<(u8, Vec<u8>)> {
        loop {
            if let Some(frame) = parsed(&mut self.read) {
                return Ok(frame);
            }
            self.more().await?;
        }
    }

    async fn event(&mut self) -> anyhow::Result<Value> {
        let (kind, payload) = self.frame().await?;
        anyhow::ensure!(kind == 0x81, "{kind:x}");
        Ok(serde_json::from_slice(&payload)?)
    }
}

fn parsed(read: &mut BytesMut) -> Option<(u8, Vec<u8>)> {
    let (kind, short) = (*read.first()?, *read.get(1)?);
    let (length, head) = match short {
        126 => (
            usize::from(u16::from_be_bytes([*read.get(2)?, *read.get(3)?])),
            4,
        ),
        short => (usize::from(short), 2),
    };
    (read.len() >= head + length).then(|| {
        read.advance(head);
        (kind, read.split_to(length).to_vec())
    })
}

#[tokio::test]
async fn each_event_is_one_frame() -> anyhow::Result<()> {
    let (server, client) = start().await?;
    let path = format!("{MAPS}?watch=1&fieldSelector=metadata.name!=kube-root-ca.crt");
    let (mut socket, head) = Socket::open(&server, &path, "").await?;
    assert!(
        head.starts_with("HTTP/1.1 101 Switching Protocols\r\n"),
        "{head}"
    );
    assert!(
        head.contains("sec-websocket-accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n"),
        "{head}"
    );
    let first = socket.event().await?;
    assert_eq!(
        (&first["type"], &first["object"]["metadata"]["name"]),
        (&json!("ADDED"), &json!("a"))
    );
    for name in ["b", "c"] {
        client
            .post(MAPS, &json!({"metadata": {"name": name}}))
            .await?;
        let event = socket.event().await?;
        assert_eq!(event["object"]["metadata"]["name"], name);
    }
    // A masked ping, as clients send it; then close.
    socket
        .stream
        .write_all(&[0x89, 0x82, 1, 1, 1, 1, b'h' ^ 1, b'i' ^ 1])
        .await?;
    assert_eq!(socket.frame().await?, (0x8a, b"hi".to_vec()));
    socket.stream.write_all(&[0x88, 0x80, 0, 0, 0, 0]).await?;
    assert_eq!(socket.frame().await?, (0x88, Vec::new()));
    Ok(())
}

#[tokio::test]
async fn protobuf_frames_have_no_length_prefix() -> anyhow::Result<()> {
    let (server, _) = start().await?;
    let path =
        format!("{MAPS}?watch=1&timeoutSeconds=1&fieldSelector=metadata.name!=kube-root-ca.crt");
    let accept = format!("Accept: {PROTOBUF}\r\n");
    let (mut socket, _) = Socket::open(&server, &path, &accept).await?;
    let (frame, message) = socket.frame().await?;
    assert_eq!(frame, 0x82);
    let (kind_of, object) = super::event(&message)?;
    assert_eq!(
        (kind_of.as_str(), envelope_type(&object)?.1.as_str()),
        ("ADDED", "ConfigMap")
    );
    let of = kind("", "v1", "configmaps").type_id();
    assert_eq!(decode_object(of, &object)?["data"], json!({"k": "v"}));
    // After the timeout the server closes the connection.
    assert_eq!(socket.frame().await?, (0x88, Vec::new()));
    Ok(())
}

/// Only watches can be upgraded, and not for pages of another origin.
#[tokio::test]
async fn other_upgrade_requests_are_answered_normally() -> anyhow::Result<()> {
    let (server, _) = start().await?;
    let watch = format!("{MAPS}?watch=1&fieldSelector=metadata.name!=kube-root-ca.crt");
    let stranger = "Origin: https://evil.example\r\n";
    let own = "Origin: https://server:1\r\n";
    for (path, more, status) in [
        (MAPS.to_owned(), "", "200 OK"),
        (format!("{MAPS}/none"), "", "404 Not Found"),
        (
            format!("{watch}&labelSelector=a%20in"),
            "",
            "400 Bad Request",
        ),
        (watch.clone(), stranger, "200 OK"),
        (watch.clone(), own, "101 Switching Protocols"),
    ] {
        let (_, head) = Socket::open(&server, &path, more).await?;
        assert!(
            head.starts_with(&format!("HTTP/1.1 {status}\r\n")),
            "{path} {more}: {head}"
        );
    }
    Ok(())
}

#[tokio::test]
async fn connection_closes_on_shutdown() -> anyhow::Result<()> {
    let (mut server, _) = start().await?;
    let (mut socket, _) = Socket::open(
        &server,
        &format!("{MAPS}?watch=1&fieldSelector=metadata.name!=kube-root-ca.crt"),
        "",
    )
    .await?;
    socket.event().await?;
    tokio::time::timeout(Duration::from_secs(20), server.stop()).await?;
    assert_eq!(socket.frame().await?, (0x88, Vec::new()));
    Ok(())
}
