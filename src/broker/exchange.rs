//! One forwarded request: its body goes up as it comes, its answer comes down as it
//! comes, and the client is watched all the while.

use std::future::{Future, poll_fn};
use std::io;
use std::pin::{Pin, pin};
use std::task::Poll;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::{Method, Request, StatusCode};
use tokio::io::AsyncWriteExt as _;
use tokio::time::{Sleep, timeout};

use super::Broker;
use super::answer::{self, Ending};
use super::fields;
use super::front::Refused;
use super::front::body::{BodyReader, Piece};
use super::front::head::Framing;
use super::intake::{Broken, Intake};
use super::log::Entry;
use super::pulse::Pulse;
use super::scan::Scanner;
use super::stream::{Reader, Writer};
use super::upstream::answer::{Answer, AnswerBody};
use super::upstream::body::{Outgoing, Sender, stream};
use super::usage::Sniffer;
use crate::sabotage::{Mechanism, stands};

/// How long a client may take for what the broker itself says.
pub(super) const PATIENCE: Duration = Duration::from_secs(2);

/// An answer's bytes that are gathered before they are written, while more is there.
const GATHER: usize = 64 * 1024;

/// Both directions of a client's connection, and what was read ahead.
pub(super) struct Client<'stream> {
    pub(super) reader: Reader<'stream>,
    pub(super) writer: Writer<'stream>,
    pub(super) buffer: BytesMut,
    pub(super) timer: Pin<&'stream mut Sleep>,
    pub(super) pulse: &'stream Pulse,
}

/// A request that may go to the API.
pub(super) struct Order {
    /// Its head as it is sent, the key included.
    pub(super) request: Request<()>,
    pub(super) framing: Framing,
    /// The client waits for `100 Continue`.
    pub(super) expects_continue: bool,
    /// Nothing may follow on this connection.
    pub(super) close: bool,
}

/// How an exchange ended.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// Answered to the end; the next request may follow.
    Answered,
    /// Answered to the end, and no request may follow.
    Last,
    /// Nothing has been answered yet: this is to be.
    Refused(Refused),
    /// Broken off in the middle of the answer.
    Cut(&'static str),
    /// The client has left.
    Gone,
}

/// Sends a request on and its answer back.
pub(super) async fn forward(
    broker: &Broker,
    client: &mut Client<'_>,
    order: Order,
    entry: &mut Entry,
) -> Outcome {
    let Client {
        reader,
        writer,
        buffer,
        timer,
        pulse,
    } = client;
    pulse.beat();
    let mut body = BodyReader::new(order.framing);
    let (to, outgoing) = match outgoing(&mut body, order.framing, buffer) {
        Ok(both) => both,
        Err(refused) => return Outcome::Refused(refused),
    };
    if order.expects_continue && to.is_some() && !say_continue(writer).await {
        return Outcome::Gone;
    }
    let method = order.request.method().clone();
    let received = match &outgoing {
        Outgoing::Whole(whole) => whole.len() as u64,
        Outgoing::Empty | Outgoing::Stream(_) => 0,
    };
    let request = order.request.map(|()| outgoing);
    let mut intake = Intake {
        reader,
        buffer,
        body,
        to,
        patience: broker.limits.head,
        received,
        pulse,
        is_flooded: false,
    };
    let outcome = {
        let mut relay = Relay {
            broker,
            writer,
            broken: pin!(intake.run()),
            timer: timer.as_mut(),
            pulse,
            entry,
            out: Vec::new(),
            unsent: 0,
            is_begun: false,
        };
        match relay.answer(request).await {
            Ok(answer) => relay.pass_on(answer, &method, order.close).await,
            Err(outcome) => Err(outcome),
        }
    };
    entry.received(usize::try_from(intake.received).unwrap_or(usize::MAX));
    ended(outcome, order.close, intake.is_done())
}

/// Whether the client took it: one that is short of room for so little isn't there.
async fn say_continue(writer: &mut Writer<'_>) -> bool {
    let said = timeout(PATIENCE, writer.write_all(answer::CONTINUE)).await;
    matches!(said, Ok(Ok(())))
}

/// How an exchange ended, as far as the next request goes: where a body isn't read to its
/// end, what is left of it can't be told from what follows.
fn ended(outcome: Result<(), Outcome>, close: bool, is_body_done: bool) -> Outcome {
    match outcome {
        Ok(()) if close || !is_body_done => Outcome::Last,
        Ok(()) => Outcome::Answered,
        Err(Outcome::Refused(refused)) => Outcome::Refused(Refused {
            close: refused.close || !is_body_done,
            ..refused
        }),
        Err(outcome) => outcome,
    }
}

