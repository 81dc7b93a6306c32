//! Into the namespaces: the fork and its maps, pid 1, `lo`, the broker's listeners,
//! descriptors 0 to 2, the jail's terminal, the filter's listener, and the socketpair between the supervisor and
//! the jail.

pub mod asking;
pub mod channel;
pub mod diagnose;
pub mod enter;
pub mod evidence;
pub mod init;
pub mod listeners;
pub mod net;
pub mod reap;
pub mod stdio;
pub mod terminal;
