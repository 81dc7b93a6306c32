//! Whether a broker answers: `GET /healthz` on its UNIX socket, which never spends.

use std::io::{Read as _, Write as _};
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::sys::socket::{
    AddressFamily, SockFlag, SockType, UnixAddr, connect, setsockopt, socket, sockopt,
};
use nix::sys::time::{TimeVal, TimeValLike as _};

/// For everything: connecting, asking, and the answer.
pub const PATIENCE: Duration = Duration::from_secs(2);
/// A status line is far shorter.
const MAX_ANSWER: usize = 4096;
const REQUEST: &[u8] = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";

/// Asks whoever listens on `held`, an `O_PATH` descriptor of a UNIX socket.
///
/// # Errors
/// `ECONNREFUSED` where nobody listens, `ETIMEDOUT` where the answer takes longer
/// than [`PATIENCE`], `EPROTO` where it isn't `HTTP/1.x 200`, or connect(2)'s.
pub fn check(held: &OwnedFd) -> Result<(), Errno> {
    if is_ok(&ask(held)?) {
        Ok(())
    } else {
        Err(Errno::EPROTO)
    }
}

/// The beginning of the answer: at least its first line, if it has one.
fn ask(held: &OwnedFd) -> Result<Vec<u8>, Errno> {
    let deadline = Instant::now() + PATIENCE;
    let mut stream = dial(held)?;
    stream
        .set_write_timeout(Some(left(deadline)?))
        .and_then(|()| stream.write_all(REQUEST))
        .map_err(errno_of)?;
    let mut answer = Vec::new();
    let mut piece = [0; 512];
    while answer.len() < MAX_ANSWER && !answer.contains(&b'\n') {
        stream
            .set_read_timeout(Some(left(deadline)?))
            .map_err(errno_of)?;
        match stream.read(&mut piece) {
            Ok(0) => break,
            Ok(count) => answer.extend_from_slice(&piece[..count]),
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(error) => return Err(errno_of(error)),
        }
    }
    Ok(answer)
}

/// Connects through `/proc/self/fd`: to the very inode that is held, and
/// whatever the length of its path (sun_path has 108 bytes, unix(7)).
fn dial(held: &OwnedFd) -> Result<UnixStream, Errno> {
    let flags = SockFlag::SOCK_CLOEXEC;
    let fd = socket(AddressFamily::Unix, SockType::Stream, flags, None)?;
    // A full backlog makes connect wait, as long as a send may.
    setsockopt(&fd, sockopt::SendTimeout, &TimeVal::seconds(2))?;
    let link = format!("/proc/self/fd/{}", held.as_raw_fd());
    match connect(fd.as_raw_fd(), &UnixAddr::new(link.as_str())?) {
        Ok(()) => Ok(UnixStream::from(fd)),
        Err(Errno::EAGAIN | Errno::EINPROGRESS) => Err(Errno::ETIMEDOUT),
        Err(errno) => Err(errno),
    }
}

fn left(deadline: Instant) -> Result<Duration, Errno> {
    let left = deadline.saturating_duration_since(Instant::now());
    // A timeout of zero would mean "for ever" (socket(7), SO_RCVTIMEO).
    if left < Duration::from_millis(1) {
        return Err(Errno::ETIMEDOUT);
    }
    Ok(left)
}

fn errno_of(error: std::io::Error) -> Errno {
    match Errno::try_from(error) {
        Ok(Errno::EAGAIN) => Errno::ETIMEDOUT,
        Ok(errno) => errno,
        Err(_) => Errno::EIO,
    }
}

/// `HTTP/1.x 200` (RFC 9112, section 4).
fn is_ok(answer: &[u8]) -> bool {
    let line = answer.split(|byte| *byte == b'\n').next().unwrap_or(answer);
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    let Some(rest) = line.strip_prefix(b"HTTP/1.") else {
        return false;
    };
    match rest {
        [minor, b' ', b'2', b'0', b'0', tail @ ..] => {
            minor.is_ascii_digit() && (tail.is_empty() || tail[0] == b' ')
        }
        _ => false,
    }
}
