//! The API that the tests play, by itself: what it is to the broker it is to a
//! client that comes straight to it.

use std::time::{Duration, Instant};

use crate::common::certificate::Identity;
use crate::common::http::{chunk, holds};
use crate::common::upstream::{Act, Down, answer, events_head, head, ok};
use crate::common::{Client, Upstream};

const POST: &[u8] =
    b"POST /v1/messages HTTP/1.1\r\nHost: localhost\r\nContent-Length: 4\r\n\r\nbody";
const GET: &[u8] = b"GET /v1/models HTTP/1.1\r\nHost: localhost\r\n\r\n";

#[test]
fn it_keeps_every_byte_of_a_connection() {
    for upstream in [
        Upstream::start(|_| ok("spent")),
        Upstream::plain(|_| ok("spent")),
    ] {
        let mut client = Client::straight(&upstream);
        for request in [POST, GET] {
            let answer = client.ask(request);
            assert_eq!((answer.status, answer.whole()), (200, &b"spent"[..]));
        }
        drop(client);
        let [seen] = &upstream.wait_until_alone()[..] else {
            panic!("one connection")
        };
        assert_eq!(seen.bytes, [POST, GET].concat());
        let lines: Vec<_> = seen.requests.iter().map(|r| r.head.line.as_str()).collect();
        assert_eq!(
            lines,
            ["POST /v1/messages HTTP/1.1", "GET /v1/models HTTP/1.1"]
        );
        assert!(seen.requests.iter().all(|request| request.is_whole));
        assert_eq!(seen.requests[0].body, b"body");
        assert!(upstream.got(b"\r\n\r\nbodyGET ") && !upstream.got(b"never"));
    }
}

#[test]
fn it_knows_what_is_no_http_and_what_is_half_a_request() {
    let upstream = Upstream::start(|_| ok("spent"));
    for (bytes, is_broken) in [
        (&b"GET / HTTP/1.1\r\nno colon\r\n\r\n"[..], true),
        (
            b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhellooo",
            true,
        ),
        (
            b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nX: 1\r\n\r\n",
            true,
        ),
        (b"POST / HTTP/1.1\r\nContent-Length: 9\r\n\r\nhalf", false),
        (
            b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhe",
            false,
        ),
    ] {
        let mut client = Client::straight(&upstream);
        client.must_send(bytes);
        client.half_close();
        assert!(client.answer_to("GET").is_none());
        let seen = upstream.wait_until_alone().pop().expect("a connection");
        assert_eq!(seen.broken.is_some(), is_broken, "{seen:?}");
        assert!(
            seen.requests.iter().all(|request| !request.is_whole),
            "{seen:?}"
        );
        assert_eq!(seen.bytes, bytes);
    }
}

#[test]
fn its_events_come_one_by_one() {
    let upstream = Upstream::start(|_| {
        let event = |text: &str| Act::Send(chunk(text.as_bytes()));
        let acts = [
            Act::Body,
            Act::Send(events_head()),
            Act::Gate,
            event("data: 1\n\n"),
        ];
        let rest = [
            Act::Watch,
            event("data: 2\n\n"),
            Act::Send(b"0\r\n\r\n".to_vec()),
        ];
        [&acts[..], &rest].concat()
    });
    let mut client = Client::straight(&upstream);
    client.must_send(POST);
    let head = client.head().expect("an answer");
    let mut body = head.answer_body("POST").expect("a body");
    for event in [&b"data: 1\n\n"[..], b"data: 2\n\n"] {
        assert!(!client.is_readable_within(Duration::from_millis(20)));
        upstream.open();
        assert_eq!(client.piece(&mut body).as_deref(), Some(event));
    }
    assert_eq!(client.piece(&mut body), None);
    assert!(body.is_done());
}

#[test]
fn it_notices_that_a_client_left() {
    for waiting in [Act::Watch, Act::Hold] {
        let upstream =
            Upstream::start(move |_| vec![Act::Body, Act::Send(events_head()), waiting.clone()]);
        let mut client = Client::straight(&upstream);
        client.must_send(POST);
        client.head().expect("an answer");
        let left = Instant::now();
        drop(client);
        let noticed = upstream.wait_for_hang_up("/v1/messages");
        assert!(noticed.duration_since(left) < Duration::from_secs(1));
    }
}

