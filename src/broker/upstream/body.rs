//! The body of a request to the API.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use tokio::sync::mpsc;

/// Pieces in flight between client and API: one on its way, one behind it.
const PIECES: usize = 2;

/// Nothing, all of it, or pieces as they come.
#[derive(Debug)]
pub enum Outgoing {
    /// No body.
    Empty,
    /// All of it; its length is announced. hyper sends it together with the head.
    Whole(Bytes),
    /// See [`stream`].
    Stream(Receiver),
}

/// The other end of a [`Sender`].
#[derive(Debug)]
pub struct Receiver {
    pieces: mpsc::Receiver<Bytes>,
    flags: Arc<Flags>,
    /// Bytes that are still to come, where the length was announced.
    left: Option<u64>,
}

/// What the two ends know of each other, beside the pieces.
#[derive(Debug, Default)]
struct Flags {
    /// The body ended; without it, it was cut off.
    finished: AtomicBool,
    /// The answer's head is there.
    answered: AtomicBool,
}

/// A body whose pieces come through a short queue. A `length` is announced as
/// Content-Length; without one the body is chunked (RFC 9112, section 6).
/// hyper sends no chunked body with GET or HEAD: the sender finds it gone.
pub fn stream(length: Option<u64>) -> (Sender, Outgoing) {
    let (sender, pieces) = mpsc::channel(PIECES);
    let flags = Arc::new(Flags::default());
    let receiver = Receiver {
        pieces,
        flags: Arc::clone(&flags),
        left: length,
    };
    (
        Sender {
            pieces: sender,
            flags,
        },
        Outgoing::Stream(receiver),
    )
}

/// The client's end of a streamed body.
///
/// Dropped without [`Sender::finish`], the body is cut off: it never gets a valid
/// end. Before the answer's head, the connection is closed at once and the exchange
/// fails. After it, the answer can still be read; the connection is closed with it.
#[derive(Debug)]
pub struct Sender {
    pieces: mpsc::Sender<Bytes>,
    flags: Arc<Flags>,
}

/// Nobody takes the body's pieces any more: the answer came early, or the exchange failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gone;

impl Sender {
    /// Hands a piece on, once there is room for it. Cancel safe: the piece is either
    /// queued or not.
    ///
    /// # Errors
    /// Where nobody takes it.
    pub async fn send(&self, piece: Bytes) -> Result<(), Gone> {
        self.pieces.send(piece).await.map_err(|_| Gone)
    }

    /// Resolves once nobody takes pieces any more.
    pub async fn gone(&self) {
        self.pieces.closed().await;
    }

    /// The body is complete. Fewer bytes than announced are as good as a cut.
    pub fn finish(self) {
        self.flags.finished.store(true, Ordering::Release);
    }
}

/// The client's part of the body never came; hyper closes the connection for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Aborted;

impl fmt::Display for Aborted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the request was cut off")
    }
}

impl std::error::Error for Aborted {}

/// Tells a body that its answer is there.
pub(super) struct Answered(Option<Arc<Flags>>);

impl Answered {
    pub(super) fn of(body: &Outgoing) -> Answered {
        match body {
            Outgoing::Stream(receiver) => Answered(Some(Arc::clone(&receiver.flags))),
            _ => Answered(None),
        }
    }

    pub(super) fn tell(&self) {
        if let Some(flags) = &self.0 {
            flags.answered.store(true, Ordering::Release);
        }
    }
}

impl Receiver {
    fn poll_piece(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Aborted>>> {
        match ready!(self.pieces.poll_recv(cx)) {
            Some(piece) => {
                let length = u64::try_from(piece.len()).unwrap_or(u64::MAX);
                self.left = self.left.map(|left| left.saturating_sub(length));
                Poll::Ready(Some(Ok(Frame::data(piece))))
            }
            None if self.flags.finished.load(Ordering::Acquire) => Poll::Ready(None),
            // An error would take the answer down too. Nothing more comes instead, and
            // the connection ends with the answer.
            None if self.flags.answered.load(Ordering::Acquire) => Poll::Pending,
            None => Poll::Ready(Some(Err(Aborted))),
        }
    }
}

impl Body for Outgoing {
    type Data = Bytes;
    type Error = Aborted;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Aborted>>> {
        match self.get_mut() {
            Outgoing::Empty => Poll::Ready(None),
            Outgoing::Whole(bytes) if bytes.is_empty() => Poll::Ready(None),
            Outgoing::Whole(bytes) => Poll::Ready(Some(Ok(Frame::data(std::mem::take(bytes))))),
            Outgoing::Stream(receiver) => receiver.poll_piece(cx),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Outgoing::Empty => true,
            Outgoing::Whole(bytes) => bytes.is_empty(),
            Outgoing::Stream(receiver) => receiver.left == Some(0),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Outgoing::Empty => SizeHint::with_exact(0),
            Outgoing::Whole(bytes) => {
                SizeHint::with_exact(u64::try_from(bytes.len()).unwrap_or(u64::MAX))
            }
            Outgoing::Stream(receiver) => receiver
                .left
                .map_or_else(SizeHint::default, SizeHint::with_exact),
        }
    }
}
