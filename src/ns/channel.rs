//! The socketpair between the supervisor and the jail's own processes.
//!
//! SOCK_SEQPACKET keeps messages whole and in order. The command's process holds
//! its end only until execve(2) closes it, so nothing that arrives was written by
//! the command. An end of file means that the other side is gone.

use std::io::IoSlice;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use nix::errno::Errno;
use nix::sys::socket::{
    AddressFamily, ControlMessage, MsgFlags, SockFlag, SockType, recv, send, sendmsg, socketpair,
};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::evidence::Evidence;
use crate::confine::seccomp::Filters;
use crate::refusal::{EXIT_REFUSED, Reason, Refusal};
use crate::sys::process::exit_at_once;
use crate::sys::socket;

/// What goes through the channel.
pub trait Message: Serialize + DeserializeOwned {
    /// How many descriptors must come along; with any other number it isn't received.
    fn descriptors(&self) -> usize;
}

/// What the jail's side says, in this order.
#[derive(Debug, Serialize, Deserialize)]
pub enum FromJail {
    /// The master of the jail's terminal comes along.
    Terminal,
    /// The broker's two listeners come along: TCP, then UNIX.
    Listening,
    /// The jail stands, and the command's process confines itself; pid 1 waits
    /// for [`ToJail::Go`].
    Ready,
    /// The listener of the command's filter comes along, whose process waits for its
    /// answers from here on and doesn't keep it.
    Asking,
    /// The command's process and pid 1 are confined; descriptors of their files in the
    /// jail's /proc come along. Only where there is to be a receipt: the command's
    /// process waits for [`ToJail::Recorded`] then.
    Confined(Evidence),
    /// The command's process is confined, and its next call is execve(2).
    Executing,
    /// A signal has stopped the command; it goes on when it gets SIGCONT.
    Stopped,
    /// It goes on.
    Continued,
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

impl Message for FromJail {
    fn descriptors(&self) -> usize {
        match self {
            FromJail::Terminal | FromJail::Asking => 1,
            FromJail::Listening => 2,
            FromJail::Confined(_) => Evidence::FILES.len(),
            _ => 0,
        }
    }
}

/// What the supervisor says, in this order; the filters come after the first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ToJail {
    /// The id maps are written.
    Mapped,
    /// The command may start.
    Go,
    /// What the receipt says was read.
    Recorded,
}

impl Message for ToJail {
    fn descriptors(&self) -> usize {
        0
    }
}

