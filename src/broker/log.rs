//! The log: one JSON line a request. Never a header's value or a body.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Instant, SystemTime};

use memchr::memchr_iter;
use nix::errno::Errno;
use nix::sys::stat::{SFlag, fstat};
use nix::unistd::write;
use serde::Serialize;
use serde_json::ser::Formatter;

use super::totals::Totals;
use super::upstream::failure::Failure;
use super::usage::Reported;
use crate::clock::{Time, milliseconds};
use crate::say;
use crate::sys::process;

/// In bytes. With it no line is longer than `PIPE_BUF` (4096), so that a pipe takes it
/// whole or not at all (pipe(7)).
const MAX_PATH: usize = 512;

/// Where the lines go, or nowhere, and what counts them. A clone is the same log.
#[derive(Clone, Debug, Default)]
pub struct Log {
    sink: Option<Arc<Mutex<Sink>>>,
    totals: Option<Totals>,
}

#[derive(Debug)]
struct Sink {
    fd: OwnedFd,
    /// A file takes what it is given at once; whatever else is asked first.
    is_file: bool,
    /// Lines to be written.
    buffer: Vec<u8>,
    lines: u64,
    /// Whether somebody is about to write them.
    is_due: bool,
    /// The byte that was written last: another than a newline, where a line was cut.
    last: u8,
    /// Lines that couldn't be written since the last one that could.
    lost: u64,
    said: bool,
}

/// How the client reached the broker.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Peer {
    /// Through the shim or a TCP listener.
    Tcp,
    /// Through the UNIX socket.
    Unix,
}

/// A request's line: written once, right after this is dropped, however the request ended.
/// Where nobody writes or counts, all of this does nothing.
pub struct Entry(Option<Open>);

struct Open {
    log: Log,
    started: Instant,
    line: Line,
}

#[derive(Serialize)]
struct Line {
    time: Time,
    #[serde(skip_serializing_if = "Option::is_none")]
    method: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    path: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<u16>,
    bytes_in: u64,
    bytes_out: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    first_byte_ms: Option<f64>,
    total_ms: f64,
    #[serde(flatten)]
    reported: Reported,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'static str>,
    /// What the way to the API said of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    cause: Option<String>,
    peer: Peer,
    #[serde(skip_serializing_if = "Option::is_none")]
    lines_lost_before: Option<u64>,
}

impl Log {
    /// To a file opened with `O_APPEND`, a pipe, a terminal. Where it takes no more, as a
    /// pipe that nobody reads, lines are lost rather than requests delayed; the next
    /// line that can be written says how many (`lines_lost_before`).
    pub fn to(fd: OwnedFd) -> Log {
        let is_file = fstat(&fd)
            .is_ok_and(|stat| stat.st_mode & SFlag::S_IFMT.bits() == SFlag::S_IFREG.bits());
        let sink = Sink {
            fd,
            is_file,
            buffer: Vec::new(),
            lines: 0,
            is_due: false,
            last: b'\n',
            lost: 0,
            said: false,
        };
        Log {
            sink: Some(Arc::new(Mutex::new(sink))),
            totals: None,
        }
    }

    /// The same log, whose requests are counted too.
    #[must_use]
    pub fn counted(self, totals: Option<Totals>) -> Log {
        Log { totals, ..self }
    }

    /// Begins a request's line, now.
    pub fn entry(&self, peer: Peer) -> Entry {
        self.entry_since(peer, Instant::now())
    }

    /// Begins the line of a request that began at `started`.
    pub fn entry_since(&self, peer: Peer, started: Instant) -> Entry {
        let is_kept = self.sink.is_some() || self.totals.is_some();
        Entry(is_kept.then(|| Open {
            log: self.clone(),
            started,
            line: Line {
                time: Time(SystemTime::now()),
                method: None,
                path: None,
                status: None,
                bytes_in: 0,
                bytes_out: 0,
                first_byte_ms: None,
                total_ms: 0.0,
                reported: Reported::default(),
                reason: None,
                cause: None,
                peer,
                lines_lost_before: None,
            },
        }))
    }
}

impl Entry {
    /// Whether it will be written or counted: else usage needn't be looked for.
    pub fn is_kept(&self) -> bool {
        self.0.is_some()
    }

    /// What is asked for. `target` is as it came; its query isn't kept, and its path is
    /// cut at 512 bytes.
    pub fn request(&mut self, method: &'static str, target: &[u8]) {
        if let Some(Open { line, .. }) = &mut self.0 {
            line.method = Some(method);
            // Another form than the origin's may hold a user and a password.
            if !target.starts_with(b"/") {
                return;
            }
            let path = target.split(|byte| b"?#".contains(byte)).next();
            let path = path.unwrap_or_default();
            let path = &path[..path.len().min(MAX_PATH)];
            line.path = Some(String::from_utf8_lossy(path).into_owned());
        }
    }

    /// So many more bytes came from the client: its head, and its body without the framing.
    pub fn received(&mut self, bytes: usize) {
        if let Some(Open { line, .. }) = &mut self.0 {
            line.bytes_in += bytes as u64;
        }
    }

