//! The API that the tests play: certificates, and servers on loopback whose every
//! byte a test decides.

use std::future::Future;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

use bytes::Bytes;
use http::Request;
use nix::sys::socket::{setsockopt, sockopt};
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair, date_time_ymd};
use rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer};
use rustls::{ClientConfig, RootCertStore, ServerConfig};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

use super::answer::Answer;
use super::body::Outgoing;
use super::failure::Failure;
use super::pool::Pool;
use super::proxy::Proxy;
use super::roots;
use super::url::Upstream;

/// Long enough for any machine; a test that waits for it has failed.
pub(super) const PATIENCE: Duration = Duration::from_secs(20);

/// A certificate authority.
pub(super) struct Authority {
    issuer: Issuer<'static, KeyPair>,
    certificate: rcgen::Certificate,
}

static MADE: AtomicUsize = AtomicUsize::new(0);

impl Authority {
    pub(super) fn new() -> Authority {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        // Issuers are told apart by their names.
        let name = format!("Test Authority {}", MADE.fetch_add(1, SeqCst));
        params.distinguished_name.push(DnType::CommonName, name);
        let key = KeyPair::generate().unwrap();
        let certificate = params.self_signed(&key).unwrap();
        Authority {
            issuer: Issuer::new(params, key),
            certificate,
        }
    }

    pub(super) fn pem(&self) -> String {
        let body = data_encode(self.certificate.der());
        format!("-----BEGIN CERTIFICATE-----\n{body}-----END CERTIFICATE-----\n")
    }

    /// A client that trusts it alone.
    pub(super) fn trusted(&self) -> Arc<ClientConfig> {
        let mut roots = RootCertStore::empty();
        roots.add(self.certificate.der().clone()).unwrap();
        roots::trusting(roots).unwrap()
    }

    /// A server with a certificate for `names` that is valid until `year`.
    pub(super) fn acceptor(&self, names: &[&str], year: i32) -> TlsAcceptor {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let mut params = CertificateParams::new(names).unwrap();
        params.not_before = date_time_ymd(2001, 1, 1);
        params.not_after = date_time_ymd(year, 1, 1);
        let key = KeyPair::generate().unwrap();
        let chain = vec![CertificateDer::from(
            params.signed_by(&key, &self.issuer).unwrap(),
        )];
        let key = PrivatePkcs8KeyDer::from(key.serialize_der()).into();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(chain, key)
            .unwrap();
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        TlsAcceptor::from(Arc::new(config))
    }
}

/// Base64 (RFC 4648, section 4) in one line.
fn data_encode(bytes: &[u8]) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut out = String::new();
    for group in bytes.chunks(3) {
        let padded = [
            group[0],
            *group.get(1).unwrap_or(&0),
            *group.get(2).unwrap_or(&0),
        ];
        let bits = padded
            .iter()
            .fold(0_u32, |bits, byte| bits << 8 | u32::from(*byte));
        for place in 0..4 {
            let letter = LETTERS[(bits >> (18 - 6 * place) & 63) as usize];
            out.push(if place > group.len() {
                '='
            } else {
                char::from(letter)
            });
        }
    }
    out.push('\n');
    out
}

/// Either kind of stream.
pub(super) trait Duplex: AsyncRead + AsyncWrite + Unpin + Send {}
impl<S: AsyncRead + AsyncWrite + Unpin + Send> Duplex for S {}

/// One client of a test's server.
pub(super) struct Peer {
    stream: Box<dyn Duplex>,
    /// How many came before it.
    pub(super) number: usize,
}

