//! Heads, row by row.

use bytes::BytesMut;

use super::super::{Framing, HeadReader, MAX_FIELDS, MAX_HEAD, MAX_TARGET, Method, Version};
use super::{check, head};

#[test]
fn request_lines() {
    let lines: &[(&[u8], &str)] = &[
        (b"GET /a b HTTP/1.1", "400c bad-version"),
        (b"GET /\0 HTTP/1.1", "400c bad-target"),
        (b"GET /\t HTTP/1.1", "400c bad-target"),
        (b"GET\t/ HTTP/1.1", "400c bad-method"),
        (b"GET /\r HTTP/1.1", "400c http-0.9"),
        (b"GET /\x7f HTTP/1.1", "400c bad-target"),
        (b"GET /\x80 HTTP/1.1", "400c bad-target"),
        (b"GET /\xc3\xa9 HTTP/1.1", "400c bad-target"),
        (b"GET  / HTTP/1.1", "400c bad-target"),
        (b"GET /  HTTP/1.1", "400c bad-version"),
        (b" GET / HTTP/1.1", "400c bad-method"),
        (b"\r\nGET / HTTP/1.1", "400c bad-method"),
        (b"GET http://a/ HTTP/1.1", "400 absolute-form"),
        (b"GET http://evil.example/ HTTP/1.1", "400 absolute-form"),
        (b"GET http://u:p@a/ HTTP/1.1", "400 absolute-form"),
        (b"CONNECT a:443 HTTP/1.1", "405c unknown-method"),
        (b"TRACE / HTTP/1.1", "405c unknown-method"),
        (b"BREW / HTTP/1.1", "405c unknown-method"),
        (b"get / HTTP/1.1", "405c unknown-method"),
        (b"Get / HTTP/1.1", "405c unknown-method"),
        (b"GETX / HTTP/1.1", "405c unknown-method"),
        (&[b'A'; 100], "405c unknown-method"),
        (b"OPTIONS * HTTP/1.1", "400c bad-target"),
        (b"GET v1/messages HTTP/1.1", "400c bad-target"),
        (b"GET ?x HTTP/1.1", "400c bad-target"),
        (b"GET a:443 HTTP/1.1", "400c bad-target"),
        (b"GET 1http://a/ HTTP/1.1", "400c bad-target"),
        (b"G(T / HTTP/1.1", "400c bad-method"),
        (b"GET: / HTTP/1.1", "400c bad-method"),
        (b"G\0T / HTTP/1.1", "400c bad-method"),
        (b"\xffGET / HTTP/1.1", "400c bad-method"),
        (b"GET /", "400c http-0.9"),
        (b"GET", "400c bad-method"),
        (b"PRI * HTTP/2.0", "400c h2-preface"),
        (
            b"\x16\x03\x01\x02\0\x01\0\x01\xfc\x03\x03",
            "400c tls-hello",
        ),
        (b"GET / HTTP/1.9", "505c version"),
        (b"GET / HTTP/2.0", "505c version"),
        (b"GET / HTTP/0.9", "505c version"),
        (b"GET / HTTP/1.10", "400c bad-version"),
        (b"GET / HTTP/11.1", "400c bad-version"),
        (b"GET / HTTP/1.", "400c bad-version"),
        (b"GET / HTTP/1", "400c bad-version"),
        (b"GET / HTTP/2", "400c bad-version"),
        (b"GET / http/1.1", "400c bad-version"),
        (b"GET / HTTP/1.1 ", "400c bad-version"),
        (b"GET / HTTP/1.1\r", "400c bare-cr"),
        (b"GET / HTTP /1.1", "400c bad-version"),
        (b"GET / HTTP/1,1", "400c bad-version"),
        (b"GET / ", "400c bad-version"),
        (b"GET / HTTP/1.1", "ok"),
        (b"GET / HTTP/1.0", "ok"),
        (b"HEAD / HTTP/1.1", "ok"),
        (b"POST / HTTP/1.1", "ok"),
        (b"PUT / HTTP/1.1", "ok"),
        (b"PATCH / HTTP/1.1", "ok"),
        (b"DELETE / HTTP/1.1", "ok"),
        (b"OPTIONS / HTTP/1.1", "ok"),
    ];
    for (line, wanted) in lines {
        check(&[(&[*line, b"\r\nHost: a\r\n\r\n"].concat(), wanted)]);
    }
}

