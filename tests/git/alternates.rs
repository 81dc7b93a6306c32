//! Clones that borrow objects: what is lacking is named, and never given by itself.

use std::fs;
use std::os::unix::fs::symlink;
use std::os::unix::net::UnixListener;

use nix::sys::stat::Mode;
use nix::unistd::mkfifo;

use crate::common::workspace::{git, make_repository};
use crate::common::{Jail, Run, Workspace, path_str};

/// A clone that borrows from `middle`, which borrows from `first`.
fn borrowing() -> Workspace {
    let workspace = Workspace::new();
    make_repository(&workspace.folder("first"));
    fs::write(workspace.path("first/file"), "x").expect("a file");
    git(&workspace.path("first"), &["add", "--all"]);
    git(
        &workspace.path("first"),
        &["commit", "--quiet", "--message=second"],
    );
    fs::remove_dir_all(workspace.clone_dir()).expect("a clone");
    for (from, to) in [("first", "middle"), ("middle", "clone")] {
        git(
            workspace.root(),
            &["clone", "--quiet", "--shared", from, to],
        );
    }
    workspace
}

fn store(workspace: &Workspace, name: &str) -> String {
    path_str(&workspace.path(&format!("{name}/.git/objects"))).to_owned()
}

fn log(jail: Jail) -> Run {
    jail.run_program(&["git", "log", "--format=%s"])
}

fn warnings(run: &Run) -> Vec<&str> {
    let lines = run.stderr.lines();
    lines
        .filter(|line| line.starts_with("groom-ns: warning: git "))
        .collect()
}

#[test]
fn each_store_is_named_with_its_flag() {
    let workspace = borrowing();
    let stores = ["middle", "first"].map(|name| store(&workspace, name));
    for writable in [false, true] {
        let jail = || {
            let jail = workspace.jail();
            if writable { jail.writable() } else { jail }
        };
        let run = log(jail());
        assert_ne!(run.code, Some(0), "they were given by themselves: {run:#?}");
        let said = warnings(&run);
        assert_eq!(said.len(), 2, "{run:#?}");
        for (line, store) in said.iter().zip(&stores) {
            assert!(line.ends_with(&format!(" --ro-file {store}")), "{line}");
        }
        let given = |jail: Jail, store: &String| jail.flag("--ro-file", store);
        let run = log(given(jail(), &stores[0]));
        assert_eq!(warnings(&run).len(), 1, "the other is left: {run:#?}");
        let run = log(stores.iter().fold(jail(), given));
        assert_eq!(run.outcome(), "second\nfirst", "{run:#?}");
        assert_eq!(run.stderr_but_for_groups(), "");
    }
}

#[test]
fn a_linked_worktrees_repository_may_borrow_too() {
    let workspace = borrowing();
    let tree = crate::worktrees::add(&workspace, "middle/.git", "linked");
    let jail = || {
        let jail = workspace.jail().flag("--clone", &tree);
        jail.switch("--git-worktree").writable()
    };
    let first = store(&workspace, "first");
    let run = log(jail());
    let said = warnings(&run);
    assert_eq!(said.len(), 1, "{run:#?}");
    assert!(said[0].ends_with(&first), "{run:#?}");
    let run = log(jail().flag("--ro-file", &first));
    assert_eq!(run.outcome(), "second\nfirst", "{run:#?}");
}

#[test]
fn the_list_is_the_clones_word() {
    let workspace = Workspace::with_git();
    let secret = workspace.folder("keys/objects");
    let odd = workspace.folder("o\u{1b}[31mdd/objects");
    let spaced = workspace.folder("with space");
    make_repository(&spaced);
    let list = format!(
        "# ours\n{}\n../../../keys/objects\n{}\n{}\n/none/objects\n{}\n",
        path_str(&secret),
        path_str(&odd),
        path_str(&spaced.join(".git/objects")),
        path_str(&workspace.clone_dir().join(".git/objects")),
    );
    workspace.file("clone/.git/objects/info/alternates", &list);
    let run = workspace.jail().run(&["say", "ran"]);
    assert_eq!(run.ok(), "ran");
    let said = warnings(&run);
    assert_eq!(
        said.len(),
        3,
        "each once, and what isn't there not at all: {run:#?}"
    );
    for line in &said[..2] {
        assert!(!line.contains("--ro-file"), "no repository's: {line}");
    }
    assert!(said[1].contains(r"o\u{1b}[31mdd"), "{said:#?}");
    let quoted = format!("--ro-file '{}'", path_str(&spaced.join(".git/objects")));
    assert!(said[2].ends_with(&quoted), "{said:#?}");
    // A list without an end names no more than a few.
    let paths: Vec<String> = (0..100).map(|n| format!("many/{n}")).collect();
    for path in &paths {
        workspace.folder(path);
    }
    let list = format!("../../../{}\n", paths.join("\n../../../"));
    workspace.file("clone/.git/objects/info/alternates", &list);
    let run = workspace.jail().run(&["say", "ran"]);
    assert_eq!(warnings(&run).len(), 8, "{run:#?}");
}

#[test]
fn what_is_no_list_refuses_no_run() {
    let workspace = Workspace::with_git();
    let list = workspace.path("clone/.git/objects/info/alternates");
    let said = |why: &str| {
        let run = workspace.jail().run(&["say", "ran"]);
        assert_eq!(run.ok(), "ran", "{why}: {run:#?}");
        warnings(&run).len()
    };
    fs::create_dir_all(list.parent().expect("a folder")).expect("a folder");
    let socket = UnixListener::bind(&list).expect("a socket");
    assert_eq!(said("a socket"), 0);
    drop(socket);
    fs::remove_file(&list).expect("a socket");
    mkfifo(&list, Mode::S_IRWXU).expect("a pipe");
    assert_eq!(said("a pipe"), 0);
    fs::remove_file(&list).expect("a pipe");
    fs::create_dir(&list).expect("a folder");
    assert_eq!(said("a folder"), 0);
}

/// git follows it, and finds objects on the host that it won't find inside.
#[test]
fn a_list_or_a_store_behind_a_link_is_said() {
    for (there, moved) in [
        ("clone/.git/objects/info/alternates", "list"),
        ("middle/.git/objects/info/alternates", "list"),
        ("clone/.git/objects/info", "info"),
        ("clone/.git/objects", "clone-objects"),
        ("clone/.git", "clone-git"),
    ] {
        let workspace = borrowing();
        let links = |run: &Run| {
            let said = warnings(run).into_iter();
            let said = said.filter(|line| line.contains("is a symbolic link"));
            said.map(ToOwned::to_owned).collect::<Vec<_>>()
        };
        let run = log(workspace.jail());
        assert_eq!(links(&run), [""; 0], "vacuous: {run:#?}");
        let [there, moved] = [there, moved].map(|name| workspace.path(name));
        fs::rename(&there, &moved).expect("moved");
        symlink(&moved, &there).expect("a link");
        let run = log(workspace.jail());
        let said = links(&run);
        assert_eq!(said.len(), 1, "{run:#?}");
        assert!(said[0].contains(path_str(&there)), "{said:#?}");
        assert_ne!(run.code, Some(0), "git did without: {run:#?}");
    }
}
