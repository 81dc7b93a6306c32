//! Every unsafe line of the crate, a file a subject: the system calls that nix
//! doesn't wrap. Nothing here decides; each function is one call and returns
//! its errno.

#[allow(unsafe_code)]
pub mod dirent;
#[allow(unsafe_code)]
pub mod fd;
#[allow(unsafe_code)]
pub mod ipc;
#[allow(unsafe_code)]
pub mod landlock;
#[allow(unsafe_code)]
pub mod memory;
#[allow(unsafe_code)]
pub mod mount;
#[allow(unsafe_code)]
pub mod notify;
#[allow(unsafe_code)]
pub mod prctl;
#[allow(unsafe_code)]
pub mod process;
#[allow(unsafe_code)]
pub mod seccomp;
#[allow(unsafe_code)]
pub mod secret;
#[allow(unsafe_code)]
pub mod signal;
#[allow(unsafe_code)]
pub mod socket;
#[allow(unsafe_code)]
pub mod terminal;
#[allow(unsafe_code)]
pub mod users;
#[allow(unsafe_code)]
pub mod watch;
#[allow(unsafe_code)]
pub mod xattr;
