//! A receipt says what stood and how it ended, and `verify` notices what isn't as it
//! should be.

#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used, missing_docs)]

mod common;
#[path = "receipt/ends.rs"]
mod ends;
#[path = "receipt/files.rs"]
mod files;
#[path = "receipt/made.rs"]
mod made;
#[path = "receipt/schema.rs"]
mod schema;
#[path = "receipt/status.rs"]
mod status;
#[path = "receipt/stood.rs"]
mod stood;
#[path = "receipt/verify.rs"]
mod verify;
#[path = "receipt/whole.rs"]
mod whole;
