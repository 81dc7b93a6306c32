//! A run with a broker: how it begins, how it ends, and what is left of it.

use std::fs::{self, File};
use std::io::{Read as _, Write as _};
use std::process::Stdio;
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::sys::stat::Mode;
use nix::unistd::{Pid, mkfifo};

use crate::common::Upstream;
use crate::common::desk::wait_until;
use crate::common::host::{path_str, processes_named};
use crate::common::jail::{finish, wait_for_line};
use crate::common::upstream::{Act, ok};
use crate::in_run::{Setup, item, request};

fn setup() -> Setup {
    Setup::new(Upstream::start(|_| ok("spent")))
}

fn spend() -> String {
    item("shim", "/v1/models", &["x-api-key: {token}"])
}

#[test]
fn a_command_that_is_given_the_key_is_refused() {
    let setup = setup();
    let key = &setup.key;
    for word in [key.clone(), format!("--key={key}"), format!("{key}x")] {
        let run = setup.jail().run(&["say", &word]);
        run.assert_refused("key");
        assert_eq!(run.stdout, "", "{run:#?}");
        assert!(!run.stderr.contains(key), "{run:#?}");
        let own = format!("OWN={word}");
        let run = setup.jail().flag("--env", &own).run(&["say", "ran"]);
        run.assert_refused("key");
        assert!(run.refusal().contains("--env OWN"), "{run:#?}");
        let run = setup.jail().host_env("OWN", &word).flag("--env", "OWN");
        run.run(&["say", "ran"]).assert_refused("key");
    }
    // Control: half of it is no key.
    let run = setup.jail().run(&["say", &key[..key.len() - 1]]);
    assert_eq!(run.code, Some(0), "{run:#?}");
}

#[test]
fn the_key_is_the_first_line_of_a_pipe() {
    let setup = setup();
    let fifo = setup.workspace.path("fifo");
    mkfifo(&fifo, Mode::S_IRWXU).expect("a pipe");
    let line = format!("{}\nno key\n", setup.key);
    let place = fifo.clone();
    let writer = std::thread::spawn(move || {
        let mut pipe = File::options().write(true).open(place).expect("a reader");
        pipe.write_all(line.as_bytes()).expect("it is read");
    });
    let run = setup
        .without_key()
        .flag("--key-file", &fifo)
        .run(&["seq", &spend()]);
    assert_eq!(run.lines(), ["ok 200 spent"], "{run:#?}");
    writer.join().expect("written");
    let requests = setup.upstream.requests();
    assert_eq!(requests[0].head.one("x-api-key"), Some(setup.key.as_str()));
}

/// Nothing has run, and whoever waits for a key can be told to end.
#[test]
fn a_run_that_waits_for_its_key_ends_with_a_signal() {
    let setup = setup();
    let fifo = setup.workspace.path("fifo");
    mkfifo(&fifo, Mode::S_IRWXU).expect("a pipe");
    // Open both ways, so that whoever opens it doesn't wait, and whoever reads does.
    let _pipe = File::options()
        .read(true)
        .write(true)
        .open(&fifo)
        .expect("a pipe");
    let (binary, name) = setup.workspace.named_binary();
    let spec = format!("7:{}", path_str(&fifo));
    let by_fd = setup.without_key().in_situation(&["with-fds", &spec]);
    for (how, jail) in [
        ("--key-file", setup.without_key().flag("--key-file", &fifo)),
        ("--key-fd", by_fd.flag("--key-fd", "7")),
        (
            "--key-stdin",
            setup
                .without_key()
                .switch("--key-stdin")
                .stdio(0, Stdio::piped()),
        ),
    ] {
        let child = jail.binary(binary.clone()).start(&["say", "ran"]);
        let supervisor = i32::try_from(child.id()).expect("a pid");
        wait_until("pid 1", || processes_named(&name).len() > 1);
        std::thread::sleep(Duration::from_millis(100));
        kill(Pid::from_raw(supervisor), Signal::SIGTERM).expect("it runs");
        let run = finish(child);
        assert_eq!(run.stdout, "", "{how}: {run:#?}");
        assert_eq!(run.code, Some(125), "{how}: {run:#?}");
        assert!(run.refusal().contains("SIGTERM"), "{how}: {run:#?}");
    }
    assert_eq!(processes_named(&name), Vec::<i32>::new());
}

