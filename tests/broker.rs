//! Promises 6 and 7: the key stays with the broker, and the broker is a door onto
//! the listed routes of one API that nothing which comes in can open further,
//! crash or wedge.

#![allow(clippy::expect_used, clippy::panic, missing_docs)]

mod common;

#[path = "broker/about_time.rs"]
mod about_time;
#[path = "broker/alone.rs"]
mod alone;
#[path = "broker/answers.rs"]
mod answers;
#[path = "broker/bodies.rs"]
mod bodies;
#[path = "broker/custody.rs"]
mod custody;
#[path = "broker/echoes.rs"]
mod echoes;
#[path = "broker/fake.rs"]
mod fake;
#[path = "broker/fields.rs"]
mod fields;
#[path = "broker/flags.rs"]
mod flags;
#[path = "broker/heads.rs"]
mod heads;
#[path = "broker/hostile.rs"]
mod hostile;
#[path = "broker/in_run.rs"]
mod in_run;
#[path = "broker/log.rs"]
mod log;
#[path = "broker/memory.rs"]
mod memory;
#[path = "broker/mutated.rs"]
mod mutated;
#[path = "broker/ready.rs"]
mod ready;
#[path = "broker/roots.rs"]
mod roots;
#[path = "broker/runs.rs"]
mod runs;
#[path = "broker/shim.rs"]
mod shim;
#[path = "broker/streams.rs"]
mod streams;
#[path = "broker/targets.rs"]
mod targets;
#[path = "broker/tokens.rs"]
mod tokens;
