//! Request heads (RFC 9112, sections 2 to 5).

use bytes::{Bytes, BytesMut};

use super::Refused;
use super::facts::{Facts, list};
use super::lines::{FieldLines, Line, Span, TOKEN, VISIBLE, after_crlf, skip};
use crate::sabotage::{Mechanism, at_most};

/// Of a head, its last empty line included, in bytes.
pub const MAX_HEAD: usize = 64 * 1024;
/// Of a head, in fields.
pub const MAX_FIELDS: usize = 128;
/// Of a request target, in bytes.
pub const MAX_TARGET: usize = 8 * 1024;
/// Of a method; those that are known have seven bytes at most.
const MAX_METHOD: usize = 32;
/// What an ordinary client sends has no more fields.
const USUAL_FIELDS: usize = 24;

/// The methods that are known; any other one is 405.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "RFC 9110, section 9, and RFC 5789")]
pub enum Method {
    Get,
    Head,
    Post,
    Put,
    Patch,
    Delete,
    Options,
}

impl Method {
    /// As it is written in a request line.
    pub const fn as_str(self) -> &'static str {
        match self {
            Method::Get => "GET",
            Method::Head => "HEAD",
            Method::Post => "POST",
            Method::Put => "PUT",
            Method::Patch => "PATCH",
            Method::Delete => "DELETE",
            Method::Options => "OPTIONS",
        }
    }

    fn judge(token: &[u8]) -> Result<Method, Refused> {
        Ok(match token {
            b"GET" => Method::Get,
            b"HEAD" => Method::Head,
            b"POST" => Method::Post,
            b"PUT" => Method::Put,
            b"PATCH" => Method::Patch,
            b"DELETE" => Method::Delete,
            b"OPTIONS" => Method::Options,
            // Kept for HTTP/2's preface (RFC 9113, section 3.4): no method at all.
            b"PRI" => return Err(Refused::closing(400, "h2-preface")),
            _ => return Err(Refused::closing(405, "unknown-method")),
        })
    }
}

impl From<Method> for http::Method {
    fn from(method: Method) -> http::Method {
        match method {
            Method::Get => http::Method::GET,
            Method::Head => http::Method::HEAD,
            Method::Post => http::Method::POST,
            Method::Put => http::Method::PUT,
            Method::Patch => http::Method::PATCH,
            Method::Delete => http::Method::DELETE,
            Method::Options => http::Method::OPTIONS,
        }
    }
}

/// The versions that are spoken; any other one is 505.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    /// HTTP/1.0.
    Http10,
    /// HTTP/1.1.
    Http11,
}

/// How the body's end is found (RFC 9112, section 6.3).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Framing {
    /// There is no body.
    #[default]
    None,
    /// Content-Length, in bytes; 0 too.
    Length(u64),
    /// Transfer-Encoding: chunked.
    Chunked,
}

/// A complete request head. It holds its bytes; fields are ranges in them, so that
/// values are handed on without a copy.
#[derive(Clone, Debug)]
pub struct Head {
    bytes: Bytes,
    line: RequestLine,
    fields: Vec<(Span, Span)>,
    facts: Facts,
}

#[derive(Clone, Copy, Debug)]
struct RequestLine {
    method: Method,
    target: Span,
    version: Version,
}

impl Head {
    /// The method.
    pub fn method(&self) -> Method {
        self.line.method
    }

    /// The version.
    pub fn version(&self) -> Version {
        self.line.version
    }

    /// As sent, visible ASCII alone: origin form or absolute form, which
    /// [`judge`](super::target::judge) tells apart.
    pub fn target(&self) -> &[u8] {
        self.line.target.of(&self.bytes)
    }