impl Peer {
    /// A request up to the end of its head, and the length that it announces.
    pub(super) async fn head(&mut self) -> Option<String> {
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            match self.stream.read_u8().await {
                Ok(byte) => head.push(byte),
                Err(_) => return None,
            }
        }
        Some(String::from_utf8(head).unwrap())
    }

    /// A request whose length is announced, head and body.
    pub(super) async fn request(&mut self) -> Option<String> {
        let mut request = self.head().await?;
        let length = request
            .lines()
            .find_map(|line| line.strip_prefix("content-length: "))
            .map_or(0, |length| length.parse().unwrap());
        let mut body = vec![0; length];
        self.stream.read_exact(&mut body).await.ok()?;
        request.push_str(&String::from_utf8(body).unwrap());
        Some(request)
    }

    /// One more byte.
    pub(super) async fn byte(&mut self) -> u8 {
        self.stream.read_u8().await.unwrap()
    }

    pub(super) async fn say(&mut self, bytes: impl AsRef<[u8]>) {
        let _ = self.stream.write_all(bytes.as_ref()).await;
        let _ = self.stream.flush().await;
    }

    /// Everything up to an end of any kind.
    pub(super) async fn rest(&mut self) -> Vec<u8> {
        let mut rest = Vec::new();
        let _ = self.stream.read_to_end(&mut rest).await;
        rest
    }

    /// An end in good order: TLS's too.
    pub(super) async fn close(mut self) {
        let _ = self.stream.shutdown().await;
    }
}

/// Serves each client by `handle`, in the background, on a free port of 127.0.0.1.
pub(super) async fn serve<F>(
    tls: Option<TlsAcceptor>,
    handle: impl Fn(Peer) -> F + Send + Sync + 'static,
) -> SocketAddr
where
    F: Future<Output = ()> + Send + 'static,
{
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        let handle = Arc::new(handle);
        for number in 0.. {
            let (tcp, _) = listener.accept().await.unwrap();
            tcp.set_nodelay(true).unwrap();
            // close(2) returns once the other side has the end (socket(7), SO_LINGER), so
            // that whatever runs next finds it there.
            let linger = libc::linger {
                l_onoff: 1,
                l_linger: 1,
            };
            setsockopt(&tcp, sockopt::Linger, &linger).unwrap();
            let (handle, tls) = (Arc::clone(&handle), tls.clone());
            tokio::spawn(async move {
                let stream: Box<dyn Duplex> = match tls {
                    None => Box::new(tcp),
                    Some(tls) => match tls.accept(tcp).await {
                        Ok(stream) => Box::new(stream),
                        Err(_) => return,
                    },
                };
                handle(Peer { stream, number }).await;
            });
        }
    });
    address
}

/// A pool that speaks to `address`, by TLS as `tls` trusts.
pub(super) fn pool(address: SocketAddr, tls: Option<Arc<ClientConfig>>) -> Pool {
    let scheme = if tls.is_some() { "https" } else { "http" };
    let upstream = Upstream::judge(&format!("{scheme}://{address}")).unwrap();
    Pool::new(upstream, tls, Proxy::default(), PATIENCE)
}

pub(super) fn request(method: &str, body: Outgoing) -> Request<Outgoing> {
    let request = Request::builder()
        .method(method)
        .uri("/v1/x?y")
        .header("host", "api");
    request.body(body).unwrap()
}

pub(super) fn whole(text: &'static str) -> Outgoing {
    Outgoing::Whole(Bytes::from_static(text.as_bytes()))
}

/// The whole body, or what came of it and why no more did.
pub(super) async fn text(mut answer: Answer) -> Result<String, (String, Failure)> {
    let mut text = String::new();
    while let Some(piece) = answer.body.next().await {
        match piece {
            Ok(piece) => text.push_str(std::str::from_utf8(&piece).unwrap()),
            Err(failure) => {
                assert_eq!(answer.body.next().await, Some(Err(failure.clone())));
                return Err((text, failure));
            }
        }
    }
    Ok(text)
}

/// Runs a test's story on one thread, as the broker runs.
pub(super) fn run(story: impl Future<Output = ()>) {
    run_however_long(async {
        tokio::time::timeout(PATIENCE, story)
            .await
            .expect("the test hangs");
    });
}

/// The same as one task among others: what block_on itself polls, it polls only
/// after epoll.
pub(super) fn run_as_a_task(story: impl Future<Output = ()> + Send + 'static) {
    run(async { tokio::spawn(story).await.unwrap() });
}

/// The same for a story that turns the clock.
pub(super) fn run_however_long(story: impl Future<Output = ()>) {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap()
        .block_on(story);
}
