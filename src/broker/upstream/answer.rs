//! What the API answers.

use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http::Response;
use http::response::Parts;
use http_body::{Body as _, Frame};
use hyper::body::Incoming;

use super::failure::{Failure, Step};
use super::pool::Lease;

/// An answer whose head is there. Dropped before its body's end, it takes its
/// connection with it.
#[derive(Debug)]
pub struct Answer {
    /// Status and fields, as they came.
    pub head: Parts,
    /// What follows.
    pub body: AnswerBody,
}

/// The rest of an answer. At its end the connection is kept for the next request.
#[derive(Debug)]
pub struct AnswerBody {
    incoming: Incoming,
    lease: Option<Lease>,
    failure: Option<Failure>,
}

impl Answer {
    /// # Errors
    /// `request` for a switch of protocols, which nobody asked for: behind it lies a
    /// tunnel (RFC 9110, section 15.2.2).
    pub(super) fn new(response: Response<Incoming>, lease: Lease) -> Result<Answer, Failure> {
        let (head, incoming) = response.into_parts();
        if head.status.is_informational() {
            let cause = format!("it answered {}", head.status.as_u16());
            return Err(Failure::new(Step::Request, cause));
        }
        let mut body = AnswerBody {
            incoming,
            lease: Some(lease),
            failure: None,
        };
        if body.is_end() {
            body.release();
        }
        Ok(Answer { head, body })
    }
}

impl AnswerBody {
    /// The next piece, never empty; None at a valid end. Trailers are dropped.
    ///
    /// # Errors
    /// Where the answer ended too early, broke its framing, or its connection failed;
    /// then again for every later call.
    pub fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, Failure>>> {
        if let Some(failure) = &self.failure {
            return Poll::Ready(Some(Err(failure.clone())));
        }
        loop {
            match ready!(self.poll_frame(cx)) {
                Some(Ok(frame)) => {
                    if self.is_end() {
                        self.release();
                    }
                    match frame.into_data() {
                        Ok(piece) if !piece.is_empty() => return Poll::Ready(Some(Ok(piece))),
                        _ => {}
                    }
                }
                Some(Err(error)) => {
                    let failure = Failure::hyper(Step::Answer, &error);
                    self.lease = None;
                    self.failure = Some(failure.clone());
                    return Poll::Ready(Some(Err(failure)));
                }
                None => {
                    self.release();
                    return Poll::Ready(None);
                }
            }
        }
    }

    fn poll_frame(&mut self, cx: &mut Context<'_>) -> Poll<Option<hyper::Result<Frame<Bytes>>>> {
        let incoming = &mut self.incoming;
        match &mut self.lease {
            Some(lease) => lease
                .link
                .poll(cx, |cx| Pin::new(&mut *incoming).poll_frame(cx)),
            None => Pin::new(incoming).poll_frame(cx),
        }
    }

    /// Moves the connection while nothing of the answer is asked for: its request may be
    /// still under way.
    pub fn drive(&mut self, cx: &mut Context<'_>) {
        if let Some(lease) = &mut self.lease {
            lease.link.drive(cx);
        }
    }

    /// [`AnswerBody::poll_next`], awaited. Cancel safe.
    pub async fn next(&mut self) -> Option<Result<Bytes, Failure>> {
        poll_fn(|cx| self.poll_next(cx)).await
    }

    /// Whether nothing more comes.
    pub fn is_end(&self) -> bool {
        self.incoming.is_end_stream()
    }

    /// The bytes still to come, where that was announced.
    pub fn length(&self) -> Option<u64> {
        self.incoming.size_hint().exact()
    }

    fn release(&mut self) {
        if let Some(lease) = self.lease.take() {
            lease.end();
        }
    }
}
