//! The connections of [`super::upstream::Upstream`], on a thread of its own.

use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::time::Instant;

use nix::sys::socket::{setsockopt, sockopt};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::sync::oneshot;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;

use super::http::{Body, Head, chunk};
use super::upstream::{Act, KEPT, Request, Shared, head};

/// Accepts until `stopped`; then every connection is dropped.
pub(super) fn serve(
    listener: &TcpListener,
    tls: Option<&Arc<ServerConfig>>,
    shared: &Arc<Shared>,
    mut stopped: oneshot::Receiver<()>,
) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    runtime.expect("a runtime").block_on(async {
        let listener = listener.try_clone().expect("a listener");
        let listener = tokio::net::TcpListener::from_std(listener).expect("a listener");
        loop {
            let stream = tokio::select! {
                _ = &mut stopped => return,
                accepted = listener.accept() => accepted,
            };
            let Ok((stream, _)) = stream else { continue };
            tokio::spawn(connection(stream, tls.cloned(), shared.clone()));
        }
    });
}

async fn connection(
    stream: tokio::net::TcpStream,
    tls: Option<Arc<ServerConfig>>,
    shared: Arc<Shared>,
) {
    let index = shared.new_connection();
    let stream = stream.into_std().expect("a socket");
    stream.set_nodelay(true).expect("a socket");
    let socket = stream.try_clone().expect("a socket");
    let stream = tokio::net::TcpStream::from_std(stream).expect("a socket");
    match tls {
        None => Link::new(stream, socket, shared.clone(), index).run().await,
        Some(tls) => {
            // A client that doesn't like the certificate is gone, without a byte.
            if let Ok(stream) = TlsAcceptor::from(tls).accept(stream).await {
                Link::new(stream, socket, shared.clone(), index).run().await;
            }
        }
    }
    shared.note(index, |seen| {
        seen.gone.get_or_insert_with(Instant::now);
    });
}

/// The connection is over.
struct Gone;

struct Link<S> {
    stream: S,
    /// The same socket, for what TLS has no word for.
    socket: TcpStream,
    shared: Arc<Shared>,
    index: usize,
    /// Bytes of no request yet.
    buffer: Vec<u8>,
    body: Option<Body>,
}

impl<S: AsyncRead + AsyncWrite + Unpin> Link<S> {
    fn new(stream: S, socket: TcpStream, shared: Arc<Shared>, index: usize) -> Self {
        Link {
            stream,
            socket,
            shared,
            index,
            buffer: Vec::new(),
            body: None,
        }
    }

    async fn run(mut self) {
        while let Ok(head) = self.head().await {
            let acts = (self.shared.behaviour)(&head);
            for act in acts {
                if self.act(act).await.is_err() {
                    return;
                }
            }
            if self.whole_body().await.is_err() {
                return;
            }
        }
    }

    /// Reads once, and keeps what came. May be dropped at any time.
    async fn read(&mut self) -> Result<(), Gone> {
        let mut piece = vec![0; 64 << 10];
        let Ok(count @ 1..) = self.stream.read(&mut piece).await else {
            let now = Instant::now();
            self.shared.note(self.index, |seen| seen.gone = Some(now));
            return Err(Gone);
        };
        let piece = &piece[..count];
        self.buffer.extend_from_slice(piece);
        self.shared
            .note(self.index, |seen| keep(&mut seen.bytes, piece));
        Ok(())
    }

    async fn head(&mut self) -> Result<Head, Gone> {
        loop {
            let taken = Head::take(&mut self.buffer);
            let taken = taken.and_then(|head| match head {
                Some(head) => head.request_body().map(|body| Some((head, body))),
                None => Ok(None),
            });
            match taken {
                Ok(Some((head, body))) => {
                    let request = Request {
                        head: head.clone(),
                        body: Vec::new(),
                        body_length: 0,
                        is_whole: body.is_done(),
                    };
                    self.body = Some(body);
                    self.shared
                        .note(self.index, |seen| seen.requests.push(request));
                    return Ok(head);
                }
                Ok(None) => self.read().await?,
                Err(why) => return Err(self.broken(why)),
            }
        }
    }

