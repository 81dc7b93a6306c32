//! What `--install` wrote is taken back where it can't go on, and what was there comes back.

use std::fs;

use super::{Host, INSTALLED, expected, older, refused_to_a_user};
use crate::common::{is_root, path_str};

#[test]
fn what_the_parser_refuses_is_taken_back() {
    if !is_root() {
        return refused_to_a_user();
    }
    let host = Host::new(1);
    host.setup("--install").assert_refused("setup");
    assert_ne!(host.calls(), "", "vacuous");
    assert_eq!(host.names(), Vec::<String>::new());
    let older = older();
    fs::write(host.profile(), &older).expect("a file");
    host.setup("--install").assert_refused("setup");
    assert_eq!(fs::read_to_string(host.profile()).expect("a file"), older);
    // What can't be unloaded stays, and that is said.
    host.setup("--remove").assert_refused("setup");
    assert_eq!(host.names(), ["groom-ns"]);
}

/// What was renamed already comes back where the folder can't be brought to the disk.
#[test]
fn what_cannot_be_kept_is_taken_back() {
    if !is_root() {
        return refused_to_a_user();
    }
    let host = Host::new(0);
    let probe = path_str(&host.workspace.probe()).to_owned();
    let install = |nth: u32| {
        let failing = format!("{probe} fail-nth {} {nth} EIO --", libc::SYS_fsync);
        host.sh(
            &[],
            &format!("{failing} {INSTALLED} setup apparmor --install"),
        )
    };
    for before in [None, Some(older())] {
        let _ = fs::remove_file(host.profile());
        if let Some(text) = &before {
            fs::write(host.profile(), text).expect("a file");
        }
        // The file's own, and its folder's.
        for nth in [1, 2] {
            let run = install(nth);
            assert_eq!(run.code, Some(125), "{run:#?}");
            assert!(
                run.stderr.contains("refused (setup): write the profile"),
                "{run:#?}"
            );
            assert_eq!(run.stderr.contains("took that back"), nth == 2, "{run:#?}");
            assert_eq!(fs::read_to_string(host.profile()).ok(), before, "{run:#?}");
            assert_eq!(host.names().len(), usize::from(before.is_some()));
            assert_eq!(host.calls(), "");
        }
    }
    // Control: there is no third.
    let run = install(3);
    assert_eq!(run.code, Some(0), "vacuous: {run:#?}");
}

/// One that is ours by its first line, but too long, or another binary's.
#[test]
fn what_could_not_be_brought_back_is_not_replaced() {
    if !is_root() {
        return refused_to_a_user();
    }
    // The parser fails, so that what was there would have to come back.
    let host = Host::new(1);
    let long = expected(INSTALLED) + &"# a comment\n".repeat(8_000);
    let of_another = expected("/usr/local/bin/groom-ns");
    for text in [&long, &of_another] {
        fs::write(host.profile(), text).expect("a file");
        let run = host.setup("--install");
        run.assert_refused("path");
        let is = fs::read_to_string(host.profile()).expect("a file");
        assert_eq!(is.len(), text.len(), "{run:#?}");
        assert_eq!((&is, host.calls().as_str()), (text, ""));
    }
    let run = host.setup("--install");
    let says = "it is for another binary, /usr/local/bin/groom-ns: `sudo groom-ns setup apparmor --remove` first";
    assert!(run.refusal().contains(says), "{run:#?}");
    // That is done without its binary.
    let host = Host::new(0);
    fs::write(host.profile(), of_another).expect("a file");
    assert_eq!(host.setup("--remove").code, Some(0));
    assert_eq!(host.setup("--install").code, Some(0));
}
