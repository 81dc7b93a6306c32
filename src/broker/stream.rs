//! A client's socket, TCP or UNIX alike.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::{BufMut as _, BytesMut};
use nix::sys::socket::{setsockopt, sockopt};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, Interest, ReadBuf};
use tokio::net::{TcpStream, UnixStream, tcp, unix};

use super::log::Peer;
use crate::sys::socket;

/// A connected client.
#[derive(Debug)]
pub enum Stream {
    /// Through the shim's listener.
    Tcp(TcpStream),
    /// Through the broker's socket.
    Unix(UnixStream),
}

/// What the client sends.
pub(super) enum Reader<'stream> {
    Tcp(tcp::ReadHalf<'stream>),
    Unix(unix::ReadHalf<'stream>),
}

/// What the client gets.
pub(super) enum Writer<'stream> {
    Tcp(tcp::WriteHalf<'stream>),
    Unix(unix::WriteHalf<'stream>),
}

impl Stream {
    /// Which listener it came through, for the log.
    pub fn kind(&self) -> Peer {
        match self {
            Stream::Tcp(_) => Peer::Tcp,
            Stream::Unix(_) => Peer::Unix,
        }
    }

    /// Both directions, so that one task can read ahead while it writes.
    pub(super) fn split(&mut self) -> (Reader<'_>, Writer<'_>) {
        match self {
            Stream::Tcp(stream) => {
                let (reader, writer) = stream.split();
                (Reader::Tcp(reader), Writer::Tcp(writer))
            }
            Stream::Unix(stream) => {
                let (reader, writer) = stream.split();
                (Reader::Unix(reader), Writer::Unix(writer))
            }
        }
    }

    /// Writes what fits without waiting.
    pub(super) fn say(&mut self, bytes: &[u8]) {
        // Whoever doesn't hear it isn't served either.
        let _ = match self {
            Stream::Tcp(stream) => stream.try_write(bytes),
            Stream::Unix(stream) => stream.try_write(bytes),
        };
    }

    /// Makes the close that follows a reset and not an end (socket(7), SO_LINGER):
    /// what was cut short must not look complete. A UNIX socket knows no reset;
    /// there, as on TCP, the body's own framing has been left open.
    pub(super) fn reset(self) {
        if let Stream::Tcp(stream) = &self {
            let abort = libc::linger {
                l_onoff: 1,
                l_linger: 0,
            };
            // Without it the close is an end, in the middle of a body all the same.
            let _ = setsockopt(stream, sockopt::Linger, &abort);
        }
    }
}

impl Reader<'_> {
    /// Waits for bytes and appends at most `room` of them; 0 is the client's end of
    /// file. No memory is taken before there is something to put in it. Dropped at
    /// an await, nothing is lost.
    pub(super) async fn read(&mut self, buffer: &mut BytesMut, room: usize) -> io::Result<usize> {
        match self {
            Reader::Tcp(half) => drop(half.ready(Interest::READABLE).await?),
            Reader::Unix(half) => drop(half.ready(Interest::READABLE).await?),
        }
        buffer.reserve(room);
        self.read_buf(&mut buffer.limit(room)).await
    }

    /// Whether the client has closed its side, whatever is unread before its end.
    pub(super) fn is_hung_up(&self) -> bool {
        // What can't be asked isn't known to be gone; the next read tells it.
        socket::is_hung_up(self).unwrap_or(false)
    }
}

impl AsFd for Reader<'_> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Reader::Tcp(half) => half.as_ref().as_fd(),
            Reader::Unix(half) => half.as_ref().as_fd(),
        }
    }
}

impl AsyncRead for Reader<'_> {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Reader::Tcp(half) => Pin::new(half).poll_read(cx, buffer),
            Reader::Unix(half) => Pin::new(half).poll_read(cx, buffer),
        }
    }
}

impl AsyncWrite for Writer<'_> {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Writer::Tcp(half) => Pin::new(half).poll_write(cx, bytes),
            Writer::Unix(half) => Pin::new(half).poll_write(cx, bytes),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Writer::Tcp(half) => Pin::new(half).poll_shutdown(cx),
            Writer::Unix(half) => Pin::new(half).poll_shutdown(cx),
        }
    }
}
