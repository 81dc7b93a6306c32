//! Gitdir files that claim what isn't theirs: the file is the clone's word.

use std::fs;
use std::os::unix::fs::{chown, symlink};
use std::path::{Path, PathBuf};

use nix::sys::stat::Mode;
use nix::unistd::mkfifo;

use crate::common::workspace::{git, make_repository};
use crate::common::{Run, Workspace, is_root, path_str};
use crate::worktrees::{add, git_dir, jail, linked, linked_to};

/// Refused in both modes with this reason, naming `fault`. The control is that the
/// clone was accepted before it was prepared.
fn refused_with(reason: &str, fault: &str, prepare: impl Fn(&Workspace)) {
    let workspace = linked();
    let run = jail(&workspace).writable().run(&["say", "ran"]);
    assert_eq!(run.ok(), "ran", "vacuous");
    prepare(&workspace);
    for jail in [jail(&workspace), jail(&workspace).writable()] {
        let run = jail.flag("--out-dir", workspace.out_dir()).refused(reason);
        // Without the slash that an empty name brings.
        let path: PathBuf = workspace.path(fault).components().collect();
        assert!(run.refusal().contains(path_str(&path)), "{run:#?}");
    }
    // Without the flag the file names nothing.
    assert_eq!(workspace.jail().run(&["say", "ran"]).ok(), "ran");
}

fn refused(fault: &str, prepare: impl Fn(&Workspace)) {
    refused_with("git", fault, prepare);
}

/// A clone whose gitdir file names this path.
fn refused_as(target: impl Fn(&Workspace) -> String) {
    refused("clone/.git", |workspace| {
        let text = format!("gitdir: {}\n", target(workspace));
        workspace.file("clone/.git", &text);
    });
}

fn at(workspace: &Workspace, name: &str) -> String {
    path_str(&workspace.path(name)).to_owned()
}

#[test]
fn what_is_no_repositorys_folder() {
    for path in ["/etc", "/", "/root", "/dev/null"] {
        refused(path, |workspace| {
            workspace.file("clone/.git", &format!("gitdir: {path}\n"));
        });
    }
    refused("/proc", |workspace| {
        workspace.file("clone/.git", "gitdir: /proc/self\n");
    });
    refused("", |workspace| {
        workspace.file("clone/.git", "gitdir: ..\n");
    });
    for path in ["relative", ".", ""] {
        refused_as(|_| path.to_owned());
    }
    refused("secret", |workspace| {
        workspace.file("secret/key", "x");
        let text = format!("gitdir: {}\n", at(workspace, "secret"));
        workspace.file("clone/.git", &text);
    });
}

#[test]
fn the_repository_itself_or_another_worktrees_folder() {
    refused("main/.git", |workspace| {
        let text = format!("gitdir: {}\n", at(workspace, "main/.git"));
        workspace.file("clone/.git", &text);
    });
    refused("main/.git/worktrees/sibling/gitdir", |workspace| {
        add(workspace, "main/.git", "sibling");
        fs::copy(workspace.path("sibling/.git"), workspace.path("clone/.git")).expect("a copy");
    });
    // Somebody else's repository, which knows a worktree of its own.
    refused("theirs/.git/worktrees/of-theirs/gitdir", |workspace| {
        make_repository(&workspace.folder("theirs"));
        let other = add(workspace, "theirs/.git", "of-theirs");
        fs::copy(other.join(".git"), workspace.path("clone/.git")).expect("a copy");
    });
}

#[test]
fn a_submodule_or_a_separate_folder() {
    refused("main/.git/modules/m", |workspace| {
        make_repository(&workspace.folder("other"));
        git(
            &workspace.path("main"),
            &[
                "submodule",
                "--quiet",
                "add",
                "--name",
                "m",
                "../other",
                "sub",
            ],
        );
        fs::remove_dir_all(workspace.clone_dir()).expect("a clone");
        fs::rename(workspace.path("main/sub"), workspace.clone_dir()).expect("a submodule");
        workspace.file("clone/.git", "gitdir: ../main/.git/modules/m\n");
    });
    refused("separate", |workspace| {
        fs::remove_dir_all(workspace.clone_dir()).expect("a clone");
        let separate = format!("--separate-git-dir={}", at(workspace, "separate"));
        git(
            workspace.root(),
            &["clone", "--quiet", &separate, "main", "clone"],
        );
    });
}

