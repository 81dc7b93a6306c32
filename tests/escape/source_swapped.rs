//! A source that is exchanged during the start (CVE-2021-30465).

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use nix::fcntl::{AT_FDCWD, RenameFlags, renameat2};

use crate::common::{Run, Workspace, path_str};

const LAUNCHES: usize = 500;
/// How many starts are under way at once: most of a start is waiting.
const WORKERS: usize = 6;

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

    let stop = AtomicBool::new(false);
    let next = AtomicUsize::new(0);
    let (seen, refused) = (AtomicUsize::new(0), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                let exchange = RenameFlags::RENAME_EXCHANGE;
                renameat2(AT_FDCWD, &clone, AT_FDCWD, &link, exchange).expect("both stay");
            }
        });
        let launch = |out: &Path| {
            while next.fetch_add(1, Ordering::Relaxed) < LAUNCHES {
                let jail = workspace.jail().flag("--out-dir", out);
                let run = jail.run(&["read", "which"]);
                match run.code {
                    Some(0) => {
                        assert_eq!(run.outcome(), "ok clone", "the other folder was seen");
                        seen.fetch_add(1, Ordering::Relaxed);
                    }
                    Some(125) => drop(refused.fetch_add(1, Ordering::Relaxed)),
                    _ => panic!("neither ran nor refused: {run:#?}"),
                }
            }
        };
        let workers: Vec<_> = (0..WORKERS)
            .map(|number| workspace.path(&format!("out-{number}")))
            .map(|out| scope.spawn(move || launch(&out)))
            .collect();
        let _stops = Stops(&stop);
        for worker in workers {
            worker.join().expect("a worker");
        }
    });
    let (seen, refused) = (seen.into_inner(), refused.into_inner());
    assert!(
        refused > 0 && seen > 0,
        "vacuous: the exchange never met a start, or always ({seen} ran)"
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
