//! What groom-ns itself says, on standard error: how much of it, and how it looks.

use std::fmt::Display;
use std::io::{IsTerminal as _, Write as _, stderr};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::termios::{OutputFlags, tcgetattr};
use nix::unistd::write;

use crate::refusal::Refusal;
use crate::sys::terminal::open_unwaiting;

/// How much is said.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Loudness {
    /// Refusals, and what became of a command.
    Quiet,
    /// Warnings and remarks, too.
    Normal,
    /// Each step of a run, too.
    Verbose,
}

static LOUDNESS: OnceLock<Loudness> = OnceLock::new();

/// Sets how much is said; only the first call does.
pub fn set_loudness(loudness: Loudness) {
    let _ = LOUDNESS.set(loudness);
}

fn says(loudness: Loudness) -> bool {
    *LOUDNESS.get().unwrap_or(&Loudness::Normal) >= loudness
}

/// Writes one line in one write(2), so that lines of several processes don't
/// mix. Unlike `eprintln!` it doesn't panic where nobody reads: a run doesn't
/// end because its log did. It waits for the reader: for what is said when no command runs.
pub fn line(text: impl Display) {
    let _ = stderr().write_all(ended(&text).as_bytes());
}

/// The same, with the program's name before it; said however quiet it shall be.
pub fn note(text: impl Display) {
    in_time(&format_args!("groom-ns: {text}"));
}

/// Writes this at a terminal that somebody types at, whatever standard error is.
pub fn at_terminal(terminal: BorrowedFd, text: &str) {
    write_in_time(terminal, text.as_bytes());
}

/// Writes one line.
fn in_time(text: &impl Display) {
    write_in_time(stderr().as_fd(), ended(text).as_bytes());
}

/// A reader that doesn't read holds nothing up: what it leaves no room for is lost.
fn write_in_time(fd: BorrowedFd, bytes: &[u8]) {
    let start = Instant::now();
    let waited = Duration::from_micros(WAITED.load(Ordering::Relaxed));
    write_until(start + PATIENCE.saturating_sub(waited), fd, bytes);
    let taken = u64::try_from(start.elapsed().as_micros()).unwrap_or(u64::MAX);
    WAITED.fetch_add(taken, Ordering::Relaxed);
}

/// What all that a process says beside a run waits, together, for a reader that doesn't read.
const PATIENCE: Duration = Duration::from_secs(1);
/// What it has waited, in microseconds.
static WAITED: AtomicU64 = AtomicU64::new(0);
/// A write to a pipe that has room for something takes so many bytes (pipe(7)).
const PIECE: usize = 4096;

/// Writes what there is room for by then.
fn write_until(end: Instant, shared: BorrowedFd, bytes: &[u8]) {
    let own = open_unwaiting_if_terminal(shared);
    let fd = own.as_ref().map_or(shared, AsFd::as_fd);
    let mut left = bytes;
    while !left.is_empty() && has_room_by(end, fd) {
        let piece = left.get(..PIECE.min(left.len())).unwrap_or_default();
        match write(fd, piece) {
            Ok(count) => left = left.get(count..).unwrap_or_default(),
            // A terminal with room for less than the end of a line.
            Err(Errno::EAGAIN) if Instant::now() < end => std::thread::sleep(A_MOMENT),
            Err(Errno::EINTR) => {}
            Err(_) => return,
        }
    }
}

const A_MOMENT: Duration = Duration::from_millis(2);

/// A terminal's own description for writes that don't wait; none for anything else, or
/// where it can't be had: poll(2) is believed then.
pub fn open_unwaiting_if_terminal(fd: BorrowedFd) -> Option<OwnedFd> {
    let terminal = Some(fd).filter(BorrowedFd::is_terminal);
    terminal.and_then(|terminal| open_unwaiting(terminal).ok())
}

/// The same descriptor, or in its place one for the same terminal whose writes don't wait.
pub fn unwaiting(fd: OwnedFd) -> OwnedFd {
    open_unwaiting_if_terminal(fd.as_fd()).unwrap_or(fd)
}

/// Whether a write(2) to `fd` of [at most a page](PIECE) neither waits nor is cut short, or
/// fails at once: what is said beside the work must not hold it up. A terminal may have
/// less room.
pub fn has_room(fd: impl AsFd) -> bool {
    has_room_by(Instant::now(), fd)
}

/// The same, when there is room by then.
fn has_room_by(end: Instant, fd: impl AsFd) -> bool {
    let mut ask = [PollFd::new(fd.as_fd(), PollFlags::POLLOUT)];
    let left = end.saturating_duration_since(Instant::now());
    let left = PollTimeout::try_from(left).unwrap_or(PollTimeout::ZERO);
    matches!(poll(&mut ask, left), Ok(1))
}

/// The text as a line; where the terminal is in raw mode, for the command, it is told to
/// go back to the first column.
fn ended(text: &impl Display) -> String {
    let is_raw =
        tcgetattr(stderr()).is_ok_and(|mode| !mode.output_flags.contains(OutputFlags::OPOST));
    format!("{text}{}", if is_raw { "\r\n" } else { "\n" })
}

/// A refusal for people; said however quiet it shall be.
pub fn refusal(refusal: &Refusal) {
    let text = refusal.to_string();
    let head = format!("groom-ns: refused ({}):", refusal.reason.code());
    let rest = text.strip_prefix(&head).unwrap_or_default();
    line(format_args!("{}{rest}", painted(RED, &head)));
}

/// What the caller should know before the command starts.
pub fn warning(text: impl Display) {
    if says(Loudness::Normal) {
        in_time(&format_args!(
            "{} {text}",
            painted(YELLOW, "groom-ns: warning:")
        ));
    }
}

/// What the caller should know besides.
pub fn remark(text: impl Display) {
    if says(Loudness::Normal) {
        note(format_args!("note: {text}"));
    }
}

/// A step that was just done; left out where nobody reads, since the run goes on.
pub fn step(text: impl Display) {
    if says(Loudness::Verbose) {
        let line = format_args!("{} {text}", painted(DIM, "groom-ns:")).to_string();
        write_until(Instant::now(), stderr().as_fd(), ended(&line).as_bytes());
    }
}

// Select Graphic Rendition (console_codes(4)).
const RED: &str = "1;31";
const YELLOW: &str = "33";
const DIM: &str = "2";

/// In colour at a terminal that has some, unless NO_COLOR asks for none (no-color.org).
fn painted(colour: &str, text: &str) -> String {
    let is_set = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    let term = std::env::var_os("TERM").unwrap_or_else(|| "dumb".into());
    if stderr().is_terminal() && !is_set("NO_COLOR") && term != "dumb" {
        format!("\x1b[{colour}m{text}\x1b[0m")
    } else {
        text.to_owned()
    }
}
