//! `groom-ns shim PORT SOCKET`: bytes, both ways.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{Ipv4Addr, Shutdown, TcpStream};
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use nix::sys::signal::{Signal, kill};

use crate::common::broker::{free_port, refused};
use crate::common::jail::{binary, finish, pid_of};
use crate::common::upstream::{PATIENCE, ok};
use crate::common::{Broker, Client, Folder, Upstream};
use crate::hostile::get;

struct Shim {
    child: Child,
    port: u16,
    banner: String,
}

impl Shim {
    fn start(socket: &Path) -> Self {
        let port = free_port();
        let mut child = command(&port.to_string(), socket)
            .spawn()
            .expect("groom-ns starts");
        let mut banner = String::new();
        let stderr = child.stderr.as_mut().expect("a pipe");
        BufReader::with_capacity(1, stderr)
            .read_line(&mut banner)
            .expect("a line");
        Shim {
            child,
            port,
            banner,
        }
    }

    fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, self.port)).expect("it listens");
        stream.set_read_timeout(Some(PATIENCE)).expect("a socket");
        stream
    }

    /// SIGTERM; nothing was said on stdout.
    fn stop(self) {
        let pid = pid_of(&self.child);
        kill(pid, Signal::SIGTERM).expect("it runs");
        let run = finish(self.child);
        assert_eq!((run.stdout.as_str(), run.stderr.as_str()), ("", ""));
    }
}

fn command(port: &str, socket: &Path) -> Command {
    let mut command = Command::new(binary());
    command.args(["shim", port]).arg(socket);
    command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

#[test]
fn it_carries_every_byte_and_each_sides_end() {
    let folder = Folder::new();
    let socket = folder.path("socket");
    let listener = UnixListener::bind(&socket).expect("a socket");
    let server = std::thread::spawn(move || {
        for _ in 0..2 {
            let (mut stream, _) = listener.accept().expect("a connection");
            stream.set_read_timeout(Some(PATIENCE)).expect("a socket");
            // All of it, to the client's end; then it is still heard.
            let mut all = Vec::new();
            stream.read_to_end(&mut all).expect("bytes");
            all.reverse();
            stream.write_all(&all).expect("the client reads");
        }
    });
    let shim = Shim::start(&socket);
    assert!(
        shim.banner.contains(&shim.port.to_string()),
        "{:?}",
        shim.banner
    );
    for length in [0_usize, 3 << 20] {
        let mut stream = shim.connect();
        // Every byte value, and no order that a shuffle would keep.
        let sent: Vec<u8> = (0..length)
            .map(|n| u8::try_from(n * n % 251).expect("small"))
            .collect();
        let mut writer = stream.try_clone().expect("a socket");
        let own = sent.clone();
        let upload = std::thread::spawn(move || {
            writer.write_all(&own).expect("the shim takes it");
            writer.shutdown(Shutdown::Write).expect("a socket");
        });
        let mut came = Vec::new();
        stream.read_to_end(&mut came).expect("bytes");
        upload.join().expect("all sent");
        came.reverse();
        assert!(came == sent, "{} of {length} bytes", came.len());
    }
    server.join().expect("the server");
    shim.stop();
}

#[test]
fn a_broker_behind_it_is_a_broker() {
    let upstream = Upstream::start(|_| ok("spent"));
    let broker = Broker::start(&upstream);
    let shim = Shim::start(&broker.socket());
    let mut client = Client::tcp((Ipv4Addr::LOCALHOST, shim.port).into());
    for _ in 0..2 {
        assert_eq!(client.ask(&get("/v1/models")).whole(), b"spent");
    }
    // Only from here.
    let table = std::fs::read_to_string("/proc/net/tcp").expect("a table");
    let here = format!("0100007F:{:04X} 00000000:0000 0A", shim.port);
    assert!(table.contains(&here), "{table}");
    drop(client);
    shim.stop();
}

#[test]
fn nobody_behind_it_is_the_connections_end() {
    let folder = Folder::new();
    let socket = folder.path("socket");
    let listener = UnixListener::bind(&socket).expect("a socket");
    let shim = Shim::start(&socket);
    drop(listener);
    let mut stream = shim.connect();
    let _ = stream.write_all(&get("/healthz"));
    let mut came = Vec::new();
    let _ = stream.read_to_end(&mut came);
    assert_eq!(came, b"");
    // It is well, and says nothing of it but on stderr.
    let pid = pid_of(&shim.child);
    kill(pid, Signal::SIGTERM).expect("it runs");
    assert_eq!(finish(shim.child).stdout, "");
}

#[test]
fn arguments_that_make_no_sense() {
    let folder = Folder::new();
    let socket = folder.path("socket");
    let _listener = UnixListener::bind(&socket).expect("a socket");
    for port in ["65536", "-1", "x", ""] {
        refused(command(port, &socket), "usage");
    }
    let taken = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
    let port = taken.local_addr().expect("its address").port().to_string();
    refused(command(&port, &socket), "socket");
}
