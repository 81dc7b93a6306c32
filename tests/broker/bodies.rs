//! Attacks in bodies, and behind them.

use crate::common::http::Head;
use crate::common::upstream::{Act, answer, ok};
use crate::common::{Broker, Upstream};
use crate::hostile::Then::{CutOff, Sent};
use crate::hostile::{EVIL, Row, arrived, assert_all, get, post};

const CHUNKED: &str = "Transfer-Encoding: chunked\r\n";
const LINE: &str = "POST /v1/messages HTTP/1.1";

#[test]
fn chunks_that_two_parsers_could_read_differently() {
    let extension = format!("2;{}\r\n{{}}\r\n0\r\n\r\n", "x".repeat(100_000));
    let trailers = format!("2\r\n{{}}\r\n0\r\nX: {}\r\n\r\n", "x".repeat(100_000));
    let bodies = [
        "0x2\r\n{}\r\n0\r\n\r\n",
        "-2\r\n{}\r\n0\r\n\r\n",
        "+2\r\n{}\r\n0\r\n\r\n",
        " 2\r\n{}\r\n0\r\n\r\n",
        "2_0\r\n{}\r\n0\r\n\r\n",
        "\r\n{}\r\n0\r\n\r\n",
        ";a=b\r\n{}\r\n0\r\n\r\n",
        "g\r\n{}\r\n0\r\n\r\n",
        "10000000000000002\r\n{}\r\n0\r\n\r\n",
        "ffffffffffffffffffffffffffffffffff\r\n{}\r\n0\r\n\r\n",
        "00000000000000000000000000000000000000000000002\r\n{}\r\n0\r\n\r\n",
        "2\n{}\r\n0\r\n\r\n",
        "2\r\n{}\n0\r\n\r\n",
        "2\r\n{}\r\n0\n\n",
        "2\r\n{}\r\n0\r\n\n",
        "2;a\n{}\r\n0\r\n\r\n",
        "2\r{}\r\n0\r\n\r\n",
        "2\r\n{}}\r\n0\r\n\r\n",
        "2\r\n{}0\r\n\r\n",
        "2\r\n{}\r\n0\r\nX : 1\r\n\r\n",
        "2\r\n{}\r\n0\r\nno colon\r\n\r\n",
        "2\r\n{}\r\n0\r\nX: 1\n\r\n",
        "2\r\n{}\r\n0\r\n X: folded\r\n\r\n",
        "2\r\n{}\r\n0\r\nX: \0\r\n\r\n",
        &extension,
    ];
    let shown = |body: &str| body.get(..60).unwrap_or(body).escape_debug().to_string();
    let row = |body: &&str| Row::new(shown(body), post(CHUNKED, body), CutOff(&[400, 431]));
    let mut rows: Vec<Row> = bodies.iter().map(row).collect();
    rows.push(Row::new(
        "huge trailers",
        post(CHUNKED, &trailers),
        CutOff(&[431]),
    ));
    // Whoever leaves in the middle of a request may be told so, or not.
    let length = post("Content-Length: 10\r\n", "short");
    rows.push(Row::new("a short body and FIN", length, CutOff(&[400])).and_end());
    let chunk = post(CHUNKED, "a\r\nshort");
    rows.push(Row::new("a short chunk and FIN", chunk, CutOff(&[400])).and_end());
    let between = post(CHUNKED, "2\r\n{}\r\n");
    rows.push(Row::new("no last chunk and FIN", between, CutOff(&[400])).and_end());
    let last = post(CHUNKED, "2\r\n{}\r\n0\r\n");
    rows.push(Row::new("half of the last chunk and FIN", last, CutOff(&[400])).and_end());
    assert_all(&rows);
}

#[test]
fn chunks_that_are_read_in_one_way() {
    let sent = || Sent(LINE, &["transfer-encoding: chunked"], "{\"a\":1}");
    let bodies = [
        "7\r\n{\"a\":1}\r\n0\r\n\r\n",
        "1\r\n{\r\n6\r\n\"a\":1}\r\n0\r\n\r\n",
        "07\r\n{\"a\":1}\r\n00\r\n\r\n",
        "7;name=value\r\n{\"a\":1}\r\n0;last\r\n\r\n",
    ];
    let row = |body: &&str| Row::new(body.escape_debug().to_string(), post(CHUNKED, body), sent());
    assert_all(&bodies.iter().map(row).collect::<Vec<_>>());
}

