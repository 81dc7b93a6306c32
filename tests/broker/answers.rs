//! Answers: relayed as they are, but for what is the connection's own, or refused.

use crate::common::http::holds;
use crate::common::upstream::{Act, answer, head, ok};
use crate::common::{Broker, Upstream};
use crate::hostile::{get, post};
use crate::streams::assert_next;

#[test]
fn answers_are_relayed_without_what_is_the_connections() {
    let upstream = Upstream::start(|head| match head.line.split(' ').nth(1) {
        Some("/v1/models/redirect") => {
            let away = [
                ("location", "https://evil.example/v1/models"),
                ("x-request-id", "r1"),
            ];
            answer("307 Temporary Redirect", &away, b"moved")
        }
        Some("/v1/models/cookie") => answer(
            "200 OK",
            &[
                ("set-cookie", "session=1"),
                ("alt-svc", "h3=\":443\""),
                ("connection", "x-hop"),
                ("x-hop", "1"),
                ("keep-alive", "timeout=5"),
                ("request-id", "r2"),
                ("content-type", "application/json"),
            ],
            b"{}",
        ),
        Some("/v1/models/error") => answer("529 Overloaded", &[("retry-after", "3")], b"later"),
        _ => ok("spent"),
    });
    let broker = Broker::start(&upstream);
    let redirect = broker.client().ask(&get("/v1/models/redirect"));
    assert_eq!((redirect.status, redirect.whole()), (307, &b"moved"[..]));
    assert_eq!(
        redirect.head.one("location"),
        Some("https://evil.example/v1/models")
    );
    let cookie = broker.client().ask(&get("/v1/models/cookie"));
    for gone in ["set-cookie", "alt-svc", "x-hop", "keep-alive"] {
        assert_eq!(cookie.head.one(gone), None, "{cookie:?}");
    }
    assert_eq!(cookie.head.one("request-id"), Some("r2"));
    assert_eq!(cookie.head.one("content-type"), Some("application/json"));
    let error = broker.client().ask(&get("/v1/models/error"));
    assert_eq!(
        (error.status, error.head.one("retry-after")),
        (529, Some("3"))
    );
    assert_eq!(error.whole(), b"later");
    assert_eq!(upstream.requests().len(), 3, "a redirect is not followed");
}

#[test]
fn answers_that_cannot_be_relayed() {
    let upstream = Upstream::start(|request| {
        let bytes = match request.line.split(' ').nth(1) {
            Some("/v1/models/gzip") => {
                let fields = [("content-encoding", "gzip"), ("content-length", "4")];
                [head("200 OK", &fields), b"\x1f\x8b\x08\0".to_vec()].concat()
            }
            Some("/v1/models/101") => head(
                "101 Switching Protocols",
                &[("upgrade", "websocket"), ("connection", "upgrade")],
            ),
            Some("/v1/models/te") => {
                let fields = [("transfer-encoding", "gzip, chunked")];
                [
                    head("200 OK", &fields),
                    b"4\r\n\x1f\x8b\x08\0\r\n0\r\n\r\n".to_vec(),
                ]
                .concat()
            }
            Some("/v1/models/babble") => b"220 mail.example ESMTP\r\n".to_vec(),
            _ => return ok("spent"),
        };
        vec![Act::Send(bytes)]
    });
    let broker = Broker::start(&upstream);
    for what in ["gzip", "101", "te", "babble"] {
        let answer = broker.client().ask(&get(format!("/v1/models/{what}")));
        assert_eq!(answer.status, 502, "{what}: {answer:?}");
        assert!(
            answer.is_whole && !holds(&answer.body, b"\x1f\x8b"),
            "{what}"
        );
        assert_eq!(answer.head.one("upgrade"), None);
    }
    assert_eq!(broker.client().ask(&get("/v1/models")).whole(), b"spent");
    // An early hint is no answer, and the answer behind it is.
    let upstream = Upstream::start(|_| {
        let hint = head("103 Early Hints", &[("link", "</x>; rel=preload")]);
        [&[Act::Send(hint)], &ok("spent")[..]].concat()
    });
    let broker = Broker::start(&upstream);
    assert_eq!(broker.client().ask(&get("/v1/models")).whole(), b"spent");
    // Trailers of an answer go nowhere, and the answer is whole.
    let upstream = Upstream::start(|_| {
        let fields = [("transfer-encoding", "chunked"), ("trailer", "x-sum")];
        let body = b"5\r\nspent\r\n0\r\nx-sum: 1\r\n\r\n".to_vec();
        vec![Act::Send([head("200 OK", &fields), body].concat())]
    });
    let broker = Broker::start(&upstream);
    let answer = broker.client().ask(&get("/v1/models"));
    assert_eq!(answer.whole(), b"spent");
    assert_eq!(answer.head.one("trailer"), None);
}

