//! Responses that their clients do not read: what they may hold, and when they end.

use std::time::Duration;

use insula_apiserver::Limits;
use insula_apiserver::flow_control::Unsent;
use insula_testkit::server::{Client, Engine, Setup, TestServer};
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::Instant;

use super::http2::{
    DATA, END_HEADERS, END_STREAM, HEADERS, INITIAL_WINDOW, PING, RST_STREAM, SETTINGS, Wire,
    header, headers,
};
use super::{MAPS, SHORT, TIMEOUT, await_metric, create_maps, metric, start};

/// `:status: 200`, as HPACK indexes it.
const STATUS_200: u8 = 0x88;

/// How late the end of a stalled watch may be.
const LATE: Duration = Duration::from_secs(2);

const BINDINGS: &str = "/apis/rbac.authorization.k8s.io/v1/namespaces/default/rolebindings";

const WATCHES: &str = "insula_seats_in_use{work=\"watch\"}";

/// Opens a watch of which the client takes one byte, and then nothing.
async fn stalled_watch(server: &TestServer, token: &str, path: &str) -> anyhow::Result<Wire> {
    let mut wire = Wire::open_as(server, token, &[(INITIAL_WINDOW, 1)]).await?;
    let stream = wire.get(path).await?;
    let begun = wire.find(|frame| frame.kind == HEADERS).await?;
    anyhow::ensure!(begun.is_some_and(|frame| frame.stream == stream));
    Ok(wire)
}

/// Waits for the reset of the first request on a connection. Returns how long that took.
async fn await_reset(wire: &mut Wire) -> anyhow::Result<Duration> {
    let began = Instant::now();
    let ended = wire.find(|frame| frame.kind == RST_STREAM).await?;
    anyhow::ensure!(ended.is_some_and(|frame| frame.stream == 1));
    Ok(began.elapsed())
}

#[tokio::test]
async fn stalled_watch_is_reset_at_its_timeout() -> anyhow::Result<()> {
    let server = start(Limits::default()).await?;
    let client = server.tenant("t1").await?;
    let system = server.system().await?;
    create_maps(&client, 100).await?;
    let path = format!("{MAPS}?watch=true&timeoutSeconds=2");
    let mut wires = Vec::new();
    for _ in 0..5 {
        wires.push(stalled_watch(&server, "t1", &path).await?);
    }
    await_metric(&system, WATCHES, 5).await?;
    for wire in &mut wires {
        let took = await_reset(wire).await?;
        assert!(took < Duration::from_secs(2) + LATE, "{took:?}");
    }
    await_metric(&system, WATCHES, 0).await
}

#[tokio::test]
async fn stalled_watch_of_one_object_is_not_lost_because_of_others() -> anyhow::Result<()> {
    let server = start(Limits::default()).await?;
    let client = server.tenant("t1").await?;
    let metadata = |name: &str| json!({"metadata": {"name": name}});
    for name in ["mine", "other"] {
        assert_eq!(client.post(MAPS, &metadata(name)).await?.status, 201);
    }
    let path = format!("{MAPS}?watch=true&fieldSelector=metadata.name%3Dmine");
    let mut wire = stalled_watch(&server, "t1", &path).await?;
    // More than the log holds.
    for number in 0..1_100 {
        let patch = json!({"data": {"k": number.to_string()}});
        let patched = client
            .patch(&format!("{MAPS}/other"), "merge", &patch)
            .await?;
        assert_eq!(patched.status, 200, "{}", patched.text());
    }
    client.delete(&format!("{MAPS}/mine")).await?;
    wire.widen(1, 50_000).await?;
    let mut text = String::new();
    while !text.contains("DELETED") && !text.contains("ERROR") {
        let frame = wire.find(|frame| frame.kind == DATA).await?;
        text += &String::from_utf8(frame.map(|frame| frame.payload).unwrap_or_default())?;
    }
    let kinds: Vec<_> = text.lines().map(|line| line.split('"').nth(3)).collect();
    assert_eq!(kinds, [Some("ADDED"), Some("DELETED")], "{text}");
    Ok(())
}

