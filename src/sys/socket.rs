//! What nix says of sockets with names that it lacks or numbers that own nothing.

use std::io::IoSliceMut;
use std::os::fd::{AsFd, AsRawFd as _, FromRawFd as _, OwnedFd};

use nix::errno::Errno;
use nix::sys::socket::{ControlMessageOwned, MsgFlags, recvmsg};

/// The most that one message can carry: SCM_MAX_FD of net/scm.h.
const MOST_DESCRIPTORS: usize = 253;

/// socket(2) of any family, by number, with protocol 0. The descriptor is
/// close-on-exec and the caller's.
///
/// # Errors
/// `EAFNOSUPPORT` is what the jail answers to all but a few families.
pub fn open(family: libc::c_int, kind: libc::c_int) -> Result<OwnedFd, Errno> {
    // SAFETY: the call takes integers and touches no memory of ours.
    let fd = Errno::result(unsafe { libc::socket(family, kind | libc::SOCK_CLOEXEC, 0) })?;
    // SAFETY: the kernel has just returned `fd`, so it is open and nobody else's.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// recvmsg(2) with the descriptors that come along (unix(7), SCM_RIGHTS), which are
/// close-on-exec and the caller's. Returns how many bytes of `buffer` were filled.
///
/// # Errors
/// recvmsg(2)'s. `ENOBUFS`: not every descriptor could be taken (`MSG_CTRUNC`: there
/// is room for as many as can be sent, so the limit on open files is reached); those
/// that could stay open.
pub fn receive(
    socket: impl AsFd,
    buffer: &mut [u8],
    flags: MsgFlags,
) -> Result<(usize, Vec<OwnedFd>), Errno> {
    let mut control = nix::cmsg_space!([libc::c_int; MOST_DESCRIPTORS]);
    let mut parts = [IoSliceMut::new(buffer)];
    let message = recvmsg::<()>(
        socket.as_fd().as_raw_fd(),
        &mut parts,
        Some(&mut control),
        flags | MsgFlags::MSG_CMSG_CLOEXEC,
    )?;
    let mut handed = Vec::new();
    for control in message.cmsgs()? {
        if let ControlMessageOwned::ScmRights(fds) = control {
            // SAFETY: the kernel has just made these descriptors for this message,
            // and each is looked at this once.
            let owned = fds
                .into_iter()
                .map(|fd| unsafe { OwnedFd::from_raw_fd(fd) });
            handed.extend(owned);
        }
    }
    Ok((message.bytes, handed))
}

/// Whether the other side has shut its end down or is gone, whatever is still unread
/// (poll(2), POLLRDHUP, which nix doesn't know).
pub fn is_hung_up(socket: impl AsFd) -> Result<bool, Errno> {
    let mut asked = libc::pollfd {
        fd: socket.as_fd().as_raw_fd(),
        events: libc::POLLRDHUP,
        revents: 0,
    };
    // SAFETY: one pollfd, which lives on this stack for as long as the call; the
    // timeout is zero.
    Errno::result(unsafe { libc::poll(&raw mut asked, 1, 0) })?;
    Ok(asked.revents & (libc::POLLRDHUP | libc::POLLHUP | libc::POLLERR) != 0)
}
