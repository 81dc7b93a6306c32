//! Whether somebody answers on the socket of `--uds`. This is the only thing the
//! policy does that another process can notice.

use std::os::fd::OwnedFd;
use std::path::Path;

use nix::errno::Errno;

use crate::broker::health;
use crate::refusal::{Reason, Refusal};

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
    health::check(held).map_err(refusal)
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::os::fd::AsRawFd as _;
    use std::os::unix::net::UnixListener;
    use std::thread;
    use std::time::Instant;

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
        assert!(asked.elapsed() < health::PATIENCE * 2);
        drop(listener);
        let refusal = probe(&held(&path), &path).expect_err("stale");
        assert_eq!(refusal.errno.as_deref(), Some("ECONNREFUSED"));
        assert_eq!(refusal.reason, Reason::Socket);
    }
}
