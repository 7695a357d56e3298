//! Limits per connection, and on the number of connections.

use std::time::Duration;

use http::Method;
use insula_apiserver::Limits;
use insula_apiserver::flow_control::Connections;
use insula_testkit::server::TlsStream;
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::http2::{
    CANCEL, CONTINUATION, DATA, END_HEADERS, END_STREAM, ENHANCE_YOUR_CALM, GOAWAY, HEADERS,
    INITIAL_WINDOW, REFUSED_STREAM, RST_STREAM, Wire, header, headers,
};
use super::{MAPS, SHORT, TIMEOUT, await_metric, create_maps, metric, start};

/// `:status: 431`, as HPACK writes it.
const STATUS_431: [u8; 5] = [0x48, 0x83, 0x69, 0x90, 0xff];

pub(super) fn connections(change: impl FnOnce(&mut Connections)) -> Limits {
    let mut limits = Limits::default();
    change(&mut limits.connections);
    limits
}

/// Reads until the connection ends, which it must.
pub(super) async fn read_until_closed(
    stream: &mut (impl AsyncReadExt + Unpin),
) -> anyhow::Result<String> {
    let mut read = Vec::new();
    let ended = tokio::time::timeout(TIMEOUT, stream.read_to_end(&mut read)).await;
    // The way it ends does not matter.
    drop(ended.map_err(|_| anyhow::anyhow!("it did not end"))?);
    Ok(String::from_utf8_lossy(&read).into_owned())
}

/// Sends one byte at a time until the server closes the connection.
async fn send_slowly(mut stream: TlsStream<TcpStream>, byte: u8) -> anyhow::Result<String> {
    let (mut reader, mut writer) = tokio::io::split(&mut stream);
    let mut tick = tokio::time::interval(SHORT / 10);
    let sent = async {
        loop {
            tick.tick().await;
            if writer.write_all(&[byte]).await.is_err() || writer.flush().await.is_err() {
                std::future::pending::<()>().await;
            }
        }
    };
    tokio::select! {
        () = sent => anyhow::bail!("it sends for ever"),
        read = read_until_closed(&mut reader) => read,
    }
}

#[tokio::test]
async fn incomplete_handshakes_time_out() -> anyhow::Result<()> {
    let server = start(connections(|limits| limits.handshake = SHORT)).await?;
    let mut silent = TcpStream::connect(server.address()).await?;
    assert_eq!(read_until_closed(&mut silent).await?, "");
    let mut begun = TcpStream::connect(server.address()).await?;
    begun.write_all(&[22, 3, 1, 2, 0, 1]).await?;
    assert_eq!(read_until_closed(&mut begun).await?, "");
    let system = server.system().await?;
    let ended = "insula_connections_ended_total{reason=\"too_slow\"}";
    assert_eq!(metric(&system, ended).await?, 2);
    Ok(())
}

#[tokio::test]
async fn connections_without_a_request_time_out() -> anyhow::Result<()> {
    let server = start(connections(|limits| limits.unauthenticated_timeout = SHORT)).await?;
    for protocol in ["http/1.1", "h2"] {
        let mut silent = server.dial(protocol).await?;
        read_until_closed(&mut silent).await?;
    }
    // The preface alone, and an unfinished header block.
    let mut wire = Wire::open(&server, &[]).await?;
    assert!(wire.find(|frame| frame.kind == GOAWAY).await?.is_some());
    let mut wire = Wire::open(&server, &[]).await?;
    wire.request("GET", MAPS, END_STREAM).await?;
    assert!(wire.find(|frame| frame.kind == HEADERS).await?.is_none());
    Ok(())
}

#[tokio::test]
async fn slow_headers_time_out() -> anyhow::Result<()> {
    let server = start(connections(|limits| limits.headers = SHORT)).await?;
    let mut stream = server.dial("http/1.1").await?;
    stream
        .write_all(b"GET /livez HTTP/1.1\r\nhost: a\r\nx: ")
        .await?;
    send_slowly(stream, b'a').await?;
    Ok(())
}

