//! `groom-ns shim`: a plain TCP to UNIX forwarder, for callers who bring their own
//! broker with `--uds` and whose command speaks TCP alone. It knows nothing of HTTP.

use std::net::{Ipv4Addr, SocketAddrV4};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use nix::errno::Errno;
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream, UnixStream};
use tokio::sync::Semaphore;
use tokio::time::sleep;

use crate::refusal::{Reason, Refusal, shown};
use crate::say;
use crate::sys::process;

/// Connections at once; further ones wait in the kernel's backlog.
const MOST: usize = 4096;
/// Between two tries where the process has no descriptor left.
const BACK_OFF: Duration = Duration::from_millis(50);

/// Forwards until it is killed. What it says goes to standard error: standard output
/// is the command's.
///
/// # Errors
/// `socket`: the port is taken, or can't be bound.
pub fn run(port: u16, socket: &Path) -> Result<u8, Refusal> {
    let refuse = |call: &'static str| {
        move |error: std::io::Error| {
            Refusal::new(Reason::Socket, "listen for the shim")
                .about(format!("{call} 127.0.0.1:{port}"))
                .errno(Errno::try_from(error).unwrap_or(Errno::EIO))
                .remedy("choose another port, or 0 for any")
        }
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_io()
        .enable_time()
        .build()
        .map_err(refuse("make the event loop for"))?;
    runtime.block_on(async {
        let address = SocketAddrV4::new(Ipv4Addr::LOCALHOST, port);
        let listener = TcpListener::bind(address).await.map_err(refuse("bind"))?;
        let bound = listener.local_addr().map_err(refuse("getsockname"))?;
        say::note(format_args!("shim: {bound} -> {}", shown(socket)));
        accept(&listener, socket).await
    })
}

async fn accept(listener: &TcpListener, socket: &Path) -> Result<u8, Refusal> {
    let turns = Arc::new(Semaphore::new(MOST));
    let socket: Arc<PathBuf> = Arc::new(socket.to_owned());
    loop {
        let Ok(turn) = Arc::clone(&turns).acquire_owned().await else {
            return Ok(0); // never closed
        };
        match listener.accept().await {
            Ok((stream, _)) => {
                let socket = Arc::clone(&socket);
                tokio::spawn(async move {
                    forward(stream, &socket).await;
                    drop(turn);
                });
            }
            Err(_) => sleep(BACK_OFF).await,
        }
    }
}

/// Both ways, each end of file passed on. A broken side breaks the other.
async fn forward(mut tcp: TcpStream, socket: &Path) {
    let _ = tcp.set_nodelay(true);
    match UnixStream::connect(socket).await {
        Ok(mut unix) => {
            let _ = copy_bidirectional(&mut tcp, &mut unix).await;
        }
        // Said where somebody reads it; nobody has to.
        Err(error) if say::has_room(process::stderr()) => {
            say::note(format_args!("shim: connect {}: {error}", shown(socket)));
        }
        Err(_) => {}
    }
}
