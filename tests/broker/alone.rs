//! `groom-ns broker` by itself: where it listens, to whom, and how it ends.

use std::fs;
use std::os::unix::fs::{FileTypeExt as _, PermissionsExt as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::process::Command;
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;

use crate::common::desk::wait_until;
use crate::common::host::{chmod, in_shell, install, path_str, program};
use crate::common::http::chunk;
use crate::common::jail::{finish, spawn};
use crate::common::upstream::{Act, events_head, ok};
use crate::common::{Broker, Folder, Upstream, Workspace, is_root};
use crate::hostile::get;
use crate::in_run::request;

pub(crate) fn upstream() -> Upstream {
    Upstream::start(|_| ok("spent"))
}

#[test]
fn its_socket_is_its_owners_alone() {
    let upstream = upstream();
    let broker = Broker::start(&upstream);
    let meta = fs::symlink_metadata(broker.socket()).expect("a socket");
    assert!(meta.file_type().is_socket());
    assert_eq!(meta.permissions().mode() & 0o7777, 0o600);
    assert!(
        broker.ready.contains(path_str(&broker.socket())),
        "{}",
        broker.ready
    );
    // Whatever the umask was.
    let start = Broker::before(&upstream);
    let shell = in_shell("umask 0; exec \"$@\"", &start.command());
    let broker = start.start_as(shell);
    let mode = fs::symlink_metadata(broker.socket())
        .expect("a socket")
        .permissions()
        .mode();
    assert_eq!(mode & 0o7777, 0o600);
    broker.assert_alive();
}

#[test]
fn a_stale_socket_is_replaced() {
    let upstream = upstream();
    let start = Broker::before(&upstream);
    let path = start.folder().path("broker.sock");
    drop(UnixListener::bind(&path).expect("a socket"));
    start.start().assert_alive();
    // Also one that a broker left which was killed.
    let broker = Broker::start(&upstream);
    let (folder, path) = (Folder::new(), broker.socket());
    let stale = folder.path("stale.sock");
    fs::rename(&path, &stale).expect("a socket");
    broker.signal(Signal::SIGKILL);
    let _ = broker.finish();
    Broker::before(&upstream)
        .listen(format!("unix:{}", path_str(&stale)))
        .start()
        .assert_alive();
}

#[test]
fn whatever_else_is_at_its_path_is_left_alone() {
    let upstream = upstream();
    let folder = Folder::new();
    let at = |path: &std::path::Path| {
        Broker::before(&upstream).listen(format!("unix:{}", path_str(path)))
    };
    let file = folder.secret("file", "precious");
    at(&file).refused("socket");
    assert_eq!(fs::read_to_string(&file).expect("a file"), "precious");
    let dir = folder.path("dir");
    fs::create_dir(&dir).expect("a folder");
    at(&dir).refused("socket");
    assert!(dir.is_dir());
    let link = folder.path("link");
    std::os::unix::fs::symlink(&file, &link).expect("a link");
    at(&link).refused("socket");
    let stale = folder.path("stale");
    drop(UnixListener::bind(&stale).expect("a socket"));
    let to_stale = folder.path("to-stale");
    std::os::unix::fs::symlink(&stale, &to_stale).expect("a link");
    at(&to_stale).refused("socket");
    for path in [&link, &to_stale] {
        let meta = fs::symlink_metadata(path).expect("a link");
        assert!(meta.file_type().is_symlink());
    }
    let missing = folder.path("no/such/folder.sock");
    at(&missing).refused("socket");
    // Somebody lives there: another broker, or anybody.
    let live = folder.path("live");
    let listener = UnixListener::bind(&live).expect("a socket");
    at(&live).refused("socket");
    UnixStream::connect(&live).expect("the listener is where it was");
    drop(listener);
    let first = Broker::start(&upstream);
    at(&first.socket()).refused("socket");
    first.assert_alive();
}

/// An id that nobody has.
const OTHER: u32 = 54321;

/// `setpriv` to an id without rights, and the probe where that id can run it.
fn as_other(workspace: &Workspace, socket: &str) -> Command {
    let place = workspace.path("probe-of-all");
    install(&workspace.probe(), &place);
    chmod(workspace.root(), 0o755);
    let mut command = program("setpriv", "util-linux");
    command
        .args([
            &format!("--reuid={OTHER}"),
            &format!("--regid={OTHER}"),
            "--clear-groups",
            "--",
        ])
        .arg(place);
    command
        .args(["http", socket])
        .arg(request("/v1/models", &[]));
    command
}

#[test]
fn a_peer_may_be_the_same_user_whoever_else_is_named() {
    let upstream = upstream();
    let own = nix::unistd::geteuid().as_raw();
    for named in [None, Some(own), Some(OTHER)] {
        let mut start = Broker::before(&upstream);
        if let Some(uid) = named {
            start = start.flag("--peer-uid", uid.to_string());
        }
        let answer = start.start().client().ask(&get("/v1/models"));
        assert_eq!(answer.whole(), b"spent", "{named:?} named");
    }
}

#[test]
fn a_peer_of_another_user_must_be_named() {
    // A user can't be two: it has the socket's mode, above, and its own id.
    if !is_root() {
        return;
    }
    let upstream = upstream();
    let workspace = Workspace::new();
    for (named, may) in [(None, false), (Some(OTHER), true), (Some(OTHER + 1), false)] {
        let mut start = Broker::before(&upstream);
        if let Some(uid) = named {
            start = start.flag("--peer-uid", uid.to_string());
        }
        let broker = start.start();
        let before = upstream.requests().len();
        chmod(broker.folder().root(), 0o755);
        if named.is_none() {
            // By the file alone it would be refused as well: that is opened here.
            chmod(&broker.socket(), 0o666);
        }
        let run = finish(spawn(&mut as_other(&workspace, path_str(&broker.socket()))));
        if may {
            assert_eq!(run.ok(), "200 spent");
        } else {
            let refused = ["ok closed", "ok 403", "ok 401"];
            let outcome = run.outcome();
            assert!(
                refused.iter().any(|answer| outcome.starts_with(answer)),
                "{run:#?}"
            );
        }
        assert_eq!(
            upstream.requests().len() - before,
            usize::from(may),
            "{named:?}"
        );
    }
}

/// The addresses on which this port is listened on, as /proc/net/tcp has them.
fn listening(port: u16) -> Vec<String> {
    let wanted = format!(":{port:04X}");
    let mut found = Vec::new();
    for table in ["/proc/net/tcp", "/proc/net/tcp6"] {
        // A kernel without IPv6 has one of them.
        let text = fs::read_to_string(table).unwrap_or_default();
        for line in text.lines().skip(1) {
            let words: Vec<&str> = line.split_whitespace().collect();
            // 0A is TCP_LISTEN.
            if words[1].ends_with(&wanted) && words[3] == "0A" {
                found.push(words[1].to_owned());
            }
        }
    }
    found
}

#[test]
fn tcp_is_loopback_only() {
    let upstream = upstream();
    let broker = Broker::before(&upstream).tcp().start();
    broker.assert_alive();
    let port = broker.address().port();
    assert!(broker.ready.contains(&port.to_string()), "{}", broker.ready);
    assert_eq!(listening(port), [format!("0100007F:{port:04X}")]);
    let outside = std::net::TcpListener::bind("0.0.0.0:0").expect("a listener");
    let control = outside.local_addr().expect("its address").port();
    assert_eq!(
        listening(control),
        [format!("00000000:{control:04X}")],
        "vacuous"
    );
    // The port of somebody else isn't shared.
    let taken = Broker::before(&upstream).listen(format!("tcp:{port}"));
    taken.refused("socket");
    broker.assert_alive();
}

/// A shell ignores SIGINT for what it starts with `&`.
#[test]
fn a_signal_that_its_caller_ignores_does_not_end_it() {
    let upstream = upstream();
    let start = Broker::before(&upstream);
    let shell = in_shell("trap '' INT; exec \"$@\"", &start.command());
    let broker = start.start_as(shell);
    broker.signal(Signal::SIGINT);
    for _ in 0..10 {
        broker.assert_alive();
    }
    let (run, _) = broker.stop();
    assert_eq!(run.code, Some(0), "{run:#?}");
}

#[test]
fn it_finishes_what_is_under_way() {
    for signal in [Signal::SIGTERM, Signal::SIGINT] {
        let upstream = Upstream::start(|_| {
            let [first, second] =
                ["data: 1\n\n", "data: 2\n\n"].map(|e| Act::Send(chunk(e.as_bytes())));
            vec![
                Act::Send(events_head()),
                first,
                Act::Watch,
                second,
                Act::Send(b"0\r\n\r\n".to_vec()),
            ]
        });
        let broker = Broker::start(&upstream);
        let socket = broker.socket();
        let mut client = broker.client();
        client.must_send(&get("/v1/models"));
        let head = client.head().expect("an answer");
        let mut body = head.answer_body("GET").expect("a body");
        assert_eq!(
            client.piece(&mut body).as_deref(),
            Some(&b"data: 1\n\n"[..])
        );
        let mut idle = broker.client();
        assert_eq!(idle.ask(&get("/healthz")).whole().trim_ascii(), b"ok");
        broker.signal(signal);
        wait_until("the socket's file is gone", || !socket.exists());
        assert!(UnixStream::connect(&socket).is_err(), "a new connection");
        // Who has nothing under way is sent home.
        assert_eq!(idle.rest(), b"");
        upstream.open();
        assert_eq!(
            client.piece(&mut body).as_deref(),
            Some(&b"data: 2\n\n"[..])
        );
        assert_eq!(client.piece(&mut body), None);
        assert!(body.is_done());
        let ended = Instant::now();
        let run = broker.finish();
        assert_eq!((run.code, run.stderr.as_str()), (Some(0), ""), "{run:#?}");
        assert!(ended.elapsed() < Duration::from_secs(5));
    }
    // On TCP too nobody is let in any more.
    let upstream = upstream();
    let broker = Broker::before(&upstream).tcp().start();
    let address = broker.address();
    let mut client = broker.client();
    assert_eq!(client.ask(&get("/v1/models")).whole(), b"spent");
    let (run, _) = broker.stop();
    assert_eq!(run.code, Some(0), "{run:#?}");
    assert!(std::net::TcpStream::connect(address).is_err());
}

#[test]
fn what_took_its_sockets_place_is_left_alone() {
    let upstream = upstream();
    let folder = Folder::new();
    let socket = folder.path("broker.sock");
    let listen = format!("unix:{}", path_str(&socket));
    let broker = Broker::before(&upstream).listen(listen).start();
    fs::rename(&socket, folder.path("moved")).expect("a socket");
    fs::write(&socket, "precious").expect("a file");
    let (run, _) = broker.stop();
    assert_eq!(run.code, Some(0), "{run:#?}");
    assert_eq!(fs::read_to_string(&socket).expect("a file"), "precious");
}

#[test]
fn a_second_signal_ends_it_at_once() {
    let upstream = Upstream::start(|_| vec![Act::Send(events_head()), Act::Hold]);
    let broker = Broker::start(&upstream);
    let socket = broker.socket();
    let mut client = broker.client();
    client.must_send(&get("/v1/models"));
    client.head().expect("an answer");
    let told = Instant::now();
    broker.signal(Signal::SIGTERM);
    wait_until("the socket's file is gone", || !socket.exists());
    broker.signal(Signal::SIGINT);
    let run = broker.finish();
    assert!(told.elapsed() < Duration::from_secs(10));
    assert_eq!(run.code, Some(1), "{run:#?}");
    assert!(run.stderr.contains("cut off"), "{run:#?}");
}

#[test]
fn a_port_without_a_token_is_warned_of() {
    let upstream = upstream();
    for (start, is_warned) in [
        (Broker::before(&upstream).tcp(), true),
        (
            Broker::before(&upstream).tcp().token("0123456789abcdef"),
            false,
        ),
        (Broker::before(&upstream), false),
    ] {
        let (run, _) = start.start().stop();
        assert_eq!(run.stderr.contains("--token-file"), is_warned, "{run:#?}");
        assert_eq!(
            run.stderr.lines().count(),
            usize::from(is_warned),
            "{run:#?}"
        );
    }
}