#[test]
fn field_lines() {
    let table: &[(&[u8], &str)] = &[
        (b"X: a\r\n b\r\n", "400c obs-fold"),
        (b"X: a\r\n\tb\r\n", "400c obs-fold"),
        (b" X: a\r\n", "400c obs-fold"),
        (b"X : a\r\n", "400c blank-before-colon"),
        (b"X\t: a\r\n", "400c blank-before-colon"),
        (b"X\r\n", "400c no-colon"),
        (b"X y\r\n", "400c blank-before-colon"),
        (b": a\r\n", "400c empty-name"),
        (b"X(: a\r\n", "400c bad-name"),
        (b"X\xe9: a\r\n", "400c bad-name"),
        (b"X\0: a\r\n", "400c bad-name"),
        (b"X: a\0b\r\n", "400c bad-value"),
        (b"X: a\x0bb\r\n", "400c bad-value"),
        (b"X: a\x1bb\r\n", "400c bad-value"),
        (b"X: a\x7fb\r\n", "400c bad-value"),
        (b"X: a\rb\r\n", "400c bare-cr"),
        (b"X: a\r\r\n", "400c bare-cr"),
        (b"X: a\nb: c\r\n", "400c bare-lf"),
        (b"X: a\n", "400c bare-lf"),
        (b"X\n", "400c bare-lf"),
        (b"\n", "400c bare-lf"),
        (b"\rX", "400c bare-cr"),
        (b"Upgrade: websocket\r\nConnection: Upgrade\r\n", "ok"),
        (
            b"Upgrade: h2c\r\nConnection: Upgrade, HTTP2-Settings\r\n",
            "ok",
        ),
        (b"X:\r\n", "ok"),
        (b"X: a\tb  c\xff\r\n", "ok"),
        (b"X:a:b: c\r\n", "ok"),
        (b"Connection: a b\r\n", "400c bad-connection"),
        (b"Connection: \"close\"\r\n", "400c bad-connection"),
        (b"Expect: 100-continue\r\n", "ok"),
        (b"Expect: 100-Continue\r\n", "ok"),
        (b"Expect: 200-ok\r\n", "417c expectation"),
        (b"Expect:\r\n", "417c expectation"),
        (b"Expect: 100-continue, x\r\n", "417c expectation"),
    ];
    for (fields, wanted) in table {
        let bytes = [b"GET / HTTP/1.1\r\nHost: a\r\n", *fields, b"\r\n"].concat();
        check(&[(&bytes, wanted)]);
    }
}

#[test]
fn hosts() {
    let table: &[(&str, &str)] = &[
        ("", "400c no-host"),
        ("Host: a\r\nHost: a\r\n", "400c two-hosts"),
        ("Host: a\r\nhost: b\r\n", "400c two-hosts"),
        ("Host:\r\n", "400c bad-host"),
        ("Host: a b\r\n", "400c bad-host"),
        ("Host: a, b\r\n", "400c bad-host"),
        ("Host: u@a\r\n", "400c bad-host"),
        ("Host: a/b\r\n", "400c bad-host"),
        ("Host: a?b\r\n", "400c bad-host"),
        ("Host: a%2eb\r\n", "400c bad-host"),
        ("Host: :80\r\n", "400c bad-host"),
        ("Host: a:\r\n", "400c bad-host"),
        ("Host: a:b\r\n", "400c bad-host"),
        ("Host: a:+80\r\n", "400c bad-host"),
        ("Host: a:65536\r\n", "400c bad-host"),
        ("Host: a:80:80\r\n", "400c bad-host"),
        ("Host: [::1\r\n", "400c bad-host"),
        ("Host: []\r\n", "400c bad-host"),
        ("Host: [::1]x\r\n", "400c bad-host"),
        ("Host: [v1.x]\r\n", "400c bad-host"),
        ("Host: caf\u{e9}\r\n", "400c bad-host"),
        ("Host: evil.example\r\n", "ok"),
        ("Host: localhost:8080\r\n", "ok"),
        ("Host: 127.0.0.1:65535\r\n", "ok"),
        ("Host: [::1]:80\r\n", "ok"),
        ("Host: [::ffff:127.0.0.1]\r\n", "ok"),
    ];
    for (fields, wanted) in table {
        let bytes = format!("GET / HTTP/1.1\r\n{fields}\r\n");
        check(&[(bytes.as_bytes(), wanted)]);
    }
    check(&[(b"GET / HTTP/1.0\r\n\r\n", "ok")]);
    check(&[(
        b"GET / HTTP/1.0\r\nHost: a\r\nHost: a\r\n\r\n",
        "400c two-hosts",
    )]);
}

