//! groom-ns runs an untrusted command in a jail of raw namespaces, or refuses.
//!
//! The library behind the binary, so that tests and fuzzers reach the parts.
//! Data flows one way: `cli` (strings) → `policy` (judged) → `plan` (ordered
//! steps, pure data) → `run` → `ns`, `mount`, `confine` → `sys`.

#[cfg(not(all(target_os = "linux", target_arch = "x86_64")))]
compile_error!("the syscall table in src/confine/seccomp was written for x86_64 Linux alone");

pub mod apparmor;
pub mod broker;
pub mod cgroup;
pub mod check;
pub mod cli;
pub mod clock;
pub mod confine;
pub mod digest;
pub mod files;
pub mod host;
pub mod identity;
pub mod mount;
pub mod mountinfo;
pub mod ns;
pub mod plan;
pub mod policy;
pub mod prove;
pub mod receipt;
pub mod refusal;
pub mod run;
pub mod sabotage;
pub mod say;
pub mod signals;
pub mod sys;
pub mod tty;
mod within;
