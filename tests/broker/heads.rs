//! Attacks in the fields of a head.

use crate::common::upstream::ok;
use crate::common::{Broker, Upstream};
use crate::hostile::Then::{Closed, Refused, Sent};
use crate::hostile::{EVIL, Row, Then, assert_all, post};

/// A GET with these raw lines between Host and the end of the head.
fn with(lines: impl AsRef<[u8]>) -> Vec<u8> {
    let start = b"GET /v1/models HTTP/1.1\r\nHost: localhost\r\n";
    [start, lines.as_ref(), b"\r\n"].concat()
}

fn models() -> Then {
    Sent("GET /v1/models HTTP/1.1", &[], "")
}

#[test]
fn hosts() {
    let head = |hosts: &str| format!("GET /v1/models HTTP/1.1\r\n{hosts}\r\n");
    assert_all(&[
        Row::new("no Host", head(""), Closed(&[400])),
        Row::new(
            "two Hosts",
            head("Host: localhost\r\nHost: localhost\r\n"),
            Closed(&[400]),
        ),
        Row::new(
            "two spellings",
            head("Host: localhost\r\nhOST: evil\r\n"),
            Closed(&[400]),
        ),
        Row::new("a foreign Host", head("Host: evil.example\r\n"), models()),
        Row::new(
            "a foreign Host with a port",
            head("HOST:evil.example:8080\r\n"),
            models(),
        ),
        Row::new(
            "no Host on /healthz",
            "GET /healthz HTTP/1.1\r\n\r\n",
            Closed(&[400]),
        ),
    ]);
}

#[test]
fn fields_that_arent_fields() {
    let lines: &[(&str, &[u8])] = &[
        ("folded", b"X-A: 1\r\n 2\r\n"),
        ("folded with a tab", b"X-A: 1\r\n\t2\r\n"),
        ("folded first", b" X-A: 1\r\n"),
        ("a space before the colon", b"X-A : 1\r\n"),
        ("a tab before the colon", b"X-A\t: 1\r\n"),
        (
            "Content-Length with a space before the colon",
            b"Content-Length : 5\r\n",
        ),
        ("no colon", b"X-A\r\n"),
        ("an empty name", b": 1\r\n"),
        ("a name with a space", b"X A: 1\r\n"),
        ("a name beyond ASCII", b"X-\xc3\xa4: 1\r\n"),
        ("a name with a slash", b"X/A: 1\r\n"),
        ("NUL in a value", b"X-A: 1\x002\r\n"),
        ("CR in a value", b"X-A: 1\r2\r\n"),
        ("LF in a value", b"X-A: 1\n2\r\n"),
        ("a field after LF in a value", b"X-A: 1\nX-B: 2\r\n"),
        ("NUL in a name", b"X\0A: 1\r\n"),
        ("a control byte in a value", b"X-A: 1\x012\r\n"),
        ("DEL in a value", b"X-A: 1\x7f2\r\n"),
    ];
    let row = |(what, lines): &(&str, &[u8])| Row::new(*what, with(lines), Closed(&[400]));
    let mut rows: Vec<Row> = lines.iter().map(row).collect();
    rows.push(Row::new(
        "control",
        with("X-A: 1 2\r\nX-B:\t3\t\r\nX-C:\r\n"),
        models(),
    ));
    rows.push(Row::new(
        "control, beyond ASCII",
        with(b"X-A: \xc3\xa4\r\n"),
        models(),
    ));
    assert_all(&rows);
}

#[test]
fn connection_takes_nothing_away_that_counts() {
    let api = "anthropic-version: 2023-06-01\r\n";
    let close = "Connection: close\r\n";
    assert_all(&[
        Row::new(
            "names what the API needs",
            with(format!("{api}Connection: anthropic-version\r\n")),
            Refused(&[400]),
        ),
        Row::new(
            "names it among others, in another case",
            with(format!(
                "{api}Connection: keep-alive, Anthropic-Version\r\n"
            )),
            Refused(&[400]),
        ),
        Row::new(
            "names it in a second field",
            with(format!(
                "Connection: keep-alive\r\nConnection: anthropic-version\r\n{api}"
            )),
            Refused(&[400]),
        ),
        Row::new("names the key", with("Connection: x-api-key\r\n"), models()),
        Row::new(
            "names Host",
            with("Connection: host, accept-encoding\r\n"),
            models(),
        ),
        Row::new(
            "control",
            with(api),
            Sent(
                "GET /v1/models HTTP/1.1",
                &["anthropic-version: 2023-06-01"],
                "",
            ),
        ),
        Row::new(
            "names a field of its own",
            with(format!("Connection: x-mine\r\nX-Mine: {EVIL}\r\n")),
            models(),
        ),
        Row::new(
            "hop by hop",
            with(format!(
                "Keep-Alive: {EVIL}\r\nProxy-Connection: {EVIL}\r\n"
            )),
            models(),
        ),
        Row::new(
            "trailers announced",
            with("TE: trailers\r\nTrailer: X-Api-Key\r\n"),
            models(),
        ),
        Row::new("close", with(close), models()),
        Row::new(
            "close where it is refused",
            format!("GET /v1/files HTTP/1.1\r\nHost: localhost\r\n{close}\r\n"),
            Closed(&[404]),
        ),
        Row::new(
            "close, and another word for it",
            "GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: keep-alive, Close\r\n\r\n",
            Closed(&[200]),
        ),
    ]);
}

