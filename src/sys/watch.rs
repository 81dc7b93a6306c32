//! Descriptors in tokio's event loop.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};

use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// std's descriptor types: each is open, and the same descriptor, while it lives.
pub trait Descriptor: AsRawFd + sealed::Sealed {}
impl Descriptor for OwnedFd {}
impl Descriptor for BorrowedFd<'_> {}

mod sealed {
    pub trait Sealed {}
    impl Sealed for super::OwnedFd {}
    impl Sealed for super::BorrowedFd<'_> {}
}

/// Registers a descriptor with the runtime that this is called in (epoll(7)).
/// EPERM: it is of a kind that is always ready.
pub fn watch<D: Descriptor>(fd: D, interest: Interest) -> io::Result<AsyncFd<D>> {
    register(fd, interest).map_err(|(_, error)| error)
}

/// The same; a descriptor that is always ready comes back as it was.
pub fn watch_or_back<D: Descriptor>(
    fd: D,
    interest: Interest,
) -> io::Result<Result<AsyncFd<D>, D>> {
    match register(fd, interest) {
        Ok(watched) => Ok(Ok(watched)),
        Err((fd, error)) if error.raw_os_error() == Some(libc::EPERM) => Ok(Err(fd)),
        Err((_, error)) => Err(error),
    }
}

fn register<D: Descriptor>(fd: D, interest: Interest) -> Result<AsyncFd<D>, (D, io::Error)> {
    // SAFETY: a `Descriptor` is an OwnedFd or a BorrowedFd, whose descriptor stays
    // open and the same for as long as the value lives; AsyncFd owns the value.
    unsafe { AsyncFd::register_with_interest(fd, interest) }
        .map_err(tokio::io::unix::AsyncFdRegisterError::into_parts)
}
