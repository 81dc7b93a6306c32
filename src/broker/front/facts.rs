//! What a head's fields say about the message itself: its host, its body's framing,
//! and whether the connection outlives it.

use super::Refused;
use super::head::{Framing, Version};
use super::lines::{TOKEN, is};
use crate::sabotage::{Mechanism, stands};

/// Any body that is meant ends long before, and every sum with it stays exact.
pub(super) const MAX_LENGTH: u64 = 1 << 53;

/// Gathered field by field.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Facts {
    has_host: bool,
    pub(super) framing: Framing,
    /// `Expect: 100-continue`.
    pub(super) expects_continue: bool,
    /// `Connection: close` or `keep-alive`; of both, close.
    pub(super) persists: Option<bool>,
}

impl Facts {
    /// Takes a field in, or refuses what it says.
    pub(super) fn note(
        &mut self,
        version: Version,
        name: &[u8],
        value: &[u8],
    ) -> Result<(), Refused> {
        let named = |known: &str| name.eq_ignore_ascii_case(known.as_bytes());
        match name.len() {
            4 if named("host") => self.note_host(value),
            6 if named("expect") => self.note_expect(version, value),
            10 if named("connection") => self.note_connection(value),
            14 if named("content-length") => self.note_length(value),
            17 if named("transfer-encoding") => self.note_coding(version, value),
            _ => Ok(()),
        }
    }

    /// Nothing is missing (RFC 9112, section 3.2).
    pub(super) fn conclude(self, version: Version) -> Result<Facts, Refused> {
        if self.has_host || version == Version::Http10 || !stands(Mechanism::SingleHost) {
            Ok(self)
        } else {
            Err(Refused::closing(400, "no-host"))
        }
    }

    fn note_host(&mut self, value: &[u8]) -> Result<(), Refused> {
        if self.has_host && stands(Mechanism::SingleHost) {
            return Err(Refused::closing(400, "two-hosts"));
        }
        if !is_host(value) {
            return Err(Refused::closing(400, "bad-host"));
        }
        self.has_host = true;
        Ok(())
    }

    /// HTTP/1.0 knows no interim answers (RFC 9110, section 10.1.1).
    fn note_expect(&mut self, version: Version, value: &[u8]) -> Result<(), Refused> {
        if !value.eq_ignore_ascii_case(b"100-continue") {
            return Err(Refused::closing(417, "expectation"));
        }
        self.expects_continue = version == Version::Http11;
        Ok(())
    }

    fn note_connection(&mut self, value: &[u8]) -> Result<(), Refused> {
        for option in list(value) {
            if !option.iter().all(|byte| is(*byte, TOKEN)) {
                return Err(Refused::closing(400, "bad-connection"));
            }
            if option.eq_ignore_ascii_case(b"close") {
                self.persists = Some(false);
            } else if option.eq_ignore_ascii_case(b"keep-alive") {
                self.persists.get_or_insert(true);
            }
        }
        Ok(())
    }

    /// `1*DIGIT` and nothing else (RFC 9110, section 8.6), even where RFC 9112 lets
    /// a recipient mend a list of equal lengths.
    fn note_length(&mut self, value: &[u8]) -> Result<(), Refused> {
        self.has_no_framing_yet()?;
        let length = decimal(value, 16).filter(|length| *length <= MAX_LENGTH);
        let length = length.ok_or(Refused::closing(400, "bad-length"))?;
        self.framing = Framing::Length(length);
        Ok(())
    }

    /// `chunked` alone, once, on HTTP/1.1 (RFC 9112, section 6.1).
    fn note_coding(&mut self, version: Version, value: &[u8]) -> Result<(), Refused> {
        self.has_no_framing_yet()?;
        if version == Version::Http10 || value.is_empty() {
            return Err(Refused::closing(400, "bad-coding"));
        }
        if !value.eq_ignore_ascii_case(b"chunked") {
            return Err(Refused::closing(501, "unknown-coding"));
        }
        self.framing = Framing::Chunked;
        Ok(())
    }

    fn has_no_framing_yet(&self) -> Result<(), Refused> {
        match self.framing {
            Framing::None => Ok(()),
            _ if !stands(Mechanism::SingleFraming) => Ok(()),
            Framing::Length(_) | Framing::Chunked => Err(Refused::closing(400, "two-framings")),
        }
    }
}

/// The elements of a comma-separated list; empty ones are skipped (RFC 9110, 5.6.1.2).
pub(super) fn list(value: &[u8]) -> impl Iterator<Item = &[u8]> {
    let elements = value.split(|byte| *byte == b',').map(<[u8]>::trim_ascii);
    elements.filter(|element| !element.is_empty())
}

/// A name, an IPv4 address or a bracketed IPv6 one, and a port perhaps. A name's
/// rarer characters (RFC 3986, section 3.2.2, `sub-delims` and `%`) are left out.
fn is_host(value: &[u8]) -> bool {
    let name_byte = |byte: &u8| byte.is_ascii_alphanumeric() || b"-._~".contains(byte);
    let literal_byte = |byte: &u8| byte.is_ascii_hexdigit() || b":.".contains(byte);
    let (host, rest) = match value {
        [b'[', tail @ ..] => {
            let end = tail.iter().take_while(|byte| literal_byte(byte)).count();
            match tail[end..].split_first() {
                Some((b']', rest)) => (&tail[..end], rest),
                _ => return false,
            }
        }
        _ => value.split_at(value.iter().take_while(|byte| name_byte(byte)).count()),
    };
    let is_port = |port| decimal(port, 5).is_some_and(|port| u16::try_from(port).is_ok());
    !host.is_empty() && (rest.is_empty() || rest.strip_prefix(b":").is_some_and(is_port))
}

/// Digits alone, at least one and at most `digits` (below 20) of them.
fn decimal(text: &[u8], digits: usize) -> Option<u64> {
    if text.is_empty() || text.len() > digits {
        return None;
    }
    text.iter().try_fold(0, |number: u64, byte| {
        let digit = byte.is_ascii_digit().then(|| u64::from(byte - b'0'))?;
        Some(number * 10 + digit)
    })
}
