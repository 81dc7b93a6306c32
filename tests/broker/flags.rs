//! The command line of `groom-ns broker`.

use std::io::Write as _;
use std::process::{Command, Stdio};

use groom_ns::sys::process::bytes_in_pipe;
use nix::sys::signal::{Signal, kill};

use crate::common::broker::{Start, refused};
use crate::common::desk::wait_until;
use crate::common::host::{in_shell, path_str, unique};
use crate::common::jail::{binary, finish, pid_of, spawn};
use crate::common::upstream::ok;
use crate::common::{Broker, Client, Folder, Upstream};
use crate::hostile::get;

#[test]
fn flags_that_make_no_sense() {
    let upstream = Upstream::start(|_| ok("spent"));
    let before = || Broker::before(&upstream);
    before().provider("nobody").refused("usage");
    before().listen("udp:1").refused("usage");
    before().listen("tcp:0.0.0.0:80").refused("usage");
    before().listen("tcp:65536").refused("usage");
    before().listen("unix:").refused("usage");
    before().listen("/run/x.sock").refused("usage");
    before().flag("--key-env", "HOME").refused("usage");
    before().without_key_file().refused("usage");
    before().provider("custom").refused("usage");
    before()
        .provider("custom")
        .flag("--auth-header", "content-length")
        .refused("usage");
    before()
        .provider("custom")
        .flag("--auth-header", "host")
        .refused("usage");
    before()
        .provider("custom")
        .flag("--auth-header", "x y")
        .refused("usage");
    before().flag("--allow-route", "/v1/files").refused("usage");
    before()
        .flag("--allow-route", "TRACE /v1/files")
        .refused("usage");
    before()
        .flag("--allow-route", "GET v1/files")
        .refused("usage");
    before()
        .flag("--allow-route", "GET /v1/../files")
        .refused("usage");
    before().flag("--ready-fd", "1").refused("usage");
    before().flag("--peer-uid", "-1").refused("usage");
    before().flag("--peer-uid", "root").refused("usage");
    for fd in ["0", "1", "2", "-1", "x"] {
        before()
            .without_key_file()
            .flag("--key-fd", fd)
            .refused("usage");
    }
    let mut command = Command::new(binary());
    command
        .args(["broker", "anthropic"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    refused(command, "usage");
}

#[test]
fn upstreams_that_make_no_sense() {
    let upstream = Upstream::start(|_| ok("spent"));
    let ca = upstream.ca_file();
    for url in [
        "http://api.anthropic.com",
        "http://192.0.2.1",
        "https://user:password@localhost",
        "https://localhost/?key=1",
        "https://localhost/#x",
        "ftp://localhost",
        "localhost",
        "",
        "https://",
        "https://localhost:0x1",
        "https://localhost/../x",
    ] {
        Broker::to(url, &ca).refused("usage");
    }
    let folder = Folder::new();
    let garbage = folder.secret("garbage", "not a certificate");
    for ca in [garbage, folder.path("missing")] {
        let code = run_code(&Broker::to(&upstream.url(), &ca).command());
        assert_eq!(code, Some(125), "{}", ca.display());
    }
}

fn run_code(command: &Command) -> Option<i32> {
    let mut again = Command::new(command.get_program());
    finish(spawn(again.args(command.get_args()))).code
}

#[test]
fn a_key_comes_from_where_it_was_said() {
    let upstream = Upstream::start(|_| ok("spent"));
    let folder = Folder::new();
    let key = format!("sk-ant-{}", unique("canary"));
    let file = folder.secret("key", &format!("  {key}\r\n"));
    let broker = Broker::before(&upstream)
        .without_key_file()
        .flag("--key-file", &file)
        .start();
    assert_eq!(broker.client().ask(&get("/v1/models")).status, 200);
    let start = Broker::before(&upstream)
        .without_key_file()
        .flag("--key-fd", "7");
    let shell = in_shell(
        &format!("exec \"$@\" 7<{}", path_str(&file)),
        &start.command(),
    );
    let broker = start.start_as(shell);
    assert_eq!(broker.client().ask(&get("/v1/models")).status, 200);
    for request in upstream.requests() {
        assert_eq!(request.head.one("x-api-key"), Some(key.as_str()));
    }
    let link = folder.path("link");
    std::os::unix::fs::symlink(&file, &link).expect("a link");
    for bad in [link, folder.path("missing"), folder.root().to_owned()] {
        let start = Broker::before(&upstream)
            .without_key_file()
            .flag("--key-file", &bad);
        let code = run_code(&start.command());
        assert_eq!(code, Some(125), "{}", bad.display());
    }
}

#[test]
fn http_is_for_the_loopback() {
    let upstream = Upstream::plain(|_| ok("spent"));
    let ca = upstream.ca_file();
    for url in [upstream.url(), format!("http://{}", upstream.address())] {
        let broker = Broker::to(&url, &ca).start();
        assert_eq!(broker.client().ask(&get("/v1/models")).whole(), b"spent");
        let mut client = Client::unix(&broker.socket());
        assert_eq!(client.ask(&get("/healthz")).whole().trim_ascii(), b"ok");
    }
}

/// Nothing is made yet that it would leave behind.
#[test]
fn a_signal_ends_it_while_it_waits_for_its_key() {
    let upstream = Upstream::start(|_| ok("spent"));
    for (signal, code) in [(Signal::SIGTERM, None), (Signal::SIGINT, Some(130))] {
        let start = Broker::before(&upstream).without_key_file();
        let mut command = start.command();
        let child = command.arg("--key-stdin").stdin(Stdio::piped()).spawn();
        let mut child = child.expect("groom-ns starts");
        let mut key = child.stdin.take().expect("a pipe");
        key.write_all(b"sk-half").expect("room");
        wait_until("it reads its key", || bytes_in_pipe(&key) == 0);
        kill(pid_of(&child), signal).expect("our child");
        let run = finish(child);
        assert_eq!(run.code, code, "{run:#?}");
        assert!(!start.folder().path("broker.sock").exists());
    }
}

/// Nor is what it writes a file that it reads.
#[test]
fn its_log_is_none_of_the_files_that_it_reads() {
    let upstream = Upstream::start(|_| ok("spent"));
    let folder = Folder::new();
    let key = folder.secret("key", "sk-0123456789abcdef\n");
    let twin = folder.path("twin");
    std::fs::hard_link(&key, &twin).expect("a link");
    let token = folder.secret("token", "a-token-of-visible-characters\n");
    let ca = upstream.ca_file();
    let before = || Broker::before(&upstream).without_log();
    let file = || before().without_key_file().flag("--key-file", &key);
    let fd = || before().without_key_file().flag("--key-fd", "4");
    let shell = |start: &Start, redirection: &str| {
        let script = format!(
            "cd {} && exec \"$@\" {redirection}",
            path_str(folder.root())
        );
        in_shell(&script, &start.command())
    };
    let token_file = || before().flag("--token-file", &token);
    let log = folder.path("log");
    for (start, redirection, code, flag) in [
        (file().flag("--log", &key), "", "broker", "--key-file"),
        (file().flag("--log", &twin), "", "broker", "--key-file"),
        (fd().flag("--log", &key), "4<key", "broker", "--key-fd"),
        (
            token_file().flag("--log", &token),
            "",
            "broker",
            "--token-file",
        ),
        (before().flag("--log", &ca), "", "broker", "--upstream-ca"),
        (
            file().flag("--ready-fd", "5"),
            "5>>key",
            "broker",
            "--key-file",
        ),
    ] {
        let read = [&key, &token, &ca].map(|path| std::fs::read(path).expect("a file"));
        let run = refused(shell(&start, redirection), code);
        let says = format!("it is the file of {flag},");
        assert!(run.refusal().contains(&says), "{run:#?}");
        let after = [&key, &token, &ca].map(|path| std::fs::read(path).expect("a file"));
        assert!(read == after, "{flag} was written to");
        assert!(!start.folder().path("broker.sock").exists());
    }
    for (start, redirection) in [
        (file().flag("--log", &log), ""),
        (fd().flag("--log", &log), "4<key"),
        (token_file().flag("--log", &log), ""),
        (file().flag("--ready-fd", "5"), "5>>ready"),
    ] {
        let shell = shell(&start, redirection);
        // Control: with another file it starts.
        start.start_as(shell).assert_alive();
    }
}
