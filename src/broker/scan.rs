//! Looking for the key in what the API answers.

use std::iter::Flatten;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};

use super::key::Key;
use crate::sabotage::{Mechanism, stands};

/// The key is in the answer, which must be cut off here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Echo;

/// Looks for the key in one body that comes in pieces, whatever their borders.
///
/// It holds back no more than the longest suffix that the key begins with, so that a
/// stream is as fast as without it, and copies only around a border where one was.
pub struct Scanner {
    key: Arc<Key>,
    /// A beginning of the key, and shorter than it.
    held: Bytes,
}

/// What may be passed on, in order. Never yields an empty piece.
#[derive(Debug)]
pub struct Passed([Option<Bytes>; 2]);

impl Scanner {
    /// For one body.
    pub fn new(key: &Arc<Key>) -> Scanner {
        Scanner {
            key: Arc::clone(key),
            held: Bytes::new(),
        }
    }

    /// Takes the next piece and returns what may be passed on now.
    ///
    /// # Errors
    /// [`Echo`]: the key is in it, or ends in it. What was passed before is a beginning
    /// of the answer without the key; nothing must be passed after.
    pub fn push(&mut self, mut chunk: Bytes) -> Result<Passed, Echo> {
        if !stands(Mechanism::EchoInBody) {
            return Ok(Passed([Some(chunk), None]));
        }
        let key_length = self.key.expose().len();
        let held = std::mem::take(&mut self.held);
        if held.is_empty() {
            return self.pass(Bytes::new(), chunk);
        }
        // A key that begins in what was held ends within so many bytes of the chunk.
        let reach = chunk.len().min(key_length - 1);
        let mut border = BytesMut::with_capacity(held.len() + reach);
        border.extend_from_slice(&held);
        border.extend_from_slice(&chunk[..reach]);
        if reach == chunk.len() {
            // What is held back next may begin before the chunk.
            chunk = border.freeze();
            self.pass(Bytes::new(), chunk)
        } else if self.key.is_in(&border) {
            Err(Echo)
        } else {
            self.pass(held, chunk)
        }
    }

    /// The body has ended: what was held back is no key.
    pub fn finish(self) -> Bytes {
        self.held
    }

    /// Passes `before`, which was searched, and as much of `chunk` as can't be the
    /// beginning of the key; holds back the rest.
    fn pass(&mut self, before: Bytes, mut chunk: Bytes) -> Result<Passed, Echo> {
        if self.key.is_in(&chunk) {
            return Err(Echo);
        }
        self.held = chunk.split_off(chunk.len() - held_back(self.key.expose(), &chunk));
        let some = |piece: Bytes| (!piece.is_empty()).then_some(piece);
        Ok(Passed([some(before), some(chunk)]))
    }
}

impl IntoIterator for Passed {
    type Item = Bytes;
    type IntoIter = Flatten<std::array::IntoIter<Option<Bytes>, 2>>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter().flatten()
    }
}