#[test]
fn a_worktree_that_was_moved_copied_or_pruned() {
    let workspace = linked();
    let moved = workspace.path("moved");
    fs::rename(workspace.clone_dir(), &moved).expect("a clone");
    let run = || jail(&workspace).flag("--clone", &moved);
    let said = run().refused("git");
    assert!(said.refusal().contains("git worktree repair"), "{said:#?}");
    git(&moved, &["worktree", "repair"]);
    assert_eq!(run().run(&["say", "ran"]).ok(), "ran");
    let locked = ["worktree", "lock", path_str(&moved)];
    git(&moved, &locked);
    assert_eq!(run().run(&["say", "ran"]).ok(), "ran", "locked or not");
    // A copy isn't what the repository knows.
    let copy = workspace.folder("clone");
    fs::copy(moved.join(".git"), copy.join(".git")).expect("a copy");
    jail(&workspace).refused("git");
    fs::remove_dir_all(git_dir(&workspace)).expect("a git folder");
    run().refused("git");
}

/// All that a worktree's folder needs, made by whoever writes the clone.
fn forge(folder: &Path, common: &str, clone: &Path) {
    fs::create_dir_all(folder).expect("a folder");
    let back = format!("{}\n", path_str(&clone.join(".git")));
    for (name, text) in [
        ("HEAD", "ref: refs/heads/main\n"),
        ("commondir", common),
        ("gitdir", &back),
    ] {
        fs::write(folder.join(name), text).expect("a file");
    }
}

#[test]
fn a_folder_that_the_clone_brings_along() {
    // A clone in a folder called `worktrees` is its own worktree's folder, and what
    // holds the two its repository.
    let workspace = linked();
    let clone = workspace.folder("proj/worktrees/clone");
    workspace.file("proj/secret", "of another");
    for name in ["objects", "refs"] {
        workspace.folder(&format!("proj/{name}"));
    }
    workspace.file("proj/HEAD", "x");
    let read = || -> Run {
        let secret = at(&workspace, "proj/secret");
        let jail = jail(&workspace).flag("--clone", &clone);
        jail.run(&["read", &secret])
    };
    assert_eq!(read().outcome(), "ENOENT", "control: nothing claims it");
    workspace.file("proj/worktrees/clone/.git", "gitdir: .\n");
    forge(&clone, "../..\n", &clone);
    read().assert_refused("git");
    // The same where git itself would have made it.
    let made = workspace.path("proj/worktrees/made");
    forge(&made, "../..\n", &clone);
    workspace.file("proj/worktrees/clone/.git", "gitdir: ../made\n");
    assert_eq!(read().ok(), "of another", "vacuous");

    refused("clone/.git", |workspace| {
        let clone = workspace.clone_dir();
        forge(&clone.join("repo/worktrees/w"), "../..\n", &clone);
        workspace.file("clone/.git", "gitdir: repo/worktrees/w\n");
    });
    refused("clone/.git", |workspace| {
        let out = workspace.folder("out");
        forge(&out.join("worktrees/w"), "../..\n", &workspace.clone_dir());
        workspace.file("clone/.git", "gitdir: ../out/worktrees/w\n");
    });
}

#[test]
fn a_way_that_the_command_could_bend() {
    refused_as(|workspace| {
        symlink(git_dir(workspace), workspace.path("clone/link")).expect("a link");
        "link".to_owned()
    });
    refused_as(|workspace| {
        symlink(workspace.path("main"), workspace.path("clone/link")).expect("a link");
        at(workspace, "clone/link/.git/worktrees/clone")
    });
    refused_as(|workspace| {
        let out = workspace.folder("out");
        symlink(workspace.path("main"), out.join("link")).expect("a link");
        at(workspace, "out/link/.git/worktrees/clone")
    });
    refused_as(|workspace| {
        workspace.folder("clone/sub");
        "sub/../../main/.git/worktrees/clone".to_owned()
    });
    // What points back may not come by the clone's own link either.
    refused("main/.git/worktrees/clone/gitdir", |workspace| {
        symlink(".", workspace.path("clone/vendor")).expect("a link");
        let back = at(workspace, "clone/vendor/.git");
        fs::write(git_dir(workspace).join("gitdir"), back).expect("a file");
    });
}

#[test]
fn a_home_is_no_repository_to_show() {
    let workspace = linked();
    let home = |name: &str| jail(&workspace).host_env("HOME", workspace.path(name));
    home("main/.git").refused("git");
    assert_eq!(home("main").run(&["say", "ran"]).ok(), "ran");
}

