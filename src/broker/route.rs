//! Which requests are answered here, which are passed on, and which aren't known.

use std::borrow::Cow;
use std::fmt;
use std::path::Path;

use http::Method;

use super::provider::Provider;
use crate::refusal::{Reason, Refusal, shown};

/// What becomes of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// `GET` or `HEAD` of `/healthz`: answered here.
    Healthz,
    /// `GET` or `HEAD` of `/`: answered here.
    Root,
    /// Goes to the API.
    Forward,
    /// 404.
    NotFound,
}

/// A method and a pattern of paths.
///
/// A pattern's segments stand for themselves. One `*` in a segment stands for an ID:
/// 1 to 128 of `A-Z a-z 0-9 . _ : @ -`, with `:` and `@` percent-encoded or not, and
/// not dots alone. A last segment `**` stands for one segment or more of any kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Route {
    method: Method,
    pattern: Cow<'static, str>,
}

/// What can be named; the front knows no others.
const METHODS: [Method; 7] = [
    Method::GET,
    Method::HEAD,
    Method::POST,
    Method::PUT,
    Method::PATCH,
    Method::DELETE,
    Method::OPTIONS,
];

impl Route {
    const fn listed(method: Method, pattern: &'static str) -> Route {
        Route {
            method,
            pattern: Cow::Borrowed(pattern),
        }
    }

    /// Judges `--allow-route 'METHOD /path'`: a method in capitals, one space, a
    /// pattern (see [`Route`]). A segment is letters, digits and `-._~!$&'()+,=:@`;
    /// what a client would percent-encode is matched by `**` alone.
    ///
    /// # Errors
    /// `usage` where it isn't of that form, or no request that the front lets in
    /// could ever match: an empty segment, dots alone.
    pub fn judge(typed: &str) -> Result<Route, Refusal> {
        let refusal = |remedy: &'static str| {
            Refusal::new(Reason::Usage, "read --allow-route")
                .about(shown(Path::new(typed)))
                .remedy(remedy)
        };
        let (method, path) = typed
            .split_once(' ')
            .ok_or_else(|| refusal("give 'METHOD /path'"))?;
        let method = METHODS
            .into_iter()
            .find(|known| known.as_str() == method)
            .ok_or_else(|| {
                refusal("METHOD is one of GET, HEAD, POST, PUT, PATCH, DELETE and OPTIONS")
            })?;
        let segments = path
            .strip_prefix('/')
            .ok_or_else(|| refusal("the path begins with `/`, after one space"))?;
        let (rest, last) = segments.rsplit_once('/').unwrap_or(("", segments));
        let well_formed = (rest.is_empty() || rest.split('/').all(is_segment))
            && (last == "**" || is_segment(last))
            && !segments.starts_with('/');
        if !well_formed {
            return Err(refusal(
                "write each segment as it is, with `*` for an ID, or `**` at the end for all below",
            ));
        }
        Ok(Route {
            method,
            pattern: Cow::Owned(path.to_owned()),
        })
    }
}

impl fmt::Display for Route {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.method, self.pattern)
    }
}

/// Whether it can stand in a pattern. No `;` and no `%`: the front refuses the
/// first beside dots, and reads the second only to refuse what hides in it.
fn is_segment(segment: &str) -> bool {
    let literal = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~!$&'()*+,=:@".contains(&byte);
    !segment.is_empty()
        && segment.bytes().all(literal)
        && segment.bytes().any(|byte| byte != b'.')
        && segment.matches('*').count() <= 1
}