/// The longest message, in bytes: a refusal with two long paths.
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
    /// Sends one message. EPIPE: the other side is gone; ECONNRESET: it is gone and has
    /// left something unread.
    pub fn send(&self, message: &impl Message) -> nix::Result<()> {
        self.send_with(message, &[])
    }

    /// Sends one message with descriptors (unix(7), SCM_RIGHTS), which stay the
    /// caller's own to close.
    pub fn send_with(&self, message: &impl Message, handed: &[BorrowedFd]) -> nix::Result<()> {
        let bytes = serde_json::to_vec(message).map_err(|_| Errno::EINVAL)?;
        let fds: Vec<_> = handed.iter().map(AsRawFd::as_raw_fd).collect();
        let rights = [ControlMessage::ScmRights(&fds)];
        let control = if fds.is_empty() { &[] } else { &rights[..] };
        let flags = MsgFlags::MSG_NOSIGNAL;
        sendmsg::<()>(
            self.0.as_raw_fd(),
            &[IoSlice::new(&bytes)],
            control,
            flags,
            None,
        )
        .map(drop)
    }

    /// Sends something to the jail's side; false if that is gone, which its pidfd tells,
    /// whatever of what was sent to it before it has left unread.
    pub fn tell(&self, word: &ToJail) -> nix::Result<bool> {
        unless_gone(self.send(word))
    }

    /// Sends both filters, which are no text, in the same way.
    pub fn tell_filters(&self, filters: &Filters) -> nix::Result<bool> {
        let bytes = filters.to_bytes();
        unless_gone(send(self.0.as_raw_fd(), &bytes, MsgFlags::MSG_NOSIGNAL).map(drop))
    }

    /// Waits for them, as [`expect`](Channel::expect) does for a word.
    pub fn expect_filters(&self) -> Result<Filters, Refusal> {
        let refusal = || Refusal::new(Reason::Setup, "wait for the filters");
        match self.take(MsgFlags::empty()) {
            Ok(Some((bytes, handed))) => Filters::from_bytes(&bytes)
                .filter(|_| handed.is_empty())
                .ok_or_else(|| refusal().about("an unexpected message")),
            Ok(None) => exit_at_once(EXIT_REFUSED),
            Err(errno) => Err(refusal().about("recv").errno(errno)),
        }
    }

    /// Waits for one message; `None` is an end of file.
    pub fn receive<M: Message>(&self) -> nix::Result<Option<(M, Vec<OwnedFd>)>> {
        self.read(MsgFlags::empty())
    }

    /// Takes one message if there is one (EAGAIN else); `None` is an end of file.
    pub fn try_receive<M: Message>(&self) -> nix::Result<Option<(M, Vec<OwnedFd>)>> {
        self.read(MsgFlags::MSG_DONTWAIT)
    }

    /// Waits for the supervisor's word; its end of file means that it is gone, and ends
    /// this process.
    pub fn expect(&self, word: ToJail) -> Result<(), Refusal> {
        let refusal = || Refusal::new(Reason::Setup, "wait for the supervisor");
        match self.receive::<ToJail>() {
            Ok(Some((said, _))) if said == word => Ok(()),
            Ok(None) => exit_at_once(EXIT_REFUSED),
            Ok(Some(_)) => Err(refusal().about("an unexpected word")),
            Err(errno) => Err(refusal().about("recv").errno(errno)),
        }
    }

    /// What came along is the caller's, close-on-exec, and as much as the message
    /// says; else it is closed again, and that is EBADMSG.
    fn read<M: Message>(&self, flags: MsgFlags) -> nix::Result<Option<(M, Vec<OwnedFd>)>> {
        let Some((bytes, handed)) = self.take(flags)? else {
            return Ok(None);
        };
        let message: M = serde_json::from_slice(&bytes).map_err(|_| Errno::EBADMSG)?;
        if message.descriptors() != handed.len() {
            return Err(Errno::EBADMSG);
        }
        Ok(Some((message, handed)))
    }

    /// One message as it is; EBADMSG where it is longer than any.
    fn take(&self, flags: MsgFlags) -> nix::Result<Option<(Vec<u8>, Vec<OwnedFd>)>> {
        // Most messages are a word: nothing is made ready that is as long as the longest.
        let peek = flags | MsgFlags::MSG_PEEK | MsgFlags::MSG_TRUNC;
        let length = again(|| recv(self.0.as_raw_fd(), &mut [], peek))?;
        if length == 0 {
            return Ok(None);
        }
        if length > LONGEST {
            return Err(Errno::EBADMSG);
        }
        let mut buffer = vec![0; length];
        let (_, handed) = again(|| socket::receive(self, &mut buffer, flags))?;
        Ok(Some((buffer, handed)))
    }
}

/// Until no signal comes in between (EINTR). A side that ends with something unread makes
/// one call on the other fail (ECONNRESET, measured), and what it had said itself is to be
/// had after that.
fn again<T>(mut call: impl FnMut() -> nix::Result<T>) -> nix::Result<T> {
    loop {
        match call() {
            Err(Errno::EINTR | Errno::ECONNRESET) => {}
            other => return other,
        }
    }
}

fn unless_gone(sent: nix::Result<()>) -> nix::Result<bool> {
    match sent {
        Ok(()) => Ok(true),
        Err(Errno::EPIPE | Errno::ECONNRESET) => Ok(false),
        Err(errno) => Err(errno),
    }
}

impl AsFd for Channel {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::io::{Read as _, Write as _};

    use nix::fcntl::{FcntlArg, FdFlag, fcntl};
    use nix::unistd::pipe;

    use super::*;
    use crate::plan::command::OnDenial;

    #[test]
    fn two_descriptors_come_along_and_work() {
        let (ours, theirs) = pair().unwrap();
        let (reads, writes) = pipe().unwrap();
        let handed = [reads.as_fd(), writes.as_fd()];
        theirs.send_with(&FromJail::Listening, &handed).unwrap();
        drop((reads, writes));
        let (message, handed) = ours.try_receive::<FromJail>().unwrap().unwrap();
        assert!(matches!(message, FromJail::Listening));
        for fd in &handed {
            let flags = fcntl(fd, FcntlArg::F_GETFD).unwrap();
            assert_eq!(flags, FdFlag::FD_CLOEXEC.bits());
        }
        let [mut reads, mut writes] = <[OwnedFd; 2]>::try_from(handed).unwrap().map(File::from);
        writes.write_all(b"x").unwrap();
        drop(writes);
        let mut text = String::new();
        reads.read_to_string(&mut text).unwrap();
        assert_eq!(text, "x", "the writing end was the only one");
    }