#[tokio::test]
async fn stalled_watch_over_http_1_is_closed_at_its_timeout() -> anyhow::Result<()> {
    let server = start(Limits::default()).await?;
    let client = server.tenant("t1").await?;
    let system = server.system().await?;
    create_large_maps(&client, 16).await?;
    let mut stream = server.dial_narrow("http/1.1").await?;
    let head = format!(
        "GET {MAPS}?watch=true&timeoutSeconds=2 HTTP/1.1\r\nhost: a\r\n\
         authorization: Bearer t1\r\n\r\n"
    );
    let began = Instant::now();
    stream.write_all(head.as_bytes()).await?;
    await_metric(&system, WATCHES, 1).await?;
    await_metric(&system, WATCHES, 0).await?;
    let took = began.elapsed();
    assert!(took < Duration::from_secs(2) + LATE, "{took:?}");
    let mut rest = Vec::new();
    let ended = stream.read_to_end(&mut rest).await;
    let whole = rest.ends_with(b"0\r\n\r\n");
    assert!(!whole, "the watch was read to its end: {ended:?}");
    Ok(())
}

#[tokio::test]
async fn stalled_watch_over_websocket_is_closed_at_its_timeout() -> anyhow::Result<()> {
    let server = start(Limits::default()).await?;
    let client = server.tenant("t1").await?;
    let system = server.system().await?;
    create_large_maps(&client, 16).await?;
    let mut stream = server.dial_narrow("http/1.1").await?;
    let head = format!(
        "GET {MAPS}?watch=true&timeoutSeconds=2 HTTP/1.1\r\nhost: a\r\n\
         authorization: Bearer t1\r\nconnection: Upgrade\r\nupgrade: websocket\r\n\
         sec-websocket-version: 13\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).await?;
    await_unsent(&system, "t1", MEGABYTE as u64).await?;
    let began = Instant::now();
    await_metric(&system, WATCHES, 0).await?;
    let took = began.elapsed();
    assert!(took < Duration::from_secs(2) + LATE, "{took:?}");
    assert_eq!(unsent(&system, "t1").await?.1, 0);
    Ok(())
}

#[tokio::test]
async fn stalled_watch_ends_with_its_tenant() -> anyhow::Result<()> {
    let setup = Setup {
        controllers: true,
        ..Setup::default()
    };
    let server = TestServer::start_on(Engine::Memory, setup).await?.unwrap();
    let client = server.tenant("t1").await?;
    let system = server.system().await?;
    create_maps(&client, 100).await?;
    let path = format!("{MAPS}?watch=true");
    let mut own = stalled_watch(&server, "t1", &path).await?;
    let mut of_system = stalled_watch(&server, "system", &format!("/tenants/t1{path}")).await?;
    assert_eq!(system.delete("/api/v1/tenants/t1").await?.status, 200);
    let took = await_reset(&mut own).await?;
    assert!(took < LATE, "{took:?}");
    while system.get("/api/v1/tenants/t1").await?.status != 404 {
        tokio::task::yield_now().await;
    }
    let took = await_reset(&mut of_system).await?;
    assert!(took < LATE, "{took:?}");
    Ok(())
}

/// Starts a server with a user `alice` of the tenant `t1`, who may read everything.
async fn start_with_alice() -> anyhow::Result<(TestServer, Client)> {
    let setup = Setup {
        tokens: "alice,alice,7,\"tenant:t1\"\n".to_owned(),
        ..Setup::default()
    };
    let server = TestServer::start_with(setup).await?;
    let client = server.tenant("t1").await?;
    create_maps(&client, 100).await?;
    let binding = json!({
        "metadata": {"name": "alice"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "alice"}],
    });
    assert_eq!(client.post(BINDINGS, &binding).await?.status, 201);
    Ok((server, client))
}