/// The length of the longest suffix of `text` that `key` begins with, shorter than it.
fn held_back(key: &[u8], text: &[u8]) -> usize {
    let tail = &text[text.len().saturating_sub(key.len() - 1)..];
    memchr::memchr_iter(key[0], tail)
        .map(|start| &tail[start..])
        .find(|suffix| key.starts_with(suffix))
        .map_or(0, <[u8]>::len)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::broker::key::tests::key;
    use crate::sys::secret::random;

    const KEY: &[u8] = b"sk-abc-sk-abd";

    fn scanner(of: &[u8]) -> Scanner {
        Scanner::new(&Arc::new(key(of)))
    }

    /// Feeds the pieces; returns what came out, and whether the key was found.
    fn feed<'a>(of: &[u8], pieces: impl IntoIterator<Item = &'a [u8]>) -> (Vec<u8>, bool) {
        let mut scanner = scanner(of);
        let (mut input, mut output) = (Vec::new(), Vec::new());
        for piece in pieces {
            input.extend_from_slice(piece);
            let Ok(passed) = scanner.push(Bytes::copy_from_slice(piece)) else {
                return (output, true);
            };
            for piece in passed {
                assert!(!piece.is_empty());
                output.extend_from_slice(&piece);
            }
            // All has been passed but a proper beginning of the key, the longest.
            let held = input.len() - output.len();
            let suffix = |length: &usize| of[..*length] == input[input.len() - length..];
            let longest = (0..of.len().min(input.len() + 1)).rev().find(suffix);
            assert_eq!(Some(held), longest);
        }
        output.extend_from_slice(&scanner.finish());
        (output, false)
    }

    #[test]
    fn every_split_of_a_stream_gives_the_same() {
        for (stream, found) in [
            (&b"0123sk-abc-sk-abd4567"[..], true),
            (b"sk-abc-sk-abc-sk-abd", true),
            (b"sk-abc-sk-abc-sk-ab", false),
            (b"sk-abc-sk-abc", false),
            (b"nothing like it", false),
        ] {
            for first in 0..=stream.len() {
                for second in first..=stream.len() {
                    let pieces = [&stream[..first], &stream[first..second], &stream[second..]];
                    let (output, echo) = feed(KEY, pieces);
                    assert_eq!(echo, found, "{pieces:?}");
                    assert!(stream.starts_with(&output));
                    assert_eq!(output == stream, !found);
                }
            }
            let (_, echo) = feed(KEY, stream.chunks(1));
            assert_eq!(echo, found);
        }
    }

    /// Keys and streams of two letters: nearly every suffix begins a key, and a key
    /// overlaps with itself.
    #[test]
    fn random_streams_come_out_whole_or_without_the_key() {
        let mut echoes = 0;
        for round in 0..4000 {
            let mut bytes = [0; 256];
            random(&mut bytes).expect("getrandom");
            let letters = bytes.map(|byte| b'a' + byte % 2);
            let of = &letters[..8 + round % 3];
            let stream = &letters[16..16 + usize::from(bytes[20] % 200)];
            let mut rest = stream;
            let mut pieces = Vec::new();
            for byte in &bytes[..40] {
                let (piece, after) = rest.split_at(rest.len().min(usize::from(byte % 24)));
                pieces.push(piece);
                rest = after;
            }
            pieces.push(rest);
            let inside = stream.windows(of.len()).any(|window| window == of);
            let (output, echo) = feed(of, pieces);
            assert_eq!(echo, inside);
            assert!(!output.windows(of.len()).any(|window| window == of));
            assert!(stream.starts_with(&output));
            assert_eq!(output.len() == stream.len(), !inside);
            echoes += usize::from(inside);
        }
        assert!((100..3900).contains(&echoes), "both happen: {echoes}");
    }

    #[test]
    fn what_cannot_be_the_key_is_passed_without_a_copy() {
        let mut scanner = scanner(KEY);
        let chunk = Bytes::from_static(b"an event without a beginning\n\n");
        let passed: Vec<_> = scanner
            .push(chunk.clone())
            .expect("passed")
            .into_iter()
            .collect();
        assert_eq!(passed.len(), 1);
        assert_eq!(
            (passed[0].as_ptr(), passed[0].len()),
            (chunk.as_ptr(), chunk.len())
        );

        // After a held piece, a long chunk isn't copied either.
        let first = scanner.push(Bytes::from_static(b"sk-abc")).expect("passed");
        assert_eq!(first.into_iter().count(), 0);
        let passed: Vec<_> = scanner
            .push(chunk.clone())
            .expect("passed")
            .into_iter()
            .collect();
        assert_eq!(passed[0], "sk-abc");
        assert_eq!(
            (passed[1].as_ptr(), passed[1].len()),
            (chunk.as_ptr(), chunk.len())
        );
        assert_eq!(scanner.finish(), "");
    }
}
