//! The TCP stream beneath a connection to the API.

use std::io;
use std::os::fd::AsRawFd as _;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::{Context, Poll, ready};

use nix::errno::Errno;
use nix::sys::socket::{MsgFlags, recv};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

/// Bytes that may come before an answer's head is known: a head, and what is read ahead
/// of it. hyper skips informational answers without end, and without a pause.
const MAX_UNANSWERED: usize = 256 * 1024;

/// What a connection's stream knows of the exchange on it.
#[derive(Clone, Debug, Default)]
pub(super) struct Doubt(Arc<Known>);

#[derive(Debug)]
struct Known {
    /// Asks for one look at the socket itself: tokio knows of an end only once epoll
    /// was asked, and a kept connection that ended meanwhile must not get a request.
    is_raised: AtomicBool,
    /// Bytes that may still come before the answer's head.
    unanswered: AtomicUsize,
}

impl Default for Known {
    fn default() -> Known {
        Known {
            is_raised: AtomicBool::new(false),
            unanswered: AtomicUsize::new(MAX_UNANSWERED),
        }
    }
}

impl Doubt {
    /// The next read asks the kernel, whatever tokio knows.
    pub(super) fn raise(&self) {
        self.0.is_raised.store(true, Ordering::Relaxed);
    }

    /// A request is on its way.
    pub(super) fn expect_head(&self) {
        self.0.unanswered.store(MAX_UNANSWERED, Ordering::Relaxed);
    }

    /// The answer's head is there; its body may be as long as it is.
    pub(super) fn answered(&self) {
        self.0.unanswered.store(usize::MAX, Ordering::Relaxed);
    }

    fn settle(&self) -> bool {
        self.0.is_raised.load(Ordering::Relaxed) && self.0.is_raised.swap(false, Ordering::Relaxed)
    }

    /// # Errors
    /// More than an answer's head has come, and none was in it.
    fn received(&self, count: usize) -> io::Result<()> {
        let left = self.0.unanswered.load(Ordering::Relaxed);
        if left == usize::MAX {
            return Ok(());
        }
        let Some(left) = left.checked_sub(count) else {
            return Err(io::Error::other("too much before an answer"));
        };
        self.0.unanswered.store(left, Ordering::Relaxed);
        Ok(())
    }
}

/// A TCP stream, with two habits of its own: [`Doubt`], and that an answer is read
/// to its end when the other side no longer takes the request.
#[derive(Debug)]
pub(super) struct Socket {
    tcp: TcpStream,
    doubt: Doubt,
    /// The other side reset its reading end.
    unheard: bool,
}

impl Socket {
    pub(super) fn new(tcp: TcpStream, doubt: Doubt) -> Socket {
        Socket {
            tcp,
            doubt,
            unheard: false,
        }
    }

    /// hyper ends the exchange at a failed write, even if the answer (a 413, say)
    /// already waits in the kernel. So the failure isn't shown: what can be read is
    /// read, and the end or the error of the reading side ends the exchange.
    fn hide(&mut self, written: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
        match written {
            Poll::Ready(Err(error))
                if matches!(error.raw_os_error(), Some(libc::EPIPE | libc::ECONNRESET)) =>
            {
                self.unheard = true;
                Poll::Pending
            }
            other => other,
        }
    }
}

impl AsyncRead for Socket {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.doubt.settle() {
            let room = buffer.initialize_unfilled();
            match recv(self.tcp.as_raw_fd(), room, MsgFlags::MSG_DONTWAIT) {
                Ok(count) => {
                    buffer.advance(count);
                    return Poll::Ready(self.doubt.received(count));
                }
                Err(Errno::EAGAIN | Errno::EINTR) => {}
                Err(errno) => return Poll::Ready(Err(errno.into())),
            }
        }
        let before = buffer.filled().len();
        let read = ready!(Pin::new(&mut self.tcp).poll_read(cx, buffer));
        let count = buffer.filled().len() - before;
        Poll::Ready(read.and_then(|()| self.doubt.received(count)))
    }
}

impl AsyncWrite for Socket {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        if self.unheard {
            return Poll::Pending;
        }
        let written = Pin::new(&mut self.tcp).poll_write(cx, bytes);
        self.hide(written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        if self.unheard {
            return Poll::Pending;
        }
        let written = Pin::new(&mut self.tcp).poll_write_vectored(cx, slices);
        self.hide(written)
    }

    fn is_write_vectored(&self) -> bool {
        self.tcp.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.tcp).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.tcp).poll_shutdown(cx)
    }
}
