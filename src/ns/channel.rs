//! The socketpair between the supervisor and the jail's own processes.
//!
//! SOCK_SEQPACKET keeps messages whole and in order. The command's process holds
//! its end only until execve(2) closes it, so nothing that arrives was written by
//! the command. An end of file means that the other side is gone.

use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd, OwnedFd};

use nix::errno::Errno;
use nix::sys::socket::{AddressFamily, MsgFlags, SockFlag, SockType, recv, send, socketpair};
use serde::{Deserialize, Serialize};

use crate::refusal::Refusal;

/// What the jail's side says, in this order.
#[derive(Debug, Serialize, Deserialize)]
pub enum FromJail {
    /// The jail stands, and the command's process confines itself; pid 1 waits
    /// for [`ToJail::Go`].
    Ready,
    /// The command's process is confined, and its next call is execve(2).
    Executing,
    /// A step failed; the command has not run.
    Refused(Refusal),
    /// execve(2) failed; nothing ran.
    NotExecuted {
        /// The program, as it may be printed.
        program: String,
        /// The errno's number.
        errno: i32,
    },
    /// The command exited with this code.
    Exited(i32),
    /// This signal ended the command.
    Killed(i32),
}

/// What the supervisor says, in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ToJail {
    /// The id maps are written.
    Mapped,
    /// The command may start.
    Go,
}

/// The longest message: a refusal with two long paths.
const LONGEST: usize = 32 * 1024;

/// One end. Close-on-exec.
pub struct Channel(OwnedFd);

/// A connected pair: (the supervisor's end, the jail's end).
pub fn pair() -> nix::Result<(Channel, Channel)> {
    let flags = SockFlag::SOCK_CLOEXEC;
    let (ours, theirs) = socketpair(AddressFamily::Unix, SockType::SeqPacket, None, flags)?;
    Ok((Channel(ours), Channel(theirs)))
}

impl Channel {
    /// Sends one message. EPIPE: the other side is gone.
    pub fn send<M: Serialize>(&self, message: &M) -> nix::Result<()> {
        let bytes = serde_json::to_vec(message).map_err(|_| Errno::EINVAL)?;
        send(self.0.as_raw_fd(), &bytes, MsgFlags::MSG_NOSIGNAL).map(drop)
    }

    /// Waits for one message; `None` is an end of file.
    pub fn receive<M: for<'de> Deserialize<'de>>(&self) -> nix::Result<Option<M>> {
        self.read(MsgFlags::empty())
    }

    /// Takes one message if there is one (EAGAIN else); `None` is an end of file.
    pub fn try_receive<M: for<'de> Deserialize<'de>>(&self) -> nix::Result<Option<M>> {
        self.read(MsgFlags::MSG_DONTWAIT)
    }

    fn read<M: for<'de> Deserialize<'de>>(&self, flags: MsgFlags) -> nix::Result<Option<M>> {
        let mut buffer = vec![0; LONGEST];
        let length = loop {
            match recv(self.0.as_raw_fd(), &mut buffer, flags) {
                Err(Errno::EINTR) => {}
                other => break other?,
            }
        };
        match buffer.get(..length) {
            None | Some([]) => Ok(None),
            Some(message) => serde_json::from_slice(message)
                .map(Some)
                .map_err(|_| Errno::EBADMSG),
        }
    }
}

impl AsFd for Channel {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
