//! Folders of which something can't be known, closed or written to.

use std::fs;
use std::os::unix::fs::{chown, symlink};
use std::os::unix::net::UnixListener;

use nix::errno::Errno;
use nix::fcntl::{OFlag, open, openat};
use nix::sys::stat::{Mode, mkdirat};

use crate::common::host::{chmod, install};
use crate::common::jail::binary;
use crate::common::{Workspace, is_root, path_str};

#[test]
fn a_folder_that_the_command_alone_could_open() {
    let workspace = Workspace::with_git();
    let closed = workspace.folder("clone/closed");
    workspace.folder("clone/closed/.git");
    chmod(&closed, 0o000);
    let writable = workspace.jail_with_out().writable().run(&["say", "ran"]);
    // Control: where nothing can be chmodded it stays closed to the command.
    let read_only = workspace.jail().run(&["list", path_str(&closed)]);
    chmod(&closed, 0o700);
    if is_root() {
        // Root reads it, and knows what is to be covered.
        assert_eq!(writable.ok(), "ran");
    } else {
        writable.assert_refused("git");
        assert!(writable.refusal().contains(path_str(&closed)));
        assert!(!workspace.out_dir().exists(), "the out-dir was left");
    }
    assert_eq!(read_only.outcome(), "EACCES");
}

#[test]
fn a_folder_too_deep_for_a_path() {
    const LEVELS: usize = 1500;
    let workspace = Workspace::with_git();
    let deep = |levels: usize| {
        let flags = OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
        let mut at = open(&workspace.clone_dir(), flags, Mode::empty()).expect("the clone");
        for _ in 0..levels {
            match mkdirat(&at, "dd", Mode::S_IRWXU) {
                Ok(()) | Err(Errno::EEXIST) => {}
                Err(errno) => panic!("mkdirat: {errno}"),
            }
            at = openat(&at, "dd", flags, Mode::empty()).expect("the folder just made");
        }
    };
    // Control: one that a path can still name.
    deep(1000);
    let jail = || workspace.jail_with_out().writable();
    assert_eq!(jail().run(&["say", "ran"]).ok(), "ran", "vacuous");
    fs::remove_dir(workspace.out_dir()).expect("the empty out-dir");
    deep(LEVELS);
    let run = jail().run(&["say", "ran"]);
    run.assert_refused("git");
    assert!(!workspace.out_dir().exists(), "the out-dir was left");
    let refusal = run.refusal();
    let start = format!("{}/dd/dd", path_str(&workspace.clone_dir()));
    for says in [
        start.as_str(),
        "dd/",
        "…: ENAMETOOLONG; ",
        "PATH_MAX",
        "move it",
    ] {
        assert!(refusal.contains(says), "{says}: {run:#?}");
    }
    assert!(!refusal.contains("readable"), "{run:#?}");
    assert!(refusal.len() < 600, "{} bytes: {run:#?}", refusal.len());
}

#[test]
fn more_sockets_than_are_covered() {
    let workspace = Workspace::new();
    let bind = |at: usize| {
        UnixListener::bind(workspace.clone_dir().join(format!("s{at}"))).expect("a listener")
    };
    let mut listeners: Vec<UnixListener> = (0..64).map(bind).collect();
    let last = workspace.clone_dir().join("s63");
    let connect = ["connect-unix", path_str(&last)];
    let outcome = workspace.jail().run(&connect);
    assert!(
        ["ECONNREFUSED", "EACCES"].contains(&outcome.outcome()),
        "{outcome:#?}"
    );
    listeners.push(bind(64));
    let plan = workspace.jail().switch("--plan=json").run(&["exit", "0"]);
    if plan.code == Some(0) {
        // This kernel's landlock closes them all by itself.
        let last = workspace.clone_dir().join("s64");
        let run = workspace.jail().run(&["connect-unix", path_str(&last)]);
        assert_eq!(run.outcome(), "EACCES");
    } else {
        workspace.jail_with_out().refused("socket");
    }
}

#[test]
fn an_out_dir_that_cannot_be_written() {
    let workspace = Workspace::new();
    let out = workspace.folder("out");
    let cover = format!("read-only:{}", path_str(&out));
    let run = workspace
        .jail_with_out()
        .in_situation(&["mounts", &cover])
        .refused("path");
    assert!(run.refusal().contains("EROFS"), "{run:#?}");
    // Nor one that would have to be made in it.
    let run = workspace
        .jail()
        .flag("--out-dir", out.join("new"))
        .in_situation(&["mounts", &cover])
        .run(&["say", "ran"]);
    run.assert_refused("path");
    // Control: without the cover it can.
    assert_eq!(workspace.jail_with_out().run(&["say", "ran"]).ok(), "ran");
}

#[test]
fn a_link_that_somebody_else_put_in_a_shared_folder() {
    // As fs.protected_symlinks has it; only root can make another's link.
    let workspace = Workspace::new();
    let shared = workspace.folder("shared");
    let file = workspace.file("file", "text");
    let link = shared.join("link");
    symlink(&file, &link).expect("a link");
    let jail = || workspace.jail_with_out().flag("--ro-file", &link);
    // Control: one's own link, and anyone's in a folder that isn't shared.
    chmod(&shared, 0o1777);
    assert_eq!(jail().run(&["read", path_str(&file)]).ok(), "text");
    if is_root() {
        let other = Some(2_000_000_127);
        std::os::unix::fs::lchown(&link, other, other).expect("root");
        chmod(&shared, 0o755);
        assert_eq!(jail().run(&["read", path_str(&file)]).ok(), "text");
        chmod(&shared, 0o1777);
        fs::remove_dir(workspace.out_dir()).expect("the empty out-dir");
        let run = jail().refused("path");
        assert!(run.refusal().contains("EACCES"), "{run:#?}");
    }
}

#[test]
fn a_set_user_id_start() {
    let workspace = Workspace::new();
    let copy = workspace.path("groom-ns");
    install(&binary(), &copy);
    if is_root() {
        chown(&copy, Some(2_000_000_126), None).expect("root");
    }
    chmod(&copy, 0o4755);
    let jail = workspace.jail_with_out().binary(copy.clone());
    if is_root() {
        jail.refused("identity");
    } else {
        // Control: of the caller's own file the bit changes nothing.
        assert_eq!(jail.run(&["say", "ran"]).ok(), "ran");
    }
}
