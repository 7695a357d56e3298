//! Watches over WebSocket for browsers, one event per frame.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::{Buf, Bytes, BytesMut};
use http::header::{
    CONNECTION, CONTENT_TYPE, HOST, HeaderMap, HeaderName, HeaderValue, ORIGIN,
    SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_KEY, SEC_WEBSOCKET_VERSION, UPGRADE,
};
use http::{Request, Response, StatusCode, Uri};
use http_body::Frame;
use http_body_util::BodyExt;
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use insula_kinds::cbor;
use tokio::io::{AsyncReadExt, AsyncWriteExt, WriteHalf};

use crate::codec::body::Body;
use crate::server::response::OutgoingBody;

/// A request to upgrade to WebSocket, which is granted for watches.
pub struct UpgradeRequest {
    accept: HeaderValue,
    upgrade: OnUpgrade,
}

/// A watch that sends its events as frames after the upgrade.
pub struct Frames {
    upgrade: OnUpgrade,
    body: Body,
    framing: Framing,
}

/// How the events of a watch are told apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Framing {
    /// Each is a line.
    Lines,
    /// Each begins with its length.
    Sized,
    /// Each is a data item of CBOR.
    Items,
}

/// A message of the client.
#[derive(Debug, PartialEq, Eq)]
enum ClientMessage {
    /// No message that needs a reply.
    Nothing,
    /// A ping.
    Ping(Vec<u8>),
    /// A close, or a malformed frame.
    End,
}

const TEXT: u8 = 0x1;
const BINARY: u8 = 0x2;
const CLOSE: u8 = 0x8;
const PING: u8 = 0x9;
const PONG: u8 = 0xa;

/// The bit of the final frame of a message. Every message here has one frame.
const FIN: u8 = 0x80;

/// The most bytes of a client's frame: clients send only control frames on a watch.
const MAX_FRAME_BYTES: usize = 4 << 10;

type Upgraded = TokioIo<hyper::upgrade::Upgraded>;

impl UpgradeRequest {
    /// Returns the upgrade that a request asks for, if any.
    pub fn of<B>(request: &mut Request<B>) -> Option<Self> {
        let headers = request.headers();
        let asks = has(headers, &CONNECTION, "upgrade")
            && has(headers, &UPGRADE, "websocket")
            && has(headers, &SEC_WEBSOCKET_VERSION, "13")
            && is_own(headers, request.uri());
        let key = headers.get(SEC_WEBSOCKET_KEY).filter(|_| asks)?;
        let accept = HeaderValue::from_str(&accept(key.as_bytes())).ok()?;
        Some(Self {
            accept,
            upgrade: hyper::upgrade::on(request),
        })
    }

    /// Switches a watch to WebSocket. Other responses are unchanged.
    pub fn switch(self, response: Response<Body>) -> (Response<Body>, Option<Frames>) {
        if response.status() != StatusCode::OK || !response.body().is_endless() {
            return (response, None);
        }
        let (mut parts, body) = response.into_parts();
        let media = parts.headers.remove(CONTENT_TYPE);
        let framing = match media.as_ref().map(HeaderValue::as_bytes) {
            None | Some(b"application/json") => Framing::Lines,
            Some(b"application/cbor-seq") => Framing::Items,
            Some(_) => Framing::Sized,
        };
        parts.status = StatusCode::SWITCHING_PROTOCOLS;
        parts
            .headers
            .insert(CONNECTION, HeaderValue::from_static("Upgrade"));
        parts
            .headers
            .insert(UPGRADE, HeaderValue::from_static("websocket"));
        parts.headers.insert(SEC_WEBSOCKET_ACCEPT, self.accept);
        let frames = Frames {
            upgrade: self.upgrade,
            body,
            framing,
        };
        (Response::from_parts(parts, Body::empty()), Some(frames))
    }
}

impl Frames {
    /// Sends events until the watch or the client ends. `begin` is called with the watch.
    pub async fn send(self, begin: impl FnOnce(Body) -> OutgoingBody) {
        let mut body = begin(self.body);
        let Ok(upgraded) = self.upgrade.await else {
            return;
        };
        let (mut reader, mut writer) = tokio::io::split(TokioIo::new(upgraded));
        let mut said = BytesMut::new();
        loop {
            let sent = tokio::select! {
                piece = body.frame() => match piece.map(|piece| piece.map(Frame::into_data)) {
                    // Charged until it is written.
                    Some(Ok(Ok(piece))) => {
                        let until = body.response().await_client();
                        let events = piece.bytes().clone();
                        let sent = write_events(&mut writer, events, self.framing);
                        tokio::time::timeout_at(until, sent).await.unwrap_or(false)
                    }
                    _ => break,
                },
                read = reader.read_buf(&mut said) => match read {
                    Ok(1..) => answer(&mut writer, &mut said).await,
                    _ => return,
                },
            };
            if !sent {
                return;
            }
        }
        write(&mut writer, CLOSE, &[]).await;
    }
}