#[tokio::test]
async fn slow_bodies_time_out() -> anyhow::Result<()> {
    let limits = Limits {
        body_grace: SHORT,
        ..Limits::default()
    };
    let server = start(limits).await?;
    server.tenant("t1").await?;
    for length in ["content-length: 1000000", "transfer-encoding: chunked"] {
        let mut stream = server.dial("http/1.1").await?;
        let head = format!(
            "POST {MAPS} HTTP/1.1\r\nhost: a\r\nauthorization: Bearer t1\r\n\
             content-type: application/json\r\n{length}\r\n\r\n"
        );
        stream.write_all(head.as_bytes()).await?;
        let answer = match length.starts_with("content") {
            true => send_slowly(stream, b' ').await?,
            false => read_until_closed(&mut stream).await?,
        };
        assert!(answer.starts_with("HTTP/1.1 408 "), "{answer}");
    }
    let mut wire = Wire::open(&server, &[]).await?;
    let stream = wire.request("POST", MAPS, END_HEADERS).await?;
    wire.send(DATA, 0, stream, b"{").await?;
    let answer = wire.find(|frame| frame.kind == DATA).await?.unwrap();
    let reported = String::from_utf8_lossy(&answer.payload).into_owned();
    assert!(reported.contains("did not arrive in time"), "{reported}");
    Ok(())
}

#[tokio::test]
async fn stalled_responses_are_reset_but_idle_watches_are_not() -> anyhow::Result<()> {
    let server = start(connections(|limits| limits.stalled = SHORT)).await?;
    let client = server.tenant("t1").await?;
    create_maps(&client, 10).await?;
    // The client's flow-control window is empty, and there is no event to send.
    let list = client.get(MAPS).await?.json();
    let revision = list["metadata"]["resourceVersion"].as_str().unwrap();
    let mut watcher = Wire::open(&server, &[(INITIAL_WINDOW, 0)]).await?;
    let path = format!("{MAPS}?watch=true&resourceVersion={revision}");
    watcher.get(&path).await?;
    for path in [MAPS, "/openapi/v2"] {
        let mut wire = Wire::open(&server, &[(INITIAL_WINDOW, 0)]).await?;
        let stream = wire.get(path).await?;
        let begun = wire.find(|frame| frame.kind == HEADERS).await?;
        assert_eq!(begun.unwrap().stream, stream);
        let ended = wire.find(|frame| matches!(frame.kind, DATA | RST_STREAM));
        let ended = ended.await?.unwrap();
        assert_eq!((ended.kind, ended.code()), (RST_STREAM, CANCEL));
    }
    // The watch was opened before them and is still open.
    let begun = watcher.find(|frame| frame.kind == HEADERS).await?;
    assert_eq!(begun.unwrap().stream, 1);
    let second = watcher
        .request("HEAD", MAPS, END_HEADERS | END_STREAM)
        .await?;
    let answer = watcher.find(|frame| frame.kind == HEADERS).await?;
    assert_eq!(answer.unwrap().stream, second);
    Ok(())
}

#[tokio::test]
async fn idle_connections_are_closed_unless_they_have_a_watch() -> anyhow::Result<()> {
    let limits = connections(|limits| {
        limits.unauthenticated_timeout = SHORT;
        limits.idle = SHORT;
    });
    let server = start(limits).await?;
    let client = server.tenant("t1").await?;
    let mut lines = client.watch(&format!("{MAPS}?watch=true")).await?;
    let mut wire = Wire::open(&server, &[]).await?;
    wire.get(MAPS).await?;
    let farewell = wire.find(|frame| frame.kind == GOAWAY).await?.unwrap();
    assert_eq!(farewell.code(), 0);
    assert!(wire.find(|_| false).await?.is_none());
    // The watch has been idle for as long by now.
    let map = json!({"metadata": {"name": "a"}});
    assert_eq!(client.post(MAPS, &map).await?.status, 201);
    loop {
        let event = lines.next().await?.unwrap();
        if event["object"]["metadata"]["name"] == "a" {
            return Ok(());
        }
    }
}

