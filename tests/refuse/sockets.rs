//! `--uds` takes a socket on which a live broker answers.

use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixListener;
use std::path::Path;

use crate::common::Workspace;

/// A broker that gives every connection this answer, for as long as the test runs.
fn broker(path: &Path, answer: &'static str) {
    let listener = UnixListener::bind(path).expect("a listener");
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            // The head of a request is all that a health check sends.
            let _ = stream.read(&mut [0; 4096]);
            let _ = stream.write_all(answer.as_bytes());
        }
    });
}

const HEALTHY: &str = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok";

#[test]
fn a_live_broker_is_at_its_place() {
    let workspace = Workspace::new();
    let socket = workspace.path("socket");
    broker(&socket, HEALTHY);
    let run = workspace
        .jail()
        .flag("--uds", &socket)
        .run(&["connect-unix", "/run/broker.sock"]);
    assert_eq!(run.ok(), "");
}

#[test]
fn what_is_no_live_broker() {
    let workspace = Workspace::new();
    let regular = workspace.file("regular", "x");
    let missing = workspace.path("missing");
    let stale = workspace.path("stale");
    drop(UnixListener::bind(&stale).expect("a listener"));
    let folder = workspace.folder("folder");
    let sick = workspace.path("sick");
    broker(
        &sick,
        "HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n",
    );
    let babble = workspace.path("babble");
    broker(&babble, "hello\r\n");
    for path in [missing, stale, regular, folder, sick, babble] {
        let run = workspace
            .jail_with_out()
            .flag("--uds", &path)
            .refused("socket");
        assert!(
            run.refusal().contains(path.to_str().expect("text")),
            "{run:#?}"
        );
    }
}

#[test]
fn a_broker_that_never_answers_does_not_hang_the_run() {
    let workspace = Workspace::new();
    let silent = workspace.path("silent");
    let _listener = UnixListener::bind(&silent).expect("a listener");
    workspace
        .jail_with_out()
        .flag("--uds", &silent)
        .refused("socket");
}

#[test]
fn a_socket_whose_folder_the_command_could_write() {
    let workspace = Workspace::with_git();
    let in_out = workspace.folder("out").join("socket");
    let in_clone = workspace.clone_dir().join("socket");
    for path in [&in_out, &in_clone] {
        broker(path, HEALTHY);
        workspace
            .jail_with_out()
            .writable()
            .flag("--uds", path)
            .refused("overlap");
    }
}
