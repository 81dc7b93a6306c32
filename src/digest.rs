//! SHA-256, by ring, which TLS brings along.

use std::fmt::Write as _;
use std::io::{self, Read};

use ring::digest::{Context, SHA256};
use seccompiler::sock_filter;

use crate::confine::seccomp::to_bytes;

/// Bytes read at a time.
const CHUNK: usize = 256 * 1024;

/// Of all that can be read, in hex.
pub fn of_reader(mut from: impl Read) -> io::Result<String> {
    let mut context = Context::new(&SHA256);
    let mut buffer = vec![0; CHUNK];
    loop {
        match from.read(&mut buffer) {
            Ok(0) => return Ok(hex(context)),
            Ok(length) => context.update(buffer.get(..length).unwrap_or_default()),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

/// Of pieces, one after the other, in hex.
pub fn of_pieces<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> String {
    let mut context = Context::new(&SHA256);
    pieces.into_iter().for_each(|piece| context.update(piece));
    hex(context)
}

/// Of a filter as it lies in memory (`struct sock_filter`, linux/filter.h), in hex.
pub fn of_filter(program: &[sock_filter]) -> String {
    of_pieces([to_bytes(program).as_slice()])
}

fn hex(context: Context) -> String {
    let mut text = String::new();
    for byte in context.finish().as_ref() {
        let _ = write!(text, "{byte:02x}");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_known_digest() {
        let abc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(of_reader(&b"abc"[..]).expect("read"), abc);
        assert_eq!(of_pieces([&b"a"[..], b"bc"]), abc);
    }

    #[test]
    fn a_filter_is_its_bytes() {
        let instruction = |k| sock_filter {
            code: 0x0006,
            jt: 1,
            jf: 2,
            k,
        };
        let bytes = [6, 0, 1, 2, 4, 3, 2, 1, 6, 0, 1, 2, 0, 0, 0, 0];
        assert_eq!(
            of_filter(&[instruction(0x0102_0304), instruction(0)]),
            of_pieces([&bytes[..]])
        );
    }
}
