//! Promise 1: what can't be built is refused, with its reason, and nothing ran.

#![allow(clippy::expect_used, clippy::panic, missing_docs)]

#[path = "refuse/broker.rs"]
mod broker;
mod common;
#[path = "refuse/environment.rs"]
mod environment;
#[path = "refuse/failing_start.rs"]
mod failing_start;
#[path = "refuse/input.rs"]
mod input;
#[path = "refuse/mounts.rs"]
mod mounts;
#[path = "refuse/output.rs"]
mod output;
#[path = "refuse/overlaps.rs"]
mod overlaps;
#[path = "refuse/pretended.rs"]
mod pretended;
#[path = "refuse/reads.rs"]
mod reads;
#[path = "refuse/setup_syscalls.rs"]
mod setup_syscalls;
#[path = "refuse/sockets.rs"]
mod sockets;
#[path = "refuse/trees.rs"]
mod trees;
