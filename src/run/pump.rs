//! Moving bytes between the caller's descriptors and the command's pipes, or terminal.

use std::io::{self, IsTerminal as _};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::stat::{SFlag, fstat};
use nix::sys::termios::{LocalFlags, SpecialCharacterIndices, tcgetattr};
use nix::unistd::{Whence, lseek, read, write};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::sync::watch::Receiver;

use crate::sys::process::{bytes_in_pipe, stdin};
use crate::sys::watch::{Descriptor, watch, watch_or_back};

use crate::broker::key::Key;
use crate::broker::key_source::LineReader;
use crate::refusal::Refusal;
use crate::say::open_unwaiting_if_terminal;

use super::bounds::Allowance;
use super::door;

/// Bytes moved at a time; what a pipe holds.
const CHUNK: usize = 64 * 1024;
/// The same, until there were as many: most commands say little, and memory that isn't
/// touched costs nothing.
const FIRST_CHUNK: usize = 4096;

/// Bytes written at a time to what may block: a write that poll(2) allowed must
/// not hold the event loop up on the rest of a large chunk. A pipe that is
/// writable takes PIPE_BUF (4096) bytes at once, a socket has more room (pipe(7),
/// `sock_writeable`); a terminal that can't be opened anew may have less.
const PIPE_CHUNK: usize = 4096;
const TERMINAL_CHUNK: usize = 256;

/// One of the caller's descriptors. It is shared with other processes, so its
/// O_NONBLOCK is left as it is: poll(2) is asked before every call instead. A terminal
/// that is written to is opened anew, where it can be.
pub(super) enum Outer<D: Descriptor> {
    /// A terminal, socket or pipe, which epoll(7) can watch.
    Watched(AsyncFd<D>),
    /// A regular file or the like, which is always ready.
    Ready(D),
}

impl<D: Descriptor + AsFd> Outer<D> {
    pub(super) fn new(fd: D, interest: Interest) -> io::Result<Outer<D>> {
        watch_or_back(fd, interest).map(|made| match made {
            Ok(watched) => Outer::Watched(watched),
            // What epoll refuses (EPERM) never blocks.
            Err(fd) => Outer::Ready(fd),
        })
    }

    fn fd(&self) -> BorrowedFd<'_> {
        match self {
            Outer::Watched(watched) => watched.get_ref().as_fd(),
            Outer::Ready(fd) => fd.as_fd(),
        }
    }

    /// read(2), once there is something; 0 is the end.
    pub(super) async fn read(&self, buffer: &mut [u8]) -> io::Result<usize> {
        self.when(Interest::READABLE, || read(self.fd(), buffer))
            .await
    }

    /// write(2), once there is room.
    async fn write(&self, bytes: &[u8]) -> io::Result<usize> {
        self.when(Interest::WRITABLE, || write(self.fd(), bytes))
            .await
    }

    /// Does `call` when poll(2) says that it won't block.
    async fn when(
        &self,
        interest: Interest,
        mut call: impl FnMut() -> nix::Result<usize>,
    ) -> io::Result<usize> {
        loop {
            let mut ready = None;
            if let Outer::Watched(watched) = self {
                let ready = ready.insert(watched.ready(interest).await?);
                if !is_ready(watched.get_ref(), interest)? {
                    ready.clear_ready();
                    continue;
                }
            }
            match (call(), &mut ready) {
                (Err(Errno::EAGAIN), Some(ready)) => ready.clear_ready(),
                (Err(Errno::EAGAIN), None) => tokio::task::yield_now().await,
                (Err(Errno::EINTR), _) => {}
                (other, _) => return Ok(other?),
            }
        }
    }
}

/// poll(2) without waiting. A hang-up or error counts: the next call tells it.
pub(super) fn is_ready(fd: impl AsFd, interest: Interest) -> nix::Result<bool> {
    let events = if interest.is_readable() {
        PollFlags::POLLIN
    } else {
        PollFlags::POLLOUT
    };
    let mut fds = [PollFd::new(fd.as_fd(), events)];
    Ok(poll(&mut fds, PollTimeout::ZERO)? > 0)
}

/// Whether the other side of a terminal or pipe is gone (poll(2), POLLHUP).
fn has_hung_up(fd: impl AsFd) -> bool {
    let mut fds = [PollFd::new(fd.as_fd(), PollFlags::POLLOUT)];
    let is_polled = poll(&mut fds, PollTimeout::ZERO).is_ok();
    let gone = PollFlags::POLLHUP | PollFlags::POLLERR;
    is_polled && fds[0].revents().is_some_and(|is| is.intersects(gone))
}

