//! What groom-ns itself says, on standard error: how much of it, and how it looks.

use std::fmt::Display;
use std::io::{IsTerminal as _, Write as _};
use std::os::fd::AsFd;
use std::sync::OnceLock;

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use crate::refusal::Refusal;

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

/// The same, with the program's name before it; said however quiet it shall be.
pub fn note(text: impl Display) {
    line(format_args!("groom-ns: {text}"));
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
        line(format_args!(
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
    if says(Loudness::Verbose) && has_room(std::io::stderr()) {
        line(format_args!("{} {text}", painted(DIM, "groom-ns:")));
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
    if std::io::stderr().is_terminal() && !is_set("NO_COLOR") && term != "dumb" {
        format!("\x1b[{colour}m{text}\x1b[0m")
    } else {
        text.to_owned()
    }
}
