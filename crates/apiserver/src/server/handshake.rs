//! The TLS handshake of a connection, in turns with those of other connections.

use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;

use rustls::server::Acceptor;
use tokio::net::TcpStream;
use tokio_rustls::server::TlsStream;
use tokio_rustls::{LazyConfigAcceptor, TlsAcceptor};

use crate::flow_control::connection_tracker::TrackedConnection;
use crate::handler::App;
use crate::pipeline::authenticate::Peer;

/// Performs the handshake and verifies the client's certificate.
///
/// Each step that computes takes a turn. No turn is held while the client is awaited, so that
/// slow clients delay no others.
pub async fn accept(
    stream: TcpStream,
    tls: &TlsAcceptor,
    app: &App,
    tracked: &TrackedConnection,
) -> io::Result<(TlsStream<TcpStream>, Peer)> {
    // Reading the ClientHello computes nothing.
    let hello = LazyConfigAcceptor::new(Acceptor::default(), stream).await?;
    let turns = app.connections.handshake_turns();
    let turns = turns.begin(tracked.address());
    tracked.handshake_queued();
    let mut turn = turns.turn().await;
    // Key exchange and signature.
    let mut handshake = hello.into_stream(Arc::clone(tls.config()));
    loop {
        if let Poll::Ready(done) = poll_once(&mut handshake).await {
            let stream = done?;
            let shown = stream.get_ref().1.peer_certificates();
            let peer = app.authenticator.peer(shown);
            return Ok((stream, peer));
        }
        drop(turn);
        tracked.handshake_sent();
        woken().await;
        turn = turns.turn().await;
    }
}

/// Polls a future once.
async fn poll_once<F: Future + Unpin>(future: &mut F) -> Poll<F::Output> {
    poll_fn(|context| Poll::Ready(Pin::new(&mut *future).poll(context))).await
}

/// Completes when the task is woken: here, by the socket that the handshake waits for.
async fn woken() {
    let mut is_polled = false;
    poll_fn(|_| match std::mem::replace(&mut is_polled, true) {
        true => Poll::Ready(()),
        false => Poll::Pending,
    })
    .await;
}
