//! What the client sends while it is served: first the rest of its request's body,
//! then what it sends ahead of its next request, and at last its hang-up.

use std::pin::pin;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use tokio::time::{sleep, timeout};

use super::front::Refused;
use super::front::body::{BodyReader, Piece};
use super::pulse::Pulse;
use super::stream::Reader;
use super::upstream::body::Sender;

/// Bytes read at a time.
pub(super) const ROOM: usize = 16 * 1024;
/// Bytes of further requests that are kept.
const AHEAD: usize = 64 * 1024;
/// How often a hang-up is looked for while nothing can be read: the API is slow to take
/// what was.
const LOOK: Duration = Duration::from_millis(50);

/// Why an exchange can't go on.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Broken {
    /// The body is malformed, cut short, or doesn't come.
    Refused(Refused),
    /// The client has left. One that has closed its side alone counts as well:
    /// nothing tells the two apart before it is too late.
    Gone,
}

/// The body is overdue.
const SLOW_BODY: Refused = Refused::closing(408, "slow-body");

const SHORT_BODY: Refused = Refused::closing(400, "short-body");

/// One request's body on its way, and the watch over the client after it.
pub(super) struct Intake<'c, 'stream> {
    pub(super) reader: &'c mut Reader<'stream>,
    pub(super) buffer: &'c mut BytesMut,
    pub(super) body: BodyReader,
    /// None: the body is wanted no more, and what comes of it is dropped.
    pub(super) to: Option<Sender>,
    /// Between two pieces.
    pub(super) patience: Duration,
    /// Bytes of the body so far.
    pub(super) received: u64,
    pub(super) pulse: &'c Pulse,
    /// More was sent ahead than is kept.
    pub(super) is_flooded: bool,
}

impl Intake<'_, '_> {
    /// Runs until the exchange is broken; where it isn't, for ever. Dropped at an
    /// await, what it has read and counted stays.
    pub(super) async fn run(&mut self) -> Broken {
        loop {
            match self.body.read(self.buffer) {
                Ok(Piece::Data(piece)) => {
                    self.received += piece.len() as u64;
                    self.pulse.beat();
                    if let Some(broken) = self.pass_on(piece).await {
                        return broken;
                    }
                }
                Ok(Piece::More) => {
                    let more = self.reader.read(self.buffer, ROOM);
                    match timeout(self.patience, more).await {
                        Err(_) => return Broken::Refused(SLOW_BODY),
                        Ok(Ok(0)) => return Broken::Refused(SHORT_BODY),
                        Ok(Ok(_)) => {}
                        Ok(Err(_)) => return Broken::Gone,
                    }
                }
                Ok(Piece::End) => {
                    if let Some(sender) = self.to.take() {
                        sender.finish();
                    }
                    self.pulse.beat();
                    return self.watch().await;
                }
                Err(refused) => return Broken::Refused(refused),
            }
        }
    }

    /// Whether the next request begins where the buffer does.
    pub(super) fn is_done(&self) -> bool {
        self.body.is_done() && !self.is_flooded
    }

    /// Hands a piece to the upstream connection, and waits for room there.
    async fn pass_on(&mut self, piece: Bytes) -> Option<Broken> {
        let Some(sender) = &self.to else {
            return None;
        };
        let is_taken = {
            let mut sent = pin!(sender.send(piece));
            loop {
                tokio::select! {
                    biased;
                    result = &mut sent => break result.is_ok(),
                    () = sleep(LOOK) => if self.reader.is_hung_up() {
                        return Some(Broken::Gone);
                    },
                }
            }
        };
        if !is_taken {
            // The API has answered, or left, before it had all of it.
            self.to = None;
        }
        None
    }

    /// Reads ahead, and sees the hang-up at the end of what there is. What is more than
    /// is kept is thrown away, and with it what was: this request is the last then.
    async fn watch(&mut self) -> Broken {
        loop {
            if self.buffer.len() >= AHEAD {
                self.is_flooded = true;
            }
            if self.is_flooded {
                self.buffer.clear();
            }
            match self.reader.read(self.buffer, ROOM).await {
                Ok(0) | Err(_) => return Broken::Gone,
                Ok(_) => {}
            }
        }
    }
}
