//! Buffering of the frames of a connection.
//!
//! HTTP/2 flushes after each frame of data: a system call and a TLS record for every event
//! of every watcher. Here a flush does nothing until the connection has nothing left to
//! send, or a buffer is full.

use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};

use bytes::{Buf, BytesMut};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// The buffer size: four TLS records.
const FULL: usize = 64 << 10;

/// A stream for HTTP/2 that shares its buffer with the flusher.
pub struct Gather<S>(Arc<Mutex<Inner<S>>>);

struct Inner<S> {
    stream: S,
    gathered: BytesMut,
}

impl<S: AsyncWrite + Unpin> Gather<S> {
    pub fn new(stream: S) -> Self {
        Self(Arc::new(Mutex::new(Inner {
            stream,
            gathered: BytesMut::new(),
        })))
    }

    /// Flushes the buffer; called when the connection is idle.
    pub fn poll_send(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut inner = self.inner();
        ready!(inner.poll_drain(cx))?;
        Pin::new(&mut inner.stream).poll_flush(cx)
    }
}

impl<S> Gather<S> {
    fn inner(&self) -> MutexGuard<'_, Inner<S>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<S: AsyncWrite + Unpin> Inner<S> {
    fn poll_drain(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while !self.gathered.is_empty() {
            let count = ready!(Pin::new(&mut self.stream).poll_write(cx, &self.gathered))?;
            if count == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            self.gathered.advance(count);
        }
        Poll::Ready(Ok(()))
    }
}

impl<S> Clone for Gather<S> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Gather<S> {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner().stream).poll_read(cx, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Gather<S> {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let mut inner = self.inner();
        if inner.gathered.len() >= FULL {
            ready!(inner.poll_drain(cx))?;
        }
        inner.gathered.extend_from_slice(bytes);
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut inner = self.inner();
        ready!(inner.poll_drain(cx))?;
        Pin::new(&mut inner.stream).poll_shutdown(cx)
    }
}