/// Writes every event of a chunk. Returns whether that succeeded.
async fn write_events(
    writer: &mut WriteHalf<Upgraded>,
    mut piece: Bytes,
    framing: Framing,
) -> bool {
    let kind = if framing == Framing::Lines {
        TEXT
    } else {
        BINARY
    };
    while let Some(event) = next_event(&mut piece, framing) {
        if !write(writer, kind, &event).await {
            return false;
        }
    }
    writer.flush().await.is_ok()
}

/// Takes the next event of a chunk, which has whole events only.
fn next_event(piece: &mut Bytes, framing: Framing) -> Option<Bytes> {
    if piece.is_empty() {
        return None;
    }
    let length = match framing {
        Framing::Lines => memchr::memchr(b'\n', piece).map(|at| at + 1),
        Framing::Sized => usize::try_from(piece.try_get_u32().ok()?).ok(),
        Framing::Items => cbor::first_length(piece),
    };
    let length = length.unwrap_or(usize::MAX).min(piece.len());
    Some(piece.split_to(length))
}

/// Replies to the client's messages. Returns whether the connection stays open.
async fn answer(writer: &mut WriteHalf<Upgraded>, said: &mut BytesMut) -> bool {
    loop {
        match parse_message(said) {
            ClientMessage::Nothing => return true,
            ClientMessage::Ping(payload) => {
                if !write(writer, PONG, &payload).await || writer.flush().await.is_err() {
                    return false;
                }
            }
            ClientMessage::End => {
                write(writer, CLOSE, &[]).await;
                writer.flush().await.ok();
                return false;
            }
        }
    }
}

/// Takes the next message that needs a reply.
fn parse_message(said: &mut BytesMut) -> ClientMessage {
    loop {
        let &[first, second, ..] = &said[..] else {
            return ClientMessage::Nothing;
        };
        let short = usize::from(second & 0x7f);
        let (length, head) = match short {
            126 if said.len() < 4 => return ClientMessage::Nothing,
            126 => (usize::from(u16::from_be_bytes([said[2], said[3]])), 4),
            127 => return ClientMessage::End,
            short => (short, 2),
        };
        // Frames of clients must be masked.
        if second & 0x80 == 0 || length > MAX_FRAME_BYTES {
            return ClientMessage::End;
        }
        let whole = head + 4 + length;
        if said.len() < whole {
            return ClientMessage::Nothing;
        }
        let frame = said.split_to(whole);
        let (mask, payload) = frame[head..].split_at(4);
        let mask = mask.iter().cycle();
        let payload = payload.iter().zip(mask).map(|(byte, mask)| byte ^ mask);
        match first & 0x0f {
            CLOSE => return ClientMessage::End,
            PING => return ClientMessage::Ping(payload.collect()),
            _ => {}
        }
    }
}

/// Writes a frame. Returns whether that succeeded.
async fn write(writer: &mut WriteHalf<Upgraded>, kind: u8, payload: &[u8]) -> bool {
    let head = head(kind, payload.len());
    writer.write_all(&head).await.is_ok() && writer.write_all(payload).await.is_ok()
}

/// Returns the header of a frame.
fn head(kind: u8, length: usize) -> Vec<u8> {
    let mut head = vec![FIN | kind];
    match (u8::try_from(length), u16::try_from(length)) {
        (Ok(short @ 0..=125), _) => head.push(short),
        (_, Ok(middle)) => {
            head.push(126);
            head.extend(middle.to_be_bytes());
        }
        _ => {
            head.push(127);
            head.extend((length as u64).to_be_bytes());
        }
    }
    head
}

/// Returns the value of `Sec-WebSocket-Accept`.
fn accept(key: &[u8]) -> String {
    const GUID: &[u8] = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11";
    let mut digest = ring::digest::Context::new(&ring::digest::SHA1_FOR_LEGACY_USE_ONLY);
    digest.update(key);
    digest.update(GUID);
    STANDARD.encode(digest.finish())
}