#[test]
fn files_of_another_shape() {
    let good = |workspace: &Workspace| at(workspace, "main/.git/worktrees/clone");
    refused_as(|workspace| format!("{}\nx", good(workspace)));
    refused_as(|workspace| format!("{}\0", good(workspace)));
    refused_as(|workspace| format!(" {}", good(workspace)));
    refused_as(|workspace| format!("{}{}", "/".repeat(5000), good(workspace)));
    refused("clone/.git", |workspace| {
        workspace.file("clone/.git", &format!("{}\n", good(workspace)));
    });
    refused("clone/.git", |workspace| {
        let text = format!("gitdir: {}\n", good(workspace));
        workspace.file("clone/.git", &(text + &"\n".repeat(1 << 20)));
    });
    // In the repository: a FIFO that nobody writes to, a link, a huge one, none.
    for name in ["gitdir", "commondir"] {
        let fault = "main/.git/worktrees/clone";
        let file = |workspace: &Workspace| git_dir(workspace).join(name);
        let without = |workspace: &Workspace| {
            let text = fs::read(file(workspace)).expect("a file");
            fs::remove_file(file(workspace)).expect("a file");
            text
        };
        refused(fault, |workspace| drop(without(workspace)));
        refused(fault, |workspace| {
            without(workspace);
            mkfifo(&file(workspace), Mode::S_IRWXU).expect("a pipe");
        });
        refused(fault, |workspace| {
            fs::write(workspace.path("moved"), without(workspace)).expect("a file");
            symlink(workspace.path("moved"), file(workspace)).expect("a link");
        });
        refused(fault, |workspace| {
            let mut text = without(workspace);
            text.resize(1 << 20, b'\n');
            fs::write(file(workspace), text).expect("a file");
        });
    }
    for common in ["..", "../../..", "../../../../other/.git", "/etc"] {
        refused("main/.git/worktrees/clone", |workspace| {
            make_repository(&workspace.folder("other"));
            fs::write(git_dir(workspace).join("commondir"), common).expect("a file");
        });
    }
}

#[test]
fn as_root_a_repository_of_somebody_else() {
    if !is_root() {
        // Nobody can give files away; the judgement is tested in src/policy/worktree.
        let gift = chown(linked().clone_dir(), Some(2_000_000_125), None);
        assert!(gift.is_err(), "vacuous: a user gives files away");
        return;
    }
    let give = |path: &Path| {
        let mut chown = crate::common::host::program("chown", "coreutils");
        let status = chown
            .args(["-R", "2000000125:2000000125"])
            .arg(path)
            .status();
        assert!(status.expect("chown starts").success());
    };
    refused_with("owner", "main/.git", |workspace| {
        give(&workspace.path("main"));
    });
    refused_with("owner", "main/.git", |workspace| {
        give(&workspace.clone_dir());
    });
    refused_with("owner", "main/.git/objects", |workspace| {
        give(&workspace.path("main/.git/objects"));
    });
    let workspace = linked();
    fs::write(workspace.clone_dir().join("tracked"), "changed\n").expect("a file");
    give(&workspace.path("main"));
    give(&workspace.clone_dir());
    let run = jail(&workspace).run_program(&["git", "status", "--short"]);
    assert_eq!(
        run.outcome().trim_start(),
        "M tracked",
        "both are the other's: {run:#?}"
    );
}

#[test]
fn no_other_worktree_is_shown_with_the_repository() {
    let workspace = linked_to("sources", "bare.git");
    let inner = add(&workspace, "bare.git", "bare.git/inner");
    let secret = workspace.file("bare.git/inner/.env", "of the other's");
    let jails = || [jail(&workspace), jail(&workspace).writable()];
    let refused = |why: &str| {
        for jail in jails() {
            let run = jail.refused("git");
            assert!(run.refusal().contains(path_str(&inner)), "{why}: {run:#?}");
        }
    };
    refused("there it is");
    // What the repository knows of it, written otherwise.
    let known = workspace.path("bare.git/worktrees/inner/gitdir");
    fs::write(&known, "../../inner/.git\n").expect("a file");
    refused("relative");
    symlink("bare.git", workspace.path("by-link")).expect("a link");
    let by_link = workspace.path("by-link/inner/.git");
    fs::write(&known, path_str(&by_link)).expect("a file");
    refused("by a link");
    let own = fs::read(inner.join(".git")).expect("a file");
    fs::remove_file(inner.join(".git")).expect("a file");
    refused("its .git is gone, and the rest is there");
    fs::write(inner.join(".git"), own).expect("a file");
    // The other sees itself, and not this one, which lies elsewhere.
    let inside = jail(&workspace).flag("--clone", &inner);
    let run = inside.run(&["read", path_str(&secret)]);
    assert_eq!(run.ok(), "of the other's", "vacuous");
    // One that is gone, and is yet to be pruned, is none.
    let moved = workspace.path("elsewhere");
    fs::rename(&inner, &moved).expect("moved");
    for jail in jails() {
        assert_eq!(jail.run(&["say", "ran"]).ok(), "ran", "vacuous");
    }
    // What can't be read may name one.
    fs::remove_file(&known).expect("a file");
    symlink("/dev/null", &known).expect("a link");
    for jail in jails() {
        let run = jail.refused("git");
        assert!(run.refusal().contains("worktrees"), "{run:#?}");
    }
}