#[test]
fn answers_without_a_body() {
    let upstream = Upstream::start(|asked| {
        let length = ("content-length", "5");
        let bytes = match asked.line.split(' ').nth(1) {
            Some("/v1/none") => head("204 No Content", &[]),
            Some("/v1/same") => head("304 Not Modified", &[length, ("etag", "x")]),
            Some("/v1/empty") => head("200 OK", &[("content-length", "0")]),
            _ if asked.line.starts_with("HEAD") => head("200 OK", &[length]),
            _ => return ok("spent"),
        };
        vec![Act::Send(bytes)]
    });
    let broker = Broker::before(&upstream).custom().start();
    let mut client = broker.client();
    for (method, path, status) in [
        ("HEAD", "/v1/x", 200),
        ("GET", "/v1/none", 204),
        ("GET", "/v1/same", 304),
        ("GET", "/v1/empty", 200),
        ("HEAD", "/v1/none", 204),
    ] {
        let request = format!("{method} {path} HTTP/1.1\r\nHost: h\r\n\r\n");
        let answer = client.ask(request.as_bytes());
        assert_eq!(
            (answer.status, answer.whole()),
            (status, &b""[..]),
            "{path}"
        );
        let length = answer.head.one("content-length");
        assert_eq!(length, Some("0").filter(|_| path == "/v1/empty"), "{path}");
        assert_eq!(answer.head.one("transfer-encoding"), None, "{path}");
        // Nothing was left behind it.
        assert_eq!(client.ask(&get("/v1/next")).whole(), b"spent", "{path}");
    }
}

#[test]
fn an_answer_under_way_is_not_followed_by_another() {
    let upstream = Upstream::start(|_| vec![Act::Echo]);
    for is_tcp in [false, true] {
        let start = Broker::before(&upstream);
        let broker = if is_tcp { start.tcp() } else { start }.start();
        for bad in [&b"x\r\n"[..], b"2\r\nabc\r\n", b"0\r\nno colon\r\n\r\n"] {
            let mut client = broker.client();
            client.must_send(&post("Transfer-Encoding: chunked\r\n", "4\r\ngood\r\n"));
            let head = client.head().expect("an answer");
            let mut body = head.answer_body("POST").expect("a body");
            assert_next(&mut client, &mut body, b"good");
            client.must_send(bad);
            let mut left = Vec::new();
            while let Some(piece) = client.piece(&mut body) {
                left.extend(piece);
            }
            assert!(
                !body.is_done() && b"ab".starts_with(&left[..]),
                "{}",
                left.escape_ascii()
            );
            assert_eq!(client.rest(), b"", "{}", bad.escape_ascii());
            assert_eq!(client.was_reset, is_tcp);
        }
    }
}

#[test]
fn an_api_that_only_hints_is_given_up() {
    let hint = b"HTTP/1.1 103 Early Hints\r\n\r\n".to_vec();
    let flood = hint.repeat(4000);
    let upstream = Upstream::start(move |request| {
        if request.line.contains("some") {
            return [&[Act::Send(hint.repeat(100))], &ok("spent")[..]].concat();
        }
        // 500 MB of them.
        vec![Act::Repeat(flood.clone(), 5000)]
    });
    let broker = Broker::start(&upstream);
    // Control: hints are no fault.
    assert_eq!(
        broker.client().ask(&get("/v1/models/some")).whole(),
        b"spent"
    );
    let mut flooded = broker.client();
    flooded.must_send(&get("/v1/models"));
    broker.assert_alive();
    let answer = flooded.answer_to("GET").expect("an answer");
    assert_eq!(answer.status, 502);
    broker.assert_alive();
}
