use std::collections::BTreeSet;

use super::*;

fn answer(fields: &[(&'static str, &'static str)]) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for (name, value) in fields {
        let value = HeaderValue::from_bytes(value.as_bytes()).expect("a value");
        headers.append(*name, value);
    }
    headers
}

#[test]
fn answers_keep_what_is_theirs_alone() {
    let mut headers = answer(&[
        ("content-type", "text/event-stream"),
        ("content-length", "5"),
        ("transfer-encoding", "Chunked"),
        ("content-encoding", "identity"),
        ("connection", "keep-alive, X-Hop ,, \t"),
        ("connection", "X-Other,é,x-none"),
        ("x-hop", "1"),
        ("x-hop", "2"),
        ("x-other", "1"),
        ("keep-alive", "timeout=5"),
        ("proxy-authenticate", "Basic"),
        ("proxy-authorization", "Basic"),
        ("proxy-authentication-info", "x=1"),
        ("proxy-connection", "close"),
        ("upgrade", "h2c"),
        ("te", "trailers"),
        ("trailer", "x"),
        ("set-cookie", "a=1"),
        ("set-cookie", "b=2"),
        ("set-cookie2", "c=3"),
        ("alt-svc", "h3=\":443\""),
        ("date", "Sun, 06 Nov 1994 08:49:37 GMT"),
        ("server", "s"),
        ("request-id", "r"),
        ("x-ratelimit-remaining-requests", "1"),
        ("strict-transport-security", "max-age=1"),
        ("retry-after", "1"),
        ("location", "/x"),
        ("vary", "a"),
        ("vary", "b"),
        ("www-authenticate", "Bearer"),
    ]);
    incoming(&mut headers).expect("fit");
    let left = [
        "content-encoding",
        "content-type",
        "date",
        "location",
        "request-id",
        "retry-after",
        "server",
        "strict-transport-security",
        "vary",
        "www-authenticate",
        "x-ratelimit-remaining-requests",
    ];
    let names: BTreeSet<_> = headers.keys().map(HeaderName::as_str).collect();
    assert_eq!(names, BTreeSet::from(left));
    assert_eq!(headers.get_all("vary").iter().count(), 2);
}

#[test]
fn answers_that_cannot_be_read_are_refused() {
    for (fields, reason) in [
        (&[("content-encoding", "gzip")][..], Some("answer-encoded")),
        (
            &[("content-encoding", "identity, br")],
            Some("answer-encoded"),
        ),
        (
            &[("content-encoding", "identity"), ("content-encoding", "br")],
            Some("answer-encoded"),
        ),
        (&[("content-encoding", "")], Some("answer-encoded")),
        (
            &[("transfer-encoding", "gzip, chunked")],
            Some("answer-framing"),
        ),
        (&[("transfer-encoding", "identity")], Some("answer-framing")),
        (
            &[
                ("transfer-encoding", "chunked"),
                ("transfer-encoding", "chunked"),
            ],
            Some("answer-framing"),
        ),
        (&[("transfer-encoding", "chunked")], None),
        (&[("content-encoding", "IDENTITY")], None),
        (&[], None),
    ] {
        assert_eq!(incoming(&mut answer(fields)).err(), reason, "{fields:?}");
    }
}
