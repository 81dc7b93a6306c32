//! Body framing (RFC 9112, sections 6 and 7).

use bytes::{Buf as _, Bytes, BytesMut};

use super::Refused;
use super::facts::MAX_LENGTH;
use super::head::Framing;
use super::lines::{CONTENT, FieldLines, Line, after_crlf, is};

/// Of the trailers, their last empty line included, in bytes.
pub const MAX_TRAILERS: usize = 8 * 1024;
/// Of the extensions of one chunk, in bytes.
const MAX_EXTENSION: usize = 256;
/// Of the extensions of a body's chunks, in bytes: they are work for nothing.
const MAX_EXTENSIONS: usize = 16 * 1024;
/// Of a chunk's size: those of 2^64.
const MAX_DIGITS: usize = 16;

/// Takes a body apart, and never reads past its end.
#[derive(Debug)]
pub struct BodyReader {
    state: State,
    /// Bytes of extensions so far.
    extensions: usize,
}

/// What comes out of a [`BodyReader`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Piece {
    /// More bytes are wanted, behind those that are there.
    More,
    /// The next bytes of the body, never none.
    Data(Bytes),
    /// The body has ended; what is left in the buffer is the next request's.
    End,
}

/// What is read next.
#[derive(Debug)]
enum State {
    /// So many bytes of a body with a length.
    Counted(u64),
    Size(SizeLine),
    /// So many bytes of a chunk.
    Chunk(u64),
    ChunkEnd,
    Trailers(FieldLines),
    Done,
    /// No later byte makes up for it.
    Refused(Refused),
}

impl BodyReader {
    /// A reader for the body behind a head with this framing.
    pub fn new(framing: Framing) -> BodyReader {
        let state = match framing {
            Framing::None | Framing::Length(0) => State::Done,
            Framing::Length(length) => State::Counted(length),
            Framing::Chunked => State::Size(SizeLine::default()),
        };
        BodyReader {
            state,
            extensions: 0,
        }
    }

    /// The whole body was read, its trailers too. Where the client leaves before,
    /// the body was cut short.
    pub fn is_done(&self) -> bool {
        matches!(self.state, State::Done)
    }

    /// Takes the next piece off the front of `buffer`. Trailers are parsed like the
    /// fields of a head, and dropped.
    ///
    /// # Errors
    /// What isn't chunked coding, as soon as a byte shows it, and again ever after.
    pub fn read(&mut self, buffer: &mut BytesMut) -> Result<Piece, Refused> {
        self.walk(buffer)
            .inspect_err(|refused| self.state = State::Refused(*refused))
    }

    fn walk(&mut self, buffer: &mut BytesMut) -> Result<Piece, Refused> {
        loop {
            let next = match &mut self.state {
                State::Refused(refused) => return Err(*refused),
                State::Done => return Ok(Piece::End),
                State::Counted(left) => {
                    let piece = take(left, buffer);
                    if *left == 0 {
                        self.state = State::Done;
                    }
                    return Ok(piece);
                }
                State::Chunk(left) => {
                    let piece = take(left, buffer);
                    if *left == 0 {
                        self.state = State::ChunkEnd;
                    }
                    return Ok(piece);
                }
                State::Size(line) => match line.read(buffer)? {
                    None => None,
                    Some((size, extension)) => {
                        self.extensions += extension;
                        if self.extensions > MAX_EXTENSIONS {
                            return Err(Refused::closing(400, "chunk-extensions"));
                        }
                        Some(State::after_size(size))
                    }
                },
                State::ChunkEnd => end_chunk(buffer)?,
                State::Trailers(lines) => end_trailers(lines, buffer)?,
            };
            let Some(next) = next else {
                return Ok(Piece::More);
            };
            self.state = next;
        }
    }
}

impl State {
    fn after_size(size: u64) -> State {
        match size {
            0 => State::Trailers(FieldLines::default()),
            size => State::Chunk(size),
        }
    }
}

fn take(left: &mut u64, buffer: &mut BytesMut) -> Piece {
    let length = usize::try_from(*left).map_or(buffer.len(), |left| left.min(buffer.len()));
    if length == 0 {
        return Piece::More;
    }
    *left -= length as u64;
    Piece::Data(buffer.split_to(length).freeze())
}

fn end_chunk(buffer: &mut BytesMut) -> Result<Option<State>, Refused> {
    if buffer.first().is_some_and(|byte| *byte != b'\r') {
        return Err(Refused::closing(400, "chunk-overrun"));
    }
    let Some(end) = after_crlf(buffer, 0)? else {
        return Ok(None);
    };
    buffer.advance(end);
    Ok(Some(State::Size(SizeLine::default())))
}

fn end_trailers(lines: &mut FieldLines, buffer: &mut BytesMut) -> Result<Option<State>, Refused> {
    let window = &buffer[..buffer.len().min(MAX_TRAILERS)];
    while let Some(line) = lines.next(window)? {
        if let Line::End(end) = line {
            buffer.advance(end);
            return Ok(Some(State::Done));
        }
    }
    if window.len() == MAX_TRAILERS {
        return Err(Refused::closing(431, "trailers-too-large"));
    }
    Ok(None)
}

/// A chunk's first line: its size, and extensions perhaps, which are skipped.
#[derive(Debug, Default)]
struct SizeLine {
    size: u64,
    digits: usize,
    /// Bytes after the first `;`, once there was one.
    extension: Option<usize>,
    ends: bool,
}

impl SizeLine {
    /// The size, and how many bytes of extensions there were; `None`: more bytes are
    /// wanted. What was looked at is gone from `buffer`.
    fn read(&mut self, buffer: &mut BytesMut) -> Result<Option<(u64, usize)>, Refused> {
        for place in 0..buffer.len() {
            #[cfg(test)]
            super::tests::count_examined(1);
            if self.push(buffer[place])? {
                buffer.advance(place + 1);
                return Ok(Some((self.size, self.extension.unwrap_or(0))));
            }
        }
        buffer.clear();
        Ok(None)
    }

    /// Whether the line has ended with this byte.
    fn push(&mut self, byte: u8) -> Result<bool, Refused> {
        let refused = |reason| Err(Refused::closing(400, reason));
        match (byte, self.extension) {
            (b'\n', _) if self.ends => return Ok(true),
            (b'\n', _) => return refused("bare-lf"),
            _ if self.ends => return refused("bare-cr"),
            (b'\r' | b';', None) if self.digits == 0 => return refused("bad-chunk-size"),
            (b'\r', None | Some(1..)) => self.ends = true,
            (b';', None) => self.extension = Some(0),
            (_, None) => self.push_digit(byte)?,
            (_, Some(MAX_EXTENSION)) => return refused("chunk-extensions"),
            (_, Some(length)) if is(byte, CONTENT) => self.extension = Some(length + 1),
            (_, Some(_)) => return refused("bad-chunk-extension"),
        }
        Ok(false)
    }

    fn push_digit(&mut self, byte: u8) -> Result<(), Refused> {
        let digit = char::from(byte).to_digit(16).map(u64::from);
        let digit = digit.filter(|_| self.digits < MAX_DIGITS);
        let size = digit.map(|digit| self.size * 16 + digit);
        let size = size.filter(|size| *size <= MAX_LENGTH);
        self.size = size.ok_or(Refused::closing(400, "bad-chunk-size"))?;
        self.digits += 1;
        Ok(())
    }
}
