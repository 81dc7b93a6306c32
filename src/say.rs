//! What groom-ns itself says, on standard error.

use std::fmt::Display;
use std::io::Write as _;
use std::os::fd::AsFd;

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

/// Writes one line in one write(2), so that lines of several processes don't
/// mix. Unlike `eprintln!` it doesn't panic where nobody reads: a run doesn't
/// end because its log did.
pub fn line(text: impl Display) {
    let _ = std::io::stderr().write_all(format!("{text}\n").as_bytes());
}

/// Whether a write(2) to `fd` neither waits nor is cut short, or fails at once: what
/// is said beside the work must not hold it up.
pub fn has_room(fd: impl AsFd) -> bool {
    let mut ask = [PollFd::new(fd.as_fd(), PollFlags::POLLOUT)];
    matches!(poll(&mut ask, PollTimeout::ZERO), Ok(1))
}

/// The same, with the program's name before it.
pub fn note(text: impl Display) {
    line(format_args!("groom-ns: {text}"));
}
