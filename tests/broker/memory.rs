//! Bounded memory: large bodies with one side slow, many streams, too many.

use std::io::Write as _;
use std::process::Stdio;
use std::time::{Duration, Instant};

use nix::sys::resource::{Resource, getrlimit, setrlimit};

use crate::common::host::program;
use crate::common::http::chunk;
use crate::common::jail::{finish, spawn};
use crate::common::upstream::{Act, PATIENCE, events_head, head, ok};
use crate::common::{Broker, Client, Upstream};
use crate::hostile::{get, post};
use crate::streams::assert_next;

const SIZE: usize = 100 << 20;
const PIECE: usize = 64 << 10;
/// What the sockets of the kernel may hold on the way.
const ON_THE_WAY: usize = 40 << 20;
/// By how much the broker may grow, in KiB.
const GROWTH: usize = 8 << 10;

/// A broker that has done its first request, and its largest size then.
fn warm(upstream: &Upstream) -> (Broker, usize) {
    let broker = Broker::start(upstream);
    assert_eq!(broker.client().ask(&get("/v1/models")).whole(), b"spent");
    let before = broker.kib("VmHWM:");
    (broker, before)
}

fn assert_small(broker: &Broker, before: usize) {
    let now = broker.kib("VmHWM:");
    assert!(now < before + GROWTH, "from {before} to {now} KiB");
    broker.assert_alive();
}

#[test]
fn a_hundred_megabytes_up_to_a_slow_upstream() {
    let upstream = Upstream::start(|head| {
        if head.line.starts_with("GET") {
            return ok("spent");
        }
        [&[Act::Gate], &ok("spent")[..]].concat()
    });
    let (broker, before) = warm(&upstream);
    let mut client = broker.client();
    client.must_send(&post(&format!("Content-Length: {SIZE}\r\n"), ""));
    let piece = vec![b'x'; PIECE];
    let mut sent = client.send_until_full(&piece);
    assert!(sent < ON_THE_WAY, "{sent} bytes, and upstream read none");
    assert_small(&broker, before);
    upstream.open();
    while sent < SIZE {
        let length = PIECE.min(SIZE - sent);
        client.must_send(&piece[..length]);
        sent += length;
    }
    assert_eq!(
        client.answer_to("POST").expect("an answer").whole(),
        b"spent"
    );
    let request = upstream.requests().pop().expect("a request");
    assert!(request.is_whole);
    assert_eq!(request.body_length, SIZE);
    assert_small(&broker, before);
}

#[test]
fn a_hundred_megabytes_down_to_a_slow_client() {
    let upstream = Upstream::start(|request| {
        let length = SIZE.to_string();
        let (start, piece) = match request.line.split(' ').nth(1) {
            Some("/v1/models/length") => (
                head("200 OK", &[("content-length", &length)]),
                vec![b'x'; PIECE],
            ),
            Some("/v1/models/chunked") => (events_head(), chunk(&vec![b'x'; PIECE])),
            _ => return ok("spent"),
        };
        let last = if start == events_head() {
            b"0\r\n\r\n".to_vec()
        } else {
            Vec::new()
        };
        vec![
            Act::Send(start),
            Act::Repeat(piece, SIZE / PIECE),
            Act::Send(last),
        ]
    });
    let (broker, before) = warm(&upstream);
    for kind in ["length", "chunked"] {
        let mut client = broker.client();
        let earlier = written(&upstream);
        client.must_send(&get(format!("/v1/models/{kind}")));
        let head = client.head().expect("an answer");
        let mut body = head.answer_body("GET").expect("a body");
        let ahead = settled(&upstream) - earlier;
        assert!(
            ahead < ON_THE_WAY,
            "{ahead} bytes, and the client read none"
        );
        assert_small(&broker, before);
        let mut length = 0;
        while let Some(piece) = client.piece(&mut body) {
            assert!(piece.iter().all(|byte| *byte == b'x'));
            length += piece.len();
        }
        assert_eq!((length, body.is_done()), (SIZE, true));
        assert_small(&broker, before);
    }
}