#[tokio::test]
async fn stalled_watch_ends_with_its_permission() -> anyhow::Result<()> {
    let (server, client) = start_with_alice().await?;
    let path = format!("{MAPS}?watch=true");
    let mut wire = stalled_watch(&server, "alice", &path).await?;
    let deleted = client.delete(&format!("{BINDINGS}/alice")).await?;
    assert_eq!(deleted.status, 200);
    let took = await_reset(&mut wire).await?;
    assert!(took < LATE, "{took:?}");
    Ok(())
}

#[tokio::test]
async fn stalled_watch_ends_with_its_credential() -> anyhow::Result<()> {
    let (server, client) = start_with_alice().await?;
    let path = format!("{MAPS}?watch=true");
    let mut wire = stalled_watch(&server, "alice", &path).await?;
    let revocation = json!({"metadata": {"name": "alice"}, "spec": {"user": "alice"}});
    let path = "/apis/access.insula.dev/v1/credentialrevocations";
    assert_eq!(client.post(path, &revocation).await?.status, 201);
    let took = await_reset(&mut wire).await?;
    assert!(took < LATE, "{took:?}");
    Ok(())
}

/// Creates this many objects of a megabyte each, more than sockets buffer.
async fn create_large_maps(client: &Client, count: usize) -> anyhow::Result<()> {
    let text = "x".repeat(1_000_000);
    for number in 0..count {
        let map = json!({"metadata": {"name": format!("large{number}")}, "data": {"k": text}});
        let created = client.post(MAPS, &map).await?;
        anyhow::ensure!(created.status == 201, "{}", created.text());
    }
    Ok(())
}

/// Asks for a large object in protobuf, which is produced whole, on a connection of its own.
async fn stalled_object(server: &TestServer, token: &str) -> anyhow::Result<Wire> {
    let path = format!("{MAPS}/large0");
    stalled_read(server, token, &path, "application/vnd.kubernetes.protobuf").await
}

/// Reads in a format on a connection of its own, of which the client takes one byte.
async fn stalled_read(
    server: &TestServer,
    token: &str,
    path: &str,
    accept: &str,
) -> anyhow::Result<Wire> {
    let mut wire = Wire::open_as(server, token, &[(INITIAL_WINDOW, 1)]).await?;
    let mut block = headers("GET", path, token);
    block.extend(header("accept", accept));
    wire.request_with(&block, END_HEADERS | END_STREAM).await?;
    Ok(wire)
}

/// The unsent bytes of the server and of a space, as the metrics have them.
async fn unsent(system: &Client, space: &str) -> anyhow::Result<(u64, u64)> {
    let text = system.get("/metrics").await?.text();
    let value = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name));
        line.map_or(Ok(0), |value| value.trim().parse())
    };
    let of_space = format!("insula_space_unsent_bytes{{space=\"{space}\"}}");
    Ok((value("insula_unsent_bytes ")?, value(&of_space)?))
}

/// Waits until a space holds at least this many unsent bytes.
async fn await_unsent(system: &Client, space: &str, bytes: u64) -> anyhow::Result<()> {
    let reached = async {
        while unsent(system, space).await?.1 < bytes {
            tokio::task::yield_now().await;
        }
        anyhow::Ok(())
    };
    let reached = tokio::time::timeout(TIMEOUT, reached).await;
    reached.map_err(|_| anyhow::anyhow!("{space} does not hold {bytes}"))?
}

fn unsent_limits(total: usize, each: usize) -> Limits {
    let unsent = Unsent {
        total,
        each,
        ..Unsent::default()
    };
    Limits {
        unsent,
        queue_timeout: SHORT,
        ..Limits::default()
    }
}

const MEGABYTE: usize = 1_000_000;

