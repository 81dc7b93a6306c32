//! Attacks in the request line.

use crate::hostile::Then::{Closed, Refused, Sent};
use crate::hostile::{EVIL, Row, Then, assert_all, get};

fn refused(targets: &[&str], status: &'static [u16]) -> Vec<Row> {
    let row = |target: &&str| Row::new(*target, get(target), Refused(status));
    targets.iter().map(row).collect()
}

fn closed(rows: &[(&str, &[u8])], status: &'static [u16]) -> Vec<Row> {
    let row = |(what, bytes): &(&str, &[u8])| Row::new(*what, bytes, Closed(status));
    rows.iter().map(row).collect()
}

#[test]
fn paths_that_another_parser_could_read_in_another_way() {
    let elsewhere = [
        "/v1/../v2",
        "/v1/../v2/models",
        "//v1/messages",
        "//v1/models",
        "/v1/../../etc/passwd",
    ];
    let crooked = [
        "/v1/%2e%2e/v2",
        "/v1/%2E./v2",
        "/v1/.%2e/models",
        "/v1/%252e%252e/v2",
        "/v1/..%2fv2",
        "/v1/..%2Fmodels",
        "/v1%2fmodels",
        "/v1\\models",
        "/v1/..\\v2",
        "/v1/%5cmodels",
        "/v1/%5Cmodels",
        "/v1/./models",
        "/./v1/models",
        "/v1/..;/v2",
        "/v1/models/..;/admin",
        "/v1//models",
        "/v1//x",
        "/v1/models//x",
        "/v1/models/%00",
        "/v1/models%00.json",
        "/v1/models/%0d%0aX:%201",
        "/v1/models%0a",
        "/v1/models#fragment",
        "/v1/models?limit=1#fragment",
        "/#",
    ];
    let mut rows = refused(&elsewhere, &[404]);
    rows.extend(refused(&crooked, &[400]));
    rows.push(Row::new(
        "control",
        get("/v1/models"),
        Sent("GET /v1/models HTTP/1.1", &[], ""),
    ));
    rows.push(Row::new(
        "control, one model",
        get("/v1/models/claude-3.5_x"),
        Sent("GET /v1/models/claude-3.5_x HTTP/1.1", &[], ""),
    ));
    assert_all(&rows);
}

#[test]
fn paths_outside_the_routes() {
    let outside = [
        "/v1",
        "/v1/",
        "/v1/files",
        "/v1/messages/batches",
        "/v1/organizations/keys",
        "/v2/models",
        "/V1/models",
        "/v1/modelsx",
        "/v1/models/a/b",
        "/healthz/",
        "/healthzx",
        "/v1/messages",
        "/v1/models/",
    ];
    let mut rows = refused(&outside, &[404]);
    for (method, path) in [
        ("POST", "/v1/models"),
        ("DELETE", "/v1/models/x"),
        ("PUT", "/v1/messages"),
        ("POST", "/v1/messages/batches"),
        ("POST", "/healthz"),
        ("POST", "/"),
        ("PATCH", "/v1/messages"),
        ("OPTIONS", "/v1/messages"),
    ] {
        let bytes =
            format!("{method} {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n");
        rows.push(Row::new(format!("{method} {path}"), bytes, Refused(&[404])));
    }
    assert_all(&rows);
}

#[test]
fn bytes_that_no_target_has() {
    let mut rows = Vec::new();
    for byte in [
        &b"\0"[..],
        b"\t",
        b" ",
        b"\r",
        b"\x80",
        b"\xff",
        b"\xc3\xa4",
        b"\x7f",
        b"\x01",
    ] {
        let target = [b"/v1/mod", byte, b"els"].concat();
        let what = format!("the byte {} in the target", byte.escape_ascii());
        rows.push(Row::new(what, get(target), Closed(&[400])));
    }
    rows.extend(closed(
        &[
            (
                "a target without a slash",
                b"GET v1/models HTTP/1.1\r\nHost: localhost\r\n\r\n",
            ),
            (
                "an empty target",
                b"GET  HTTP/1.1\r\nHost: localhost\r\n\r\n",
            ),
            ("no target", b"GET HTTP/1.1\r\nHost: localhost\r\n\r\n"),
            (
                "OPTIONS *",
                b"OPTIONS * HTTP/1.1\r\nHost: localhost\r\n\r\n",
            ),
            (
                "two spaces",
                b"GET /v1/models  HTTP/1.1\r\nHost: localhost\r\n\r\n",
            ),
            (
                "a space at the end",
                b"GET /v1/models HTTP/1.1 \r\nHost: localhost\r\n\r\n",
            ),
            (
                "an empty line first",
                b"\r\nGET /v1/models HTTP/1.1\r\nHost: localhost\r\n\r\n",
            ),
        ],
        &[400],
    ));
    assert_all(&rows);
}

#[test]
fn absolute_forms() {
    let forms = [
        "http://localhost/v1/models",
        "https://localhost/v1/models",
        "HTTP://localhost/v1/models",
        "https://api.anthropic.com/v1/models",
        "http://127.0.0.1:1/v1/models",
        "https://user:password@localhost/v1/models",
        "https://localhost@evil.example/v1/models",
        "http://localhost",
    ];
    assert_all(&refused(&forms, &[400]));
}

