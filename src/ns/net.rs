//! The loopback interface of a new network namespace, raised over netlink.

use std::os::fd::AsRawFd as _;

use nix::errno::Errno;
use nix::sys::socket::{
    AddressFamily, MsgFlags, SockFlag, SockProtocol, SockType, recv, send, socket,
};

use crate::refusal::{Reason, Refusal};

/// `lo` has index 1 in every network namespace (net/core/dev.c, dev_new_index).
const LOOPBACK_INDEX: i32 = 1;

/// Length of `struct nlmsghdr` (netlink(7)).
const HEADER: usize = 16;

/// Sets IFF_UP on `lo` and waits for the kernel's acknowledgement.
pub fn raise_loopback() -> Result<(), Refusal> {
    let refuse =
        |call: &'static str| {
            move |errno| {
                Refusal::new(Reason::Net, "raise lo").about(call).errno(errno).remedy(
                "an outer sandbox forbids netlink or CAP_NET_ADMIN in a new network namespace: \
                 run groom-ns outside of it",
            )
            }
        };
    let netlink = socket(
        AddressFamily::Netlink,
        SockType::Raw,
        SockFlag::SOCK_CLOEXEC,
        SockProtocol::NetlinkRoute,
    )
    .map_err(refuse("socket(AF_NETLINK)"))?;
    send(netlink.as_raw_fd(), &set_up_request(), MsgFlags::empty())
        .map_err(refuse("send(RTM_NEWLINK)"))?;
    let mut answer = [0; 1024];
    let length = recv(netlink.as_raw_fd(), &mut answer, MsgFlags::empty())
        .map_err(refuse("recv(NLMSG_ERROR)"))?;
    let answer = answer.get(..length).unwrap_or_default();
    acknowledged(answer).map_err(refuse("RTM_NEWLINK"))
}

/// RTM_NEWLINK with `struct ifinfomsg` (rtnetlink(7)): set IFF_UP, change only it.
fn set_up_request() -> Vec<u8> {
    const UP: u32 = libc::IFF_UP.cast_unsigned();
    /// NLM_F_REQUEST and NLM_F_ACK of linux/netlink.h.
    const FLAGS: u16 = 0x01 | 0x04;
    let mut message = Vec::with_capacity(32);
    message.extend(32u32.to_ne_bytes()); // nlmsg_len
    message.extend(libc::RTM_NEWLINK.to_ne_bytes()); // nlmsg_type
    message.extend(FLAGS.to_ne_bytes()); // nlmsg_flags
    message.extend(1u32.to_ne_bytes()); // nlmsg_seq
    message.extend(0u32.to_ne_bytes()); // nlmsg_pid: the kernel's
    message.extend([0, 0]); // ifi_family AF_UNSPEC, padding
    message.extend(0u16.to_ne_bytes()); // ifi_type: unused here
    message.extend(LOOPBACK_INDEX.to_ne_bytes()); // ifi_index
    message.extend(UP.to_ne_bytes()); // ifi_flags
    message.extend(UP.to_ne_bytes()); // ifi_change
    message
}

/// NLMSG_ERROR carries a negative errno, 0 for an acknowledgement (netlink(7)).
fn acknowledged(answer: &[u8]) -> nix::Result<()> {
    let kind = answer
        .get(4..6)
        .and_then(|bytes| bytes.try_into().ok())
        .map(u16::from_ne_bytes);
    let code = answer
        .get(HEADER..HEADER + 4)
        .and_then(|bytes| bytes.try_into().ok())
        .map(i32::from_ne_bytes);
    match (kind, code) {
        (Some(kind), Some(0)) if i32::from(kind) == libc::NLMSG_ERROR => Ok(()),
        (Some(kind), Some(code)) if i32::from(kind) == libc::NLMSG_ERROR => {
            Err(Errno::from_raw(-code))
        }
        _ => Err(Errno::EBADMSG),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_request_is_as_long_as_it_says() {
        let request = set_up_request();
        assert_eq!(request.len(), 32);
        assert_eq!(request[..4], 32u32.to_ne_bytes());
    }

    #[test]
    fn only_a_zero_acknowledges() {
        let answer = |kind: u16, code: i32| {
            let mut bytes = vec![0; 36];
            bytes[4..6].copy_from_slice(&kind.to_ne_bytes());
            bytes[16..20].copy_from_slice(&code.to_ne_bytes());
            bytes
        };
        assert_eq!(acknowledged(&answer(2, 0)), Ok(()));
        assert_eq!(acknowledged(&answer(2, -libc::EPERM)), Err(Errno::EPERM));
        assert_eq!(acknowledged(&answer(3, 0)), Err(Errno::EBADMSG));
        assert_eq!(acknowledged(&answer(2, 0)[..10]), Err(Errno::EBADMSG));
    }
}
