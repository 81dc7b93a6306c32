//! `--path`: the profile of a binary that isn't there yet, for whoever asks.

use crate::{direct, expected};

#[test]
fn the_profile_of_another_path_is_printed() {
    for words in [
        &["--path", "/usr/bin/groom-ns"][..],
        &["--print", "--path=/usr/bin/groom-ns"],
    ] {
        let run = direct(words);
        assert_eq!(run.outcome(), expected("/usr/bin/groom-ns").trim_end());
    }
    // What would be a pattern, another word, or never a canonical path.
    for path in [
        "groom-ns",
        "",
        "/",
        "/opt/",
        "/opt//a",
        "/opt/./a",
        "/opt/../a",
        "/opt/a b",
        "/opt/a*",
        "/opt/{a,b}",
        "/opt/a?",
        "/opt/[a]",
        "/opt/@{HOME}",
        "/opt/a\"",
        "/opt/a#",
        "/opt/a,",
        "/opt/a\nb",
        "/opt/\u{e9}",
    ] {
        let run = direct(&["--print", &format!("--path={path}")]);
        run.assert_refused(if path.is_empty() { "usage" } else { "path" });
        assert_eq!(run.stdout, "");
    }
    // It changes nothing of this host.
    for flag in ["--install", "--remove"] {
        direct(&[flag, "--path=/usr/bin/groom-ns"]).assert_refused("usage");
    }
}