    /// Every field in order, hop-by-hop ones too.
    pub fn fields(&self) -> impl Iterator<Item = Field<'_>> {
        self.fields.iter().map(|(name, value)| Field {
            name: name.of(&self.bytes),
            value: value.of(&self.bytes),
            bytes: &self.bytes,
        })
    }

    /// How the body's end is found.
    pub fn framing(&self) -> Framing {
        self.facts.framing
    }

    /// The client waits for an interim 100 before it sends its body (RFC 9110,
    /// section 10.1.1). Never without a body, never on HTTP/1.0.
    pub fn expects_continue(&self) -> bool {
        let has_body = !matches!(self.facts.framing, Framing::None | Framing::Length(0));
        self.facts.expects_continue && has_body
    }

    /// The client would send another request (RFC 9112, section 9.3).
    pub fn keeps_alive(&self) -> bool {
        let by_default = self.line.version == Version::Http11;
        self.facts.persists.unwrap_or(by_default)
    }

    /// Every option of every Connection field, as sent: names of fields that end at
    /// this hop, beside `close` and its kind (RFC 9110, section 7.6.1).
    pub fn connection_names(&self) -> impl Iterator<Item = &[u8]> {
        let connection = |field: &Field| field.name.eq_ignore_ascii_case(b"connection");
        self.fields()
            .filter(connection)
            .flat_map(|field| list(field.value))
    }

    /// Bytes of the head, its last empty line included.
    #[expect(clippy::len_without_is_empty, reason = "a head is never empty")]
    pub fn len(&self) -> usize {
        self.bytes.len()
    }
}

/// A field of a head.
#[derive(Clone, Copy, Debug)]
pub struct Field<'a> {
    /// A token, as sent: compare it without regard to case.
    pub name: &'a [u8],
    /// Without the blanks around it; no control byte but HTAB, perhaps bytes from 0x80.
    pub value: &'a [u8],
    bytes: &'a Bytes,
}

impl Field<'_> {
    /// The value, shared with the head.
    pub fn value_bytes(&self) -> Bytes {
        self.bytes.slice_ref(self.value)
    }
}

/// Reads heads, and resumes where the bytes ended.
#[derive(Debug, Default)]
pub struct HeadReader {
    stage: Stage,
    /// Of the request line, everything before was looked at.
    seen: usize,
    lines: FieldLines,
    fields: Vec<(Span, Span)>,
    facts: Facts,
}

/// What is read next.
#[derive(Clone, Copy, Debug, Default)]
enum Stage {
    #[default]
    Method,
    Target(Method),
    Version(Method, Span),
    Fields(RequestLine),
    /// Nothing: no later byte makes up for it.
    Refused(Refused),
}

impl HeadReader {
    /// Takes a head off the front of `buffer` if one is complete; `None`: more bytes
    /// are wanted, behind those that are there. The reader is then ready for the
    /// next head.
    ///
    /// # Errors
    /// What isn't a request, as soon as a byte shows it, and again ever after.
    pub fn read(&mut self, buffer: &mut BytesMut) -> Result<Option<Head>, Refused> {
        let most = at_most(Mechanism::HeadSize, MAX_HEAD);
        let window = &buffer[..buffer.len().min(most)];
        let walked = match self.walk(window) {
            Ok(None) if window.len() == most => Err(Refused::closing(431, "head-too-large")),
            walked => walked,
        };
        let walked = walked.inspect_err(|refused| self.stage = Stage::Refused(*refused));
        let Some((line, facts, end)) = walked? else {
            return Ok(None);
        };
        let fields = std::mem::take(self).fields;
        Ok(Some(Head {
            bytes: buffer.split_to(end).freeze(),
            line,
            fields,
            facts,
        }))
    }

    /// No byte of a head has been read yet.
    pub fn is_idle(&self) -> bool {
        matches!(self.stage, Stage::Method) && self.seen == 0
    }

    fn walk(&mut self, window: &[u8]) -> Result<Option<(RequestLine, Facts, usize)>, Refused> {
        loop {
            let next = match self.stage {
                Stage::Method => self.method(window)?,
                Stage::Target(method) => self.target(window, method)?,
                Stage::Version(method, target) => self.version(window, method, target)?,
                Stage::Fields(line) => return self.fields(window, line),
                Stage::Refused(refused) => return Err(refused),
            };
            let Some(next) = next else {
                return Ok(None);
            };
            self.stage = next;
        }
    }