    #[test]
    fn a_message_has_the_descriptors_that_it_must_have() {
        let (ours, theirs) = pair().unwrap();
        let (reads, writes) = pipe().unwrap();
        let fd = writes.as_fd();
        for (message, handed, is_received) in [
            (FromJail::Ready, &[][..], true),
            (FromJail::Ready, &[fd], false),
            (FromJail::Exited(0), &[fd, fd], false),
            (FromJail::Terminal, &[], false),
            (FromJail::Terminal, &[fd], true),
            (FromJail::Terminal, &[fd, fd], false),
            (FromJail::Listening, &[], false),
            (FromJail::Listening, &[fd], false),
            (FromJail::Listening, &[fd, fd], true),
            (FromJail::Listening, &[fd, fd, fd], false),
            (FromJail::Listening, &[fd; 253], false),
            (FromJail::Asking, &[fd], true),
            (FromJail::Asking, &[fd, fd], false),
            (FromJail::Asking, &[], false),
        ] {
            theirs.send_with(&message, handed).unwrap();
            let answer = ours.try_receive::<FromJail>();
            let wanted = if is_received {
                Ok(true)
            } else {
                Err(Errno::EBADMSG)
            };
            let found = answer.map(|message| message.is_some());
            assert_eq!(found, wanted, "{message:?} with {}", handed.len());
        }
        drop(writes);
        let mut nothing = [0];
        let left = nix::unistd::read(&reads, &mut nothing);
        assert_eq!(left, Ok(0), "what wasn't received was closed");
        theirs.send_with(&ToJail::Go, &[reads.as_fd()]).unwrap();
        assert_eq!(ours.receive::<ToJail>().map(drop), Err(Errno::EBADMSG));
    }

    #[test]
    fn nothing_yet_and_nothing_any_more() {
        let (ours, theirs) = pair().unwrap();
        assert_eq!(ours.try_receive::<ToJail>().map(drop), Err(Errno::EAGAIN));
        drop(theirs);
        assert!(ours.receive::<ToJail>().unwrap().is_none());
        assert_eq!(ours.send(&ToJail::Go), Err(Errno::EPIPE));
    }

    fn filters() -> Filters {
        Filters::compile(&crate::plan::filter(false, OnDenial::Answer)).unwrap()
    }

    #[test]
    fn both_filters_come_along_and_nothing_else_is_taken_for_them() {
        let (ours, theirs) = pair().unwrap();
        assert!(ours.tell_filters(&filters()).unwrap());
        let got = theirs.expect_filters().unwrap();
        assert_eq!(got.to_bytes(), filters().to_bytes());

        let unexpected = "an unexpected message";
        ours.send(&ToJail::Mapped).unwrap();
        let word = theirs.expect_filters().map(drop).unwrap_err();
        assert_eq!(word.subject, unexpected);
        ours.tell_filters(&filters()).unwrap();
        let filters_for_a_word = theirs.expect(ToJail::Go).unwrap_err();
        assert_eq!(filters_for_a_word.errno.as_deref(), Some("EBADMSG"));

        let (reads, _writes) = pipe().unwrap();
        let bytes = filters().to_bytes();
        let rights = [reads.as_raw_fd()];
        let handed = [ControlMessage::ScmRights(&rights)];
        let (fd, part) = (ours.0.as_raw_fd(), [IoSlice::new(&bytes)]);
        sendmsg::<()>(fd, &part, &handed, MsgFlags::empty(), None).unwrap();
        let with_more = theirs.expect_filters().map(drop).unwrap_err();
        assert_eq!(with_more.subject, unexpected);
    }

    /// As where pid 1 refuses while the filters are on their way to it.
    #[test]
    fn what_a_side_said_is_heard_though_it_ended_with_something_unread() {
        let refusal = || Refusal::new(Reason::Mount, "move into the new root");
        let ended = || {
            let (ours, theirs) = pair().unwrap();
            assert!(ours.tell(&ToJail::Mapped).unwrap());
            theirs.send(&FromJail::Refused(refusal())).unwrap();
            ours
        };
        let control = recv(ended().0.as_raw_fd(), &mut [], MsgFlags::MSG_PEEK);
        assert_eq!(control, Err(Errno::ECONNRESET), "vacuous");
        for is_told_late in [false, true] {
            let ours = ended();
            if is_told_late {
                assert!(!ours.tell_filters(&filters()).unwrap(), "it is gone");
            }
            let (said, _) = ours.try_receive().unwrap().unwrap();
            assert!(matches!(said, FromJail::Refused(it) if it == refusal()));
            assert!(ours.try_receive::<FromJail>().unwrap().is_none());
        }
    }
}