#[tokio::test]
async fn stalled_objects_hold_no_more_than_their_spaces_share() -> anyhow::Result<()> {
    let server = start(unsent_limits(100 * MEGABYTE, 5 * MEGABYTE)).await?;
    let client = server.tenant("t1").await?;
    let neighbour = server.tenant("t2").await?;
    let system = server.system().await?;
    create_large_maps(&client, 1).await?;
    let (mut served, mut refused) = (Vec::new(), 0);
    for _ in 0..20 {
        let mut wire = stalled_object(&server, "t1").await?;
        let begun = wire.find(|frame| frame.kind == HEADERS).await?.unwrap();
        match begun.payload[0] == STATUS_200 {
            true => served.push(wire),
            false => refused += 1,
        }
        let (total, of_space) = unsent(&system, "t1").await?;
        assert!(of_space <= 5 * MEGABYTE as u64, "{of_space}");
        assert!(total <= of_space + 100_000, "{total} {of_space}");
        assert_eq!(neighbour.get(MAPS).await?.status, 200);
    }
    assert_eq!((served.len(), refused), (4, 16));
    let (_, of_space) = unsent(&system, "t1").await?;
    assert!(of_space >= 4 * MEGABYTE as u64, "{of_space}");
    // The bytes go with the connections.
    drop(served);
    let gone = async {
        while unsent(&system, "t1").await?.1 > 0 {
            tokio::task::yield_now().await;
        }
        anyhow::Ok(())
    };
    tokio::time::timeout(TIMEOUT, gone).await?
}

#[tokio::test]
async fn stalled_lists_hold_their_first_piece_only_in_every_format() -> anyhow::Result<()> {
    let server = start(Limits::default()).await?;
    let client = server.tenant("t1").await?;
    let system = server.system().await?;
    create_maps(&client, 1000).await?;
    let meta = "g=meta.k8s.io;v=v1";
    for accept in [
        "application/json",
        "application/json;pretty=1",
        "application/yaml",
        "application/vnd.kubernetes.protobuf",
        &format!("application/json;as=Table;{meta}"),
        &format!("application/json;as=PartialObjectMetadataList;{meta}"),
        &format!("application/vnd.kubernetes.protobuf;as=PartialObjectMetadataList;{meta}"),
    ] {
        let mut wires = Vec::new();
        for _ in 0..20 {
            let mut wire = stalled_read(&server, "t1", MAPS, accept).await?;
            wire.find(|frame| frame.kind == HEADERS).await?;
            wires.push(wire);
        }
        await_unsent(&system, "t1", 20 * (16 << 10)).await?;
        let (_, of_space) = unsent(&system, "t1").await?;
        // 16 KiB each, an object, and eight bytes for each of a thousand objects.
        assert!(of_space < 20 * (34 << 10), "{accept}: {of_space}");
        drop(wires);
        while unsent(&system, "t1").await?.1 > 0 {
            tokio::task::yield_now().await;
        }
    }
    Ok(())
}

#[tokio::test]
async fn stalled_responses_with_large_objects_hold_no_more_than_their_spaces_share()
-> anyhow::Result<()> {
    for path in [MAPS.to_owned(), format!("{MAPS}?watch=true")] {
        let server = start(unsent_limits(100 * MEGABYTE, 5 * MEGABYTE)).await?;
        let client = server.tenant("t1").await?;
        let system = server.system().await?;
        create_large_maps(&client, 4).await?;
        // All of them begin before any holds an object.
        let mut wire = Wire::open(&server, &[(INITIAL_WINDOW, 1)]).await?;
        for _ in 0..50 {
            wire.get(&path).await?;
        }
        await_unsent(&system, "t1", 4 * MEGABYTE as u64).await?;
        let began = Instant::now();
        while began.elapsed() < 2 * SHORT {
            let (_, of_space) = unsent(&system, "t1").await?;
            assert!(of_space <= 7 * MEGABYTE as u64, "{path}: {of_space}");
        }
    }
    Ok(())
}