    fn method(&mut self, window: &[u8]) -> Result<Option<Stage>, Refused> {
        self.seen = skip(window, self.seen, TOKEN);
        if self.seen > MAX_METHOD {
            return Err(Refused::closing(405, "unknown-method"));
        }
        let reason = match (window.get(self.seen), self.seen) {
            (None, _) => return Ok(None),
            (Some(b' '), 1..) => {
                let method = Method::judge(&window[..self.seen])?;
                self.seen += 1;
                return Ok(Some(Stage::Target(method)));
            }
            // A record of type "handshake" (RFC 8446, section 5.1).
            (Some(0x16), 0) => "tls-hello",
            (Some(b'\n'), _) => "bare-lf",
            _ => "bad-method",
        };
        Err(Refused::closing(400, reason))
    }

    fn target(&mut self, window: &[u8], method: Method) -> Result<Option<Stage>, Refused> {
        let start = method.as_str().len() + 1;
        let may_begin = |first: &u8| *first == b'/' || first.is_ascii_alphabetic();
        if window.get(start).is_some_and(|first| !may_begin(first)) {
            return Err(Refused::closing(400, "bad-target"));
        }
        self.seen = skip(window, self.seen, VISIBLE);
        if self.seen - start > MAX_TARGET {
            return Err(Refused::closing(414, "target-too-long"));
        }
        let end = self.seen;
        let reason = match window.get(end) {
            None => return Ok(None),
            Some(b' ') if is_origin_or_absolute(&window[start..end]) => {
                self.seen += 1;
                return Ok(Some(Stage::Version(method, Span { start, end })));
            }
            Some(b'\r') => "http-0.9",
            Some(b'\n') => "bare-lf",
            Some(_) => "bad-target",
        };
        Err(Refused::closing(400, reason))
    }

    fn version(
        &mut self,
        window: &[u8],
        method: Method,
        target: Span,
    ) -> Result<Option<Stage>, Refused> {
        let start = target.end + 1;
        while let Some(byte) = window.get(self.seen) {
            let fits = match self.seen - start {
                place @ (0..=4 | 6) => *byte == b"HTTP/1.1"[place],
                5 | 7 => byte.is_ascii_digit(),
                _ => break,
            };
            if !fits {
                return Err(not_a_version(*byte));
            }
            self.seen += 1;
        }
        let next_line = match window.get(self.seen) {
            None => None,
            Some(b'\r') => after_crlf(window, self.seen)?,
            Some(byte) => return Err(not_a_version(*byte)),
        };
        let Some(next_line) = next_line else {
            return Ok(None);
        };
        let version = match &window[start..self.seen] {
            b"HTTP/1.1" => Version::Http11,
            b"HTTP/1.0" => Version::Http10,
            _ => return Err(Refused::closing(505, "version")),
        };
        self.lines = FieldLines::starting_at(next_line);
        self.fields.reserve(USUAL_FIELDS);
        Ok(Some(Stage::Fields(RequestLine {
            method,
            target,
            version,
        })))
    }

    fn fields(
        &mut self,
        window: &[u8],
        line: RequestLine,
    ) -> Result<Option<(RequestLine, Facts, usize)>, Refused> {
        while let Some(next) = self.lines.next(window)? {
            let (name, value) = match next {
                Line::End(end) => {
                    let facts = self.facts.conclude(line.version)?;
                    return Ok(Some((line, facts, end)));
                }
                Line::Field { name, value } => (name, value),
            };
            if self.fields.len() == at_most(Mechanism::HeadFields, MAX_FIELDS) {
                return Err(Refused::closing(431, "too-many-fields"));
            }
            self.facts
                .note(line.version, name.of(window), value.of(window))?;
            self.fields.push((name, value));
        }
        Ok(None)
    }
}

fn not_a_version(byte: u8) -> Refused {
    let reason = if byte == b'\n' {
        "bare-lf"
    } else {
        "bad-version"
    };
    Refused::closing(400, reason)
}

/// `/…` or `scheme://…` (RFC 9112, section 3.2); not `*`, nor an authority.
fn is_origin_or_absolute(target: &[u8]) -> bool {
    let scheme_byte = |byte: &u8| byte.is_ascii_alphanumeric() || b"+-.".contains(byte);
    let scheme = target.iter().take_while(|byte| scheme_byte(byte)).count();
    target.starts_with(b"/") || target[scheme..].starts_with(b"://")
}
