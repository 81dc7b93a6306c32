//! Flags from a profile, what groom-ns says and how it looks, and the pages that are
//! made of its flags.

#![allow(clippy::expect_used, clippy::panic, missing_docs)]

mod common;
#[path = "config/ground.rs"]
mod ground;
#[path = "config/judged.rs"]
mod judged;
#[path = "config/pages.rs"]
mod pages;
#[path = "config/profile.rs"]
mod profile;
#[path = "config/said.rs"]
mod said;
