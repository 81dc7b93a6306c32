//! The front as a connection uses it. Each table says what comes of some bytes; that
//! it doesn't depend on how they are cut is tried for every entry.

use std::cell::Cell;

use bytes::BytesMut;

use super::{BodyReader, Head, HeadReader, Piece, Refused, target};

mod bodies;
mod heads;
mod targets;

thread_local! {
    static EXAMINED: Cell<usize> = const { Cell::new(0) };
}

/// Called wherever bytes are looked at.
pub(super) fn count_examined(bytes: usize) {
    EXAMINED.set(EXAMINED.get() + bytes);
}

/// What comes of a connection's bytes: a word for each request, in order.
#[derive(Debug, Default, PartialEq, Eq)]
struct Story {
    /// `ok`, `400 reason`, `400c reason`; `head…` or `body…` where more was wanted.
    words: Vec<String>,
    /// Of each request in order; empty where there was none.
    bodies: Vec<Vec<u8>>,
}

/// A connection without sockets.
#[derive(Default)]
struct Connection {
    buffer: BytesMut,
    heads: HeadReader,
    body: Option<BodyReader>,
    story: Story,
    is_closed: bool,
}

impl Connection {
    fn feed(&mut self, piece: &[u8]) {
        self.buffer.extend_from_slice(piece);
        if self.is_closed {
            return;
        }
        if let Err(refused) = self.read() {
            assert_eq!(self.read(), Err(refused), "a refusal is final");
            self.is_closed = true;
            self.story.words.push(word(refused));
        }
    }

    /// All that the bytes so far are good for.
    fn read(&mut self) -> Result<(), Refused> {
        loop {
            if self.body.is_none() {
                let Some(head) = self.heads.read(&mut self.buffer)? else {
                    return Ok(());
                };
                self.body = Some(BodyReader::new(head.framing()));
                self.story.bodies.push(Vec::new());
                let verdict = target::judge(head.target());
                let word = verdict.map_or_else(word, |_| "ok".into());
                self.story.words.push(word);
            }
            let Some(body) = self.body.as_mut() else {
                return Ok(());
            };
            match body.read(&mut self.buffer)? {
                Piece::More => return Ok(()),
                Piece::Data(data) => {
                    assert!(!data.is_empty());
                    let last = self.story.bodies.last_mut().unwrap();
                    last.extend_from_slice(&data);
                }
                Piece::End => {
                    assert!(body.is_done());
                    self.body = None;
                }
            }
        }
    }

    fn end(mut self) -> Story {
        if !self.is_closed && self.body.is_some() {
            self.story.words.push("body…".into());
        } else if !self.is_closed && !self.heads.is_idle() {
            self.story.words.push("head…".into());
        }
        self.story
    }
}

fn word(refused: Refused) -> String {
    let close = if refused.close { "c" } else { "" };
    format!("{}{close} {}", refused.status, refused.reason)
}

fn play<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> Story {
    let mut connection = Connection::default();
    for piece in pieces {
        connection.feed(piece);
    }
    connection.end()
}

/// What is written of a table's entry: the bytes, and the words they come to.
type Entry<'a> = (&'a [u8], &'a str);

/// Plays each entry whole, byte by byte, and cut in two at every place (at some
/// hundred places where it is long).
fn check(table: &[Entry]) {
    for (bytes, wanted) in table {
        let shown = bytes[..bytes.len().min(200)].escape_ascii();
        let whole = play([*bytes]);
        assert_eq!(whole.words.join(", "), *wanted, "{shown}");
        assert_eq!(play(bytes.chunks(1)), whole, "bytewise: {shown}");
        for place in (0..bytes.len()).step_by(1 + bytes.len() / 512) {
            let (front, back) = bytes.split_at(place);
            assert_eq!(play([front, back]), whole, "cut at {place}: {shown}");
        }
    }
}

/// The head that the bytes are, all of them.
fn head(bytes: &[u8]) -> Head {
    let mut buffer = BytesMut::from(bytes);
    let head = HeadReader::default().read(&mut buffer).unwrap().unwrap();
    assert!(buffer.is_empty());
    head
}

/// Nothing is looked at more than three times, whatever the pieces: the byte at
/// which a look stops, and a CR whose LF has yet to come, are looked at again.
#[test]
fn work_is_linear_in_the_bytes() {
    let fields: Vec<u8> = (0..100)
        .flat_map(|number| format!("x-{number}: {}\r\n", "v".repeat(500)).into_bytes())
        .collect();
    let long_line = [b"GET /".as_slice(), &[b'x'; 8000], b" HTTP/1.1\r\n"].concat();
    let head = [&long_line, b"Host: a\r\n".as_slice(), &fields].concat();
    let chunked = b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n";
    let chunks = [chunked.as_slice(), &b"1;x=y\r\nz\r\n".repeat(4000)].concat();
    let trailer = [chunked.as_slice(), b"0\r\nx: ", &[b'y'; 8000], b"\r\n"].concat();
    for bytes in [head, chunks, trailer] {
        for size in [1, 2, 7, 1000, bytes.len()] {
            EXAMINED.set(0);
            let story = play(bytes.chunks(size));
            assert!(story.words.concat().ends_with('…'), "{:?}", story.words);
            let examined = EXAMINED.get();
            assert!(
                examined >= bytes.len() / 4,
                "counted too little: {examined}"
            );
            assert!(
                examined <= 3 * bytes.len(),
                "{examined} for {}",
                bytes.len()
            );
        }
    }
}

#[test]
fn a_head_is_ready_for_the_next_when_it_is_taken() {
    let mut reader = HeadReader::default();
    assert!(reader.is_idle());
    let mut buffer = BytesMut::from(&b"GET / HTTP/1.1\r\nHost: a\r\n\r\nG"[..]);
    assert!(reader.read(&mut buffer).unwrap().is_some());
    assert!(reader.is_idle());
    assert!(reader.read(&mut buffer).unwrap().is_none());
    assert!(!reader.is_idle());
    assert_eq!(buffer, b"G"[..]);
}

#[test]
fn answers_come_in_order_and_none_after_a_bad_one() {
    let good = "GET /a HTTP/1.1\r\nHost: a\r\n\r\n";
    let inner = "POST /evil HTTP/1.1\r\nHost: a\r\n\r\n";
    let length = inner.len();
    let hiding =
        format!("GET /b HTTP/1.1\r\nHost: a\r\nContent-Length: {length}\r\n\r\n{inner}{good}");
    let chunked = format!(
        "DELETE /b HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n\
         {length:x}\r\n{inner}\r\n0\r\n\r\n{good}"
    );
    let upgrade = format!(
        "GET /b HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n{good}"
    );
    let bad = format!("{good}GET /b HTTP/1.1\nHost: a\n\n{good}");
    let closing = format!("{good}GET /../b HTTP/1.1\r\nHost: a\r\n\r\n{good}");
    check(&[
        (good.repeat(3).as_bytes(), "ok, ok, ok"),
        (hiding.as_bytes(), "ok, ok"),
        (chunked.as_bytes(), "ok, ok"),
        (upgrade.as_bytes(), "ok, ok"),
        (bad.as_bytes(), "ok, 400c bare-lf"),
        (closing.as_bytes(), "ok, 404 elsewhere, ok"),
    ]);
    let bodies = [inner.as_bytes().to_vec(), Vec::new()];
    assert_eq!(play([hiding.as_bytes()]).bodies, bodies);
    assert_eq!(play([chunked.as_bytes()]).bodies, bodies);
}
