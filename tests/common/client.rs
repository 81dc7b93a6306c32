//! A client that sends bytes and nothing of its own accord.

use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;

use tokio_rustls::rustls::pki_types::ServerName;
use tokio_rustls::rustls::{ClientConnection, StreamOwned};

use super::http::{Body, Head};
use super::upstream::{KEPT, PATIENCE, Upstream};

enum Stream {
    Unix(UnixStream),
    Tcp(TcpStream),
    Tls(Box<StreamOwned<ClientConnection, TcpStream>>),
}

/// A connection, and every byte that came on it.
pub(crate) struct Client {
    stream: Stream,
    /// Came, and isn't taken yet.
    buffer: Vec<u8>,
    /// All that came, as far as it is kept.
    pub(crate) received: Vec<u8>,
    /// The connection ended with a RST.
    pub(crate) was_reset: bool,
}

/// An answer, and whether it ended as HTTP wants it.
#[derive(Clone, Debug)]
pub(crate) struct Answer {
    pub(crate) head: Head,
    pub(crate) status: u16,
    pub(crate) body: Vec<u8>,
    pub(crate) is_whole: bool,
}

impl Answer {
    /// The body of an answer that came to its end.
    pub(crate) fn whole(&self) -> &[u8] {
        assert!(self.is_whole, "cut off: {self:?}");
        &self.body
    }
}

impl Client {
    pub(crate) fn unix(path: &Path) -> Self {
        let stream = UnixStream::connect(path).expect("somebody listens");
        stream.set_read_timeout(Some(PATIENCE)).expect("a socket");
        stream.set_write_timeout(Some(PATIENCE)).expect("a socket");
        Client::new(Stream::Unix(stream))
    }

    pub(crate) fn tcp(address: SocketAddr) -> Self {
        Client::new(Stream::Tcp(tcp(address)))
    }

    /// Straight to the API, as the broker would: the control.
    pub(crate) fn straight(upstream: &Upstream) -> Self {
        let stream = tcp(upstream.address());
        let Some(config) = upstream.client() else {
            return Client::new(Stream::Tcp(stream));
        };
        let name = ServerName::try_from("localhost").expect("a name");
        let tls = ClientConnection::new(config, name).expect("a configuration");
        Client::new(Stream::Tls(Box::new(StreamOwned::new(tls, stream))))
    }

    fn new(stream: Stream) -> Self {
        Client {
            stream,
            buffer: Vec::new(),
            received: Vec::new(),
            was_reset: false,
        }
    }

