//! The token of a run, which stands in for the key inside the jail.

use std::fmt::{self, Write as _};
use std::hint::black_box;

use crate::refusal::{Reason, Refusal};
use crate::sys::secret::random;

/// In bytes, of a token that somebody else made.
pub const MIN: usize = 16;
/// In bytes.
pub const MAX: usize = 1024;

/// What a client must present. It is worth nothing beyond the broker that knows it.
#[derive(Clone)]
pub struct Token(String);

impl Token {
    /// A fresh one: `prefix` (a client may want to see its provider's) and 256 random
    /// bits in hexadecimal digits.
    ///
    /// # Errors
    /// getrandom(2)'s.
    pub fn make(prefix: &str) -> nix::Result<Token> {
        let mut bytes = [0; 32];
        random(&mut bytes)?;
        let mut token = prefix.to_owned();
        for byte in bytes {
            let _ = write!(token, "{byte:02x}");
        }
        Ok(Token(token))
    }

    /// Judges a token file's content: one line of visible ASCII.
    ///
    /// # Errors
    /// `Reason::Broker`, with nothing of the token in it, and without a subject.
    pub fn judge(content: &[u8]) -> Result<Token, Refusal> {
        let token = content.trim_ascii();
        let fits = (MIN..=MAX).contains(&token.len());
        match str::from_utf8(token) {
            Ok(text) if fits && token.iter().all(u8::is_ascii_graphic) => Ok(Token(text.into())),
            _ => Err(Refusal::new(Reason::Broker, "read the token")
                .remedy("give one line of 16 to 1024 visible ASCII characters, without a blank")),
        }
    }

    /// Whether this is the token, in a time that depends on its length alone.
    pub fn matches(&self, presented: &[u8]) -> bool {
        let token = self.0.as_bytes();
        token.len() == presented.len()
            && token
                .iter()
                .zip(presented)
                // `black_box`, or the compiler could end the loop at the first difference.
                .fold(0, |differ, (one, other)| black_box(differ | (one ^ other)))
                == 0
    }

    /// The token, for the environment of the command.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(…)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fresh_token_has_its_prefix_and_256_bits() {
        let (one, two) = (Token::make("sk-ant-").unwrap(), Token::make("").unwrap());
        let digits = one.expose().strip_prefix("sk-ant-").unwrap();
        assert_eq!((digits.len(), two.expose().len()), (64, 64));
        assert!(digits.bytes().all(|byte| byte.is_ascii_hexdigit()));
        assert_ne!(digits, two.expose());
        assert_eq!(format!("{one:?}"), "Token(…)");
        assert!(Token::judge(one.expose().as_bytes()).is_ok());
    }

    #[test]
    fn only_the_same_bytes_match() {
        let token = Token::judge(b"0123456789abcdef").unwrap();
        for (presented, expected) in [
            (&b"0123456789abcdef"[..], true),
            (b"0123456789abcdeg", false),
            (b"1123456789abcdef", false),
            (b"0123456789ABCDEF", false),
            (b"0123456789abcde", false),
            (b"0123456789abcdef0", false),
            (b" 0123456789abcdef", false),
            (b"", false),
        ] {
            assert_eq!(token.matches(presented), expected, "{presented:?}");
        }
    }

    #[test]
    fn a_token_file_holds_one_token() {
        let (longest, long) = ([b'x'; MAX], [b'x'; MAX + 1]);
        for (content, expected) in [
            (&b" 0123456789abcdef\r\n"[..], true),
            (&longest, true),
            (&long, false),
            (b"0123456789abcde", false),
            (b"0123456789 abcdef", false),
            (b"0123456789abcdef\n0123456789abcdef\n", false),
            (b"0123456789abcdef\0", false),
            ("0123456789abcdefé".as_bytes(), false),
            (b"0123456789abcdef\xff", false),
            (b"", false),
        ] {
            match Token::judge(content) {
                Ok(token) => assert!(expected && token.matches(content.trim_ascii())),
                Err(refusal) => {
                    assert!(!expected);
                    assert_eq!(refusal.reason, Reason::Broker);
                    assert!(!refusal.to_string().contains("0123"));
                }
            }
        }
    }
}