/// The body as hyper takes it. One that is there already needs no channel.
fn outgoing(
    body: &mut BodyReader,
    framing: Framing,
    buffer: &mut BytesMut,
) -> Result<(Option<Sender>, Outgoing), Refused> {
    let (to, outgoing) = match framing {
        Framing::None | Framing::Length(0) => return Ok((None, Outgoing::Empty)),
        Framing::Length(length) if buffer.len() as u64 >= length => match body.read(buffer)? {
            Piece::Data(whole) => return Ok((None, Outgoing::Whole(whole))),
            Piece::More | Piece::End => return Ok((None, Outgoing::Empty)),
        },
        Framing::Length(length) => stream(Some(length)),
        Framing::Chunked => stream(None),
    };
    Ok((Some(to), outgoing))
}

/// The way back.
struct Relay<'x, 'stream, Watch> {
    broker: &'x Broker,
    writer: &'x mut Writer<'stream>,
    /// Ends when the exchange can't go on.
    broken: Pin<&'x mut Watch>,
    timer: Pin<&'x mut Sleep>,
    pulse: &'x Pulse,
    entry: &'x mut Entry,
    /// Gathered and not yet written.
    out: Vec<u8>,
    /// Bytes of the answer's body in it.
    unsent: usize,
    /// Whether the client has a part of the answer.
    is_begun: bool,
}

impl<Watch: Future<Output = Broken>> Relay<'_, '_, Watch> {
    /// Waits for the answer's head.
    async fn answer(&mut self, request: Request<Outgoing>) -> Result<Answer, Outcome> {
        let broker = self.broker;
        let sending = pin!(broker.pool.send(request));
        self.wait(sending).await?.map_err(|failure| {
            self.entry.cause(&failure);
            Outcome::Refused(Refused::open(failure.status(), failure.step().code()))
        })
    }

    /// Passes an answer on, piece by piece.
    async fn pass_on(
        &mut self,
        answer: Answer,
        method: &Method,
        close: bool,
    ) -> Result<(), Outcome> {
        let Answer { mut head, mut body } = answer;
        fields::incoming(&mut head.headers).map_err(bad_answer)?;
        let key = &self.broker.key;
        // Names have lost their case.
        let is_echo = head.headers.iter().any(|(name, value)| {
            key.is_in(value.as_bytes()) || key.is_in_any_case(name.as_str().as_bytes())
        });
        if is_echo && stands(Mechanism::EchoInHeaders) {
            return Err(Outcome::Refused(ECHO));
        }
        let ending = if *method == Method::HEAD
            || matches!(
                head.status,
                StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED
            ) {
            Ending::None
        } else {
            body.length().map_or(Ending::Chunks, Ending::Length)
        };
        let mut sniffer = self.entry.is_kept().then(|| {
            let kind = head.headers.get(http::header::CONTENT_TYPE);
            Sniffer::for_answer(kind.map(http::HeaderValue::as_bytes), &self.broker.kept)
        });
        self.entry.status(head.status.as_u16());
        answer::head(&mut self.out, head.status, &head.headers, ending, close);
        drop(head);
        let mut scanner = Scanner::new(&self.broker.key);
        while let Some(piece) = self.next(&mut body).await? {
            let Ok(passed) = scanner.push(piece) else {
                return Err(self.break_off(&mut body, ECHO).await);
            };
            for piece in passed {
                self.gather(&piece, ending, sniffer.as_mut());
            }
            if self.out.len() >= GATHER {
                self.flush(&mut body).await?;
            }
        }
        let held_back = scanner.finish();
        self.gather(&held_back, ending, sniffer.as_mut());
        if ending == Ending::Chunks {
            self.out.extend_from_slice(answer::LAST_CHUNK);
        }
        self.flush(&mut body).await?;
        if let Some(sniffer) = sniffer {
            self.entry.reported(sniffer.finish(&self.broker.key));
        }
        Ok(())
    }