#[test]
fn limits() {
    let target = |length: usize| {
        format!(
            "GET /{} HTTP/1.1\r\nHost: a\r\n\r\n",
            "x".repeat(length - 1)
        )
        .into_bytes()
    };
    let sized = |length: usize| {
        let frame = "GET / HTTP/1.1\r\nHost: a\r\nX: \r\n\r\n".len();
        let value = "x".repeat(length - frame);
        format!("GET / HTTP/1.1\r\nHost: a\r\nX: {value}\r\n\r\n").into_bytes()
    };
    let counted = |fields: usize| {
        let rest = "X: y\r\n".repeat(fields - 1);
        format!("GET / HTTP/1.1\r\nHost: a\r\n{rest}\r\n").into_bytes()
    };
    check(&[
        (&target(MAX_TARGET), "ok"),
        (&target(MAX_TARGET + 1), "414c target-too-long"),
        (&target(MAX_HEAD), "414c target-too-long"),
        (&sized(MAX_HEAD), "ok"),
        (&sized(MAX_HEAD + 1), "431c head-too-large"),
        (&sized(2 * MAX_HEAD), "431c head-too-large"),
        (&sized(MAX_HEAD + 1)[..MAX_HEAD - 1], "head…"),
        (&sized(MAX_HEAD + 1)[..MAX_HEAD], "431c head-too-large"),
        (&counted(MAX_FIELDS), "ok"),
        (&counted(MAX_FIELDS + 1), "431c too-many-fields"),
    ]);
}

/// The last byte of each shows what it is, and the one before doesn't yet.
#[test]
fn what_is_no_request_is_refused_at_the_byte_that_shows_it() {
    let table: &[(&[u8], &str)] = &[
        (b"\x16", "400c tls-hello"),
        (b"PRI ", "400c h2-preface"),
        (b"GET /\r", "400c http-0.9"),
        (b"GET /\n", "400c bare-lf"),
        (b"GET\n", "400c bare-lf"),
        (b"\n", "400c bare-lf"),
        (b"\r", "400c bad-method"),
        (b"BREW ", "405c unknown-method"),
        (b"GET *", "400c bad-target"),
        (b"GET a:443 ", "400c bad-target"),
        (b"GET / I", "400c bad-version"),
        (b"GET / HTTP/1.1\n", "400c bare-lf"),
        (b"GET / HTTP\n", "400c bare-lf"),
        (b"GET / HTTP/1.1\rH", "400c bare-cr"),
        (b"GET / HTTP/2.0\r\n", "505c version"),
        (b"GET / HTTP/1.1\r\n ", "400c obs-fold"),
        (b"GET / HTTP/1.1\r\nHost ", "400c blank-before-colon"),
        (b"GET / HTTP/1.1\r\nHost: a\n", "400c bare-lf"),
        (b"GET / HTTP/1.1\r\nHost: a\rX", "400c bare-cr"),
        (b"GET / HTTP/1.1\r\nHost: a\0", "400c bad-value"),
        (
            b"GET / HTTP/1.1\r\nHost: a\r\nHost: a\r\n",
            "400c two-hosts",
        ),
        (b"GET / HTTP/1.1\r\nHost: a\r\n\rX", "400c bare-cr"),
    ];
    for (bytes, wanted) in table {
        let before = &bytes[..bytes.len() - 1];
        let waiting = if before.is_empty() { "" } else { "head…" };
        check(&[(before, waiting), (bytes, wanted)]);
    }
    let long = [b"GET /".as_slice(), &[b'x'; MAX_TARGET]].concat();
    check(&[
        (&long[..long.len() - 1], "head…"),
        (&long, "414c target-too-long"),
    ]);
}