fn written(upstream: &Upstream) -> usize {
    upstream.seen().iter().map(|one| one.written).sum()
}

/// What upstream has written once it can write no more.
fn settled(upstream: &Upstream) -> usize {
    let end = Instant::now() + PATIENCE;
    let mut last = written(upstream);
    loop {
        std::thread::sleep(Duration::from_millis(200));
        let now = written(upstream);
        if now == last {
            return now;
        }
        assert!(Instant::now() < end, "it goes on and on: {now}");
        last = now;
    }
}

#[test]
fn a_hundred_megabytes_up_and_down_at_once() {
    let upstream = Upstream::start(|head| {
        if head.line.starts_with("GET") {
            return ok("spent");
        }
        vec![Act::Echo]
    });
    let (broker, before) = warm(&upstream);
    let mut client = broker.client();
    client.must_send(&post("Transfer-Encoding: chunked\r\n", ""));
    let mut sender = client.sender();
    let upload = std::thread::spawn(move || {
        let piece = chunk(&vec![b'x'; PIECE]);
        for _ in 0..SIZE / PIECE {
            sender.write_all(&piece).expect("the broker takes it");
        }
        sender.write_all(b"0\r\n\r\n").expect("the broker takes it");
    });
    let head = client.head().expect("an answer");
    let mut body = head.answer_body("POST").expect("a body");
    let mut length = 0;
    while let Some(piece) = client.piece(&mut body) {
        length += piece.len();
    }
    upload.join().expect("all was sent");
    assert_eq!((length, body.is_done()), (SIZE, true));
    assert_small(&broker, before);
}

/// What is sent ahead of an answer is kept up to a limit, and taken all the same.
#[test]
fn a_hundred_megabytes_ahead_of_an_answer() {
    let upstream = Upstream::start(|head| {
        if head.line.contains("held") {
            return [&[Act::Watch], &ok("spent")[..]].concat();
        }
        ok("spent")
    });
    let (broker, before) = warm(&upstream);
    let mut client = broker.client();
    client.must_send(&get("/v1/models/held"));
    upstream.wait_for_requests(2);
    let ahead = get("/v1/models/ahead").repeat(1000);
    for _ in 0..SIZE / ahead.len() {
        client.must_send(&ahead);
    }
    assert_small(&broker, before);
    upstream.open();
    assert_eq!(
        client.answer_to("GET").expect("an answer").whole(),
        b"spent"
    );
    assert_eq!(client.rest(), b"");
    assert_eq!(upstream.requests().len(), 2);
}

/// Descriptors for thousands of connections, in this process and the broker.
fn many_descriptors() {
    let (_, hard) = getrlimit(Resource::RLIMIT_NOFILE).expect("a limit");
    assert!(hard >= 12_000, "this test needs descriptors: {hard}");
    setrlimit(Resource::RLIMIT_NOFILE, hard, hard).expect("a soft limit");
}

#[test]
fn a_thousand_idle_streams() {
    many_descriptors();
    let first = || Act::Send(chunk(b"data: 1\n\n"));
    let second = || Act::Send([&chunk(b"data: 2\n\n")[..], b"0\r\n\r\n"].concat());
    let upstream =
        Upstream::start(move |_| vec![Act::Send(events_head()), first(), Act::Watch, second()]);
    let broker = Broker::start(&upstream);
    let mut streams = Vec::new();
    for _ in 0..1000 {
        let mut client = broker.client();
        client.must_send(&get("/v1/models"));
        streams.push(client);
    }
    let mut bodies = Vec::new();
    for client in &mut streams {
        let head = client.head().expect("an answer");
        let mut body = head.answer_body("GET").expect("a body");
        assert_next(client, &mut body, b"data: 1\n\n");
        bodies.push(body);
    }
    // Meanwhile others are answered at once.
    let asked = Instant::now();
    broker.assert_alive();
    assert!(asked.elapsed() < Duration::from_secs(2));
    for _ in &streams {
        upstream.open();
    }
    for (client, body) in streams.iter_mut().zip(&mut bodies) {
        assert_next(client, body, b"data: 2\n\n");
        assert_eq!(client.piece(body), None);
        assert!(body.is_done());
    }
}

