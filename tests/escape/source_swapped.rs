//! A source that is exchanged during the start (CVE-2021-30465).

use std::fs;
use std::os::unix::fs::symlink;
use std::sync::atomic::{AtomicBool, Ordering};

use nix::fcntl::{AT_FDCWD, RenameFlags, renameat2};

use crate::common::{Run, Workspace, path_str};

/// Ends the exchanges, also those of a test that fails.
struct Stops<'flag>(&'flag AtomicBool);

impl Drop for Stops<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn what_was_judged_is_what_is_seen() {
    let workspace = Workspace::new();
    fs::write(workspace.clone_dir().join("which"), "clone").expect("a file");
    // The link leads to the clone's parent, which may not be given together
    // with an out-dir in it: a run that sees it was judged on another folder.
    fs::write(workspace.path("which"), "parent").expect("a file");
    let (clone, link) = (workspace.clone_dir(), workspace.path("link"));
    symlink(workspace.root(), &link).expect("a link");
    let control = workspace.jail_with_out().flag("--clone", &link);
    control.run(&["read", "which"]).assert_refused("overlap");

    let launches = if std::env::var_os("GROOM_NS_LONG").is_some() {
        500
    } else {
        100
    };
    let stop = AtomicBool::new(false);
    let (mut seen, mut refused) = (0, 0);
    std::thread::scope(|scope| {
        let _stops = Stops(&stop);
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                let exchange = RenameFlags::RENAME_EXCHANGE;
                renameat2(AT_FDCWD, &clone, AT_FDCWD, &link, exchange).expect("both stay");
            }
        });
        for _ in 0..launches {
            let run = workspace.jail_with_out().run(&["read", "which"]);
            match run.code {
                Some(0) => {
                    assert_eq!(run.outcome(), "ok clone", "the other folder was seen");
                    seen += 1;
                }
                Some(125) => refused += 1,
                _ => panic!("neither ran nor refused: {run:#?}"),
            }
        }
    });
    assert!(
        refused > 0,
        "vacuous: the exchange never met a start ({seen} ran)"
    );
    eprintln!(
        "{seen} ran and {refused} were refused of {}",
        path_str(&clone)
    );
}

/// A run in whose start two paths of the workspace change places, once all were
/// judged and before the first of them is opened to be shown.
fn swapped(one: &str, other: &str) -> Run {
    let workspace = Workspace::with_git();
    for name in ["out", "given", "folder", "spare"] {
        workspace.folder(name);
    }
    for name in ["alone", "file"] {
        workspace.file(name, name);
    }
    // A nested repository, and what has the same in it.
    for name in ["vendor/dep", "vendor/mine", "mine/dep"] {
        workspace.folder(&format!("clone/{name}/.git"));
    }
    let paths = [one, other].map(|name| path_str(&workspace.path(name)).to_owned());
    let situation = ["swap-at", "open_tree", "1", &paths[0], &paths[1]];
    let run = workspace
        .jail_with_out()
        .writable()
        .flag("--ro-file", workspace.path("given"))
        .flag("--ro-file", workspace.path("alone"))
        .in_situation(&situation)
        .run(&["say", "ran"]);
    assert!(!run.stderr.contains("probe: 0 calls"), "vacuous: {run:#?}");
    run
}

#[test]
fn whatever_is_exchanged_after_it_was_judged_is_refused() {
    for (one, other) in [
        ("clone", "folder"),
        ("out", "folder"),
        ("given", "folder"),
        ("alone", "file"),
        // What is held in its place in a writable clone: its own .git, a nested
        // one, and the folders on the way there.
        ("clone/.git", "clone/mine"),
        ("clone/vendor/dep/.git", "clone/mine"),
        ("clone/vendor/dep", "clone/vendor/mine"),
        ("clone/vendor", "clone/mine"),
    ] {
        let run = swapped(one, other);
        run.assert_refused("path");
        assert_eq!(run.stdout, "", "{one}: a refused command ran");
    }
    // Control: what isn't given may change as it likes.
    assert_eq!(swapped("folder", "spare").ok(), "ran");
}
