//! Terminals and pseudo-terminals: the requests of ioctl_tty(2) that nix doesn't wrap.

use std::os::fd::{AsFd, AsRawFd as _, FromRawFd as _, OwnedFd};

use nix::Result;
use nix::errno::Errno;
use nix::fcntl::{OFlag, open};
use nix::sys::stat::Mode;

/// How large a terminal is, in characters (and pixels, which few programs ask for).
pub type Size = libc::winsize;

/// Lets the other side of a pseudo-terminal be opened (`TIOCSPTLCK`).
pub fn unlock(master: impl AsFd) -> Result<()> {
    let locked: libc::c_int = 0;
    // SAFETY: the request reads one int, and `locked` outlives the call.
    let done = unsafe {
        libc::ioctl(
            master.as_fd().as_raw_fd(),
            libc::TIOCSPTLCK,
            &raw const locked,
        )
    };
    Errno::result(done).map(drop)
}

/// The number of a pseudo-terminal (`TIOCGPTN`). `ENOTTY`: it isn't a master.
pub fn number(master: impl AsFd) -> Result<u32> {
    let mut number: libc::c_uint = 0;
    // SAFETY: the request writes one unsigned int, and `number` outlives the call.
    let done = unsafe { libc::ioctl(master.as_fd().as_raw_fd(), libc::TIOCGPTN, &raw mut number) };
    Errno::result(done).map(|_| number)
}

/// The other side of a pseudo-terminal, whatever is mounted where its name would lie
/// (`TIOCGPTPEER`, Linux 4.13). Close-on-exec, the caller's, and not made its
/// controlling terminal.
pub fn peer(master: impl AsFd) -> Result<OwnedFd> {
    let flags = libc::O_RDWR | libc::O_NOCTTY | libc::O_CLOEXEC;
    // SAFETY: the request takes its flags by value.
    let fd = unsafe { libc::ioctl(master.as_fd().as_raw_fd(), libc::TIOCGPTPEER, flags) };
    let fd = Errno::result(fd)?;
    // SAFETY: the kernel has just made this descriptor for us.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// The same terminal, opened anew for writing that doesn't wait: to poll(2) a terminal has
/// room when it takes one byte, and O_NONBLOCK of the descriptor given is shared with
/// other processes. Close-on-exec and the caller's. `EACCES`: it is another user's.
pub fn open_unwaiting(terminal: impl AsFd) -> Result<OwnedFd> {
    let path = format!("/proc/self/fd/{}", terminal.as_fd().as_raw_fd());
    let flags = OFlag::O_WRONLY | OFlag::O_NOCTTY | OFlag::O_NONBLOCK | OFlag::O_CLOEXEC;
    open(path.as_str(), flags, Mode::empty())
}

/// Makes a terminal the controlling one of the caller's session, which the caller
/// leads and which has none (`TIOCSCTTY`). Nobody's is taken away.
pub fn control(terminal: impl AsFd) -> Result<()> {
    // SAFETY: the request takes its argument by value.
    let done = unsafe { libc::ioctl(terminal.as_fd().as_raw_fd(), libc::TIOCSCTTY, 0) };
    Errno::result(done).map(drop)
}

/// The size of a terminal (`TIOCGWINSZ`).
pub fn size(terminal: impl AsFd) -> Result<Size> {
    let mut size = Size {
        ws_row: 0,
        ws_col: 0,
        ws_xpixel: 0,
        ws_ypixel: 0,
    };
    // SAFETY: the request writes one winsize, and `size` outlives the call.
    let done = unsafe {
        libc::ioctl(
            terminal.as_fd().as_raw_fd(),
            libc::TIOCGWINSZ,
            &raw mut size,
        )
    };
    Errno::result(done).map(|_| size)
}

/// Sets the size (`TIOCSWINSZ`). If it is another one, the kernel tells the foreground
/// group with SIGWINCH.
pub fn set_size(terminal: impl AsFd, size: &Size) -> Result<()> {
    // SAFETY: the request reads one winsize, which outlives the call.
    let done = unsafe {
        libc::ioctl(
            terminal.as_fd().as_raw_fd(),
            libc::TIOCSWINSZ,
            &raw const *size,
        )
    };
    Errno::result(done).map(drop)
}