#[test]
fn too_many_requests_at_once() {
    many_descriptors();
    // 2048 are too many for no machine.
    let upstream = Upstream::plain(|_| vec![Act::Send(events_head()), Act::Hold]);
    let broker = Broker::start(&upstream);
    let mut streams: Vec<Client> = Vec::new();
    let refused = loop {
        assert!(streams.len() < 2100, "no limit at {}", streams.len());
        let mut client = broker.client();
        client.must_send(&get("/v1/models"));
        let head = client.head().expect("an answer");
        match head.status() {
            Ok(200) => streams.push(client),
            other => break (other, head),
        }
    };
    assert_eq!(refused.0, Ok(429), "{:?}", refused.1);
    assert!(streams.len() >= 1000, "{} are few", streams.len());
    assert_eq!(upstream.requests().len(), streams.len());
    broker.assert_alive();
    // Who leaves makes room.
    drop(streams);
    upstream.wait_until("nobody there", |seen| {
        seen.iter()
            .all(|one| one.requests.is_empty() || one.gone.is_some())
    });
    let mut client = broker.client();
    client.must_send(&get("/v1/models"));
    assert_eq!(client.head().expect("an answer").status(), Ok(200));
}

#[test]
fn too_many_connections() {
    many_descriptors();
    let upstream = Upstream::plain(|_| ok("spent"));
    let broker = Broker::start(&upstream);
    let mut idle: Vec<Client> = (0..4096).map(|_| broker.client()).collect();
    let mut one_more = broker.client();
    // It may be told before it asks, and may then fail to ask.
    let _ = one_more.send(&get("/healthz"));
    let answer = one_more.answer_to("GET").expect("an answer");
    assert_eq!(answer.status, 429, "{answer:?}");
    assert_eq!(one_more.rest(), b"");
    // Those before it are well.
    let last = idle.last_mut().expect("many");
    assert_eq!(last.ask(&get("/healthz")).whole().trim_ascii(), b"ok");
    idle.truncate(4000);
    let end = Instant::now() + PATIENCE;
    loop {
        let mut client = broker.client();
        let _ = client.send(&get("/healthz"));
        let status = client.answer_to("GET").map(|answer| answer.status);
        if status == Some(200) {
            break;
        }
        assert!(Instant::now() < end, "no room again: {status:?}");
    }
}

/// A broker that may have 128 open files.
fn with_few_descriptors(upstream: &Upstream) -> Broker {
    let start = Broker::before(upstream);
    let command = start.command();
    let mut limited = program("prlimit", "util-linux");
    limited
        .arg("--nofile=128:128")
        .arg(command.get_program())
        .args(command.get_args());
    limited
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    start.start_as(limited)
}

#[test]
fn no_more_connections_than_descriptors() {
    let upstream = Upstream::plain(|_| ok("spent"));
    let broker = with_few_descriptors(&upstream);
    // Two each, and 64 for everything else.
    let mut held: Vec<Client> = (0..32).map(|_| broker.client()).collect();
    for client in &mut held {
        assert_eq!(client.ask(&get("/v1/models")).whole(), b"spent");
    }
    let mut one_more = broker.client();
    let _ = one_more.send(&get("/healthz"));
    assert_eq!(one_more.answer_to("GET").expect("an answer").status, 429);
}

#[test]
fn without_a_descriptor_left_a_client_waits() {
    let upstream = Upstream::plain(|_| ok("spent"));
    let broker = with_few_descriptors(&upstream);
    let limit = |number: &str| {
        let mut command = program("prlimit", "util-linux");
        command.arg(format!("--pid={}", broker.pid()));
        let run = finish(spawn(command.arg(format!("--nofile={number}:128"))));
        assert_eq!(run.code, Some(0), "{run:#?}");
    };
    limit("4");
    let mut client = broker.client();
    client.must_send(&get("/healthz"));
    assert!(!client.is_readable_within(Duration::from_millis(200)));
    limit("128");
    let answer = client.answer_to("GET").expect("an answer");
    assert_eq!(answer.whole().trim_ascii(), b"ok");
}