#[test]
fn its_bad_ends_are_no_ends_of_a_body() {
    let chunked = [events_head(), chunk(b"data: 1\n\n")].concat();
    let length = [
        head("200 OK", &[("content-length", "100")]),
        b"data: 1\n\n".to_vec(),
    ]
    .concat();
    for start in [chunked, length] {
        for end in [Act::Reset, Act::Cut, Act::Close] {
            let (start, last) = (start.clone(), end.clone());
            let upstream = Upstream::start(move |_| {
                vec![Act::Body, Act::Send(start.clone()), Act::Gate, last.clone()]
            });
            let mut client = Client::straight(&upstream);
            client.must_send(POST);
            let head = client.head().expect("an answer");
            let mut body = head.answer_body("POST").expect("a body");
            assert_eq!(
                client.piece(&mut body).as_deref(),
                Some(&b"data: 1\n\n"[..])
            );
            upstream.open();
            assert_eq!(client.piece(&mut body), None);
            assert!(!body.may_end_here(), "{end:?}");
        }
    }
    // Without framing, TLS's own end is an end.
    let upstream = Upstream::start(|_| {
        vec![
            Act::Body,
            Act::Send(head("200 OK", &[])),
            Act::Send(b"all".to_vec()),
            Act::Close,
        ]
    });
    assert_eq!(Client::straight(&upstream).ask(POST).whole(), b"all");
}

#[test]
fn it_answers_early_and_with_more_than_memory_should_hold() {
    let many = 256;
    let upstream = Upstream::start(move |head| match head.line.as_str() {
        "POST /early HTTP/1.1" => {
            let mut acts = answer("413 Too Much", &[], b"no");
            acts.remove(0);
            acts
        }
        "POST /echo HTTP/1.1" => vec![Act::Echo],
        _ => {
            let length = (many << 16).to_string();
            let head = head_of(&length);
            vec![
                Act::Body,
                Act::Send(head),
                Act::Repeat(vec![b'x'; 1 << 16], many),
            ]
        }
    });
    let mut client = Client::straight(&upstream);
    client.must_send(b"POST /early HTTP/1.1\r\nHost: localhost\r\nContent-Length: 4\r\n\r\n");
    assert_eq!(client.answer_to("POST").expect("an answer").status, 413);
    client.must_send(b"body");
    assert_eq!(client.ask(GET).whole().len(), many << 16);
    let echo = b"POST /echo HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n";
    client.must_send(echo);
    client.must_send(&chunk(b"one"));
    let head = client.head().expect("an answer");
    let mut body = head.answer_body("POST").expect("a body");
    assert_eq!(client.piece(&mut body).as_deref(), Some(&b"one"[..]));
    client.must_send(b"0\r\n\r\n");
    assert_eq!(client.piece(&mut body), None);
    assert!(body.is_done());
    assert!(holds(
        &upstream.seen()[0].bytes,
        b"\r\n3\r\none\r\n0\r\n\r\n"
    ));
}

fn head_of(length: &str) -> Vec<u8> {
    head("200 OK", &[("content-length", length)])
}

#[test]
fn it_takes_no_more_than_it_reads() {
    let upstream = Upstream::plain(|_| vec![Act::Gate, Act::Body, Act::Mirror]);
    let mut client = Client::straight(&upstream);
    client
        .must_send(b"POST /v1/messages HTTP/1.1\r\nHost: h\r\nContent-Length: 1000000000\r\n\r\n");
    let sent = client.send_until_full(&vec![b'x'; 1 << 16]);
    assert!((1 << 16..64 << 20).contains(&sent), "{sent} bytes");
}

#[test]
fn its_certificates_are_good_or_bad() {
    for (identity, is_good) in [
        (Identity::Localhost, true),
        (Identity::WrongName, false),
        (Identity::Expired, false),
        (Identity::Stranger, false),
    ] {
        let upstream = Upstream::as_identity(identity);
        let sent = Client::straight(&upstream).send(POST);
        assert_eq!(sent.is_ok(), is_good, "{identity:?}");
        if is_good {
            upstream.wait_for_requests(1);
        } else {
            let seen = upstream.wait_until_alone();
            assert!(seen.iter().all(|one| one.bytes.is_empty()), "{identity:?}");
        }
    }
}

#[test]
fn it_goes_and_comes_back_at_the_same_port() {
    let mut down = Down::new(Identity::Localhost, true);
    for _ in 0..2 {
        let url = down.url();
        let upstream = down.up(std::sync::Arc::new(|_| ok("spent")));
        let mut client = Client::straight(&upstream);
        assert_eq!(client.ask(POST).whole(), b"spent");
        let address = upstream.address();
        down = upstream.down();
        assert!(client.send(POST).is_err() || client.answer_to("POST").is_none());
        let refused = std::net::TcpStream::connect(address).expect_err("nobody listens");
        assert_eq!(refused.kind(), std::io::ErrorKind::ConnectionRefused);
        assert_eq!(down.url(), url);
    }
}
