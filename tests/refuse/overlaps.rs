//! No writable place may contain, equal or lie in a read-only one.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use crate::common::{Workspace, path_str};

fn refused_as_out_dir(workspace: &Workspace, out: &Path) {
    for writable in [false, true] {
        let jail = workspace.jail();
        let jail = if writable { jail.writable() } else { jail };
        let run = jail.flag("--out-dir", out).refused("overlap");
        assert!(run.refusal().contains('/'), "it names a path: {run:#?}");
    }
}

#[test]
fn an_out_dir_and_the_clone() {
    let workspace = Workspace::with_git();
    let clone = workspace.clone_dir();
    workspace.folder("clone/inside");
    symlink(&clone, workspace.path("link-to-clone")).expect("a link");
    symlink(workspace.root(), workspace.path("link-above")).expect("a link");
    let outs: [PathBuf; 9] = [
        clone.clone(),
        clone.join("inside"),
        clone.join("missing"),
        clone.join(".git"),
        workspace.root().into(),
        workspace.path("link-to-clone"),
        workspace.path("link-to-clone/inside"),
        workspace.path("link-to-clone/missing"),
        workspace.path("link-above"),
    ];
    for out in outs {
        refused_as_out_dir(&workspace, &out);
    }
    // `..` and `.` are no way round.
    refused_as_out_dir(&workspace, &clone.join("inside/.."));
    refused_as_out_dir(&workspace, &workspace.path("clone/./inside"));
    assert!(!clone.join("missing").exists(), "nothing is created");
    // Control: a name that only begins like the clone's is another place.
    let sibling = workspace.path("clone-out");
    assert_eq!(
        workspace
            .jail()
            .flag("--out-dir", &sibling)
            .run(&["say", "ran"])
            .ok(),
        "ran"
    );
}

#[test]
fn an_out_dir_and_a_given_file() {
    let workspace = Workspace::with_git();
    let given = workspace.folder("given");
    let inner = workspace.folder("given/inner");
    let file = workspace.file("folder/file", "x");
    for (ro, out) in [
        (&given, &given),
        (&given, &inner),
        (&inner, &given),
        (&file, &workspace.path("folder")),
        (&given, &given.join("missing")),
    ] {
        workspace
            .jail()
            .flag("--ro-file", ro)
            .flag("--out-dir", out)
            .refused("overlap");
    }
    assert!(!given.join("missing").exists());
}

#[test]
fn an_out_dir_and_the_system() {
    let workspace = Workspace::with_git();
    for out in [
        "/",
        "/usr",
        "/usr/local/out",
        "/etc",
        "/etc/out",
        "/tmp",
        "/dev/shm",
        "/proc",
        "/run",
        "/home",
        "/bin",
    ] {
        let run = workspace.jail().flag("--out-dir", out).run(&["say", "ran"]);
        assert_eq!(
            (run.code, run.stdout.as_str()),
            (Some(125), ""),
            "{out}: {run:#?}"
        );
        let codes = ["(overlap)", "(path)"];
        assert!(
            codes.iter().any(|code| run.refusal().contains(code)),
            "{out}: {run:#?}"
        );
    }
    for missing in ["/usr/local/out", "/etc/out"] {
        assert!(
            !fs::exists(missing).expect("the system"),
            "{missing} was made"
        );
    }
}

#[test]
fn a_writable_clone_and_a_given_file() {
    let workspace = Workspace::with_git();
    let inside = workspace.file("clone/inside", "x");
    let run = workspace
        .jail_with_out()
        .writable()
        .flag("--ro-file", &inside)
        .refused("overlap");
    assert!(run.refusal().contains(path_str(&inside)), "{run:#?}");
    workspace
        .jail_with_out()
        .writable()
        .flag("--ro-file", workspace.root())
        .refused("overlap");
}

#[test]
fn one_folder_under_two_names() {
    // A bind mount gives it another canonical path.
    let workspace = Workspace::with_git();
    let (clone, other) = (workspace.clone_dir(), workspace.folder("other"));
    let bound = |what: &Path| format!("bind:{}:{}", path_str(what), path_str(&other));
    let (clones, systems) = (bound(&clone), bound(Path::new("/usr")));
    for writable in [false, true] {
        let jail = workspace.jail().in_situation(&["mounts", &clones]);
        let jail = if writable { jail.writable() } else { jail };
        let run = jail.flag("--out-dir", &other).run(&["say", "ran"]);
        run.assert_refused("overlap");
    }
    // The system's, as a clone: it is refused before it is looked for a .git.
    let jail = workspace.jail().in_situation(&["mounts", &systems]);
    let run = jail.writable().flag("--clone", &other).run(&["say", "ran"]);
    run.assert_refused("overlap");
    // Control: a folder that lies nowhere else.
    let apart = bound(&workspace.folder("apart"));
    let jail = workspace.jail().in_situation(&["mounts", &apart]);
    let run = jail.flag("--out-dir", &other).run(&["say", "ran"]);
    assert_eq!(run.ok(), "ran");
}

#[test]
fn a_given_file_and_what_the_jail_has_of_its_own() {
    let workspace = Workspace::new();
    for given in ["/tmp", "/run", "/home", "/dev/shm"] {
        workspace
            .jail_with_out()
            .flag("--ro-file", given)
            .refused("overlap");
    }
    // Where the broker's socket is shown.
    let file = [
        "mounts",
        "tmpfs:/run",
        "file:/run/broker.sock:x",
        "file:/run/x:x",
    ];
    let jail = |given: &str| {
        let jail = workspace.jail_with_out().in_situation(&file);
        jail.flag("--ro-file", given)
    };
    jail("/run/broker.sock").refused("overlap");
    // Control: a file beside it may be given.
    assert_eq!(jail("/run/x").run(&["read", "/run/x"]).ok(), "x");
}