#[test]
fn trailers_are_dropped() {
    let evil =
        format!("7\r\n{{\"a\":1}}\r\n0\r\nX-Api-Key: {EVIL}\r\nAuthorization: {EVIL}\r\n\r\n");
    let announced = format!("{CHUNKED}Trailer: X-Api-Key\r\n");
    let length = "Trailer: X-Api-Key\r\nContent-Length: 2\r\n";
    let none = "GET /v1/models HTTP/1.1\r\nHost: localhost\r\nTrailer: X\r\n\r\n";
    let chunked = || Sent(LINE, &["transfer-encoding: chunked"], "{\"a\":1}");
    assert_all(&[
        Row::new("trailers", post(CHUNKED, &evil), chunked()),
        Row::new("announced trailers", post(&announced, &evil), chunked()),
        Row::new(
            "Trailer with a length",
            post(length, "{}"),
            Sent(LINE, &["content-length: 2"], "{}"),
        ),
        Row::new(
            "Trailer without a body",
            none,
            Sent("GET /v1/models HTTP/1.1", &[], ""),
        ),
    ]);
}

#[test]
fn a_body_is_never_a_request() {
    let hidden = format!("POST /v1/messages HTTP/1.1\r\nHost: h\r\nX-Api-Key: {EVIL}\r\n\r\n");
    let length = hidden.len();
    let chunked = format!("{length:x}\r\n{hidden}\r\n0\r\n\r\n");
    for (method, path, allowed) in [
        ("GET", "/v1/models", true),
        ("DELETE", "/v1/models/x", false),
    ] {
        let head = format!("{method} {path} HTTP/1.1\r\nHost: localhost\r\n");
        for bytes in [
            format!("{head}Content-Length: {length}\r\n\r\n{hidden}"),
            format!("{head}{CHUNKED}\r\n{chunked}"),
        ] {
            let upstream = Upstream::start(|_| ok("spent"));
            let broker = Broker::start(&upstream);
            let mut client = broker.client();
            client.must_send(bytes.as_bytes());
            client.must_send(&get("/healthz"));
            let first = client.answer_to(method).expect("an answer");
            let expected: &[u16] = if allowed { &[200, 400] } else { &[400, 404] };
            assert!(expected.contains(&first.status), "{first:?}");
            // Then health, or the end: nothing for a hidden request.
            if let Some(second) = client.answer_to("GET") {
                assert_eq!(second.whole().trim_ascii(), b"ok");
            }
            client.half_close();
            assert_eq!(client.rest(), b"");
            broker.assert_alive();
            let _ = broker.stop();
            upstream.wait_until_alone();
            let lines: Vec<_> = upstream
                .requests()
                .into_iter()
                .map(|r| r.head.line)
                .collect();
            let one = ["GET /v1/models HTTP/1.1"];
            assert_eq!(lines, if first.status == 200 { &one[..] } else { &[] });
        }
    }
}

