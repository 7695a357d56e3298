//! Frames of one connection, gathered into large writes.
//!
//! HTTP/2 flushes after every frame with data. Each flush is a TLS record and a system call, which
//! costs more than the event of a watch that is in it. So flushes of HTTP/2 are ignored, and what
//! it has written is sent when it has nothing more to write, or when the buffer is full.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};

use bytes::{Buf, BytesMut};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// A stream that buffers what is written, until [`Flusher::poll_flush`] or until the buffer is full.
#[derive(Debug)]
pub struct WriteBuffer<S>(Arc<Mutex<Buffered<S>>>);

/// Sends what a [`WriteBuffer`] holds. Both belong to one task, so that neither waits for the
/// other.
#[derive(Debug)]
pub struct Flusher<S>(Arc<Mutex<Buffered<S>>>);

#[derive(Debug)]
struct Buffered<S> {
    stream: S,
    unsent: BytesMut,
    is_partly_sent: bool,
}

/// The most bytes that are buffered: four of the largest TLS records, which are sent by one system
/// call. As much may wait encrypted while the socket is full.
const MAX_BUFFERED: usize = 64 << 10;

/// From this size on, a write is one of many: the parts of a large response.
const MIN_BULK: usize = 4 << 10;

/// Buffers what is written to a stream.
pub fn buffer<S>(stream: S) -> (WriteBuffer<S>, Flusher<S>) {
    let shared = Arc::new(Mutex::new(Buffered {
        stream,
        unsent: BytesMut::new(),
        is_partly_sent: false,
    }));
    (WriteBuffer(Arc::clone(&shared)), Flusher(shared))
}

impl<S: AsyncWrite + Unpin> Flusher<S> {
    /// Sends everything that was written.
    pub fn poll_flush(&self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut buffered = lock(&self.0);
        if buffered.unsent.is_empty() {
            // The TLS session may hold the rest of an earlier write, and flushes it when the
            // socket has room: HTTP/2 is polled then, and so is this.
            return Pin::new(&mut buffered.stream).poll_flush(context);
        }
        ready!(buffered.poll_send(context))?;
        // An idle connection holds no buffer.
        buffered.unsent = BytesMut::new();
        Pin::new(&mut buffered.stream).poll_flush(context)
    }
}

impl<S: AsyncWrite + Unpin> Buffered<S> {
    /// Hands the buffer to the stream.
    fn poll_send(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        while !self.unsent.is_empty() {
            let written = Pin::new(&mut self.stream).poll_write(context, &self.unsent);
            match ready!(written)? {
                0 => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                written => {
                    self.unsent.advance(written);
                    self.is_partly_sent = !self.unsent.is_empty();
                }
            }
        }
        Poll::Ready(Ok(()))
    }

    /// Is ready when there is room in the buffer. What was sent in part is sent whole before: to
    /// append to the rest would double the allocation.
    fn poll_room(&mut self, context: &mut Context<'_>) -> Poll<io::Result<usize>> {
        if self.unsent.len() >= MAX_BUFFERED || self.is_partly_sent {
            ready!(self.poll_send(context))?;
        }
        Poll::Ready(Ok(MAX_BUFFERED - self.unsent.len()))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for WriteBuffer<S> {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut lock(&self.0).stream).poll_read(context, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for WriteBuffer<S> {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.poll_write_vectored(context, &[IoSlice::new(bytes)])
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let mut buffered = lock(&self.0);
        let room = ready!(buffered.poll_room(context))?;
        let length: usize = parts.iter().map(|part| part.len()).sum();
        if length >= MIN_BULK {
            // At once, and not by doubling.
            buffered.unsent.reserve(room);
        }
        let mut written = 0;
        for part in parts {
            let length = part.len().min(room - written);
            buffered.unsent.extend_from_slice(&part[..length]);
            written += length;
        }
        Poll::Ready(Ok(written))
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    /// Does nothing: [`Flusher`] sends what is buffered.
    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut buffered = lock(&self.0);
        ready!(buffered.poll_send(context))?;
        Pin::new(&mut buffered.stream).poll_shutdown(context)
    }
}

fn lock<S>(buffered: &Mutex<Buffered<S>>) -> MutexGuard<'_, Buffered<S>> {
    buffered.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::task::Waker;

    use super::*;

    /// Counts writes, and takes at most so many bytes.
    #[derive(Debug, Default)]
    struct Socket {
        writes: Vec<Vec<u8>>,
        room: usize,
        is_shut_down: bool,
    }

    impl AsyncWrite for Socket {
        fn poll_write(
            mut self: Pin<&mut Self>,
            _: &mut Context<'_>,
            bytes: &[u8],
        ) -> Poll<io::Result<usize>> {
            let length = bytes.len().min(self.room);
            if length == 0 {
                return Poll::Pending;
            }
            self.room -= length;
            self.writes.push(bytes[..length].to_vec());
            Poll::Ready(Ok(length))
        }

        fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }

        fn poll_shutdown(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            self.is_shut_down = true;
            Poll::Ready(Ok(()))
        }
    }