#[tokio::test]
async fn response_that_waits_for_room_continues_when_others_were_taken() -> anyhow::Result<()> {
    let server = start(unsent_limits(100 * MEGABYTE, 2 * MEGABYTE)).await?;
    let client = server.tenant("t1").await?;
    create_large_maps(&client, 2).await?;
    let expected = client.get(MAPS).await?.body.len();
    let mut wire = Wire::open(&server, &[(INITIAL_WINDOW, 1)]).await?;
    let streams = 10;
    for _ in 0..streams {
        wire.get(MAPS).await?;
    }
    wire.widen(0, u32::try_from(streams * expected)?).await?;
    for stream in 0..streams {
        wire.widen(2 * u32::try_from(stream)? + 1, u32::try_from(expected)?)
            .await?;
    }
    let (mut ended, mut refused) = (0, 0);
    while ended + refused < streams {
        let frame = wire.find(|frame| matches!(frame.kind, DATA | RST_STREAM | HEADERS));
        let frame = frame.await?.unwrap();
        assert_ne!(frame.kind, RST_STREAM);
        match frame.kind {
            HEADERS if frame.payload[0] != STATUS_200 => refused += 1,
            _ if frame.ends_stream() => ended += 1,
            _ => {}
        }
    }
    assert!(ended >= 2, "{ended}");
    Ok(())
}

#[tokio::test]
async fn space_that_holds_most_is_cut_when_the_server_holds_too_much() -> anyhow::Result<()> {
    let server = start(unsent_limits(7 * MEGABYTE, 100 * MEGABYTE)).await?;
    let (a, b) = (server.tenant("t1").await?, server.tenant("t2").await?);
    let system = server.system().await?;
    create_large_maps(&a, 1).await?;
    create_large_maps(&b, 1).await?;
    let mut small = stalled_object(&server, "t2").await?;
    await_unsent(&system, "t2", MEGABYTE as u64).await?;
    let mut large = Vec::new();
    for number in 1..=5 {
        large.push(stalled_object(&server, "t1").await?);
        await_unsent(&system, "t1", number * MEGABYTE as u64).await?;
    }
    large.push(stalled_object(&server, "t1").await?);
    // The oldest response of the space that holds most is reset, and the others stay.
    await_reset(&mut large[0]).await?;
    let (total, of_space) = unsent(&system, "t1").await?;
    assert!(total <= 7 * MEGABYTE as u64, "{total}");
    assert!(of_space >= 2 * MEGABYTE as u64, "{of_space}");
    assert!(unsent(&system, "t2").await?.1 >= MEGABYTE as u64);
    small.send(PING, 0, 0, &[0; 8]).await?;
    let next = small.find(|frame| matches!(frame.kind, PING | RST_STREAM));
    assert_eq!(next.await?.unwrap().kind, PING);
    let cut = "insula_responses_cut_total{reason=\"pressure\"}";
    assert!(metric(&system, cut).await? >= 1);
    Ok(())
}

#[tokio::test]
async fn slow_reader_gets_its_whole_list() -> anyhow::Result<()> {
    let mut limits = Limits::default();
    limits.connections.stalled = Duration::from_secs(3);
    let server = start(limits).await?;
    let client = server.tenant("t1").await?;
    create_maps(&client, 400).await?;
    let expected = client.get(MAPS).await?.text();
    let mut wire = Wire::open(&server, &[(INITIAL_WINDOW, 1)]).await?;
    let stream = wire.get(MAPS).await?;
    wire.find(|frame| frame.kind == HEADERS).await?;
    let (mut read, mut allowed) = (Vec::new(), 1);
    let mut tick = tokio::time::interval(Duration::from_millis(100));
    let began = Instant::now();
    loop {
        while read.len() < allowed {
            let next = wire.find(|frame| matches!(frame.kind, DATA | RST_STREAM));
            let frame = next.await?.unwrap();
            assert_eq!(frame.kind, DATA, "after {} bytes", read.len());
            read.extend_from_slice(&frame.payload);
            if frame.ends_stream() {
                assert_eq!(String::from_utf8(read)?, expected);
                // It took longer than a client may take nothing.
                assert!(began.elapsed() > Duration::from_secs(3));
                return Ok(());
            }
        }
        tick.tick().await;
        wire.widen(stream, 8000).await?;
        wire.widen(0, 8000).await?;
        allowed += 8000;
        allowed = allowed.min(expected.len());
    }
}