#[test]
fn pipelined_requests_are_answered_in_order() {
    let upstream = Upstream::start(|head| ok(&head.line));
    let broker = Broker::start(&upstream);
    let good = [get("/v1/models/one"), get("/v1/models/two")];
    let bad: &[(&str, Vec<u8>, u16, bool)] = &[
        ("elsewhere", get("/v1/files"), 404, true),
        ("crooked", get("/v1/%2e%2e/v2"), 400, true),
        ("no request", get("/v1/mod els"), 400, false),
        (
            "another method",
            b"TRACE / HTTP/1.1\r\nHost: h\r\n\r\n".to_vec(),
            405,
            false,
        ),
        ("local", get("/healthz"), 200, true),
    ];
    for (what, bad, status, goes_on) in bad {
        let mut client = broker.client();
        client.must_send(&[&good[0], bad, &good[1]].map(Vec::as_slice).concat());
        let first = client.answer_to("GET").expect("an answer");
        assert_eq!(first.whole(), b"GET /v1/models/one HTTP/1.1", "{what}");
        let second = client.answer_to("GET").expect("an answer");
        assert_eq!(second.status, *status, "{what}");
        let third = client.answer_to("GET");
        if *goes_on {
            let third = third.expect("an answer");
            assert_eq!(third.whole(), b"GET /v1/models/two HTTP/1.1", "{what}");
        } else {
            assert!(third.is_none(), "{what}: {third:?}");
        }
    }
    let lines = upstream
        .requests()
        .into_iter()
        .map(|request| request.head.line);
    let ones = lines.filter(|line| line == "GET /v1/models/one HTTP/1.1");
    assert_eq!(ones.count(), bad.len());
}

#[test]
fn a_hundred_pipelined_requests_in_one_piece_and_in_single_bytes() {
    let upstream = Upstream::start(|head| ok(&head.line));
    let broker = Broker::start(&upstream);
    let mut client = broker.client();
    let requests: Vec<u8> = (0..100)
        .flat_map(|n| get(format!("/v1/models/m{n}")))
        .collect();
    client.must_send(&requests);
    for n in 0..100 {
        let answer = client.answer_to("GET").expect("an answer");
        assert_eq!(
            answer.whole(),
            format!("GET /v1/models/m{n} HTTP/1.1").as_bytes()
        );
    }
    let mut client = broker.client();
    let chunks = "1\r\n{\r\n1\r\n}\r\n0\r\nX: 1\r\n\r\n";
    for request in [
        post("Content-Length: 2\r\n", "{}"),
        post(CHUNKED, chunks),
        get("/v1/models"),
    ] {
        for byte in request {
            client.must_send(&[byte]);
        }
        let answer = client.answer_to("GET").expect("an answer");
        assert!(answer.whole().starts_with(b"POST") || answer.whole().starts_with(b"GET"));
    }
    let requests = upstream.requests();
    let [.., length, chunked, _] = &requests[..] else {
        panic!("three requests")
    };
    assert_eq!(
        (&length.body[..], &chunked.body[..]),
        (&b"{}"[..], &b"{}"[..])
    );
}

#[test]
fn the_body_is_asked_for() {
    let upstream = Upstream::start(|_| ok("spent"));
    let broker = Broker::start(&upstream);
    for expect in ["100-continue", "100-Continue"] {
        let fields = format!("Expect: {expect}\r\nContent-Length: 2\r\n");
        let mut client = broker.client();
        client.must_send(&post(&fields, ""));
        let asked = client.answer_to("POST").expect("a word");
        assert_eq!(asked.status, 100, "{asked:?}");
        client.must_send(b"{}");
        assert_eq!(
            client.answer_to("POST").expect("an answer").whole(),
            b"spent"
        );
        let last = upstream.requests().pop().expect("a request");
        let wanted = arrived(&broker, &upstream, LINE, &["content-length: 2"]);
        assert_eq!((last.head.sorted(), &last.body[..]), (wanted, &b"{}"[..]));
    }
    // What is there needs no asking for.
    let fields = "Expect: 100-continue\r\nContent-Length: 2\r\n";
    let at_once = broker.client().ask(&post(fields, "{}"));
    assert_eq!((at_once.status, at_once.whole()), (200, &b"spent"[..]));
    // Nobody wants the body of a refused request.
    let elsewhere =
        "POST /v1/files HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n";
    let refused = broker.client().ask(elsewhere.as_bytes());
    assert_eq!(refused.status, 404);
    assert_eq!(upstream.requests().len(), 3);
}

#[test]
fn an_answer_may_come_before_the_body() {
    let upstream = Upstream::start(|_| {
        // It reads nothing of the body.
        let mut acts = answer("413 Content Too Large", &[], b"no");
        acts[0] = Act::Send(Vec::new());
        [&acts[..], &[Act::Hold]].concat()
    });
    let broker = Broker::start(&upstream);
    for fields in ["Content-Length: 100000000\r\n", CHUNKED] {
        let mut client = broker.client();
        client.must_send(&post(fields, ""));
        let answer = client.answer_to("POST").expect("an answer");
        assert_eq!((answer.status, answer.whole()), (413, &b"no"[..]));
        drop(client);
    }
    broker.assert_alive();
}