    /// Sends all of it, unless the other side ended the connection before.
    pub(crate) fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        match &mut self.stream {
            Stream::Unix(stream) => stream.write_all(bytes),
            Stream::Tcp(stream) => stream.write_all(bytes),
            Stream::Tls(stream) => stream.write_all(bytes).and_then(|()| stream.flush()),
        }
    }

    /// The same for what must be taken.
    pub(crate) fn must_send(&mut self, bytes: &[u8]) {
        self.send(bytes).expect("the other side takes it");
    }

    /// Sends `bytes` again and again until the other side takes no more for a
    /// moment; returns how many it took.
    pub(crate) fn send_until_full(&mut self, bytes: &[u8]) -> usize {
        let mut sent = 0;
        let patience = Some(std::time::Duration::from_millis(300));
        self.write_timeout(patience);
        loop {
            let wrote = match &mut self.stream {
                Stream::Unix(stream) => stream.write(bytes),
                Stream::Tcp(stream) => stream.write(bytes),
                Stream::Tls(_) => panic!("TLS has a buffer of its own"),
            };
            match wrote {
                Ok(count) => sent += count,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) => panic!("after {sent} bytes: {error}"),
            }
        }
        self.write_timeout(Some(PATIENCE));
        sent
    }

    fn write_timeout(&self, patience: Option<std::time::Duration>) {
        let set = match &self.stream {
            Stream::Unix(stream) => stream.set_write_timeout(patience),
            Stream::Tcp(stream) => stream.set_write_timeout(patience),
            Stream::Tls(stream) => stream.sock.set_write_timeout(patience),
        };
        set.expect("a socket");
    }

    /// How long a read waits for bytes.
    pub(crate) fn read_timeout(&self, patience: std::time::Duration) {
        let patience = Some(patience);
        let set = match &self.stream {
            Stream::Unix(stream) => stream.set_read_timeout(patience),
            Stream::Tcp(stream) => stream.set_read_timeout(patience),
            Stream::Tls(stream) => stream.sock.set_read_timeout(patience),
        };
        set.expect("a socket");
    }

    /// No byte will follow.
    pub(crate) fn half_close(&mut self) {
        // The other side may have ended it already.
        let _ = match &mut self.stream {
            Stream::Unix(stream) => stream.shutdown(Shutdown::Write),
            Stream::Tcp(stream) => stream.shutdown(Shutdown::Write),
            Stream::Tls(stream) => {
                stream.conn.send_close_notify();
                stream.flush()
            }
        };
    }

    /// Bytes, or none at the connection's end, however it came.
    fn read(&mut self) -> usize {
        let mut piece = vec![0; 64 << 10];
        let read = match &mut self.stream {
            Stream::Unix(stream) => stream.read(&mut piece),
            Stream::Tcp(stream) => stream.read(&mut piece),
            Stream::Tls(stream) => stream.read(&mut piece),
        };
        match read {
            Ok(count) => {
                self.buffer.extend_from_slice(&piece[..count]);
                let room = KEPT.saturating_sub(self.received.len()).min(count);
                self.received.extend_from_slice(&piece[..room]);
                count
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                let tail = &self.received[self.received.len().saturating_sub(500)..];
                panic!(
                    "neither bytes nor the end in time, after {:?}",
                    tail.escape_ascii().to_string()
                )
            }
            Err(error) => {
                self.was_reset = error.kind() == io::ErrorKind::ConnectionReset;
                0
            }
        }
    }

    /// The next head; none if the connection ends before.
    pub(crate) fn head(&mut self) -> Option<Head> {
        loop {
            match Head::take(&mut self.buffer) {
                Ok(Some(head)) => return Some(head),
                Ok(None) if self.read() > 0 => {}
                Ok(None) => return None,
                Err(why) => panic!("no answer: {why}"),
            }
        }
    }

    /// The next piece of a body; none at its end or the connection's.
    pub(crate) fn piece(&mut self, body: &mut Body) -> Option<Vec<u8>> {
        loop {
            let piece = body.take(&mut self.buffer);
            let piece = piece.unwrap_or_else(|why| panic!("no body of an answer: {why}"));
            if !piece.is_empty() {
                return Some(piece);
            }
            if body.is_done() || self.read() == 0 {
                return None;
            }
        }
    }

    /// Reads an answer to a request of this method; none if the connection ends
    /// before its head.
    pub(crate) fn answer_to(&mut self, method: &str) -> Option<Answer> {
        let head = self.head()?;
        let status = head.status().unwrap_or_else(|why| panic!("{why}"));
        let mut reader = head
            .answer_body(method)
            .unwrap_or_else(|why| panic!("{why}"));
        let mut body = Vec::new();
        while let Some(piece) = self.piece(&mut reader) {
            body.extend(piece);
        }
        Some(Answer {
            head,
            status,
            body,
            is_whole: reader.may_end_here(),
        })
    }

    /// Sends a request, and reads the answer that must come.
    pub(crate) fn ask(&mut self, request: &[u8]) -> Answer {
        self.must_send(request);
        let method = request.split(|byte| *byte == b' ').next().expect("a word");
        let method = String::from_utf8_lossy(method);
        self.answer_to(&method)
            .unwrap_or_else(|| panic!("closed, not an answer"))
    }

    /// The same connection for another thread that sends.
    pub(crate) fn sender(&self) -> UnixStream {
        match &self.stream {
            Stream::Unix(stream) => stream.try_clone().expect("a socket"),
            _ => panic!("not over UNIX"),
        }
    }

    /// Everything until the connection's end.
    pub(crate) fn rest(&mut self) -> Vec<u8> {
        while self.read() > 0 {}
        std::mem::take(&mut self.buffer)
    }

    /// Reads on until the end, or until nothing came for so long.
    pub(crate) fn drain_for(&mut self, time: std::time::Duration) {
        while self.is_readable_within(time) && self.read() > 0 {
            self.buffer.clear();
        }
    }

    /// Whether bytes, or the end, come within this time.
    pub(crate) fn is_readable_within(&self, time: std::time::Duration) -> bool {
        use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
        let mut fds = [PollFd::new(self.as_fd(), PollFlags::POLLIN)];
        let time = PollTimeout::try_from(time).expect("a short time");
        !self.buffer.is_empty() || poll(&mut fds, time).expect("a socket") > 0
    }
}

impl AsFd for Client {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match &self.stream {
            Stream::Unix(stream) => stream.as_fd(),
            Stream::Tcp(stream) => stream.as_fd(),
            Stream::Tls(stream) => stream.sock.as_fd(),
        }
    }
}

fn tcp(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect_timeout(&address, PATIENCE).expect("somebody listens");
    stream.set_nodelay(true).expect("a socket");
    stream.set_read_timeout(Some(PATIENCE)).expect("a socket");
    stream.set_write_timeout(Some(PATIENCE)).expect("a socket");
    stream
}
