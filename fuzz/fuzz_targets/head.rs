//! The strict front, as a connection uses it: heads, bodies, targets, any bytes, any cuts.
//!
//! `fuzz/run.sh head -max_total_time=300`

#![no_main]

use bytes::BytesMut;
use groom_ns::broker::front::target::{self, Target};
use groom_ns::broker::front::{
    BodyReader, Framing, Head, HeadReader, MAX_FIELDS, MAX_HEAD, MAX_TARGET, Piece, Refused,
};
use libfuzzer_sys::fuzz_target;

// The first byte says how many of the next ones are the lengths of pieces, over and
// over; the rest is what the client sends.
fuzz_target!(|input: &[u8]| {
    let Some((&count, rest)) = input.split_first() else {
        return;
    };
    let (cuts, bytes) = rest.split_at(usize::from(count % 8).min(rest.len()));
    let whole = play(bytes, &[]);
    assert_eq!(play(bytes, cuts), whole);
    assert_eq!(play(bytes, &[1]), whole);
    for head in &whole.heads {
        check_head(head);
    }
});

/// What comes of a connection's bytes.
#[derive(Debug, Default, PartialEq)]
struct Story {
    heads: Vec<Sent>,
    bodies: Vec<Vec<u8>>,
    refused: Option<Refused>,
    is_idle: bool,
    /// Bytes that a request was made of.
    taken: usize,
}

/// All that a head says.
#[derive(Debug, PartialEq)]
struct Sent {
    line: (&'static str, Vec<u8>, String),
    fields: Vec<(Vec<u8>, Vec<u8>)>,
    framing: Framing,
    flags: (bool, bool),
    options: Vec<Vec<u8>>,
    length: usize,
}

fn sent(head: &Head) -> Sent {
    let fields = head.fields().map(|field| {
        assert_eq!(field.value_bytes(), field.value);
        (field.name.to_vec(), field.value.to_vec())
    });
    Sent {
        line: (
            head.method().as_str(),
            head.target().to_vec(),
            format!("{:?}", head.version()),
        ),
        fields: fields.collect(),
        framing: head.framing(),
        flags: (head.expects_continue(), head.keeps_alive()),
        options: head.connection_names().map(<[u8]>::to_vec).collect(),
        length: head.len(),
    }
}

/// Feeds the bytes in pieces of these lengths, over and over; all at once for none.
fn play(bytes: &[u8], cuts: &[u8]) -> Story {
    let mut story = Story::default();
    let mut buffer = BytesMut::new();
    let mut heads = HeadReader::default();
    let mut body = None;
    let mut cuts = cuts.iter().cycle();
    let mut rest = bytes;
    while !rest.is_empty() && story.refused.is_none() {
        let length = cuts
            .next()
            .map_or(rest.len(), |cut| usize::from(*cut).max(1));
        let (piece, tail) = rest.split_at(length.min(rest.len()));
        rest = tail;
        buffer.extend_from_slice(piece);
        if let Err(refused) = read(&mut buffer, &mut heads, &mut body, &mut story) {
            assert!(refused.close);
            let again = read(&mut buffer, &mut heads, &mut body, &mut story);
            assert_eq!(again, Err(refused));
            story.refused = Some(refused);
        }
    }
    if story.refused.is_none() {
        assert!(body.is_some() || heads.is_idle() == buffer.is_empty());
        story.is_idle = body.is_none() && heads.is_idle();
        story.taken = bytes.len() - buffer.len();
    }
    story
}

/// All that the bytes so far are good for.
fn read(
    buffer: &mut BytesMut,
    heads: &mut HeadReader,
    body: &mut Option<BodyReader>,
    story: &mut Story,
) -> Result<(), Refused> {
    loop {
        let before = buffer.len();
        let Some(reader) = body else {
            let Some(head) = heads.read(buffer)? else {
                assert_eq!(buffer.len(), before);
                assert!(before < MAX_HEAD);
                return Ok(());
            };
            assert_eq!(buffer.len() + head.len(), before);
            assert!(heads.is_idle());
            *body = Some(BodyReader::new(head.framing()));
            story.heads.push(sent(&head));
            story.bodies.push(Vec::new());
            continue;
        };
        match reader.read(buffer)? {
            Piece::More => return Ok(()),
            Piece::Data(data) => {
                assert!(!data.is_empty() && buffer.len() + data.len() <= before);
                story.bodies.last_mut().unwrap().extend_from_slice(&data);
            }
            Piece::End => {
                assert!(reader.is_done());
                *body = None;
            }
        }
    }
}

/// What was accepted is bounded and plain, and reads the same when it is written again.
fn check_head(head: &Sent) {
    let (method, target, version) = &head.line;
    assert!(head.length <= MAX_HEAD);
    assert!(head.fields.len() <= MAX_FIELDS);
    assert!(target.len() <= MAX_TARGET);
    assert!(target.iter().all(u8::is_ascii_graphic));
    let version = if version == "Http11" { "1.1" } else { "1.0" };
    let mut written = format!("{method} ").into_bytes();
    written.extend_from_slice(target);
    written.extend_from_slice(format!(" HTTP/{version}\r\n").as_bytes());
    for (name, value) in &head.fields {
        assert!(
            !value
                .iter()
                .any(|byte| byte.is_ascii_control() && *byte != b'\t')
        );
        written.extend_from_slice(&[name, b": ".as_slice(), value, b"\r\n"].concat());
    }
    written.extend_from_slice(b"\r\n");
    // A field written without the blank grows by one byte, perhaps beyond the bound.
    if written.len() <= MAX_HEAD {
        let mut buffer = BytesMut::from(&written[..]);
        let again = HeadReader::default().read(&mut buffer).unwrap().unwrap();
        assert!(buffer.is_empty());
        assert_eq!(
            Sent {
                length: head.length,
                ..sent(&again)
            },
            *head
        );
    }
    if let Ok(judged) = target::judge(target) {
        check_target(target, judged);
    }
}

/// Whoever decodes a judged path, once or twice, finds no other segments in it.
fn check_target(target: &[u8], judged: Target<'_>) {
    let query = judged
        .query
        .map_or(String::new(), |query| format!("?{query}"));
    assert_eq!(format!("{}{query}", judged.path).as_bytes(), target);
    let once = decode(judged.path.as_bytes());
    assert_eq!(decode(&once), once);
    let slashes = |text: &[u8]| text.iter().filter(|byte| **byte == b'/').count();
    assert_eq!(slashes(&once), slashes(judged.path.as_bytes()));
    assert!(once.starts_with(b"/") && !once.starts_with(b"//"));
    assert!(
        once.iter()
            .all(|byte| !byte.is_ascii_control() && !b"\\;?#%".contains(byte))
    );
    assert!(
        once.split(|byte| *byte == b'/')
            .all(|part| part != b"." && part != b"..")
    );
    assert!(std::str::from_utf8(&once).is_ok());
}

fn decode(mut text: &[u8]) -> Vec<u8> {
    let mut decoded = Vec::new();
    while let Some((&byte, tail)) = text.split_first() {
        let digits = (byte == b'%').then(|| tail.get(..2)).flatten();
        let encoded = digits
            .and_then(|digits| std::str::from_utf8(digits).ok())
            .and_then(|digits| u8::from_str_radix(digits, 16).ok());
        decoded.push(encoded.unwrap_or(byte));
        text = if encoded.is_some() { &tail[2..] } else { tail };
    }
    decoded
}