/// What upstream does about the requests of the next test.
fn too_early(head: &Head) -> Vec<Act> {
    match head.line.split(['=', ' ']).nth(2) {
        // The answer, and nothing of the body is read.
        Some("answered") => [
            &answer("413 Content Too Large", &[], b"no")[1..],
            &[Act::Hold],
        ]
        .concat(),
        Some("left") => vec![Act::Reset],
        Some("garbled") => vec![
            Act::Send(b"HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\n\r\n".to_vec()),
            Act::Hold,
        ],
        _ => ok("spent"),
    }
}

/// A client may send on what nobody wants any more, and it may look like a request.
#[test]
fn what_is_left_of_a_body_is_never_a_request() {
    let upstream = Upstream::plain(too_early);
    let token = "groom-ns-token-of-a-test-0123456789";
    let broker = Broker::before(&upstream).token(token).start();
    let own = format!("x-api-key: {token}\r\n");
    let hidden = format!("GET /v1/models/hidden HTTP/1.1\r\nHost: h\r\n{own}\r\n");
    let refused = [
        ("POST /v1/files", own.clone(), 404),
        ("POST /v1/messages", String::new(), 401),
        ("POST /v1/%2e%2e/v2", own.clone(), 400),
        ("POST //v1/messages", own.clone(), 404),
        ("POST https://localhost/v1/messages", own.clone(), 400),
        ("POST /v1/messages?limit=1&limit=2", own.clone(), 400),
        (
            "POST /v1/messages",
            format!("{own}Accept: 1\r\nAccept: 2\r\n"),
            400,
        ),
        (
            "POST /v1/messages",
            format!("{own}Content-Encoding: gzip\r\n"),
            400,
        ),
        ("GET /v1/models", own.clone(), 400),
        ("GET /healthz", String::new(), 200),
        ("HEAD /", String::new(), 200),
        ("POST /v1/messages?beta=answered", own.clone(), 413),
        ("POST /v1/messages?beta=left", own.clone(), 502),
        ("POST /v1/messages?beta=garbled", own.clone(), 502),
    ];
    for (line, fields, status) in &refused {
        for (framing, begun) in [
            ("Content-Length: 1000\r\n", ""),
            ("Content-Length: 1000\r\n", "begun"),
            (CHUNKED, ""),
            (CHUNKED, "3e8\r\nbegun"),
            (CHUNKED, "5\r\nbegun\r\n"),
            (CHUNKED, "5\r\nbegun\r\n0\r\n"),
        ] {
            let what = format!("{line}, {framing:?}, {begun:?}");
            let head = format!("{line} HTTP/1.1\r\nHost: h\r\n{fields}{framing}\r\n{begun}");
            let mut client = broker.client();
            client.must_send(head.as_bytes());
            let method = line.split(' ').next().expect("a word");
            let answer = client.answer_to(method).expect("an answer");
            assert_eq!(answer.status, *status, "{what}");
            assert_eq!(
                answer.head.one("connection"),
                Some("close").filter(|_| *status != 413),
                "{what}"
            );
            let _ = client.send(hidden.as_bytes());
            assert_eq!(client.rest(), b"", "{what}");
        }
    }
    broker.assert_alive();
    let mut lines = upstream
        .requests()
        .into_iter()
        .map(|request| request.head.line);
    assert!(lines.all(|line| line.starts_with("POST /v1/messages?beta=")));
    // Control: where it is no body, it is a request.
    let whole = format!("POST /v1/files HTTP/1.1\r\nHost: h\r\n{own}Content-Length: 2\r\n\r\n{{}}");
    let mut client = broker.client();
    assert_eq!(client.ask(whole.as_bytes()).status, 404);
    assert_eq!(client.ask(hidden.as_bytes()).whole(), b"spent");
}
