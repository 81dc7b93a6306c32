//! The query: names are read, and what is kept goes on as it came.
//!
//! No RFC says how a query is divided; what is read here is the form that the APIs
//! take (`name=value` with `&` between, WHATWG URL, section 5), and what another
//! reader could divide otherwise isn't passed on.

use std::borrow::Cow;

use super::fields::{bad_request, is_one_of};
use super::front::Refused;
use super::provider::Provider;

/// Options of the Messages API's own clients, and the pages of its lists.
const ANTHROPIC: &[&[u8]] = &[b"beta", b"limit", b"before_id", b"after_id"];
/// Pages of lists, and how a stored answer is given again, for routes that were added.
const OPENAI: &[&[u8]] = &[
    b"after",
    b"before",
    b"limit",
    b"order",
    b"stream",
    b"starting_after",
    b"include_obfuscation",
];
/// The form of a stream, and the pages of its lists.
const GEMINI: &[&[u8]] = &[b"alt", b"pageSize", b"pageToken"];

/// What `custom` never gets, squeezed (see `fields`).
const DENIED: [&[u8]; 10] = [
    // Credentials.
    b"key",
    b"apikey",
    b"accesstoken",
    b"oauthtoken",
    b"authorization",
    b"proxyauthorization",
    b"xapikey",
    b"xgoogapikey",
    // Google's, which put any header and another method into a request.
    b"httpheaders",
    b"httpmethod",
];

/// What of `query` goes to the API; none where nothing does. `key` never does: it
/// was the client's credential.
///
/// # Errors
/// 400: what isn't percent-encoded as it says, a name that hides another (decoded
/// twice, cut at a NUL, divided at a `;`), a known name twice, an `alt` that asks for
/// something else than an answer in JSON.
pub fn outgoing(provider: Provider, query: &str) -> Result<Option<String>, Refused> {
    let known = match provider {
        Provider::Anthropic => ANTHROPIC,
        Provider::OpenAi => OPENAI,
        Provider::Gemini => GEMINI,
        Provider::Custom => return all_but_denied(query),
    };
    let mut seen = 0_u32;
    chosen(query, |name, value| {
        let Some(at) = known.iter().position(|one| *one == name) else {
            return Ok(false);
        };
        if seen & (1 << at) != 0 {
            return Err(bad_request("query-twice"));
        }
        seen |= 1 << at;
        if name == b"alt" && value != b"sse" && value != b"json" {
            return Err(bad_request("query-alt"));
        }
        Ok(true)
    })
}

fn all_but_denied(query: &str) -> Result<Option<String>, Refused> {
    chosen(query, |name, _| Ok(!is_one_of(name, &DENIED)))
}

/// The pairs that `keeps` keeps by their decoded name and value, as they came.
fn chosen(
    query: &str,
    mut keeps: impl FnMut(&[u8], &[u8]) -> Result<bool, Refused>,
) -> Result<Option<String>, Refused> {
    // Some servers divide there too, and find a name that wasn't looked at.
    if query.contains(';') {
        return Err(bad_request("query-semicolon"));
    }
    let mut kept = String::new();
    for (pair, name, value) in pairs(query) {
        let (Some(name), Some(value)) = (decoded(name), decoded(value)) else {
            return Err(bad_request("query-encoding"));
        };
        if name
            .iter()
            .any(|byte| byte.is_ascii_control() || *byte == b'%')
        {
            return Err(bad_request("query-name"));
        }
        if keeps(&name, &value)? {
            if !kept.is_empty() {
                kept.push('&');
            }
            kept.push_str(pair);
        }
    }
    Ok((!kept.is_empty()).then_some(kept))
}

/// The value of every `key`, decoded, or as it is where it can't be.
pub(super) fn keys(query: &str) -> impl Iterator<Item = Cow<'_, [u8]>> {
    pairs(query)
        .filter(|(_, name, _)| decoded(name).is_some_and(|name| *name == *b"key"))
        .map(|(_, _, value)| decoded(value).unwrap_or(Cow::Borrowed(value.as_bytes())))
}

/// Every pair, its name and its value, as they came. A pair without `=` has no value.
fn pairs(query: &str) -> impl Iterator<Item = (&str, &str, &str)> {
    query
        .split('&')
        .filter(|pair| !pair.is_empty())
        .map(|pair| {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            (pair, name, value)
        })
}

/// Percent-decoded once, `+` being a space; none where a `%` has no two digits.
fn decoded(text: &str) -> Option<Cow<'_, [u8]>> {
    if !text.bytes().any(|byte| matches!(byte, b'%' | b'+')) {
        return Some(Cow::Borrowed(text.as_bytes()));
    }
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    loop {
        rest = match rest {
            [] => return Some(Cow::Owned(out)),
            [b'%', high, low, rest @ ..] => {
                out.push(digit(*high)? << 4 | digit(*low)?);
                rest
            }
            [b'%', ..] => return None,
            [b'+', rest @ ..] => {
                out.push(b' ');
                rest
            }
            [byte, rest @ ..] => {
                out.push(*byte);
                rest
            }
        };
    }
}

fn digit(hex: u8) -> Option<u8> {
    match hex {
        b'0'..=b'9' => Some(hex - b'0'),
        b'a'..=b'f' => Some(hex - b'a' + 10),
        b'A'..=b'F' => Some(hex - b'A' + 10),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