    fn broken(&self, why: String) -> Gone {
        self.shared.note(self.index, |seen| seen.broken = Some(why));
        Gone
    }

    /// The next piece of the request's body; empty at its end.
    async fn piece(&mut self) -> Result<Vec<u8>, Gone> {
        loop {
            let Some(body) = self.body.as_mut().filter(|body| !body.is_done()) else {
                return Ok(Vec::new());
            };
            let piece = match body.take(&mut self.buffer) {
                Ok(piece) => piece,
                Err(why) => return Err(self.broken(why)),
            };
            let is_whole = body.is_done();
            self.shared.note(self.index, |seen| {
                let request = seen.requests.last_mut().expect("a request has a body");
                keep(&mut request.body, &piece);
                request.body_length += piece.len();
                request.is_whole = is_whole;
            });
            if !piece.is_empty() {
                return Ok(piece);
            }
            if !is_whole {
                self.read().await?;
            }
        }
    }

    async fn whole_body(&mut self) -> Result<(), Gone> {
        while !self.piece().await?.is_empty() {}
        Ok(())
    }

    async fn send(&mut self, bytes: &[u8]) -> Result<(), Gone> {
        for piece in bytes.chunks(64 << 10) {
            self.stream.write_all(piece).await.map_err(|_| Gone)?;
            self.shared
                .note(self.index, |seen| seen.written += piece.len());
        }
        self.stream.flush().await.map_err(|_| Gone)
    }

    async fn act(&mut self, act: Act) -> Result<(), Gone> {
        match act {
            Act::Body => self.whole_body().await,
            Act::Send(bytes) => self.send(&bytes).await,
            Act::Repeat(bytes, times) => {
                for _ in 0..times {
                    self.send(&bytes).await?;
                }
                Ok(())
            }
            Act::Echo => self.echo().await,
            Act::Mirror => self.mirror().await,
            Act::Gate => {
                self.shared.gate.acquire().await.map_err(|_| Gone)?.forget();
                Ok(())
            }
            Act::Watch => self.watch().await,
            Act::Hold => loop {
                self.read().await?;
            },
            Act::Close => {
                let _ = self.stream.shutdown().await;
                Err(Gone)
            }
            Act::Cut => {
                let _ = self.socket.shutdown(std::net::Shutdown::Write);
                Err(Gone)
            }
            Act::Reset => {
                let now = libc::linger {
                    l_onoff: 1,
                    l_linger: 0,
                };
                setsockopt(&self.socket, sockopt::Linger, &now).expect("a socket");
                Err(Gone)
            }
        }
    }

    async fn watch(&mut self) -> Result<(), Gone> {
        let shared = self.shared.clone();
        let opened = async {
            shared.gate.acquire().await.map_err(|_| Gone)?.forget();
            Ok(())
        };
        tokio::pin!(opened);
        loop {
            tokio::select! {
                open = &mut opened => return open,
                read = self.read() => read?,
            }
        }
    }

    async fn echo(&mut self) -> Result<(), Gone> {
        let fields = [
            ("content-type", "application/json"),
            ("transfer-encoding", "chunked"),
        ];
        self.send(&head("200 OK", &fields)).await?;
        loop {
            let piece = self.piece().await?;
            if piece.is_empty() {
                return self.send(b"0\r\n\r\n").await;
            }
            self.send(&chunk(&piece)).await?;
        }
    }

    async fn mirror(&mut self) -> Result<(), Gone> {
        self.whole_body().await?;
        let Request {
            head: asked, body, ..
        } = self.shared.last_request(self.index);
        let shown = [asked.sorted().as_bytes(), b"\n\n", &body].concat();
        let length = shown.len().to_string();
        let fields = [
            ("content-type", "application/json"),
            ("content-length", &length),
        ];
        self.send(&[head("200 OK", &fields), shown].concat()).await
    }
}

fn keep(kept: &mut Vec<u8>, piece: &[u8]) {
    let room = KEPT.saturating_sub(kept.len()).min(piece.len());
    kept.extend_from_slice(&piece[..room]);
}