#[tokio::test]
async fn http_1_headers_are_limited_in_number_and_size() -> anyhow::Result<()> {
    let server = start(Limits::default()).await?;
    let few: String = (0..90).map(|number| format!("x{number}: a\r\n")).collect();
    let many: String = (0..200).map(|number| format!("x{number}: a\r\n")).collect();
    let long = format!("x: {}\r\n", "a".repeat(100 << 10));
    let path = "a".repeat(100 << 10);
    for (path, headers, codes) in [
        ("/livez", few.as_str(), [200, 200]),
        ("/livez", many.as_str(), [431, 431]),
        ("/livez", long.as_str(), [431, 431]),
        (path.as_str(), "", [414, 431]),
    ] {
        let mut stream = server.dial("http/1.1").await?;
        let text = format!("GET {path} HTTP/1.1\r\nhost: a\r\nconnection: close\r\n{headers}\r\n");
        stream.write_all(text.as_bytes()).await.ok();
        let answer = read_until_closed(&mut stream).await?;
        let code = answer.get(9..12).and_then(|code| code.parse().ok());
        assert!(codes.contains(&code.unwrap_or(0)), "{codes:?}: {answer}");
    }
    Ok(())
}

#[tokio::test]
async fn endless_http_2_header_blocks_are_an_error() -> anyhow::Result<()> {
    let server = start(Limits::default()).await?;
    let mut wire = Wire::open(&server, &[]).await?;
    let stream = wire.request("GET", MAPS, END_STREAM).await?;
    let flood = header("x", &"a".repeat(1000));
    for _ in 0..10_000 {
        wire.send(CONTINUATION, 0, stream, &flood).await?;
    }
    let farewell = wire.find(|frame| frame.kind == GOAWAY).await?;
    // The response may be lost if the server closes before it is read.
    let code = farewell.map_or(ENHANCE_YOUR_CALM, |farewell| farewell.code());
    assert_eq!(code, ENHANCE_YOUR_CALM);
    assert_eq!(server.system().await?.get("/livez").await?.status, 200);
    Ok(())
}

#[tokio::test]
async fn http_2_headers_are_limited_in_number_and_size() -> anyhow::Result<()> {
    let server = start(Limits::default()).await?;
    server.tenant("t1").await?;
    let many: Vec<u8> = (0..3000)
        .flat_map(|number| header(&format!("x{number}"), ""))
        .collect();
    let long = header("x", &"a".repeat(70 << 10));
    for more in [many, long] {
        let mut wire = Wire::open(&server, &[]).await?;
        let mut block = headers("GET", MAPS, "t1");
        block.extend(more);
        let mut pieces = block.chunks(16 << 10);
        let first = pieces.next().unwrap();
        wire.send(HEADERS, END_STREAM, 1, first).await?;
        let rest: Vec<_> = pieces.collect();
        for (number, piece) in rest.iter().enumerate() {
            let last = if number + 1 == rest.len() {
                END_HEADERS
            } else {
                0
            };
            wire.send(CONTINUATION, last, 1, piece).await?;
        }
        let ends = [HEADERS, RST_STREAM, GOAWAY];
        let answer = wire.find(|frame| ends.contains(&frame.kind)).await?;
        if let Some(answer) = answer.filter(|answer| answer.kind == HEADERS) {
            assert_eq!(answer.payload, STATUS_431);
        }
    }
    Ok(())
}

#[tokio::test]
async fn excess_streams_are_refused_without_affecting_others() -> anyhow::Result<()> {
    let server = start(connections(|limits| limits.streams = 2)).await?;
    server.tenant("t1").await?;
    let mut wire = Wire::open(&server, &[]).await?;
    // Two watches use up the stream limit.
    for _ in 0..2 {
        wire.get(&format!("{MAPS}?watch=true")).await?;
        assert!(wire.find(|frame| frame.kind == HEADERS).await?.is_some());
    }
    let third = wire.get(MAPS).await?;
    let refused = wire.find(|frame| frame.kind == RST_STREAM).await?.unwrap();
    assert_eq!((refused.stream, refused.code()), (third, REFUSED_STREAM));
    wire.reset(1).await?;
    let fourth = wire.get(MAPS).await?;
    let answer = wire.find(|frame| frame.kind == HEADERS).await?.unwrap();
    assert_eq!(answer.stream, fourth);
    Ok(())
}

