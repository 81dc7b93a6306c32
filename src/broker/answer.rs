//! Answers as bytes: those of the broker's own, and the heads of those that are
//! passed on. Always HTTP/1.1 (RFC 9112, section 4).

use std::io::Write as _;

use http::{HeaderMap, Method, StatusCode};

/// How a client finds the end of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ending {
    /// There is no body (HEAD, 204, 304).
    None,
    /// `Content-Length`.
    Length(u64),
    /// Chunked.
    Chunks,
}

/// `100 Continue`, once the body is wanted.
pub(super) const CONTINUE: &[u8] = b"HTTP/1.1 100 Continue\r\n\r\n";
/// The end of a chunked body.
pub(super) const LAST_CHUNK: &[u8] = b"0\r\n\r\n";

/// Bytes around a chunk's data, at most.
const CHUNK_FRAMING: usize = 20;
/// Bytes of an ordinary answer's head, or more.
const USUAL_HEAD: usize = 1024;
/// Bytes of a body for which room is made before they are there, at most.
const USUAL_BODY: usize = 16 * 1024;

/// The head of an answer that is passed on, and room for a beginning of its body.
pub(super) fn head(
    out: &mut Vec<u8>,
    status: StatusCode,
    headers: &HeaderMap,
    ending: Ending,
    close: bool,
) {
    let body = match ending {
        Ending::Length(length) => usize::try_from(length).unwrap_or(usize::MAX),
        Ending::None | Ending::Chunks => 0,
    };
    out.reserve(USUAL_HEAD + body.min(USUAL_BODY));
    status_line(out, status);
    for (name, value) in headers {
        field(out, name.as_str().as_bytes(), value.as_bytes());
    }
    match ending {
        Ending::None => {}
        // Writing to a Vec can't fail.
        Ending::Length(length) => drop(write!(out, "content-length: {length}\r\n")),
        Ending::Chunks => field(out, b"transfer-encoding", b"chunked"),
    }
    finish(out, close);
}

/// One chunk, not empty.
pub(super) fn chunk(out: &mut Vec<u8>, data: &[u8]) {
    out.reserve(data.len() + CHUNK_FRAMING);
    let _ = write!(out, "{:x}\r\n", data.len());
    out.extend_from_slice(data);
    out.extend_from_slice(b"\r\n");
}

/// An answer of the broker's own that says `ok`.
pub(super) fn ok(method: &Method, close: bool) -> Vec<u8> {
    whole(StatusCode::OK, "text/plain", "ok", method, close)
}

/// An answer of the broker's own that says why not, in the shape in which the APIs'
/// own clients look for a reason.
pub(super) fn refusal(status: StatusCode, reason: &str, method: &Method, close: bool) -> Vec<u8> {
    let body = serde_json::json!({
        "type": "error",
        "error": { "type": "groom_ns_broker", "message": format!("groom-ns: {reason}") },
    });
    whole(
        status,
        "application/json",
        &format!("{body}\n"),
        method,
        close,
    )
}

fn whole(status: StatusCode, kind: &str, body: &str, method: &Method, close: bool) -> Vec<u8> {
    let mut out = Vec::with_capacity(256);
    status_line(&mut out, status);
    field(&mut out, b"content-type", kind.as_bytes());
    if status == StatusCode::TOO_MANY_REQUESTS {
        // A place may be free at any moment (RFC 9110, section 10.2.3).
        field(&mut out, b"retry-after", b"1");
    }
    let _ = write!(out, "content-length: {}\r\n", body.len());
    finish(&mut out, close);
    if method != Method::HEAD {
        out.extend_from_slice(body.as_bytes());
    }
    out
}

fn status_line(out: &mut Vec<u8>, status: StatusCode) {
    out.extend_from_slice(b"HTTP/1.1 ");
    out.extend_from_slice(status.as_str().as_bytes());
    out.push(b' ');
    out.extend_from_slice(status.canonical_reason().unwrap_or_default().as_bytes());
    out.extend_from_slice(b"\r\n");
}

fn field(out: &mut Vec<u8>, name: &[u8], value: &[u8]) {
    out.extend_from_slice(name);
    out.extend_from_slice(b": ");
    out.extend_from_slice(value);
    out.extend_from_slice(b"\r\n");
}

fn finish(out: &mut Vec<u8>, close: bool) {
    if close {
        field(out, b"connection", b"close");
    }
    out.extend_from_slice(b"\r\n");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_passed_on_head() {
        let mut headers = HeaderMap::new();
        headers.append("x-a", http::HeaderValue::from_static("1"));
        headers.append("x-a", http::HeaderValue::from_static("2"));
        for (ending, close, expected) in [
            (
                Ending::None,
                false,
                "HTTP/1.1 204 No Content\r\nx-a: 1\r\nx-a: 2\r\n\r\n",
            ),
            (
                Ending::Length(7),
                false,
                "HTTP/1.1 204 No Content\r\nx-a: 1\r\nx-a: 2\r\ncontent-length: 7\r\n\r\n",
            ),
            (
                Ending::Chunks,
                true,
                "HTTP/1.1 204 No Content\r\nx-a: 1\r\nx-a: 2\r\ntransfer-encoding: chunked\r\nconnection: close\r\n\r\n",
            ),
        ] {
            let mut out = Vec::new();
            head(&mut out, StatusCode::NO_CONTENT, &headers, ending, close);
            assert_eq!(String::from_utf8_lossy(&out), expected);
        }
    }

    #[test]
    fn a_chunk() {
        let mut out = Vec::new();
        chunk(&mut out, &[b'x'; 26]);
        assert_eq!(out, b"1a\r\nxxxxxxxxxxxxxxxxxxxxxxxxxx\r\n");
    }

    #[test]
    fn own_answers() {
        assert_eq!(
            ok(&Method::GET, false),
            b"HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\ncontent-length: 2\r\n\r\nok"
        );
        assert!(ok(&Method::HEAD, false).ends_with(b"content-length: 2\r\n\r\n"));
        let text = refusal(StatusCode::NOT_FOUND, "no \"route\"", &Method::GET, true);
        let text = String::from_utf8(text).expect("text");
        let (head, body) = text.split_once("\r\n\r\n").expect("a head and a body");
        assert!(head.contains(&format!("content-length: {}", body.len())));
        assert!(head.ends_with("connection: close"));
        let body: serde_json::Value = serde_json::from_str(body).expect("JSON");
        assert_eq!(body["error"]["message"], "groom-ns: no \"route\"");
    }
}
