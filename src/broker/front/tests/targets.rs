//! Targets, row by row.

use super::{check, target, word};

/// Each in a request of its own; the next request is served where the answer
/// doesn't close.
#[test]
fn hostile_targets() {
    let table: &[(&str, &str)] = &[
        ("/v1/../v2", "404 elsewhere"),
        ("/v1/..", "404 elsewhere"),
        ("/..", "404 elsewhere"),
        ("//v1/messages", "404 elsewhere"),
        ("//", "404 elsewhere"),
        ("/%2e%2e/v2", "400 encoded-syntax"),
        ("/%2E./v2", "400 encoded-syntax"),
        ("/v1/.%2e/v2", "400 encoded-syntax"),
        ("/%252e", "400 encoded-syntax"),
        ("/..%2f", "400 encoded-syntax"),
        ("/v1%2Fmessages", "400 encoded-syntax"),
        ("/v1\\..\\v2", "400 bad-target"),
        ("/v1%5c..", "400 encoded-syntax"),
        ("/v1%5C..", "400 encoded-syntax"),
        ("/v1/./x", "400 idle-segment"),
        ("/.", "400 idle-segment"),
        ("/v1/..;/v2", "400 bad-target"),
        ("/v1;a=b/messages", "400 bad-target"),
        ("/v1/..%3b/v2", "400 encoded-syntax"),
        ("/v1//x", "400 idle-segment"),
        ("/v1/messages//", "400 idle-segment"),
        ("/v1%00", "400 encoded-syntax"),
        ("/v1%0d%0ax", "400 encoded-syntax"),
        ("/v1%09", "400 encoded-syntax"),
        ("/v1%7f", "400 encoded-syntax"),
        ("/v1?a=%00", "400 encoded-syntax"),
        ("/v1?a=%0d%0ax:y", "400 encoded-syntax"),
        ("/v1%3fkey=x", "400 encoded-syntax"),
        ("/v1%23x", "400 encoded-syntax"),
        ("/v1#x", "400 fragment"),
        ("/v1?a#x", "400 fragment"),
        ("/v1%", "400 bad-encoding"),
        ("/v1%2", "400 bad-encoding"),
        ("/v1%2g", "400 bad-encoding"),
        ("/v1%+2", "400 bad-encoding"),
        ("/v1%u002e", "400 bad-encoding"),
        ("/v1?a=%", "400 bad-encoding"),
        ("/%c0%ae%c0%ae/v2", "400 bad-encoding"),
        ("/%e0%80%ae/v2", "400 bad-encoding"),
        ("/%e2a%82%ac", "400 bad-encoding"),
        ("/%ff", "400 bad-encoding"),
        ("/a\"b", "400 bad-target"),
        ("/a{b}", "400 bad-target"),
        ("/v1?a=<b>", "400 bad-target"),
        ("http://api.anthropic.com/v1/messages", "400 absolute-form"),
        ("https://evil.example/", "400 absolute-form"),
        ("http://user:pw@a/", "400 absolute-form"),
        ("http://", "400 absolute-form"),
        ("/", "ok"),
        ("/v1/messages", "ok"),
        ("/v1/messages/", "ok"),
        ("/v1/...", "ok"),
        ("/v1/models/claude-4.5:x@y", "ok"),
        ("/v1beta/models/g:streamGenerateContent?alt=sse", "ok"),
        ("/v1/%6dessages", "ok"),
        ("/v1/a%20b%e2%82%acc", "ok"),
        ("/v1?a=/../%2e%2e%2f%25%3b//x?y", "ok"),
        ("/?", "ok"),
    ];
    for (target, wanted) in table {
        let request = format!("GET {target} HTTP/1.1\r\nHost: a\r\n\r\n");
        let next = format!("{request}GET / HTTP/1.1\r\nHost: a\r\n\r\n");
        check(&[(next.as_bytes(), &format!("{wanted}, ok"))]);
    }
}

#[test]
fn a_target_is_split_at_its_first_question_mark() {
    let split = |text: &'static str| {
        let target = target::judge(text.as_bytes()).unwrap();
        (target.path, target.query)
    };
    assert_eq!(split("/a/b"), ("/a/b", None));
    assert_eq!(split("/a?"), ("/a", Some("")));
    assert_eq!(split("/a?b=c?d"), ("/a", Some("b=c?d")));
}

/// What no head lets through is refused by the judge too.
#[test]
fn raw_bytes_are_refused_without_a_head() {
    for raw in [
        &b""[..],
        b"*",
        b"a",
        b"/ ",
        b"/\t",
        b"/\0",
        b"/\r\n",
        b"/\x7f",
        b"/\xff",
        b"/\xc3\xa9",
    ] {
        let refused = target::judge(raw).unwrap_err();
        assert_eq!(
            refused.status,
            400,
            "{}: {}",
            raw.escape_ascii(),
            word(refused)
        );
    }
}