#[tokio::test]
async fn rapid_resets_close_the_connection() -> anyhow::Result<()> {
    let server = start(Limits::default()).await?;
    let neighbour = server.tenant("t2").await?;
    server.tenant("t1").await?;
    let mut wire = Wire::open(&server, &[]).await?;
    for _ in 0..20_000 {
        let stream = wire.get(MAPS).await?;
        wire.reset(stream).await?;
    }
    let farewell = wire.find(|frame| frame.kind == GOAWAY).await?;
    let code = farewell.map_or(ENHANCE_YOUR_CALM, |farewell| farewell.code());
    assert_eq!(code, ENHANCE_YOUR_CALM);
    assert_eq!(neighbour.get(MAPS).await?.status, 200);
    let system = server.system().await?;
    await_metric(&system, "insula_seats_in_use{work=\"read\"}", 1).await
}

#[tokio::test]
async fn unauthenticated_connections_displace_each_other_only() -> anyhow::Result<()> {
    let limits = connections(|limits| {
        limits.total = 8;
        limits.handshakes = 3;
        limits.unauthenticated = 3;
    });
    let server = start(limits).await?;
    let friend = server.tenant("t1").await?;
    // The only earlier connection is the system's, which is closed or authenticated.
    assert_eq!(friend.get(MAPS).await?.status, 200);
    let mut flood = Vec::new();
    for _ in 0..20 {
        flood.push(server.dial("h2").await?);
        flood.push(server.dial("http/1.1").await?);
    }
    // In the middle of the handshake.
    let mut silent = Vec::new();
    for _ in 0..20 {
        silent.push(TcpStream::connect(server.address()).await?);
    }
    for stream in &mut flood[..30] {
        read_until_closed(stream).await?;
    }
    for stream in &mut silent[..10] {
        read_until_closed(stream).await?;
    }
    assert_eq!(friend.get(MAPS).await?.status, 200);
    let another = server.client("t1").await?;
    assert_eq!(another.get(MAPS).await?.status, 200);
    Ok(())
}

#[tokio::test]
async fn connection_limit_is_per_tenant() -> anyhow::Result<()> {
    let server = start(connections(|limits| limits.each = 3)).await?;
    let neighbour = server.tenant("t2").await?;
    server.tenant("t1").await?;
    let mut clients = Vec::new();
    for _ in 0..3 {
        let client = server.client("t1").await?;
        assert_eq!(client.get(MAPS).await?.status, 200);
        clients.push(client);
    }
    let one_more = server.client("t1").await?;
    let refused = one_more.send(Method::GET, MAPS, &[], "").await?;
    assert_eq!(refused.status, 429);
    assert_eq!(refused.header("retry-after"), "1");
    assert_eq!(neighbour.get(MAPS).await?.status, 200);
    // A closed connection makes room for another.
    clients.pop();
    let served = async {
        while one_more.get(MAPS).await?.status != 200 {
            tokio::task::yield_now().await;
        }
        anyhow::Ok(())
    };
    tokio::time::timeout(TIMEOUT, served).await?
}

#[tokio::test]
async fn handshake_floods_do_not_affect_open_connections() -> anyhow::Result<()> {
    let server = start(connections(|limits| limits.handshakes = 4)).await?;
    let neighbour = server.tenant("t2").await?;
    let flood = async {
        loop {
            drop(server.dial("h2").await);
        }
    };
    let gets = async {
        for _ in 0..50 {
            assert_eq!(neighbour.get(MAPS).await?.status, 200);
        }
        anyhow::Ok(())
    };
    tokio::select! {
        () = flood => {}
        got = tokio::time::timeout(Duration::from_secs(30), gets) => got??,
    }
    Ok(())
}

#[tokio::test]
async fn http_1_1_request_without_host_is_refused() -> anyhow::Result<()> {
    let server = start(Limits::default()).await?;
    for (version, host, status) in [
        ("1.1", "", "400 Bad Request"),
        ("1.1", "host: a\r\n", "200 OK"),
        ("1.1", "host: a\r\nhost: b\r\n", "400 Bad Request"),
        ("1.0", "", "200 OK"),
    ] {
        let text = format!("GET /livez HTTP/{version}\r\nconnection: close\r\n{host}\r\n");
        let answer = server.send_raw(&text).await?;
        let line = answer.lines().next().unwrap_or_default();
        assert!(line.ends_with(status), "{text}: {answer}");
    }
    Ok(())
}
