//! Talking to a key broker: the jail's one way out.
//!
//! The broker itself isn't part of this binary yet; a caller brings its own with
//! `--uds`. Nothing here knows of namespaces or mounts.

pub mod health;