    fn socket(room: usize) -> (WriteBuffer<Socket>, Flusher<Socket>) {
        buffer(Socket {
            room,
            ..Socket::default()
        })
    }

    fn write(buffer: &mut WriteBuffer<Socket>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let mut context = Context::from_waker(Waker::noop());
        let half = bytes.len() / 2;
        let parts = [IoSlice::new(&bytes[..half]), IoSlice::new(&bytes[half..])];
        let written = Pin::new(&mut *buffer).poll_write_vectored(&mut context, &parts);
        assert!(Pin::new(buffer).poll_flush(&mut context).is_ready());
        written
    }

    fn lengths(flusher: &Flusher<Socket>) -> Vec<usize> {
        lock(&flusher.0)
            .stream
            .writes
            .iter()
            .map(Vec::len)
            .collect()
    }

    #[test]
    fn frames_are_sent_in_one_write() {
        let (mut buffer, flusher) = socket(usize::MAX);
        let mut context = Context::from_waker(Waker::noop());
        for _ in 0..10 {
            assert!(matches!(
                write(&mut buffer, &[7; 1000]),
                Poll::Ready(Ok(1000))
            ));
        }
        assert!(lengths(&flusher).is_empty());
        assert!(flusher.poll_flush(&mut context).is_ready());
        assert_eq!(lengths(&flusher), [10_000]);
        assert!(flusher.poll_flush(&mut context).is_ready());
        assert_eq!(lengths(&flusher).len(), 1, "nothing is left to be sent");
        assert_eq!(lock(&flusher.0).unsent.capacity(), 0);
    }

    #[test]
    fn buffer_that_is_sent_in_part_does_not_grow() {
        let (mut buffer, flusher) = socket(10_000);
        let mut context = Context::from_waker(Waker::noop());
        let bytes = vec![7; MAX_BUFFERED];
        assert!(matches!(
            write(&mut buffer, &bytes),
            Poll::Ready(Ok(MAX_BUFFERED))
        ));
        assert!(flusher.poll_flush(&mut context).is_pending());
        assert!(write(&mut buffer, &bytes).is_pending());
        let held = lock(&flusher.0).unsent.capacity();
        assert_eq!(held, MAX_BUFFERED - 10_000);
        lock(&flusher.0).stream.room = usize::MAX;
        assert!(matches!(
            write(&mut buffer, &bytes),
            Poll::Ready(Ok(MAX_BUFFERED))
        ));
        assert_eq!(lock(&flusher.0).unsent.capacity(), MAX_BUFFERED);
    }

    #[test]
    fn full_buffer_is_sent_and_a_full_socket_stops_writes() {
        let (mut buffer, flusher) = socket(MAX_BUFFERED + 3_616);
        let mut context = Context::from_waker(Waker::noop());
        let length = 2 * MAX_BUFFERED + 10_000;
        let bytes: Vec<u8> = (0..length).map(|n| (n % 251) as u8).collect();
        let mut sent = 0;
        while let Poll::Ready(Ok(written)) = write(&mut buffer, &bytes[sent..]) {
            assert!(written > 0);
            sent += written;
        }
        // One buffer is in the socket, and a part of the second; its rest is kept.
        let expected = (2 * MAX_BUFFERED, vec![MAX_BUFFERED, 3_616]);
        assert_eq!((sent, lengths(&flusher)), expected);
        assert!(flusher.poll_flush(&mut context).is_pending());
        lock(&flusher.0).stream.room = usize::MAX;
        while let Poll::Ready(Ok(written)) = write(&mut buffer, &bytes[sent..]) {
            sent += written;
            if sent == bytes.len() {
                break;
            }
        }
        assert!(Pin::new(&mut buffer).poll_shutdown(&mut context).is_ready());
        let socket = &lock(&flusher.0).stream;
        assert!(socket.is_shut_down);
        assert_eq!(socket.writes.concat(), bytes);
    }
}
