//! The receipt of a run: what was enforced, read back by the supervisor once the jail
//! stood, and how it ended. Its format is `docs/receipt.schema.json`, its meaning
//! `docs/receipt.md`.

mod around;
pub mod file;
pub mod format;
mod jail;
pub mod process;
pub mod record;
pub mod status;
pub mod told;
pub mod verify;

use std::fmt::Write as _;

/// The format that is written, and the only one that is read. Another number is another
/// format: `verify` refuses what it doesn't know.
pub const FORMAT: &str = "groom-ns/1";

/// How every receipt begins, of any format: a file that doesn't is nobody's to remove.
pub const MARK: &str = "{\n  \"receipt\": \"groom-ns/";

/// JSON in ASCII: what isn't stands in strings alone, where it can be escaped. DEL, C1
/// control codes and characters that turn text around aren't for a terminal.
pub(crate) fn ascii(json: &str) -> String {
    let mut text = String::with_capacity(json.len());
    for c in json.chars() {
        if c.is_ascii() && c != '\x7f' {
            text.push(c);
            continue;
        }
        for unit in c.encode_utf16(&mut [0; 2]) {
            // Into memory: it can't fail.
            let _ = write!(text, "\\u{unit:04x}");
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_ascii_is_escaped() {
        let json = serde_json::to_string("a\u{7f}\u{e9}\u{1f600}\u{202e}\n").expect("JSON");
        let text = ascii(&json);
        assert_eq!(text, "\"a\\u007f\\u00e9\\ud83d\\ude00\\u202e\\n\"");
        let back: String = serde_json::from_str(&text).expect("JSON");
        assert_eq!(back, "a\u{7f}\u{e9}\u{1f600}\u{202e}\n");
    }
}
