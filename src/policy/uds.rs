//! Whether somebody answers on the socket of `--uds`. This is the only thing the
//! policy does that another process can notice.

use std::io::{Read as _, Write as _};
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::sys::socket::{
    AddressFamily, SockFlag, SockType, UnixAddr, connect, setsockopt, socket, sockopt,
};
use nix::sys::time::{TimeVal, TimeValLike as _};

use crate::refusal::{Reason, Refusal};

/// For everything: connecting, asking, and the answer.
const PATIENCE: Duration = Duration::from_secs(2);
/// A status line is far shorter.
const MAX_ANSWER: usize = 4096;
const REQUEST: &[u8] = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";

/// Asks the listener on `held` (an `O_PATH` descriptor of the socket) for its
/// health. `path` is for the message.
///
/// # Errors
/// `socket` where nobody listens, the answer doesn't come within two seconds, or
/// isn't `HTTP/1.x 200`.
pub(crate) fn probe(held: &OwnedFd, path: &Path) -> Result<(), Refusal> {
    let refusal = |errno: Errno| {
        let remedy = match errno {
            Errno::ECONNREFUSED => "nobody listens on it: start the broker first",
            Errno::ETIMEDOUT => "the broker doesn't answer GET /healthz in time: is it stuck?",
            Errno::EACCES => "the caller may not connect to it: check its mode",
            Errno::EPROTO => "it doesn't answer GET /healthz with 200: is it the broker's socket?",
            Errno::EPROTOTYPE => "it isn't a stream socket: is it the broker's socket?",
            _ => "check the broker",
        };
        Refusal::new(Reason::Socket, "ask the listener on --uds for its health")
            .path(path)
            .errno(errno)
            .remedy(remedy)
    };
    match ask(held) {
        Ok(answer) if is_ok(&answer) => Ok(()),
        Ok(_) => Err(refusal(Errno::EPROTO)),
        Err(errno) => Err(refusal(errno)),
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

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;
    use std::thread;

    use super::*;
    use crate::policy::testing::{TempDir, held};

    /// Probes a listener that takes the request and answers with these pieces.
    fn answered(pieces: &[&[u8]]) -> Result<(), Refusal> {
        let temp = TempDir::new();
        // A path longer than sun_path: bound through its folder's descriptor.
        let folder = temp.dir(&"d".repeat(120));
        let path = folder.join("s");
        let dir = held(&folder);
        let listener =
            UnixListener::bind(format!("/proc/self/fd/{}/s", dir.as_raw_fd())).expect("bind");
        let pieces: Vec<Vec<u8>> = pieces.iter().map(|piece| piece.to_vec()).collect();
        let server = thread::spawn(move || {
            let (mut stream, _) = listener.accept().expect("accept");
            let mut request = [0; 256];
            let count = stream.read(&mut request).expect("read");
            assert!(request[..count].starts_with(b"GET /healthz HTTP/1.1\r\n"));
            for piece in pieces {
                // The prober may have gone, satisfied or not.
                let _ = stream.write_all(&piece);
            }
        });
        let result = probe(&held(&path), &path);
        server.join().expect("server");
        result
    }

    #[test]
    fn healthy() {
        assert_eq!(answered(&[b"HTTP/1.1 200 OK\r\n\r\n"]), Ok(()));
        assert_eq!(answered(&[b"HTTP/1.0 200\r\n"]), Ok(()));
        assert_eq!(answered(&[b"HTTP/", b"1.1 2", b"00 fine\n"]), Ok(()));
    }

    #[test]
    fn unhealthy() {
        for answer in [
            &b"HTTP/1.1 503 Busy\r\n\r\n"[..],
            b"HTTP/1.1 2000\r\n",
            b"HTTP/2 200\r\n",
            b"SSH-2.0-x\r\n",
            b"no line at all",
            b"",
            &[b'x'; 8192],
        ] {
            let refusal = answered(&[answer]).expect_err("refused");
            assert_eq!(refusal.reason, Reason::Socket);
        }
    }

    #[test]
    fn stale_and_silent() {
        let temp = TempDir::new();
        let path = temp.at("s");
        let listener = UnixListener::bind(&path).expect("bind");
        let asked = Instant::now();
        let refusal = probe(&held(&path), &path).expect_err("silent");
        assert_eq!(refusal.errno.as_deref(), Some("ETIMEDOUT"));
        assert!(asked.elapsed() < PATIENCE * 2);
        drop(listener);
        let refusal = probe(&held(&path), &path).expect_err("stale");
        assert_eq!(refusal.errno.as_deref(), Some("ECONNREFUSED"));
        assert_eq!(refusal.reason, Reason::Socket);
    }
}