    /// So many more bytes of the answer went to the client. The first time is the time
    /// to the first byte.
    pub fn sent(&mut self, bytes: usize) {
        if let Some(Open { line, started, .. }) = &mut self.0 {
            line.bytes_out += bytes as u64;
            line.first_byte_ms
                .get_or_insert_with(|| milliseconds(started.elapsed()));
        }
    }

    /// The answer's status.
    pub fn status(&mut self, status: u16) {
        if let Some(Open { line, .. }) = &mut self.0 {
            line.status = Some(status);
        }
    }

    /// Why it was refused, or didn't end well. The first one stays: it led to the others.
    pub fn reason(&mut self, reason: &'static str) {
        if let Some(Open { line, .. }) = &mut self.0 {
            line.reason.get_or_insert(reason);
        }
    }

    /// What failed on the way to the API, in printable words.
    pub fn cause(&mut self, failure: &Failure) {
        if let Some(Open { line, .. }) = &mut self.0 {
            line.cause = Some(failure.to_string());
        }
    }

    /// What the API said of it.
    pub fn reported(&mut self, reported: Reported) {
        if let Some(Open { line, .. }) = &mut self.0 {
            line.reported = reported;
        }
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        let Some(Open { log, started, line }) = &mut self.0 else {
            return;
        };
        line.total_ms = milliseconds(started.elapsed());
        if let Some(totals) = &log.totals {
            totals.add(line.status, [line.bytes_in, line.bytes_out], &line.reported);
        }
        if let Some(sink) = &log.sink {
            let mut held = hold(sink);
            held.add(line);
            if !held.is_file {
                held.write();
            } else if !std::mem::replace(&mut held.is_due, true) {
                write_soon(sink);
            }
        }
    }
}

/// Writes a file's lines once every task that is ready has run: under load, many
/// requests end in one turn of the event loop.
fn write_soon(sink: &Arc<Mutex<Sink>>) {
    let Ok(runtime) = tokio::runtime::Handle::try_current() else {
        return hold(sink).write();
    };
    let sink = Arc::clone(sink);
    runtime.spawn(async move { hold(&sink).write() });
}

fn hold(sink: &Arc<Mutex<Sink>>) -> MutexGuard<'_, Sink> {
    sink.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Sink {
    fn add(&mut self, line: &mut Line) {
        // The first line that is written says it for all.
        line.lines_lost_before = Some(self.lost).filter(|lost| *lost > 0 && self.lines == 0);
        let mut json = serde_json::Serializer::with_formatter(&mut self.buffer, AsciiOnly);
        // Into memory: it can't fail.
        let _ = line.serialize(&mut json);
        self.buffer.push(b'\n');
        self.lines += 1;
    }

    /// Writes what was added: to a pipe a line at a time.
    fn write(&mut self) {
        let is_cut = self.last != b'\n';
        if is_cut {
            // What a full disk cut is a line of its own.
            self.buffer.insert(0, b'\n');
        }
        let (written, failure) = self.write_whole();
        let part = self.buffer.get(..written).unwrap_or_default();
        let whole = memchr_iter(b'\n', part).count() as u64;
        let whole = whole.saturating_sub(u64::from(is_cut));
        self.last = part.last().copied().unwrap_or(self.last);
        if whole > 0 {
            self.lost = 0;
        }
        self.lost += self.lines.saturating_sub(whole);
        if let Some(errno) = failure {
            self.say_lost(errno);
        }
        self.buffer.clear();
        self.lines = 0;
        self.is_due = false;
    }

    /// One write(2), which doesn't wait; another only where a signal or a full disk
    /// cut it. Says how many bytes were written, and what kept the rest.
    fn write_whole(&self) -> (usize, Option<Errno>) {
        let mut written = 0;
        while let Some(left) = self.buffer.get(written..).filter(|left| !left.is_empty()) {
            if !self.is_file && !say::has_room(&self.fd) {
                return (written, Some(Errno::EAGAIN));
            }
            match write(&self.fd, left) {
                Ok(count) => written += count,
                Err(Errno::EINTR) => {}
                Err(errno) => return (written, Some(errno)),
            }
        }
        (written, None)
    }

    fn say_lost(&mut self, errno: Errno) {
        // Standard error may be what takes no more.
        if !self.said && say::has_room(process::stderr()) {
            say::note(format_args!(
                "the broker's log: write: {errno:?}; lines are lost"
            ));
        }
        self.said = true;
    }
}

/// The runtime may end before a file's last lines are written.
impl Drop for Sink {
    fn drop(&mut self) {
        self.write();
    }
}

/// Escapes DEL and all that isn't ASCII too: C1 control codes and characters that
/// turn text around aren't for a terminal.
struct AsciiOnly;

impl Formatter for AsciiOnly {
    fn write_string_fragment<W: io::Write + ?Sized>(
        &mut self,
        writer: &mut W,
        fragment: &str,
    ) -> io::Result<()> {
        if fragment.bytes().all(|byte| byte < 0x7f) {
            return writer.write_all(fragment.as_bytes());
        }
        for c in fragment.chars() {
            if c.is_ascii() && c != '\x7f' {
                writer.write_all(&[c as u8])?;
                continue;
            }
            for unit in c.encode_utf16(&mut [0; 2]) {
                write!(writer, "\\u{unit:04x}")?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
