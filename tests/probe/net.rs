//! Connections. Every wait is bounded.

use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr as UnixAddr, UnixStream};
use std::time::Duration;

use nix::errno::Errno;

use crate::Outcome;

const PATIENCE: Duration = Duration::from_secs(3);

fn outcome<T>(result: io::Result<T>) -> Outcome {
    match result {
        Ok(_) => Ok(String::new()),
        // `connect_timeout` reports its own end without an errno.
        Err(error) => Err(Errno::from_raw(
            error.raw_os_error().unwrap_or(libc::ETIMEDOUT),
        )),
    }
}

fn address(text: &str) -> SocketAddr {
    text.parse().expect("ADDRESS:PORT")
}

pub(crate) fn connect_unix(path: &str) -> Outcome {
    outcome(UnixStream::connect(path))
}

pub(crate) fn connect_abstract(name: &str) -> Outcome {
    let address = UnixAddr::from_abstract_name(name).expect("a short name");
    outcome(UnixStream::connect_addr(&address))
}

pub(crate) fn connect_tcp(to: &str) -> Outcome {
    outcome(TcpStream::connect_timeout(&address(to), PATIENCE))
}

pub(crate) fn send_udp(to: &str) -> Outcome {
    let to = address(to);
    let any = if to.is_ipv6() { "[::]:0" } else { "0.0.0.0:0" };
    outcome(UdpSocket::bind(any).and_then(|socket| socket.send_to(b"query", to)))
}

/// Listens, connects to itself, and accepts.
pub(crate) fn listen_tcp(on: &str) -> Outcome {
    outcome(TcpListener::bind(address(on)).and_then(|listener| {
        let _client = TcpStream::connect_timeout(&listener.local_addr()?, PATIENCE)?;
        listener.accept()
    }))
}
