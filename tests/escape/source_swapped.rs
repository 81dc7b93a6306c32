//! A source that is exchanged during the start (CVE-2021-30465).

use std::fs;
use std::os::unix::fs::symlink;
use std::sync::atomic::{AtomicBool, Ordering};

use nix::fcntl::{AT_FDCWD, RenameFlags, renameat2};

use crate::common::{Workspace, path_str};

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
        stop.store(true, Ordering::Relaxed);
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
