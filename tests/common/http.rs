//! HTTP/1.1 as the tests read it, on both sides of the broker: so strictly that
//! whatever the broker sends and this doesn't take is a failure.

use std::fmt::Write as _;

/// A head: its first line, and its fields with their names in lower case.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Head {
    pub(crate) line: String,
    pub(crate) fields: Vec<(String, String)>,
}

impl Head {
    /// Takes a head off the front of `buffer`; none, if it isn't all there.
    pub(crate) fn take(buffer: &mut Vec<u8>) -> Result<Option<Head>, String> {
        let Some(end) = buffer.windows(4).position(|four| four == b"\r\n\r\n") else {
            return Ok(None);
        };
        let bytes: Vec<u8> = buffer.drain(..end + 4).collect();
        // A byte a character: those beyond ASCII are nobody's charset.
        let text: String = bytes[..end].iter().map(|byte| char::from(*byte)).collect();
        let mut lines = text.split("\r\n");
        let is_odd = |line: &str| line.chars().any(|c| c.is_ascii_control() && c != '\t');
        if lines.clone().any(is_odd) {
            return Err(format!("a control byte in a head: {text:?}"));
        }
        let line = lines.next().expect("at least one").to_owned();
        let fields = lines.map(field).collect::<Result<_, _>>()?;
        Ok(Some(Head { line, fields }))
    }

    /// Every value of a field.
    pub(crate) fn all(&self, name: &str) -> Vec<&str> {
        let named = self.fields.iter().filter(|(known, _)| known == name);
        named.map(|(_, value)| value.as_str()).collect()
    }

    /// The value of a field that comes at most once.
    pub(crate) fn one(&self, name: &str) -> Option<&str> {
        let all = self.all(name);
        assert!(all.len() < 2, "several {name}: {self:?}");
        all.first().copied()
    }

    /// The first line, then the fields in the order of their names.
    pub(crate) fn sorted(&self) -> String {
        let mut fields = self.fields.clone();
        fields.sort();
        fields
            .iter()
            .fold(self.line.clone(), |mut text, (name, value)| {
                write!(text, "\n{name}: {value}").expect("a string takes text");
                text
            })
    }

    fn framing(&self) -> Result<Option<Framing>, String> {
        match (
            &self.all("content-length")[..],
            &self.all("transfer-encoding")[..],
        ) {
            ([], []) => Ok(None),
            ([length], []) if length.bytes().all(|b| b.is_ascii_digit()) => {
                let length = length.parse().map_err(|_| "a Content-Length")?;
                Ok(Some(Framing::Length(length)))
            }
            ([], ["chunked"]) => Ok(Some(Framing::Chunked)),
            _ => Err(format!("ambiguous framing: {self:?}")),
        }
    }

    /// The body that follows this head of a request (RFC 9112, section 6.3).
    pub(crate) fn request_body(&self) -> Result<Body, String> {
        Ok(Body::new(self.framing()?.unwrap_or(Framing::Length(0))))
    }

    /// The body that follows this head of an answer to a request of this method.
    pub(crate) fn answer_body(&self, method: &str) -> Result<Body, String> {
        let status = self.status()?;
        let framing = self.framing()?;
        let none = status < 200 || status == 204 || status == 304 || method == "HEAD";
        Ok(Body::new(if none {
            Framing::Length(0)
        } else {
            framing.unwrap_or(Framing::Close)
        }))
    }

    /// The status of an answer.
    pub(crate) fn status(&self) -> Result<u16, String> {
        let rest = self.line.strip_prefix("HTTP/1.1 ");
        let code = rest.and_then(|rest| rest.get(..3)?.parse().ok());
        code.ok_or_else(|| format!("no status line: {:?}", self.line))
    }
}

fn field(line: &str) -> Result<(String, String), String> {
    let (name, value) = line.split_once(':').ok_or("a field without a colon")?;
    let token = |b: u8| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&b);
    if name.is_empty() || !name.bytes().all(token) {
        return Err(format!("no name of a field: {name:?}"));
    }
    Ok((
        name.to_ascii_lowercase(),
        value.trim_matches([' ', '\t']).to_owned(),
    ))
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Framing {
    Length(usize),
    Chunked,
    /// To the end of the connection.
    Close,
}

/// A body, read as it comes.
#[derive(Debug)]
pub(crate) struct Body {
    framing: Framing,
    /// Of the body, or of the chunk.
    left: usize,
    /// After a chunk's data comes a line end.
    in_chunk: bool,
    done: bool,
}

impl Body {
    fn new(framing: Framing) -> Self {
        let left = match framing {
            Framing::Length(length) => length,
            Framing::Chunked | Framing::Close => 0,
        };
        let done = framing == Framing::Length(0);
        Body {
            framing,
            left,
            in_chunk: false,
            done,
        }
    }

    /// Whether the end was seen.
    pub(crate) fn is_done(&self) -> bool {
        self.done
    }

    /// Whether the connection's end, now, is a valid end of the body.
    pub(crate) fn may_end_here(&self) -> bool {
        self.done || self.framing == Framing::Close
    }

    /// Moves what `buffer` has of the body. What follows the body stays.
    pub(crate) fn take(&mut self, buffer: &mut Vec<u8>) -> Result<Vec<u8>, String> {
        match self.framing {
            Framing::Close => Ok(std::mem::take(buffer)),
            Framing::Length(_) => {
                let data = self.data(buffer);
                self.done = self.left == 0;
                Ok(data)
            }
            Framing::Chunked => self.chunks(buffer),
        }
    }

    fn data(&mut self, buffer: &mut Vec<u8>) -> Vec<u8> {
        let length = self.left.min(buffer.len());
        self.left -= length;
        buffer.drain(..length).collect()
    }

    fn chunks(&mut self, buffer: &mut Vec<u8>) -> Result<Vec<u8>, String> {
        let mut out = Vec::new();
        while !self.done {
            if self.left > 0 {
                if buffer.is_empty() {
                    break;
                }
                out.extend(self.data(buffer));
                continue;
            }
            if self.in_chunk {
                if buffer.len() < 2 {
                    break;
                }
                if !buffer.starts_with(b"\r\n") {
                    return Err("a chunk is longer than it said".into());
                }
                buffer.drain(..2);
                self.in_chunk = false;
            }
            let Some(end) = buffer.windows(2).position(|two| two == b"\r\n") else {
                break;
            };
            let size = std::str::from_utf8(&buffer[..end]).ok();
            let size = size.filter(|size| size.bytes().all(|b| b.is_ascii_hexdigit()));
            let size = size.and_then(|size| usize::from_str_radix(size, 16).ok());
            let size = size.ok_or_else(|| format!("a chunk's size: {:?}", &buffer[..end]))?;
            if size == 0 {
                if buffer.len() < end + 4 {
                    break;
                }
                if &buffer[end..end + 4] != b"\r\n\r\n" {
                    return Err("trailers".into());
                }
                buffer.drain(..end + 4);
                self.done = true;
            } else {
                buffer.drain(..end + 2);
                (self.left, self.in_chunk) = (size, true);
            }
        }
        Ok(out)
    }
}

/// A message in chunks, for requests and answers.
pub(crate) fn chunk(data: &[u8]) -> Vec<u8> {
    [format!("{:x}\r\n", data.len()).as_bytes(), data, b"\r\n"].concat()
}

/// Whether `needle` is somewhere in `bytes`.
pub(crate) fn holds(bytes: &[u8], needle: &[u8]) -> bool {
    memchr::memmem::find(bytes, needle).is_some()
}