    /// The answer's next piece; what was gathered is written if there isn't one yet.
    async fn next(&mut self, body: &mut AnswerBody) -> Result<Option<Bytes>, Outcome> {
        let at_once = poll_fn(|cx| match body.poll_next(cx) {
            Poll::Pending => Poll::Ready(None),
            Poll::Ready(piece) => Poll::Ready(Some(piece)),
        });
        let piece = if let Some(piece) = at_once.await {
            piece
        } else {
            self.flush(body).await?;
            self.wait(pin!(body.next())).await?
        };
        self.pulse.beat();
        let Some(Err(failure)) = &piece else {
            return Ok(piece.and_then(Result::ok));
        };
        self.entry.cause(failure);
        let refused = Refused::open(failure.status(), failure.step().code());
        Err(self.break_off(body, refused).await)
    }

    fn gather(&mut self, piece: &[u8], ending: Ending, sniffer: Option<&mut Sniffer>) {
        if piece.is_empty() {
            return;
        }
        if let Some(sniffer) = sniffer {
            sniffer.push(piece);
        }
        self.unsent += piece.len();
        match ending {
            Ending::Chunks => answer::chunk(&mut self.out, piece),
            Ending::Length(_) => self.out.extend_from_slice(piece),
            Ending::None => {}
        }
    }

    async fn flush(&mut self, body: &mut AnswerBody) -> Result<(), Outcome> {
        // Taken, so that a stream that waits holds no memory.
        let out = std::mem::take(&mut self.out);
        if out.is_empty() {
            return Ok(());
        }
        self.is_begun = true;
        let mut left = out.as_slice();
        while !left.is_empty() {
            // A part at a time, so that a slow client isn't an idle one.
            let count = self.write(left, body).await?.map_err(|_| Outcome::Gone)?;
            left = left.get(count..).unwrap_or_default();
            self.pulse.beat();
        }
        self.entry.sent(std::mem::take(&mut self.unsent));
        Ok(())
    }

    async fn write(
        &mut self,
        bytes: &[u8],
        body: &mut AnswerBody,
    ) -> Result<io::Result<usize>, Outcome> {
        let stopped = self
            .pulse
            .stopped(self.timer.as_mut(), self.broker.limits.idle);
        let mut writing = pin!(self.writer.write(bytes));
        let writing = pin!(poll_fn(|cx| {
            let written = writing.as_mut().poll(cx);
            if written.is_pending() {
                // The client may take its answer only once it has sent all of its request.
                body.drive(cx);
            }
            written
        }));
        until(writing, &mut self.broken, stopped, self.is_begun).await
    }

    async fn wait<F: Future>(&mut self, what: Pin<&mut F>) -> Result<F::Output, Outcome> {
        let stopped = self
            .pulse
            .stopped(self.timer.as_mut(), self.broker.limits.idle);
        until(what, &mut self.broken, stopped, self.is_begun).await
    }

    /// What to do where an answer can't be gone on with. What came of its body goes out
    /// first; one of which the client has nothing then can still be refused. So is one with
    /// the key in it, whatever came before that and isn't on its way yet.
    async fn break_off(&mut self, body: &mut AnswerBody, refused: Refused) -> Outcome {
        if self.unsent > 0
            && (self.is_begun || refused != ECHO)
            && let Err(outcome) = self.flush(body).await
        {
            return outcome;
        }
        if self.is_begun {
            Outcome::Cut(refused.reason)
        } else {
            Outcome::Refused(refused)
        }
    }
}

/// Waits for `what`, unless the exchange breaks or nothing moves for too long. By
/// reference: a future by value would lie in this one twice.
async fn until<F: Future>(
    mut what: Pin<&mut F>,
    broken: &mut Pin<&mut impl Future<Output = Broken>>,
    stopped: impl Future<Output = ()>,
    is_begun: bool,
) -> Result<F::Output, Outcome> {
    tokio::select! {
        biased;
        output = what.as_mut() => Ok(output),
        broken = broken.as_mut() => Err(match broken {
            Broken::Gone => Outcome::Gone,
            Broken::Refused(refused) if is_begun => Outcome::Cut(refused.reason),
            Broken::Refused(refused) => Outcome::Refused(refused),
        }),
        () = stopped => Err(if is_begun {
            Outcome::Cut(IDLE.reason)
        } else {
            Outcome::Refused(IDLE)
        }),
    }
}

/// The API has answered with the key in it.
const ECHO: Refused = Refused::closing(502, "key-echo");
const IDLE: Refused = Refused::open(504, "idle");

fn bad_answer(reason: &'static str) -> Outcome {
    Outcome::Refused(Refused::open(502, reason))
}
