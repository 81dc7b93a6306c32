//! The request target: origin form, and a path that reads one way alone.
//!
//! Servers differ in whether they decode a path before they resolve its dots, merge
//! its slashes or cut off `;…`. A path on which they could differ is refused, so
//! that the route that is judged here is the one that is taken there.

use super::Refused;
use crate::sabotage::{Mechanism, stands};

/// An origin form (RFC 9112, section 3.2.1), split at its first `?`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Target<'a> {
    /// Begins with `/`; as sent, not decoded.
    pub path: &'a str,
    /// Without the `?`; as sent, not decoded. What it decodes to is UTF-8 without
    /// control characters.
    pub query: Option<&'a str>,
}

/// Encoded, these are a server's way to read another path than was judged.
const NEVER_ENCODED: &[u8] = b"./\\%;?#";

/// Judges the target of a head. Its request may be refused while the next one on the
/// connection is served: the framing is known.
///
/// # Errors
/// 404 for a path that a client should have resolved itself (`/v1/../v2`, `//v1`),
/// 400 for everything else that isn't plain.
pub fn judge(target: &[u8]) -> Result<Target<'_>, Refused> {
    let target = std::str::from_utf8(target).map_err(|_| Refused::open(400, "bad-target"))?;
    if !target.starts_with('/') {
        return Err(Refused::open(400, "absolute-form"));
    }
    let (path, query) = match target.split_once('?') {
        Some((path, query)) => (path, Some(query)),
        None => (target, None),
    };
    if stands(Mechanism::PlainTargets) {
        judge_text(path, is_path_byte, NEVER_ENCODED)?;
        judge_text(query.unwrap_or_default(), is_query_byte, b"")?;
    }
    if stands(Mechanism::ResolvedPaths) {
        judge_segments(path)?;
    }
    Ok(Target { path, query })
}

/// `pchar` and `/` (RFC 3986, section 3.3), but for `;`: some servers cut a segment
/// off there, and see dots in `..;`.
fn is_path_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-._~!$&'()*+,=:@/".contains(&byte)
}

/// RFC 3986, section 3.4.
fn is_query_byte(byte: u8) -> bool {
    is_path_byte(byte) || b";?".contains(&byte)
}

/// Raw bytes are `plain`, encodings are whole and stand for none of `never` and for
/// no control byte, and it all decodes to UTF-8, in which no letter has two forms.
fn judge_text(text: &str, plain: fn(u8) -> bool, never: &[u8]) -> Result<(), Refused> {
    let refused = |reason| Err(Refused::open(400, reason));
    let mut decoded = Vec::new();
    let mut rest = text.as_bytes();
    while let Some((&byte, tail)) = rest.split_first() {
        rest = tail;
        let byte = match byte {
            b'%' => {
                let Some((encoded, tail)) = take_encoded(tail) else {
                    return refused("bad-encoding");
                };
                if encoded.is_ascii_control() || never.contains(&encoded) {
                    return refused("encoded-syntax");
                }
                rest = tail;
                encoded
            }
            b'#' => return refused("fragment"),
            byte if plain(byte) => byte,
            _ => return refused("bad-target"),
        };
        // Plain text without a letter beyond ASCII needs no copy.
        if !(byte.is_ascii() && decoded.is_empty()) {
            decoded.push(byte);
        }
    }
    match std::str::from_utf8(&decoded) {
        Ok(_) => Ok(()),
        Err(_) => refused("bad-encoding"),
    }
}

/// The byte that two hexadecimal digits stand for, and what follows them.
fn take_encoded(digits: &[u8]) -> Option<(u8, &[u8])> {
    let ([high, low], rest) = digits.split_first_chunk()?;
    let value = |digit: &u8| u8::try_from(char::from(*digit).to_digit(16)?).ok();
    Some((value(high)? * 16 + value(low)?, rest))
}

/// No segment is empty but the last, and none is `.` or `..`.
fn judge_segments(path: &str) -> Result<(), Refused> {
    let has = |dots: &str| path.split('/').any(|segment| segment == dots);
    if path.starts_with("//") || has("..") {
        return Err(Refused::open(404, "elsewhere"));
    }
    if path.contains("//") || has(".") {
        return Err(Refused::open(400, "idle-segment"));
    }
    Ok(())
}
