//! `--status-fd`: a line of JSON as things happen. A reader that doesn't read loses
//! lines; it never holds the run up.

use std::cell::Cell;
use std::os::fd::OwnedFd;
use std::time::SystemTime;

use nix::errno::Errno;
use nix::unistd::write;
use serde::Serialize;

use super::ascii;
use crate::clock::Time;
use crate::refusal::Refusal;
use crate::run::{Cause, Ending};
use crate::say;

/// A write to a pipe that has room for something takes so many bytes (pipe(7)).
const PIECE: usize = 4096;

/// Where the lines go, or nowhere.
#[derive(Debug, Default)]
pub struct Status {
    fd: Option<OwnedFd>,
    /// Lines that weren't written since the last one that was.
    lost: Cell<u64>,
    /// Whether the last one was cut.
    is_cut: Cell<bool>,
}

#[derive(Serialize)]
struct Line<'run> {
    #[serde(flatten)]
    event: Event<'run>,
    time: Time,
    /// Lines that were lost before this one.
    #[serde(skip_serializing_if = "Option::is_none")]
    lost: Option<u64>,
}

/// What happened.
#[derive(Clone, Copy, Debug, Serialize)]
#[serde(tag = "event", rename_all = "kebab-case")]
pub enum Event<'run> {
    /// The jail stands.
    Built {
        /// Its pid 1, as the supervisor sees it.
        pid: i32,
    },
    /// The command's process is confined and about to execute the command.
    Running,
    /// groom-ns stops, as the command has; nothing is said until it goes on.
    Stopped,
    /// It goes on, and the command with it.
    Continued,
    /// The run is over.
    Ended {
        /// What groom-ns exits with.
        code: u8,
        /// Why.
        cause: &'run Cause,
    },
    /// The run didn't happen.
    Refused {
        /// Why.
        refusal: &'run Refusal,
    },
}

impl Status {
    /// Lines to this descriptor, which is owned.
    pub fn to(fd: Option<OwnedFd>) -> Status {
        Status {
            fd: fd.map(say::unwaiting),
            ..Status::default()
        }
    }

    /// The run is over.
    pub fn ended(&self, ending: &Ending, code: u8) {
        self.say(Event::Ended {
            code,
            cause: &ending.cause,
        });
    }

    /// Says it, if somebody wants to hear it and there is room.
    pub fn say(&self, event: Event) {
        let Some(fd) = &self.fd else {
            return;
        };
        let line = Line {
            event,
            time: Time(SystemTime::now()),
            lost: Some(self.lost.get()).filter(|lost| *lost > 0),
        };
        let Ok(json) = serde_json::to_string(&line) else {
            return;
        };
        let mut text = ascii(&json);
        if self.is_cut.get() {
            text.insert(0, '\n');
        }
        text.push('\n');
        match put(fd, text.as_bytes()) {
            Put::Whole => {
                self.lost.set(0);
                self.is_cut.set(false);
            }
            Put::Nothing => self.lost.set(self.lost.get() + 1),
            Put::Part => {
                self.lost.set(self.lost.get() + 1);
                self.is_cut.set(true);
            }
        }
    }
}

enum Put {
    Whole,
    Part,
    Nothing,
}

/// Writes what can be written without waiting. Nobody there to read it is no failure of
/// the run's.
fn put(fd: &OwnedFd, bytes: &[u8]) -> Put {
    let mut written = 0;
    while let Some(left) = bytes.get(written..).filter(|left| !left.is_empty()) {
        let piece = left.get(..PIECE.min(left.len())).unwrap_or_default();
        let answer = if say::has_room(fd) {
            write(fd, piece)
        } else {
            Err(Errno::EAGAIN)
        };
        match answer {
            Ok(count) => written += count,
            Err(Errno::EINTR) => {}
            Err(_) if written == 0 => return Put::Nothing,
            Err(_) => return Put::Part,
        }
    }
    Put::Whole
}
