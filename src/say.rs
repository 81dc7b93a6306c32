//! What groom-ns itself says, on standard error.

use std::fmt::Display;
use std::io::Write as _;

/// Writes one line in one write(2), so that lines of several processes don't
/// mix. Unlike `eprintln!` it doesn't panic where nobody reads: a run doesn't
/// end because its log did.
pub fn line(text: impl Display) {
    let _ = std::io::stderr().write_all(format!("{text}\n").as_bytes());
}

/// The same, with the program's name before it.
pub fn note(text: impl Display) {
    line(format_args!("groom-ns: {text}"));
}