static ANTHROPIC: [Route; 4] = [
    Route::listed(Method::POST, "/v1/messages"),
    Route::listed(Method::POST, "/v1/messages/count_tokens"),
    Route::listed(Method::GET, "/v1/models"),
    Route::listed(Method::GET, "/v1/models/*"),
];
static OPENAI: [Route; 4] = [
    Route::listed(Method::POST, "/v1/responses"),
    Route::listed(Method::POST, "/v1/chat/completions"),
    Route::listed(Method::GET, "/v1/models"),
    Route::listed(Method::GET, "/v1/models/*"),
];
static GEMINI: [Route; 10] = [
    Route::listed(Method::POST, "/v1beta/models/*:generateContent"),
    Route::listed(Method::POST, "/v1beta/models/*:streamGenerateContent"),
    Route::listed(Method::POST, "/v1beta/models/*:countTokens"),
    Route::listed(Method::POST, "/v1/models/*:generateContent"),
    Route::listed(Method::POST, "/v1/models/*:streamGenerateContent"),
    Route::listed(Method::POST, "/v1/models/*:countTokens"),
    Route::listed(Method::GET, "/v1beta/models"),
    Route::listed(Method::GET, "/v1beta/models/*"),
    Route::listed(Method::GET, "/v1/models"),
    Route::listed(Method::GET, "/v1/models/*"),
];
// No OPTIONS: it asks for a browser's sake, and no browser reaches the broker.
static CUSTOM: [Route; 6] = [
    Route::listed(Method::GET, "/v1/**"),
    Route::listed(Method::HEAD, "/v1/**"),
    Route::listed(Method::POST, "/v1/**"),
    Route::listed(Method::PUT, "/v1/**"),
    Route::listed(Method::PATCH, "/v1/**"),
    Route::listed(Method::DELETE, "/v1/**"),
];

/// What a broker passes on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Routes {
    listed: Vec<Route>,
    /// Whether an ID may have a `:`. Not where a `:` ends the ID and begins what is
    /// done with it, as in Gemini's `models/ID:generateContent`.
    colons: bool,
}

impl Routes {
    /// The routes of `provider` and those that were added.
    pub fn of(provider: Provider, extra: Vec<Route>) -> Routes {
        let own: &[Route] = match provider {
            Provider::Anthropic => &ANTHROPIC,
            Provider::OpenAi => &OPENAI,
            Provider::Gemini => &GEMINI,
            Provider::Custom => &CUSTOM,
        };
        Routes {
            listed: own.iter().cloned().chain(extra).collect(),
            colons: provider != Provider::Gemini,
        }
    }

    /// Every route, the provider's own first.
    pub fn iter(&self) -> impl Iterator<Item = &Route> {
        self.listed.iter()
    }

    /// What becomes of a request for `path`, which the front has judged and which is
    /// as it was sent: nothing is decoded, and a trailing slash makes another path.
    /// What is answered here is so whatever the routes say.
    pub fn decide(&self, method: &Method, path: &str) -> Decision {
        let reads = matches!(*method, Method::GET | Method::HEAD);
        match path {
            "/healthz" if reads => Decision::Healthz,
            "/" if reads => Decision::Root,
            _ if self.listed.iter().any(|route| {
                route.method == *method && path_fits(&route.pattern, path, self.colons)
            }) =>
            {
                Decision::Forward
            }
            _ => Decision::NotFound,
        }
    }
}

fn path_fits(pattern: &str, path: &str, colons: bool) -> bool {
    let mut path = path.split('/');
    for wanted in pattern.split('/') {
        match path.next() {
            Some(segment) if wanted == "**" => return !segment.is_empty(),
            Some(segment) if segment_fits(wanted, segment, colons) => {}
            _ => return false,
        }
    }
    path.next().is_none()
}

fn segment_fits(wanted: &str, segment: &str, colons: bool) -> bool {
    let Some((before, after)) = wanted.split_once('*') else {
        return wanted == segment;
    };
    segment
        .strip_prefix(before)
        .and_then(|rest| rest.strip_suffix(after))
        .is_some_and(|id| is_id(id.as_bytes(), colons))
}

/// Whether it is an ID as [`Route`] says. Its length is counted as it was sent.
fn is_id(id: &[u8], colons: bool) -> bool {
    if !(1..=128).contains(&id.len()) || id.iter().all(|byte| *byte == b'.') {
        return false;
    }
    let mut rest = id;
    loop {
        rest = match rest {
            [] => return true,
            [b'%', b'4', b'0', rest @ ..] => rest,
            [b'%', b'3', b'A' | b'a', rest @ ..] | [b':', rest @ ..] if colons => rest,
            [byte, rest @ ..] if byte.is_ascii_alphanumeric() || b"._@-".contains(byte) => rest,
            _ => return false,
        };
    }
}

#[cfg(test)]
mod tests;