/// Moves the command's output to one of the caller's descriptors, until the
/// command's side ends or has said all that it may. An error of the caller's side is
/// returned; the pipe is closed then, and the command's next write is EPIPE. `is_idle`
/// says whether all that was read is written.
pub(super) async fn output(
    inner: OwnedFd,
    outer: BorrowedFd<'static>,
    is_idle: Arc<AtomicBool>,
    allowance: Allowance,
) -> io::Result<()> {
    let inner = watch(inner, Interest::READABLE)?;
    let own = open_unwaiting_if_terminal(outer);
    let to = own.as_ref().map_or(outer, AsFd::as_fd);
    let to = Outer::new(to, Interest::WRITABLE)?;
    let most = match &to {
        Outer::Ready(_) => CHUNK,
        Outer::Watched(_) if own.is_some() => CHUNK,
        Outer::Watched(_) if outer.is_terminal() => TERMINAL_CHUNK,
        Outer::Watched(_) => PIPE_CHUNK,
    };
    let mut buffer = vec![0; FIRST_CHUNK];
    loop {
        is_idle.store(true, Ordering::Relaxed);
        let length = read_inner(&inner, &mut buffer).await?;
        is_idle.store(false, Ordering::Relaxed);
        if length == 0 {
            return Ok(());
        }
        let allowed = allowance.take(length);
        let mut left = buffer.get(..allowed).unwrap_or_default();
        while !left.is_empty() {
            let chunk = left.get(..most.min(left.len())).unwrap_or_default();
            let written = to.write(chunk).await?;
            left = left.get(written..).unwrap_or_default();
        }
        if allowed < length {
            return Ok(());
        }
        if length == buffer.len() {
            buffer.resize(CHUNK, 0);
        }
    }
}

/// Reads what the command writes to a terminal that nobody is shown any more: a full one
/// would hold it up for ever.
pub(super) async fn discard(inner: OwnedFd) -> io::Result<()> {
    let inner = watch(inner, Interest::READABLE)?;
    let mut buffer = vec![0; CHUNK];
    while read_inner(&inner, &mut buffer).await? > 0 {}
    Ok(())
}

/// read(2) of the command's side, once there is something; 0 is the end.
async fn read_inner(inner: &AsyncFd<OwnedFd>, buffer: &mut [u8]) -> io::Result<usize> {
    let read = |fd: &OwnedFd| match read(fd, buffer) {
        // Nobody has the other side of the terminal any more (pty(7)).
        Err(Errno::EIO) => Ok(0),
        other => Ok(other?),
    };
    inner.async_io(Interest::READABLE, read).await
}

/// Reads while the gate is open: a read that waits is given up when it is shut.
async fn read_while_open<D: Descriptor + AsFd>(
    gate: &mut Receiver<bool>,
    outer: &Outer<D>,
    buffer: &mut [u8],
) -> io::Result<usize> {
    // Whoever opens it lives longer than this.
    while gate.wait_for(|is_open| *is_open).await.is_ok() {
        tokio::select! {
            biased;
            _ = gate.wait_for(|is_open| !is_open) => {}
            length = outer.read(buffer) => return length,
        }
    }
    Ok(0)
}

/// Moves the caller's input to the command.
pub(super) struct Input {
    /// Closed at the end of the input, so that the command sees it.
    inner: Option<AsyncFd<OwnedFd>>,
    outer: Option<Outer<BorrowedFd<'static>>>,
    /// The command's end, where the caller's is a regular file: what is left in the
    /// pipe is given back. Elsewhere it isn't held, so that the command's closing it
    /// is seen.
    reader: Option<OwnedFd>,
    /// Where the command's end is a terminal: when the caller's may be read.
    gate: Option<Receiver<bool>>,
    /// Read from the caller and not yet written to the command.
    pending: Vec<u8>,
    /// Written to the command.
    moved: usize,
}