#[test]
fn a_head_says_what_was_sent() {
    let bytes = b"POST /v1/x?a=b HTTP/1.1\r\nHost: a\r\nX-A: \t b c \r\nx-empty:\r\n\
        Connection: close, ,X-A\r\nconnection: te\r\nTransfer-Encoding: Chunked\r\n\
        Expect: 100-continue\r\n\r\n";
    let head = head(bytes);
    assert_eq!(head.method(), Method::Post);
    assert_eq!(http::Method::from(head.method()), http::Method::POST);
    assert_eq!(head.version(), Version::Http11);
    assert_eq!(head.target(), b"/v1/x?a=b");
    assert_eq!(head.framing(), Framing::Chunked);
    assert!(head.expects_continue());
    assert!(!head.keeps_alive());
    assert_eq!(head.len(), bytes.len());
    let names: Vec<_> = head.connection_names().collect();
    assert_eq!(names, [&b"close"[..], b"X-A", b"te"]);
    let fields: Vec<_> = head
        .fields()
        .map(|field| (field.name, field.value))
        .collect();
    let wanted: [(&[u8], &[u8]); 7] = [
        (b"Host", b"a"),
        (b"X-A", b"b c"),
        (b"x-empty", b""),
        (b"Connection", b"close, ,X-A"),
        (b"connection", b"te"),
        (b"Transfer-Encoding", b"Chunked"),
        (b"Expect", b"100-continue"),
    ];
    assert_eq!(fields, wanted);
    // No copy: the shared value lies where the head's own bytes lie.
    let value = head.fields().nth(1).unwrap().value_bytes();
    assert_eq!(value.as_ptr(), fields[1].1.as_ptr());
}

#[test]
fn connections_that_stay() {
    let table: &[(&str, &str, bool)] = &[
        ("1.1", "", true),
        ("1.1", "Connection: keep-alive\r\n", true),
        ("1.1", "Connection: Close\r\n", false),
        ("1.1", "Connection: keep-alive, close\r\n", false),
        (
            "1.1",
            "Connection: close\r\nConnection: keep-alive\r\n",
            false,
        ),
        ("1.1", "Connection: closed\r\n", true),
        ("1.0", "", false),
        ("1.0", "Connection: Keep-Alive\r\n", true),
        (
            "1.0",
            "Connection: keep-alive\r\nConnection: close\r\n",
            false,
        ),
    ];
    for (version, fields, wanted) in table {
        let bytes = format!("GET / HTTP/{version}\r\nHost: a\r\n{fields}\r\n");
        assert_eq!(head(bytes.as_bytes()).keeps_alive(), *wanted, "{bytes}");
    }
}

#[test]
fn an_interim_answer_is_wanted_for_a_body_alone() {
    let table: &[(&str, &str, bool)] = &[
        ("1.1", "Expect: 100-continue\r\nContent-Length: 1\r\n", true),
        ("1.1", "Content-Length: 1\r\nExpect: 100-CONTINUE\r\n", true),
        (
            "1.1",
            "Expect: 100-continue\r\nContent-Length: 0\r\n",
            false,
        ),
        ("1.1", "Expect: 100-continue\r\n", false),
        ("1.1", "Content-Length: 1\r\n", false),
        (
            "1.0",
            "Expect: 100-continue\r\nContent-Length: 1\r\n",
            false,
        ),
    ];
    for (version, fields, wanted) in table {
        let bytes = format!("POST / HTTP/{version}\r\nHost: a\r\n{fields}\r\n");
        assert_eq!(
            head(bytes.as_bytes()).expects_continue(),
            *wanted,
            "{bytes}"
        );
    }
}

/// A caller that shrinks the buffer has broken the contract; nothing panics.
#[test]
fn a_buffer_that_lost_bytes_only_wants_more() {
    let whole = b"GET /abc HTTP/1.1\r\nHost: a\r\nX: y";
    for length in 1..whole.len() {
        let mut reader = HeadReader::default();
        let mut buffer = BytesMut::from(&whole[..length]);
        assert!(reader.read(&mut buffer).unwrap().is_none());
        for shorter in (0..length).rev() {
            buffer.truncate(shorter);
            assert!(reader.read(&mut buffer).unwrap().is_none());
        }
    }
}
