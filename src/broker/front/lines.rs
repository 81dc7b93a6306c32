//! Byte classes, line ends, and field lines (RFC 9112, sections 2.2 and 5).

use super::Refused;

/// `tchar` (RFC 9110, section 5.6.2).
pub(super) const TOKEN: u8 = 1;
/// `VCHAR`: what a request target is made of.
pub(super) const VISIBLE: u8 = 2;
/// What a field value may hold (RFC 9110, section 5.5): `VCHAR`, blanks, `obs-text`.
pub(super) const CONTENT: u8 = 4;

static CLASSES: [u8; 256] = classes();

const fn classes() -> [u8; 256] {
    let mut classes = [0; 256];
    let mut byte = 0u8;
    loop {
        classes[byte as usize] = match byte {
            b'0'..=b'9' | b'A'..=b'Z' | b'^'..=b'z' => TOKEN | VISIBLE | CONTENT,
            b'!' | b'#'..=b'\'' | b'*' | b'+' | b'-' | b'.' | b'|' | b'~' => {
                TOKEN | VISIBLE | CONTENT
            }
            0x21..=0x7e => VISIBLE | CONTENT,
            b' ' | b'\t' | 0x80.. => CONTENT,
            _ => 0,
        };
        if byte == u8::MAX {
            return classes;
        }
        byte += 1;
    }
}

/// Whether the byte is of the class.
pub(super) fn is(byte: u8, class: u8) -> bool {
    CLASSES[usize::from(byte)] & class != 0
}

/// The first place from `from` on whose byte isn't of the class, or the end.
pub(super) fn skip(bytes: &[u8], from: usize, class: u8) -> usize {
    let tail = bytes.get(from..).unwrap_or_default();
    let run = tail.iter().position(|byte| !is(*byte, class));
    #[cfg(test)]
    super::tests::count_examined(run.map_or(tail.len(), |run| run + 1));
    run.map_or(from.max(bytes.len()), |run| from + run)
}

/// Where the line after the CR at `cr` begins; `None`: its LF has yet to come.
pub(super) fn after_crlf(bytes: &[u8], cr: usize) -> Result<Option<usize>, Refused> {
    match bytes.get(cr + 1) {
        None => Ok(None),
        Some(b'\n') => Ok(Some(cr + 2)),
        Some(_) => Err(Refused::closing(400, "bare-cr")),
    }
}

/// A range of places in the bytes of a head.
#[derive(Clone, Copy, Debug)]
pub(super) struct Span {
    pub(super) start: usize,
    pub(super) end: usize,
}

impl Span {
    /// The bytes in it.
    pub(super) fn of(self, bytes: &[u8]) -> &[u8] {
        &bytes[self.start..self.end]
    }

    /// Without the blanks around what is in it (`OWS`): in a field's content there is
    /// no other white space than those.
    fn trimmed(self, bytes: &[u8]) -> Span {
        let content = self.of(bytes).trim_ascii_end();
        let end = self.start + content.len();
        Span {
            start: end - content.trim_ascii_start().len(),
            end,
        }
    }
}

/// Field lines up to the empty line, read on from where the bytes ended last time.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct FieldLines {
    /// Where the line that is being read begins.
    line: usize,
    /// Of that line, once it was seen.
    colon: Option<usize>,
    /// Everything before was looked at.
    seen: usize,
}

/// One line of a section of fields.
pub(super) enum Line {
    /// A name, and a value without the blanks around it.
    Field { name: Span, value: Span },
    /// The empty line; what follows begins at this place.
    End(usize),
}

impl FieldLines {
    /// The first line begins at `start`.
    pub(super) fn starting_at(start: usize) -> FieldLines {
        FieldLines {
            line: start,
            colon: None,
            seen: start,
        }
    }

    /// The next whole line; `None`: more bytes are wanted.
    pub(super) fn next(&mut self, bytes: &[u8]) -> Result<Option<Line>, Refused> {
        match self.colon {
            None => self.name(bytes),
            Some(colon) => self.value(bytes, colon),
        }
    }

    fn name(&mut self, bytes: &[u8]) -> Result<Option<Line>, Refused> {
        self.seen = skip(bytes, self.seen, TOKEN);
        let Some(stop) = bytes.get(self.seen) else {
            return Ok(None);
        };
        let reason = match (stop, self.seen == self.line) {
            (b':', false) => {
                self.colon = Some(self.seen);
                self.seen += 1;
                return self.next(bytes);
            }
            (b'\r', true) => return Ok(after_crlf(bytes, self.seen)?.map(Line::End)),
            (b':', true) => "empty-name",
            (b' ' | b'\t', true) => "obs-fold",
            (b' ' | b'\t', false) => "blank-before-colon",
            (b'\r', false) => "no-colon",
            (b'\n', _) => "bare-lf",
            _ => "bad-name",
        };
        Err(Refused::closing(400, reason))
    }

    fn value(&mut self, bytes: &[u8], colon: usize) -> Result<Option<Line>, Refused> {
        self.seen = skip(bytes, self.seen, CONTENT);
        let next_line = match bytes.get(self.seen) {
            None => None,
            Some(b'\r') => after_crlf(bytes, self.seen)?,
            Some(b'\n') => return Err(Refused::closing(400, "bare-lf")),
            Some(_) => return Err(Refused::closing(400, "bad-value")),
        };
        let Some(next_line) = next_line else {
            return Ok(None);
        };
        let name = Span {
            start: self.line,
            end: colon,
        };
        let value = Span {
            start: colon + 1,
            end: self.seen,
        };
        *self = FieldLines::starting_at(next_line);
        Ok(Some(Line::Field {
            name,
            value: value.trimmed(bytes),
        }))
    }
}