impl Input {
    /// Into a pipe.
    pub(super) fn new(
        inner: OwnedFd,
        reader: OwnedFd,
        outer: BorrowedFd<'static>,
    ) -> io::Result<Input> {
        let kind = fstat(outer)?.st_mode & SFlag::S_IFMT.bits();
        Ok(Input {
            inner: Some(watch(inner, Interest::WRITABLE)?),
            outer: Some(Outer::new(outer, Interest::READABLE)?),
            reader: (kind == SFlag::S_IFREG.bits()).then_some(reader),
            gate: None,
            pending: Vec::new(),
            moved: 0,
        })
    }

    /// Into the jail's terminal, which is to be [attached](Input::attach).
    pub(super) fn typed(gate: Receiver<bool>, outer: BorrowedFd<'static>) -> io::Result<Input> {
        Ok(Input {
            inner: None,
            outer: Some(Outer::new(outer, Interest::READABLE)?),
            reader: None,
            gate: Some(gate),
            pending: Vec::new(),
            moved: 0,
        })
    }

    /// Goes on into this master of a terminal.
    pub(super) fn attach(&mut self, master: AsyncFd<OwnedFd>) {
        self.inner = Some(master);
    }

    /// The key, where it is the input's first line; nothing is read ahead of its end.
    pub(super) async fn key(&self) -> Result<Key, Refusal> {
        match &self.outer {
            Some(outer) => door::key_line(outer).await,
            None => LineReader::new()?.finish(),
        }
    }

    /// Runs until the caller's side ends, or the command's (EPIPE). It may be dropped
    /// at any await: what is pending then is known.
    pub(super) async fn pump(&mut self) -> io::Result<()> {
        let mut buffer = vec![0; FIRST_CHUNK];
        loop {
            self.write_pending().await?;
            let Some(outer) = &self.outer else {
                return Ok(());
            };
            let length = match &mut self.gate {
                Some(gate) => read_while_open(gate, outer, &mut buffer).await?,
                None => outer.read(&mut buffer).await?,
            };
            if length == 0 {
                break;
            }
            self.pending
                .extend_from_slice(buffer.get(..length).unwrap_or_default());
            if length == buffer.len() {
                buffer.resize(CHUNK, 0);
            }
        }
        self.end_of_input();
        self.write_pending().await
    }

    async fn write_pending(&mut self) -> io::Result<()> {
        let Some(inner) = &self.inner else {
            return Ok(());
        };
        while !self.pending.is_empty() {
            let pending = &self.pending;
            let written = inner
                .async_io(Interest::WRITABLE, |fd| match write(fd, pending) {
                    // Nobody has the other side of the terminal any more.
                    Err(Errno::EIO) => Err(io::ErrorKind::BrokenPipe.into()),
                    // The same, with more typed than was read: there will never be room,
                    // and tokio calls what has hung up ready for ever.
                    Err(Errno::EAGAIN) if has_hung_up(fd) => Err(io::ErrorKind::BrokenPipe.into()),
                    other => Ok(other?),
                })
                .await?;
            self.pending.drain(..written);
            self.moved = self.moved.saturating_add(written);
        }
        Ok(())
    }

    /// A terminal has no end that could be closed: it is typed, as Ctrl-D is, a second
    /// time where the first ends a line that was begun (termios(3), VEOF). In raw mode
    /// it would be a byte like any other.
    fn end_of_input(&mut self) {
        let Some(master) = self.inner.as_ref().filter(|_| self.gate.is_some()) else {
            return;
        };
        if let Ok(mode) = tcgetattr(master.get_ref())
            && mode.local_flags.contains(LocalFlags::ICANON)
        {
            let end = mode.control_chars[SpecialCharacterIndices::VEOF as usize];
            self.pending.extend([end, end]);
        }
    }

    /// Closes our end of the pipe, so that the command sees the end of its input, and
    /// stops watching the caller's.
    pub(super) fn close(&mut self) {
        self.inner = None;
        self.outer = None;
    }

    /// Gives back what the command didn't read of a regular file, so that
    /// `while read …; do groom-ns run -- cmd; done <list` goes on where the
    /// command stopped.
    pub(super) fn give_back(self) {
        let Some(reader) = self.reader else {
            return;
        };
        // No more than was moved: the command can write into its own pipe, and the
        // caller's file must not go back to before this run.
        let left = bytes_in_pipe(&reader).min(self.moved);
        if let Ok(unread) = i64::try_from(self.pending.len().saturating_add(left)) {
            // A file that can't be sought back stays where it is.
            let _ = lseek(stdin(), -unread, Whence::SeekCur);
        }
    }
}
