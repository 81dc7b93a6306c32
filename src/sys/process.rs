//! Processes: clone(2) into namespaces, pidfds, keyrings, parent-death signal.

use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd, FromRawFd as _, OwnedFd, RawFd};

use nix::Result;
use nix::errno::Errno;
use nix::unistd::Pid;

/// Which side of a [`fork_into`] this is.
pub enum Forked {
    /// The parent, with the child's id and a pidfd (close-on-exec) that it owns.
    Parent(Pid, OwnedFd),
    /// The child.
    Child,
}

/// A fork whose child is in the new namespaces `flags` (`CLONE_NEW*`).
///
/// clone(2) and not clone3(2): outer sandboxes answer ENOSYS to the latter,
/// since they can't see its flags. Call it from a process with one thread: no
/// fork handler of libc runs, and a lock held by another thread would stay
/// locked in the child.
pub fn fork_into(flags: libc::c_int) -> Result<Forked> {
    let mut pidfd: RawFd = -1;
    let flags = flags | libc::CLONE_PIDFD | libc::SIGCHLD;
    // SAFETY: without CLONE_VM and with a null stack this is a fork: the child
    // goes on with a copy of this stack. `pidfd` is written before return, in
    // the parent's memory.
    let pid = unsafe {
        libc::syscall(
            libc::SYS_clone,
            libc::c_long::from(flags),
            0,
            &raw mut pidfd,
            0,
            0,
        )
    };
    match Errno::result(pid)? {
        0 => Ok(Forked::Child),
        pid => {
            let pid = libc::pid_t::try_from(pid).map_err(|_| Errno::EOVERFLOW)?;
            // SAFETY: CLONE_PIDFD has just made this descriptor for us.
            Ok(Forked::Parent(Pid::from_raw(pid), unsafe {
                OwnedFd::from_raw_fd(pidfd)
            }))
        }
    }
}

/// A pidfd (close-on-exec, the caller's) of a process: pidfd_open(2).
pub fn pidfd_open(pid: Pid) -> Result<OwnedFd> {
    // SAFETY: plain integers.
    let fd = unsafe { libc::syscall(libc::SYS_pidfd_open, pid.as_raw(), 0) };
    let fd = RawFd::try_from(Errno::result(fd)?).map_err(|_| Errno::EBADF)?;
    // SAFETY: the kernel has just made this descriptor for us.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Sends a signal to the process behind a pidfd: pidfd_send_signal(2).
pub fn pidfd_send_signal(pidfd: impl AsFd, signal: libc::c_int) -> Result<()> {
    // SAFETY: a null siginfo_t is allowed and means the same as for kill(2).
    let done = unsafe {
        libc::syscall(
            libc::SYS_pidfd_send_signal,
            pidfd.as_fd().as_raw_fd(),
            signal,
            std::ptr::null::<libc::siginfo_t>(),
            0,
        )
    };
    Errno::result(done).map(drop)
}

/// Closes every descriptor from 3 on but `keep`: at start-up what the caller left
/// open, and in a process of the jail what it doesn't use from then on, which must
/// not live as long as pid 1, nor count against the command's limit.
pub fn close_all_but<'fd>(keep: impl IntoIterator<Item = BorrowedFd<'fd>>) -> Result<()> {
    let keep = keep.into_iter().map(|fd| fd.as_raw_fd().unsigned_abs());
    let mut keep: Vec<u32> = keep.collect();
    keep.sort_unstable();
    let mut first = 3;
    for fd in keep.into_iter().chain([u32::MAX]) {
        if fd > first {
            // SAFETY: the caller uses no descriptor but `keep` any more. It has opened
            // no other yet, or ends with exit, which runs no destructor that would
            // close one again.
            let done = unsafe { libc::syscall(libc::SYS_close_range, first, fd - 1, 0) };
            Errno::result(done)?;
        }
        first = fd.saturating_add(1);
    }
    Ok(())
}

/// Ends this process at once: _exit(2). Nothing that std has set up is taken down, and what
/// waits in its buffers isn't written: for those who write nothing through it.
pub fn exit_at_once(code: u8) -> ! {
    // SAFETY: it has no conditions, and never returns.
    unsafe { libc::_exit(i32::from(code)) }
}

/// Joins a fresh, empty, anonymous session keyring: keyctl(2).
pub fn join_session_keyring() -> Result<()> {
    // KEYCTL_JOIN_SESSION_KEYRING, linux/keyctl.h
    const JOIN_SESSION_KEYRING: libc::c_long = 1;
    // SAFETY: a null name asks for an anonymous keyring.
    let done = unsafe {
        libc::syscall(
            libc::SYS_keyctl,
            JOIN_SESSION_KEYRING,
            std::ptr::null::<libc::c_char>(),
        )
    };
    Errno::result(done).map(drop)
}

/// Bytes that were written to a pipe and not read: FIONREAD, ioctl_pipe(2).
pub fn bytes_in_pipe(pipe: impl AsFd) -> usize {
    let mut bytes: libc::c_int = 0;
    // SAFETY: FIONREAD writes one int, and `bytes` outlives the call.
    let done = unsafe { libc::ioctl(pipe.as_fd().as_raw_fd(), libc::FIONREAD, &raw mut bytes) };
    if done == 0 {
        usize::try_from(bytes).unwrap_or(0)
    } else {
        0
    }
}

/// Standard input, for as long as the process lives.
pub fn stdin() -> BorrowedFd<'static> {
    // SAFETY: Rust's runtime opens descriptors 0 to 2 before main if they are
    // closed, and the supervisor never closes them.
    unsafe { BorrowedFd::borrow_raw(libc::STDIN_FILENO) }
}

/// Standard output, likewise.
pub fn stdout() -> BorrowedFd<'static> {
    // SAFETY: as for `stdin`.
    unsafe { BorrowedFd::borrow_raw(libc::STDOUT_FILENO) }
}

/// Standard error, likewise.
pub fn stderr() -> BorrowedFd<'static> {
    // SAFETY: as for `stdin`.
    unsafe { BorrowedFd::borrow_raw(libc::STDERR_FILENO) }
}
