//! Listeners, who may connect, and how many at once.

use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::time::Duration;

use http::{Method, StatusCode};
use tokio::net::unix::UCred;
use tokio::net::{TcpListener, UnixListener};
use tokio::sync::{mpsc, watch};
use tokio::time::{sleep, timeout};

use super::stream::Stream;
use super::{Broker, Turn, answer, connection};
use crate::sabotage::{Mechanism, stands};

/// Between two tries where the process has no descriptor left.
const BACK_OFF: Duration = Duration::from_millis(50);

/// Who may connect to a UNIX socket. TCP tells nothing of a peer: there the network
/// namespace decides, or the token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Peers {
    /// Processes of one of these users.
    Users([u32; 2]),
    /// Processes of the pid namespace with this device and inode number.
    PidNamespace {
        /// `st_dev` of `/proc/PID/ns/pid`.
        dev: u64,
        /// Its `st_ino`.
        ino: u64,
    },
}

impl Peers {
    /// A peer is judged as it was when it connected (unix(7), SO_PEERCRED). One that
    /// has ended since has nothing to be answered.
    fn admit(self, peer: UCred) -> bool {
        match self {
            Peers::Users(_) if !stands(Mechanism::PeerUser) => true,
            Peers::PidNamespace { .. } if !stands(Mechanism::PeerNamespace) => true,
            Peers::Users(uids) => uids.contains(&peer.uid()),
            Peers::PidNamespace { dev, ino } => peer
                .pid()
                .and_then(|pid| std::fs::metadata(format!("/proc/{pid}/ns/pid")).ok())
                .is_some_and(|found| (found.dev(), found.ino()) == (dev, ino)),
        }
    }
}

/// A socket that is listened on.
pub(crate) enum Listener {
    /// Loopback, or the jail's.
    Tcp(TcpListener),
    /// A UNIX socket, and who may connect to it.
    Unix(UnixListener, Peers),
}

impl Listener {
    async fn accept(&self) -> io::Result<(Stream, bool)> {
        match self {
            Listener::Tcp(listener) => {
                let (stream, _) = listener.accept().await?;
                // Each write is whole; nothing is to wait for the next.
                stream.set_nodelay(true)?;
                Ok((Stream::Tcp(stream), true))
            }
            Listener::Unix(listener, peers) => {
                let (stream, _) = listener.accept().await?;
                let is_admitted = stream.peer_cred().is_ok_and(|peer| peers.admit(peer));
                Ok((Stream::Unix(stream), is_admitted))
            }
        }
    }
}

/// The connections of a broker, and its way to end.
pub(crate) struct Service {
    broker: Arc<Broker>,
    connections: Arc<AtomicUsize>,
    draining: watch::Sender<bool>,
    /// Each connection holds a clone; the receiver ends when the last is gone.
    alive: mpsc::Sender<()>,
    ended: mpsc::Receiver<()>,
}

impl Service {
    /// A service without a listener.
    pub(crate) fn new(broker: Broker) -> Service {
        let (alive, ended) = mpsc::channel(1);
        Service {
            broker: Arc::new(broker),
            connections: Arc::new(AtomicUsize::new(0)),
            draining: watch::Sender::new(false),
            alive,
            ended,
        }
    }

    /// Serves whoever connects to this listener, in the background.
    pub(crate) fn listen(&self, listener: Listener) {
        let broker = Arc::clone(&self.broker);
        let connections = Arc::clone(&self.connections);
        let alive = self.alive.clone();
        let mut draining = self.draining.subscribe();
        tokio::spawn(async move {
            loop {
                let accepted = tokio::select! {
                    accepted = listener.accept() => accepted,
                    _ = draining.wait_for(|is_draining| *is_draining) => break,
                };
                match accepted {
                    Ok((stream, true)) => {
                        let (broker, alive) = (Arc::clone(&broker), alive.clone());
                        let (connections, draining) = (Arc::clone(&connections), draining.clone());
                        tokio::spawn(async move {
                            let most = broker.limits.connections;
                            match Turn::take(&connections, most) {
                                Some(_turn) => connection::serve(stream, &broker, draining).await,
                                None => turn_away(&broker, stream, FULL),
                            }
                            drop(alive);
                        });
                    }
                    Ok((stream, false)) => turn_away(&broker, stream, FOREIGN),
                    Err(_) => sleep(BACK_OFF).await,
                }
            }
        });
    }

    /// Lets what is under way come to its end, for a while; nothing new is accepted.
    /// Says whether all of it has.
    pub(crate) async fn drain(self) -> bool {
        let Service {
            broker,
            draining,
            alive,
            mut ended,
            ..
        } = self;
        draining.send_replace(true);
        drop(alive);
        timeout(broker.limits.drain, ended.recv()).await.is_ok()
    }
}

const FULL: (StatusCode, &str) = (StatusCode::TOO_MANY_REQUESTS, "too-many-connections");
const FOREIGN: (StatusCode, &str) = (StatusCode::FORBIDDEN, "peer");

/// Says one thing, as far as it goes without waiting, and closes.
fn turn_away(broker: &Broker, mut stream: Stream, (status, reason): (StatusCode, &'static str)) {
    let mut entry = broker.log.entry(stream.kind());
    entry.status(status.as_u16());
    entry.reason(reason);
    stream.say(&answer::refusal(status, reason, &Method::GET, true));
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd as _;

    use nix::sys::socket::{getsockopt, sockopt};
    use tokio::net::TcpStream;

    use super::*;

    #[tokio::test]
    async fn a_write_on_tcp_waits_for_no_other() {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("its address");
        let _client = TcpStream::connect(address).await.expect("connected");
        let (mut stream, is_admitted) = Listener::Tcp(listener).accept().await.expect("accepted");
        assert!(is_admitted);
        let (reader, _) = stream.split();
        assert_eq!(getsockopt(&reader.as_fd(), sockopt::TcpNoDelay), Ok(true));
    }
}
