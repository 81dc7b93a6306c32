//! The key: one copy, never shown.

use std::fmt;

use nix::errno::Errno;

use crate::refusal::{Reason, Refusal};
use crate::sys::secret::{SecretPage, Sought};

/// In bytes. Shorter ones can't be looked for: innocent answers would be cut off.
pub const MIN: usize = 8;
/// In bytes, with the white space around it.
pub const MAX: usize = 3 * 1024;

/// An API key, judged: visible ASCII of [`MIN`] to [`MAX`] bytes, in memory that is
/// locked, undumped, wiped on fork, and zeroed when it is dropped.
pub struct Key(Sought);

impl Key {
    /// Judges what a source gave. White space around it is no part of the key.
    ///
    /// # Errors
    /// `Reason::Key`, with nothing of the key in it, and without a subject.
    pub fn judge(page: SecretPage) -> Result<Key, Refusal> {
        let given = page.bytes();
        let start = given.len() - given.trim_ascii_start().len();
        let key = given.trim_ascii();
        let fault = if given.len() > MAX {
            "the key is longer than 3 KiB; give the key and nothing else"
        } else if key.is_empty() {
            "the key is empty; give one line with the key in it"
        } else if !key.iter().all(u8::is_ascii_graphic) {
            "the key has a byte that no header can carry (a blank, a line end, not ASCII); \
             give the key and nothing else"
        } else if key.len() < MIN {
            "the key is shorter than 8 bytes, so that answers can't be searched for it; \
             give a whole key"
        } else {
            let part = start..start + key.len();
            return Ok(Key(Sought::new(page, part)));
        };
        Err(Refusal::new(Reason::Key, "read the key").remedy(fault))
    }

    /// The key's bytes, for what can't do without them.
    pub fn expose(&self) -> &[u8] {
        self.0.needle()
    }

    /// Whether the key is in there.
    pub fn is_in(&self, haystack: &[u8]) -> bool {
        self.0.is_in(haystack)
    }

    /// Whether the key is in there, whatever the case of either.
    pub fn is_in_any_case(&self, haystack: &[u8]) -> bool {
        let key = self.expose();
        haystack
            .windows(key.len())
            .any(|part| part.eq_ignore_ascii_case(key))
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Key(…)")
    }
}

/// The refusal where the kernel has no page for the key.
pub fn no_page(errno: Errno) -> Refusal {
    Refusal::new(Reason::Key, "keep the key in locked memory")
        .about("mmap, madvise, mlock")
        .errno(errno)
        .remedy("let this process lock a page of memory (`ulimit -l 64`)")
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A page with these bytes in it.
    pub(crate) fn page(bytes: &[u8]) -> SecretPage {
        let mut page = SecretPage::new().expect("page");
        page.fill(|free| {
            let length = bytes.len().min(free.len());
            free[..length].copy_from_slice(&bytes[..length]);
            length
        });
        page
    }

    /// A key with these bytes in it.
    pub(crate) fn key(bytes: &[u8]) -> Key {
        Key::judge(page(bytes)).expect("key")
    }

    #[test]
    fn white_space_around_a_key_is_no_part_of_it() {
        let longest = "k".repeat(MAX);
        for (given, expected) in [
            ("sk-12345", "sk-12345"),
            ("sk-12345\n", "sk-12345"),
            (" \t\r\nsk-\"\\~!\u{7e}45\r\n \n", "sk-\"\\~!~45"),
            (&longest, &longest),
        ] {
            let key = key(given.as_bytes());
            assert_eq!(key.expose(), expected.as_bytes());
            assert_eq!(format!("{key:?}"), "Key(…)");
        }
    }

    #[test]
    fn what_is_no_key_is_refused_without_a_byte_of_it() {
        let (long, full) = ("xyzzy".repeat(MAX), format!("{:4000}xyzzyxyzzy", ""));
        let mut cases: Vec<(&[u8], &str)> = vec![
            (b"", "empty"),
            (b" \r\n\t", "empty"),
            (b"xyzzy12", "shorter"),
            (b"  xyzzy12  ", "shorter"),
            (b"xyzzyxyzzy xyzzy", "no header"),
            (b"xyzzyxyzzy\nxyzzy", "no header"),
            (b"xyzzyxyzzy\txyzzy", "no header"),
            (b"xyzzyxyzzy\0", "no header"),
            (b"xyzzyxyzzy\x7f", "no header"),
            (b"xyzzyxyzzy\x1b", "no header"),
            ("xyzzyxyzzyé".as_bytes(), "no header"),
            (b"\xff\xfexyzzyxyzzy", "no header"),
        ];
        cases.extend([(long.as_bytes(), "longer"), (full.as_bytes(), "longer")]);
        for (given, expected) in cases {
            let refusal = Key::judge(page(given)).expect_err("no key");
            assert_eq!(refusal.reason, Reason::Key);
            assert!(refusal.remedy.contains(expected), "{refusal}");
            for said in [refusal.to_string(), format!("{refusal:?}")] {
                assert!(!said.contains("xyz"), "{said}");
            }
        }
    }

    #[test]
    fn the_key_is_found_wherever_it_is() {
        let key = key(b"sk-12345");
        for (haystack, expected) in [
            ("sk-12345", true),
            ("asksk-12345b", true),
            ("sk-1234", false),
            ("SK-12345", false),
            ("", false),
        ] {
            assert_eq!(key.is_in(haystack.as_bytes()), expected, "{haystack}");
        }
    }

    #[test]
    fn a_page_that_cannot_be_locked_is_refused_with_a_remedy() {
        let refusal = no_page(Errno::EPERM);
        assert_eq!(refusal.reason, Reason::Key);
        assert!(refusal.to_string().contains("EPERM; let this process lock"));
    }
}