#[tokio::test]
async fn response_taken_byte_by_byte_is_reset() -> anyhow::Result<()> {
    let mut limits = Limits::default();
    limits.connections.stalled = Duration::from_secs(1);
    let server = start(limits).await?;
    let client = server.tenant("t1").await?;
    create_maps(&client, 100).await?;
    for path in [MAPS.to_owned(), format!("{MAPS}?watch=true")] {
        let mut wire = Wire::open(&server, &[(INITIAL_WINDOW, 1)]).await?;
        let stream = wire.get(&path).await?;
        let began = Instant::now();
        loop {
            let next = wire.find(|frame| matches!(frame.kind, DATA | RST_STREAM));
            let frame = next.await?.unwrap();
            if frame.kind == RST_STREAM {
                break;
            }
            assert!(began.elapsed() < Duration::from_secs(1) + LATE, "{path}");
            wire.widen(stream, 1).await?;
        }
        // The connection stays, for the other requests on it.
        let second = wire.get("/livez").await?;
        let next = wire.find(|frame| frame.kind == HEADERS && frame.stream == second);
        assert!(next.await?.is_some());
    }
    let system = server.system().await?;
    let cut = "insula_responses_cut_total{reason=\"stalled\"}";
    assert_eq!(metric(&system, cut).await?, 2);
    Ok(())
}

#[tokio::test]
async fn list_over_http_1_that_is_not_read_is_charged_and_closed() -> anyhow::Result<()> {
    let mut limits = Limits::default();
    limits.connections.stalled = Duration::from_secs(2);
    let server = start(limits).await?;
    let client = server.tenant("t1").await?;
    let system = server.system().await?;
    create_large_maps(&client, 16).await?;
    let mut stream = server.dial_narrow("http/1.1").await?;
    let head = format!(
        "GET {MAPS} HTTP/1.1\r\nhost: a\r\nauthorization: Bearer t1\r\n\
         accept: application/vnd.kubernetes.protobuf\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).await?;
    await_unsent(&system, "t1", MEGABYTE as u64).await?;
    assert_eq!(client.get("/version").await?.status, 200);
    let closed = "insula_connections_ended_total{reason=\"too_slow\"}";
    await_metric(&system, closed, 1).await?;
    assert_eq!(unsent(&system, "t1").await?.1, 0);
    Ok(())
}

#[tokio::test]
async fn settings_and_floods_are_within_limits() -> anyhow::Result<()> {
    let server = start(Limits::default()).await?;
    let neighbour = server.tenant("t2").await?;
    server.tenant("t1").await?;
    let mut wire = Wire::open(&server, &[]).await?;
    let settings = wire.find(|frame| frame.kind == SETTINGS).await?.unwrap();
    let value = |wanted: u16| {
        let pairs = settings.payload.chunks(6);
        let mut found = pairs.filter(|pair| pair[..2] == wanted.to_be_bytes());
        found
            .next()
            .and_then(|pair| pair[2..].first_chunk().copied())
    };
    let streams = value(3).map(u32::from_be_bytes);
    let (window, headers) = (value(4), value(6));
    assert_eq!(streams, Some(250));
    assert_eq!(window.map(u32::from_be_bytes), Some(256 << 10));
    assert_eq!(headers.map(u32::from_be_bytes), Some(64 << 10));
    // None of the answers is read: the server stops to read, and the neighbour is served.
    let flood = async {
        loop {
            wire.send(PING, 0, 0, &[0; 8]).await.ok();
            wire.send(SETTINGS, 0, 0, &[]).await.ok();
            // A write to a connection that the server has closed does not wait.
            tokio::task::yield_now().await;
        }
    };
    let gets = async {
        for _ in 0..50 {
            assert_eq!(neighbour.get(MAPS).await?.status, 200);
        }
        anyhow::Ok(())
    };
    tokio::select! {
        () = flood => Ok(()),
        got = tokio::time::timeout(TIMEOUT, gets) => got?,
    }
}