#[test]
fn upgrades_are_no_tunnels() {
    let websocket = "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\
                     Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n";
    let h2c = "Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABk\r\n";
    let behind = |head: &str, bytes: &[u8]| [with(head), bytes.to_vec()].concat();
    assert_all(&[
        Row::new("websocket", with(websocket), models()),
        Row::new("h2c", with(h2c), models()),
        Row::new(
            "websocket, and frames behind",
            behind(websocket, b"\x81\x85\0\0\0\0hello"),
            models(),
        ),
        Row::new(
            "h2c, and a preface behind",
            behind(h2c, b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"),
            models(),
        ),
        Row::new(
            "an upgrade that Connection doesn't name",
            with("Upgrade: TLS/1.0\r\n"),
            models(),
        ),
    ]);
}

#[test]
fn expectations() {
    let mut rows = Vec::new();
    for value in [
        "200-ok",
        "100-continue, 200-ok",
        "100-continu",
        "x",
        "100-continue;x=1",
    ] {
        let bytes = post(&format!("Expect: {value}\r\nContent-Length: 2\r\n"), "{}");
        rows.push(Row::new(format!("Expect: {value}"), bytes, Closed(&[417])));
    }
    assert_all(&rows);
}

#[test]
fn lengths_that_two_parsers_could_read_differently() {
    let fields = [
        "Content-Length: 2\r\nTransfer-Encoding: chunked\r\n",
        "Transfer-Encoding: chunked\r\nContent-Length: 2\r\n",
        "Content-Length: 2\r\nContent-Length: 2\r\n",
        "Content-Length: 2\r\nContent-Length: 3\r\n",
        "content-length: 2\r\nCONTENT-LENGTH: 2\r\n",
        "Content-Length: 2, 2\r\n",
        "Content-Length: 2,3\r\n",
        "Content-Length: +2\r\n",
        "Content-Length: -1\r\n",
        "Content-Length: 0x2\r\n",
        "Content-Length: 2 2\r\n",
        "Content-Length: \r\n",
        "Content-Length: 2.0\r\n",
        "Content-Length: 2;\r\n",
        "Content-Length: \"2\"\r\n",
        "Content-Length: \u{662}\r\n",
        "Content-Length: 18446744073709551616\r\n",
        "Content-Length: 99999999999999999999999999\r\n",
        "Content-Length: 1e1\r\n",
        "Content-Length: 2\x0b\r\n",
    ];
    let row = |field: &&str| {
        Row::new(
            field.escape_debug().to_string(),
            post(field, "{}"),
            Closed(&[400]),
        )
    };
    let mut rows: Vec<Row> = fields.iter().map(row).collect();
    rows.push(Row::new(
        "control",
        post("Content-Length: 2\r\n", "{}"),
        Sent("POST /v1/messages HTTP/1.1", &["content-length: 2"], "{}"),
    ));
    assert_all(&rows);
}

#[test]
fn encodings_that_two_parsers_could_read_differently() {
    let chunks = "2\r\n{}\r\n0\r\n\r\n";
    let fields = [
        "Transfer-Encoding: identity\r\n",
        "Transfer-Encoding: gzip\r\n",
        "Transfer-Encoding: gzip, chunked\r\n",
        "Transfer-Encoding: chunked, gzip\r\n",
        "Transfer-Encoding: chunked, chunked\r\n",
        "Transfer-Encoding: chunked, identity\r\n",
        "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n",
        "Transfer-Encoding: chunked\r\nTransfer-encoding: identity\r\n",
        "Transfer-Encoding: chunked;q=1\r\n",
        "Transfer-Encoding: xchunked\r\n",
        "Transfer-Encoding: chunkedx\r\n",
        "Transfer-Encoding: \"chunked\"\r\n",
        "Transfer-Encoding: ,chunked\r\n",
        "Transfer-Encoding: chunked,\r\n",
        "Transfer-Encoding:\r\n",
        "Transfer-Encoding: chunked\x0b\r\n",
        "Transfer-Encoding:\r\n chunked\r\n",
        "Transfer-Encoding : chunked\r\n",
        "Transfer-Encoding: c hunked\r\n",
    ];
    let row = |field: &&str| {
        Row::new(
            field.escape_debug().to_string(),
            post(field, chunks),
            Closed(&[400, 501]),
        )
    };
    let mut rows: Vec<Row> = fields.iter().map(row).collect();
    let old = "POST /v1/messages HTTP/1.0\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n";
    // The route would be 505.
    rows.push(Row::new(
        "on HTTP/1.0",
        format!("{old}{chunks}"),
        Closed(&[400, 501, 505]),
    ));
    for name in ["chunked", "CHUNKED", "Chunked"] {
        rows.push(Row::new(
            format!("control: {name}"),
            post(&format!("Transfer-Encoding: {name}\r\n"), chunks),
            Sent(
                "POST /v1/messages HTTP/1.1",
                &["transfer-encoding: chunked"],
                "{}",
            ),
        ));
    }
    assert_all(&rows);
}

#[test]
fn the_last_request_is_the_last() {
    let upstream = Upstream::start(|_| ok("spent"));
    let broker = Broker::start(&upstream);
    let mut client = broker.client();
    let last = with("Connection: close\r\n");
    client.must_send(&[last, with("")].concat());
    let answer = client.answer_to("GET").expect("an answer");
    assert_eq!(answer.whole(), b"spent");
    assert_eq!(answer.head.one("connection"), Some("close"));
    assert_eq!(client.rest(), b"");
    assert_eq!(upstream.requests().len(), 1);
}