fn has(headers: &HeaderMap, name: &HeaderName, wanted: &str) -> bool {
    let values = headers.get_all(name).iter();
    let mut tokens = values
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','));
    tokens.any(|token| token.trim().eq_ignore_ascii_case(wanted))
}

/// Whether the request has no foreign `Origin`. Browsers send client certificates to every
/// server that a page names, and let the page read the frames.
fn is_own(headers: &HeaderMap, uri: &Uri) -> bool {
    let text = |name| headers.get(name).and_then(|value| value.to_str().ok());
    let Some(origin) = text(ORIGIN) else {
        return true;
    };
    let origin: Option<Uri> = origin.parse().ok();
    let origin = origin.as_ref().and_then(Uri::authority);
    let host = text(HOST).or_else(|| uri.authority().map(|of| of.as_str()));
    origin.is_some_and(|origin| Some(origin.as_str()) == host)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accept_value_is_that_of_the_rfc() {
        let proof = accept(b"dGhlIHNhbXBsZSBub25jZQ==");
        assert_eq!(proof, "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
    }

    #[test]
    fn frame_header_has_the_shortest_length_encoding() {
        for (length, wanted) in [
            (0, &[0x81, 0][..]),
            (125, &[0x81, 125]),
            (126, &[0x81, 126, 0, 126]),
            (65_535, &[0x81, 126, 0xff, 0xff]),
            (65_536, &[0x81, 127, 0, 0, 0, 0, 0, 1, 0, 0]),
        ] {
            assert_eq!(head(TEXT, length), wanted, "{length}");
        }
    }

    #[test]
    fn events_are_split_at_lines_by_their_lengths_or_as_items() {
        let mut lines = Bytes::from_static(b"{a}\n{b}\n");
        let all: Vec<_> = std::iter::from_fn(|| next_event(&mut lines, Framing::Lines)).collect();
        assert_eq!(all, ["{a}\n", "{b}\n"]);
        let mut sized = Bytes::from_static(b"\0\0\0\x02ab\0\0\0\x01c\0\0\0\x09x");
        let all: Vec<_> = std::iter::from_fn(|| next_event(&mut sized, Framing::Sized)).collect();
        assert_eq!(all, ["ab", "c", "x"]);
        let mut items = Bytes::from_static(b"\xa1Aa\x01\x82\x01\x02\xa1");
        let all: Vec<_> = std::iter::from_fn(|| next_event(&mut items, Framing::Items)).collect();
        assert_eq!(all, [&b"\xa1Aa\x01"[..], b"\x82\x01\x02", b"\xa1"]);
    }

    #[test]
    fn client_frames_are_parsed_or_close_the_connection() {
        let mask = [1, 2, 3, 4];
        let ping = [0x89, 0x82, 1, 2, 3, 4, b'h' ^ mask[0], b'i' ^ mask[1]];
        let text = [0x81, 0x81, 1, 2, 3, 4, 0];
        for (said, wanted, left) in [
            (&[][..], ClientMessage::Nothing, 0),
            (&[0x89], ClientMessage::Nothing, 1),
            (&ping[..7], ClientMessage::Nothing, 7),
            (&ping, ClientMessage::Ping(b"hi".to_vec()), 0),
            (
                &[&text[..], &ping[..]].concat(),
                ClientMessage::Ping(b"hi".to_vec()),
                0,
            ),
            (&[0x88, 0x80, 1, 2, 3, 4], ClientMessage::End, 0),
            // Not masked, too long, far too long.
            (&[0x81, 0x01, b'a'], ClientMessage::End, 3),
            (&[0x81, 0xfe, 0xff, 0xff], ClientMessage::End, 4),
            (&[0x81, 0xff, 0, 0], ClientMessage::End, 4),
        ] {
            let mut buffer = BytesMut::from(said);
            assert_eq!(parse_message(&mut buffer), wanted, "{said:?}");
            assert_eq!(buffer.len(), left, "{said:?}");
        }
    }

    #[test]
    fn foreign_origins_are_not_upgraded() {
        for (origin, own) in [
            (None, true),
            (Some("https://server:6443"), true),
            (Some("https://evil.example"), false),
            (Some("https://server"), false),
            (Some("null"), false),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(HOST, HeaderValue::from_static("server:6443"));
            if let Some(origin) = origin {
                headers.insert(ORIGIN, HeaderValue::from_static(origin));
            }
            assert_eq!(is_own(&headers, &Uri::default()), own, "{origin:?}");
        }
    }
}
