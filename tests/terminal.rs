//! At a terminal, the command has one of its own: as if it had been started there.

#![allow(clippy::expect_used, clippy::panic, missing_docs)]

#[path = "terminal/bytes.rs"]
mod bytes;
#[path = "terminal/choice.rs"]
mod choice;
mod common;
#[path = "terminal/full_screen.rs"]
mod full_screen;
#[path = "terminal/jobs.rs"]
mod jobs;
#[path = "terminal/keys.rs"]
mod keys;
#[path = "terminal/restored.rs"]
mod restored;