#[test]
fn methods() {
    let mut rows = Vec::new();
    for method in [
        "TRACE", "get", "Get", "post", "FOO", "PROPFIND", "GETT", "QUERY", "A-B",
    ] {
        let bytes = format!("{method} /v1/models HTTP/1.1\r\nHost: localhost\r\n\r\n");
        rows.push(Row::new(method, bytes, Closed(&[405])));
    }
    let connect = b"CONNECT localhost:443 HTTP/1.1\r\nHost: localhost:443\r\n\r\n";
    rows.push(Row::new("CONNECT", connect, Closed(&[405])));
    let connect = b"CONNECT /v1/models HTTP/1.1\r\nHost: localhost\r\n\r\n";
    rows.push(Row::new("CONNECT with a path", connect, Closed(&[405])));
    for method in ["G@T", "GE(T", "G\0T", "GET,", "\u{e4}", "\"GET\"", "GE\tT"] {
        let bytes = format!("{method} /v1/models HTTP/1.1\r\nHost: localhost\r\n\r\n");
        rows.push(Row::new(
            format!("method {method:?}"),
            bytes,
            Closed(&[400]),
        ));
    }
    assert_all(&rows);
}

#[test]
fn what_isnt_http_1_1() {
    let hello = b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03 random bytes of a client hello";
    assert_all(&closed(
        &[
            ("HTTP/0.9", b"GET /v1/models\r\n"),
            ("HTTP/0.9 with more", b"GET /v1/models\r\n\r\n"),
            (
                "an h2 preface",
                b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0",
            ),
            ("a TLS hello", hello),
            ("bare LF", b"GET /v1/models HTTP/1.1\nHost: localhost\n\n"),
            (
                "bare LF after the line",
                b"GET /v1/models HTTP/1.1\nHost: localhost\r\n\r\n",
            ),
            (
                "bare LF after a field",
                b"GET /v1/models HTTP/1.1\r\nHost: localhost\n\r\n",
            ),
            (
                "bare LF at the end",
                b"GET /v1/models HTTP/1.1\r\nHost: localhost\r\n\n",
            ),
            ("bare CR", b"GET /v1/models HTTP/1.1\rHost: localhost\r\r"),
            (
                "a lower-case name",
                b"GET /v1/models http/1.1\r\nHost: localhost\r\n\r\n",
            ),
            (
                "another protocol",
                b"GET /v1/models ICY/1.1\r\nHost: localhost\r\n\r\n",
            ),
            (
                "digits too many",
                b"GET /v1/models HTTP/1.10\r\nHost: localhost\r\n\r\n",
            ),
            ("SSH", b"SSH-2.0-OpenSSH_9.6\r\n"),
            ("SOCKS", b"\x05\x01\x00"),
        ],
        &[400],
    ));
}

#[test]
fn other_versions() {
    let mut rows = closed(
        &[
            (
                "HTTP/1.9",
                b"GET /v1/models HTTP/1.9\r\nHost: localhost\r\n\r\n",
            ),
            (
                "HTTP/2.0",
                b"GET /v1/models HTTP/2.0\r\nHost: localhost\r\n\r\n",
            ),
            (
                "HTTP/3.0",
                b"GET /v1/models HTTP/3.0\r\nHost: localhost\r\n\r\n",
            ),
            (
                "HTTP/1.0 on a forwarded route",
                b"GET /v1/models HTTP/1.0\r\nHost: localhost\r\n\r\n",
            ),
            (
                "HTTP/1.0 that wants to stay",
                b"GET /v1/models HTTP/1.0\r\nHost: localhost\r\nConnection: keep-alive\r\n\r\n",
            ),
        ],
        &[505],
    );
    // Health checks of old tools are well.
    let health = b"GET /healthz HTTP/1.0\r\nHost: localhost\r\n\r\n";
    rows.push(Row::new("HTTP/1.0 on /healthz", health, Closed(&[200])));
    assert_all(&rows);
}

#[test]
fn sizes() {
    let target = |length: usize| format!("/v1/{}", "x".repeat(length - 4));
    let with_fields = |count: usize| {
        // Host is one of them.
        let fields = format!("X-Field: {EVIL}\r\n").repeat(count - 1);
        format!("GET /v1/models HTTP/1.1\r\nHost: localhost\r\n{fields}\r\n")
    };
    let with_value = |length: usize| {
        format!(
            "GET /v1/models HTTP/1.1\r\nHost: localhost\r\nX-Big: {}\r\n\r\n",
            "x".repeat(length)
        )
    };
    let models: fn() -> Then = || Sent("GET /v1/models HTTP/1.1", &[], "");
    assert_all(&[
        Row::new("a target of 8 KiB", get(target(8192)), Refused(&[404])),
        Row::new("a longer one", get(target(8193)), Closed(&[414])),
        Row::new(
            "a target that never ends",
            format!("GET /{}", "x".repeat(100_000)),
            Closed(&[414]),
        ),
        Row::new("128 fields", with_fields(128), models()),
        Row::new("129 fields", with_fields(129), Closed(&[431])),
        Row::new("a head of 60 KiB", with_value(60 << 10), models()),
        Row::new("a head over 64 KiB", with_value(64 << 10), Closed(&[431])),
        Row::new(
            "a field that never ends",
            format!(
                "GET / HTTP/1.1\r\nHost: localhost\r\nX: {}",
                "x".repeat(100_000)
            ),
            Closed(&[431]),
        ),
    ]);
}
