//! A connection whose task may do no more in its turn.

use std::io;

use http::StatusCode;
use tokio::io::ReadBuf;
use tokio::task::coop::{consume_budget, has_budget_remaining};

use super::super::testing::{request, run_as_a_task, whole};
use super::*;

/// Answers what is written to it; to read that is the last that a task may do in its turn.
#[derive(Default)]
struct Exhausting {
    is_asked: bool,
    is_answered: bool,
    reader: Option<Waker>,
}

impl AsyncRead for Exhausting {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.is_answered || !self.is_asked {
            self.reader = Some(cx.waker().clone());
            return Poll::Pending;
        }
        self.is_answered = true;
        while has_budget_remaining() {
            assert!(pin!(consume_budget()).poll(cx).is_ready());
        }
        buffer.put_slice(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n");
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Exhausting {
    fn poll_write(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.is_asked = true;
        if let Some(reader) = self.reader.take() {
            // By somebody else, as what comes is told by the event loop.
            tokio::spawn(async { reader.wake() });
        }
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

#[test]
fn an_answer_is_seen_at_the_end_of_a_turn() {
    run_as_a_task(async {
        let link = Link::new(Exhausting::default(), Doubt::default()).await;
        let mut link = link.unwrap();
        let answer = link.send(request("POST", whole("hi"))).await.unwrap();
        assert_eq!(answer.status(), StatusCode::OK);
    });
}
