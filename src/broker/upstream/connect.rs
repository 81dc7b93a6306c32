//! A new connection: name, proxy, TCP, TLS.

use std::net::SocketAddr;
use std::sync::Arc;

use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout_at};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::failure::{Failure, Step};
use super::proxy::Proxy;
use super::resolve::{FAMILIES, Names};
use super::socket::{Doubt, Socket};
use super::url::{Scheme, Upstream};

/// Makes connections to one API.
pub(super) struct Dialer {
    pub(super) upstream: Upstream,
    pub(super) tls: Option<Arc<ClientConfig>>,
    pub(super) proxy: Proxy,
    pub(super) names: Names,
}

/// What HTTP is spoken over.
pub(super) enum Stream {
    Plain(Socket),
    Tls(Box<TlsStream<Socket>>),
}

impl Dialer {
    /// A stream over which HTTP can be spoken, handshake and all before `deadline`.
    /// `doubt` is about its socket.
    ///
    /// # Errors
    /// The step that failed, or in which time ran out.
    pub(super) async fn dial(&self, doubt: Doubt, deadline: Instant) -> Result<Stream, Failure> {
        let tcp = match self.proxy.via() {
            None => {
                self.reach(&self.upstream.host, self.upstream.port, deadline)
                    .await?
            }
            Some(via) => {
                let mut tcp = self.reach(&via.host, via.port, deadline).await?;
                let target = self.upstream.host_and_port();
                within(deadline, Step::Proxy, via.tunnel(&mut tcp, &target)).await?;
                tcp
            }
        };
        let socket = Socket::new(tcp, doubt);
        match self.upstream.scheme {
            Scheme::Http => Ok(Stream::Plain(socket)),
            Scheme::Https => within(deadline, Step::Tls, self.secure(socket)).await,
        }
    }

    /// Tries every address, IPv4 first: a host without IPv6 says so at once, one that
    /// only half has it doesn't. Each gets half of the time that is left.
    async fn reach(&self, host: &str, port: u16, deadline: Instant) -> Result<TcpStream, Failure> {
        let mut failed = None;
        for family in FAMILIES {
            let found = within(deadline, Step::Name, self.names.addresses(host, family)).await;
            let addresses = match found {
                Ok(addresses) => addresses,
                // The other family's failure to connect says more.
                Err(failure) => return Err(failed.unwrap_or(failure)),
            };
            for address in addresses {
                let now = Instant::now();
                let share = now + deadline.saturating_duration_since(now) / 2;
                let attempt = connect(SocketAddr::new(address, port));
                match within(share, Step::Connect, attempt).await {
                    Ok(tcp) => return Ok(tcp),
                    Err(failure) => failed = Some(failed.unwrap_or(failure)),
                }
            }
        }
        Err(failed.unwrap_or_else(|| Failure::new(Step::Name, "it has no address")))
    }

    async fn secure(&self, socket: Socket) -> Result<Stream, Failure> {
        let tls = self
            .tls
            .clone()
            .ok_or_else(|| Failure::new(Step::Tls, "not set up"))?;
        let name = ServerName::try_from(self.upstream.host.clone())
            .map_err(|_| Failure::new(Step::Tls, "the host has no name to verify"))?;
        let stream = TlsConnector::from(tls).connect(name, socket).await;
        let stream = stream.map_err(|error| Failure::io(Step::Tls, &error))?;
        Ok(Stream::Tls(Box::new(stream)))
    }
}

async fn connect(address: SocketAddr) -> Result<TcpStream, Failure> {
    let failed = |error: std::io::Error| Failure::io(Step::Connect, &error);
    let tcp = TcpStream::connect(address).await.map_err(failed)?;
    // A request is one write; waiting for more to send would only delay it.
    tcp.set_nodelay(true).map_err(failed)?;
    Ok(tcp)
}

async fn within<T>(
    deadline: Instant,
    step: Step,
    work: impl Future<Output = Result<T, Failure>>,
) -> Result<T, Failure> {
    timeout_at(deadline, work)
        .await
        .unwrap_or_else(|_| Err(Failure::timeout(step)))
}

#[cfg(test)]
mod tests;