/// Nobody waits for a key that no command is there for.
#[test]
fn a_refusal_inside_doesnt_wait_for_the_key() {
    let setup = setup();
    let jail = setup.without_key().switch("--key-stdin").in_situation(&[
        "fail-nth",
        "landlock_restrict_self",
        "1",
        "EPERM",
    ]);
    let mut child = jail.stdio(0, Stdio::piped()).start(&["say", "ran"]);
    let stdin = child.stdin.take();
    let run = finish(child);
    assert_eq!((run.code, run.stdout.as_str()), (Some(125), ""), "{run:#?}");
    assert!(run.refusal().contains("landlock"), "{run:#?}");
    drop(stdin);
}

#[test]
fn a_log_that_was_made_for_nothing_is_taken_back() {
    let setup = setup();
    let short = setup.workspace.file("short", "short");
    let jail = || setup.without_key().flag("--key-file", &short);
    jail().refused("key");
    assert!(!setup.log().exists());
    fs::write(setup.log(), "precious\n").expect("a file");
    jail().refused("key");
    assert_eq!(
        fs::read_to_string(setup.log()).expect("a log"),
        "precious\n"
    );
    fs::remove_file(setup.log()).expect("a file");
    // What somebody has put into its place isn't what was made.
    let jail = setup.without_key().switch("--key-stdin");
    let mut child = jail.stdio(0, Stdio::piped()).start(&["say", "ran"]);
    wait_until("a log", || setup.log().exists());
    fs::remove_file(setup.log()).expect("a log");
    fs::write(setup.log(), "precious\n").expect("a file");
    let mut stdin = child.stdin.take().expect("a pipe");
    stdin.write_all(b"short\n").expect("it is read");
    drop(stdin);
    finish(child).assert_refused("key");
    assert_eq!(
        fs::read_to_string(setup.log()).expect("a log"),
        "precious\n"
    );
}

#[test]
fn what_the_runs_end_cuts_off_is_on_record() {
    let setup = Setup::new(Upstream::start(|_| vec![Act::Hold]));
    let probe = path_str(&setup.workspace.probe()).to_owned();
    let request = request("/v1/models", &["x-api-key: {token}"]);
    let script = format!("{probe} http shim '{request}' & read line");
    let jail = setup.jail().stdio(0, Stdio::piped());
    let mut child = jail
        .command(&["sh", "-c", &script])
        .spawn()
        .expect("groom-ns starts");
    setup.upstream.wait_for_requests(1);
    drop(child.stdin.take());
    let run = finish(child);
    assert_eq!(run.stdout, "", "{run:#?}");
    setup.upstream.wait_for_hang_up("/v1/models");
    let log = fs::read_to_string(setup.log()).expect("a log");
    assert_eq!(log.lines().count(), 1, "{log}");
    let line: serde_json::Value = serde_json::from_str(&log).expect("JSON");
    assert_eq!(line["reason"], "client-gone", "{line}");
}

/// Nobody of the jail's own network can come from elsewhere, and none is let in.
#[test]
fn its_port_is_the_loopbacks() {
    let setup = setup();
    let port = crate::common::broker::free_port();
    let jail = setup.jail().flag("--shim-port", port.to_string());
    let run = jail.run_program(&["cat", "/proc/net/tcp"]);
    assert_eq!(run.code, Some(0), "{run:#?}");
    let listening: Vec<&str> = run
        .stdout
        .lines()
        .filter_map(|line| {
            let words: Vec<&str> = line.split_whitespace().collect();
            // 0A is TCP_LISTEN.
            (words.get(3) == Some(&"0A")).then(|| words[1])
        })
        .collect();
    assert_eq!(listening, [format!("0100007F:{port:04X}")]);
}

#[test]
fn the_rest_of_standard_input_is_the_commands() {
    let setup = setup();
    let jail = setup.without_key().switch("--key-stdin");
    let mut child = jail
        .stdio(0, Stdio::piped())
        .command(&["sh", "-c", "echo ready; cat"])
        .spawn()
        .expect("groom-ns starts");
    let mut stdin = child.stdin.take().expect("a pipe");
    let all = format!("{}\nfirst line of the command's\n", setup.key);
    // In pieces that are no lines.
    for piece in all.as_bytes().chunks(7) {
        stdin.write_all(piece).expect("it is read");
    }
    wait_for_line(&mut child, "ready");
    stdin.write_all(b"and more").expect("it is read");
    drop(stdin);
    let mut text = String::new();
    let mut stdout = child.stdout.take().expect("a pipe");
    stdout.read_to_string(&mut text).expect("text");
    let run = finish(child);
    assert_eq!(run.code, Some(0), "{run:#?}");
    assert_eq!(text, "first line of the command's\nand more");
}
