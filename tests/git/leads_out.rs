//! What lies in a `.git` and leads to where the command can write.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use crate::common::workspace::{git, make_repository, snapshot};
use crate::common::{Workspace, host, path_str};
use crate::with_nested;
use crate::worktrees;

/// A clone with nested repositories in which `.git/NAME` is a symbolic link.
fn linked(name: &str, to: impl AsRef<Path>) -> Workspace {
    let workspace = with_nested();
    let link = workspace.clone_dir().join(name);
    match fs::symlink_metadata(&link) {
        Ok(meta) if meta.is_dir() => fs::remove_dir_all(&link).expect("our folder"),
        Ok(_) => fs::remove_file(&link).expect("our file"),
        Err(_) => {}
    }
    symlink(to, &link).expect("a link");
    workspace
}

/// Refused for `seen`, by name; and, the control, what the jail could write at
/// `written` is what git would see there.
fn refused(workspace: &Workspace, seen: &str, written: &str) {
    let seen = workspace.clone_dir().join(seen);
    let run = workspace.jail_with_out().writable().refused("git");
    let named = seen.ancestors().any(|path| {
        let inside = path.components().any(|part| part.as_os_str() == ".git");
        inside && run.refusal().contains(&format!(" {}", path_str(path)))
    });
    assert!(named, "{}: {run:#?}", seen.display());
    // Read-only it can be given as it is.
    assert_eq!(workspace.jail().run(&["say", "ran"]).ok(), "ran");
    let write = format!("write {} planted", path_str(&workspace.path(written)));
    assert_eq!(workspace.unjailed(&["seq", &write]).lines(), ["ok"]);
    let text = fs::read_to_string(&seen).expect("what git would see");
    assert_eq!(text, "planted", "vacuous: {} isn't it", seen.display());
}

#[test]
fn symbolic_links_into_the_worktree() {
    for (link, to, seen, written) in [
        (".git/hooks/pre-commit", "../../hk", "", "clone/hk"),
        (
            ".git/hooks",
            "../dir",
            "/pre-commit",
            "clone/dir/pre-commit",
        ),
        (".git/config", "../hk", "", "clone/hk"),
        (".git/objects/ab", "../../dir", "/cd", "clone/dir/cd"),
        (
            ".git/objects/info",
            "../../dir",
            "/alternates",
            "clone/dir/alternates",
        ),
        (
            ".git/modules/libs/sub/hooks/x",
            "../../../../../hk",
            "",
            "clone/hk",
        ),
        (".git/logs/refs/x", "../../../hk", "", "clone/hk"),
        ("vendor/dep/.git/hooks/x", "../../../../hk", "", "clone/hk"),
        (".git/hooks/x", "../../vendor/hk", "", "clone/vendor/hk"),
    ] {
        let workspace = linked(link, to);
        fs::create_dir_all(workspace.path("clone/dir")).expect("a folder");
        workspace.file(written, "before");
        refused(&workspace, &format!("{link}{seen}"), written);
    }
}

#[test]
fn symbolic_links_into_the_out_dir_and_round_corners() {
    // The out-dir.
    let workspace = linked(".git/hooks/x", "../../../out/hk");
    workspace.file("out/hk", "before");
    refused(&workspace, ".git/hooks/x", "out/hk");
    // Out of the clone and in again.
    let workspace = linked(".git/hooks/x", "../../../outside");
    symlink("clone/hk", workspace.path("outside")).expect("a link");
    workspace.file("clone/hk", "before");
    refused(&workspace, ".git/hooks/x", "clone/hk");
    // A folder that holds the clone.
    let workspace = linked(".git/modules/x", "../../..");
    workspace.file("clone/hk", "before");
    refused(&workspace, ".git/modules/x/clone/hk", "clone/hk");
}

#[test]
fn symbolic_links_whose_way_the_command_could_bend() {
    // To a covered file or out of the clone, but by way of the worktree. The
    // control bends that way.
    for (to, bent) in [
        ("../../folder/../.git/config", "clone/folder"),
        ("../../turn/config", "clone/turn"),
        ("../../../out/turn/config", "out/turn"),
    ] {
        let workspace = linked(".git/hooks/x", to);
        workspace.folder("clone/folder");
        workspace.folder("out");
        for turn in ["clone/turn", "out/turn"] {
            symlink(workspace.path("clone/.git"), workspace.path(turn)).expect("a link");
        }
        workspace.jail_with_out().writable().refused("git");
        let seen = workspace.path("clone/.git/hooks/x");
        let config = fs::read_to_string(&seen).expect("it leads to the configuration");
        assert!(config.contains("[core]"), "{config}");
        let bent = workspace.path(bent);
        fs::rename(&bent, workspace.path("gone")).expect("rename");
        workspace.file("evil/.git/config", "planted");
        workspace.file("evil/config", "planted");
        let evil = if to.contains("folder") {
            workspace.folder("evil/deeper")
        } else {
            workspace.path("evil")
        };
        symlink(evil, bent).expect("a link");
        assert_eq!(fs::read_to_string(&seen).expect("bent"), "planted", "{to}");
    }
}

#[test]
fn symbolic_links_that_lead_nowhere_yet() {
    let workspace = linked(".git/hooks/pre-push", "../../not-yet");
    let hook = workspace.path("clone/.git/hooks/pre-push");
    let run = workspace.jail_with_out().writable().refused("git");
    assert!(run.refusal().contains(path_str(&hook)), "{run:#?}");
    // Control: it is enough to make the file.
    workspace.file("clone/not-yet", "planted");
    assert_eq!(fs::read_to_string(&hook).expect("a hook"), "planted");
}

#[test]
fn hard_links_into_the_worktree() {
    for name in [
        ".git/config",
        ".git/hooks/own",
        ".git/modules/libs/sub/config",
        "vendor/dep/.git/HEAD",
        "libs/sub/.git",
        ".git/objects/info/alternates",
    ] {
        let workspace = with_nested();
        let file = workspace.clone_dir().join(name);
        if !file.exists() {
            fs::write(&file, "").expect("a file");
        }
        fs::hard_link(&file, workspace.path("clone/second-name")).expect("a hard link");
        refused(&workspace, name, "clone/second-name");
    }
}

/// What git on the host says to this.
fn git_says(dir: &Path, args: &[&str]) -> String {
    let output = host::program("git", "git")
        .arg("-C")
        .arg(dir)
        .args(args)
        .output();
    String::from_utf8_lossy(&output.expect("git starts").stdout).into_owned()
}

#[test]
fn commondirs_that_lead_out() {
    for (name, to) in [
        (".git/worktrees/w", "../../../common"),
        (
            ".git/modules/libs/sub/worktrees/w",
            "../../../../../../common",
        ),
        (".git/worktrees/w", "../../../folder/../common"),
        (".git/worktrees/w", "../.."),
    ] {
        let workspace = with_nested();
        let common = workspace.folder("clone/common");
        make_repository(&common);
        fs::rename(common.join(".git"), workspace.path("bare")).expect("rename");
        fs::remove_dir(&common).expect("our folder");
        fs::rename(workspace.path("bare"), &common).expect("rename");
        workspace.folder("clone/folder");
        let tree = workspace.clone_dir().join(name);
        fs::create_dir_all(&tree).expect("a folder");
        fs::write(tree.join("HEAD"), "ref: refs/heads/main\n").expect("a file");
        fs::write(tree.join("commondir"), format!("{to}\n")).expect("a file");
        if to == "../.." {
            // Positive: git's own form.
            assert_eq!(workspace.jail().writable().run(&["say", "ran"]).ok(), "ran");
            continue;
        }
        let run = workspace.jail_with_out().writable().refused("git");
        let commondir = tree.join("commondir");
        assert!(run.refusal().contains(path_str(&commondir)), "{run:#?}");
        // Control: git believes it.
        let git_dir = format!("--git-dir={}", path_str(&tree));
        let said = git_says(
            &workspace.clone_dir(),
            &[&git_dir, "rev-parse", "--git-common-dir"],
        );
        assert!(said.trim_end().ends_with("common"), "vacuous: {said}");
    }
}

#[test]
fn alternates_that_lead_out() {
    for (git_dir, line) in [
        (".git", "../../store"),
        (".git/modules/libs/sub", "CLONE/store"),
        ("vendor/dep/.git", "../../../../store"),
        (".git", "../../vendor/../store"),
        (".git", "../../../out/store"),
        (".git", "OUTSIDE/link"),
    ] {
        let workspace = with_nested();
        for store in ["clone/store", "out/store", "outside"] {
            workspace.folder(store);
        }
        symlink("../clone/store", workspace.path("outside/link")).expect("a link");
        let line = line
            .replace("CLONE", path_str(&workspace.clone_dir()))
            .replace("OUTSIDE", path_str(&workspace.path("outside")));
        let git_dir = workspace.clone_dir().join(git_dir);
        let alternates = git_dir.join("objects/info/alternates");
        fs::write(&alternates, format!("# a comment\n{line}\n")).expect("a file");
        let run = workspace.jail_with_out().writable().refused("git");
        assert!(run.refusal().contains(path_str(&alternates)), "{run:#?}");
        // Control: git looks there.
        let git_dir = format!("--git-dir={}", path_str(&git_dir));
        let said = git_says(workspace.root(), &[&git_dir, "count-objects", "-v"]);
        assert!(said.contains("alternate: "), "vacuous: {said}");
    }
}

#[test]
fn what_stays_inside_or_leads_to_the_hosts_own_is_taken() {
    let workspace = with_nested();
    let clone = workspace.clone_dir();
    let inside: [(&str, PathBuf); 5] = [
        (".git/HEAD", "refs/heads/main".into()),
        (".git/hooks/outside", workspace.file("hooks/outside", "x")),
        (".git/hooks/by-root", "../../.git/config".into()),
        (
            ".git/hooks/to-nested",
            "../../vendor/dep/.git/config".into(),
        ),
        (".git/objects/ab", "info".into()),
    ];
    for (name, to) in inside {
        let _ = fs::remove_file(clone.join(name));
        let _ = fs::remove_dir_all(clone.join(name));
        symlink(to, clone.join(name)).expect("a link");
    }
    let store = workspace.folder("store");
    make_repository(&store);
    let line = format!("{}\n", path_str(&store.join(".git/objects")));
    fs::write(clone.join(".git/objects/info/alternates"), line).expect("a file");
    let tree = workspace.path("linked-tree");
    git(&clone, &["worktree", "add", "--quiet", path_str(&tree)]);
    // A branch may have any name.
    git(&clone, &["branch", "commondir"]);
    git(&clone, &["branch", "objects/info/x"]);
    let argv = ["git", "log", "--oneline"];
    let run = workspace.jail_with_out().writable().run_program(&argv);
    assert!(run.outcome().contains("first"), "{run:#?}");
}

#[test]
fn a_local_clone_with_hard_linked_objects_is_taken() {
    let workspace = with_nested();
    let local = workspace.path("local");
    let clone = workspace.clone_dir();
    git(
        workspace.root(),
        &["clone", "--quiet", path_str(&clone), path_str(&local)],
    );
    let mut files = snapshot(&local.join(".git/objects")).into_keys();
    let shared = |path: PathBuf| {
        use std::os::unix::fs::MetadataExt as _;
        fs::metadata(path).is_ok_and(|meta| meta.is_file() && meta.nlink() > 1)
    };
    assert!(files.any(shared), "vacuous: nothing is linked");
    let argv = ["git", "log", "--oneline"];
    let run = workspace
        .jail()
        .flag("--clone", &local)
        .writable()
        .run_program(&argv);
    assert!(run.outcome().contains("first"), "{run:#?}");
}

/// A store that isn't writable can name one that is.
#[test]
fn alternates_that_lead_out_at_second_hand() {
    let workspace = Workspace::with_git();
    let clone = workspace.clone_dir();
    let writable = workspace.folder("clone/store");
    let outside = workspace.folder("outside/objects/info");
    let first = clone.join(".git/objects/info/alternates");
    let second = outside.join("alternates");
    fs::write(&first, "../../../outside/objects\n").expect("a file");
    let run = workspace.jail().writable().run(&["say", "ran"]);
    assert_eq!(run.ok(), "ran", "a store outside may be named");
    fs::write(&second, format!("{}\n", path_str(&writable))).expect("a file");
    let run = workspace.jail().writable().refused("git");
    assert!(run.refusal().contains(path_str(&second)), "{run:#?}");
    // Control: git looks there.
    let git_dir = format!("--git-dir={}", path_str(&clone.join(".git")));
    let said = git_says(workspace.root(), &[&git_dir, "count-objects", "-v"]);
    assert!(said.contains(path_str(&writable)), "vacuous: {said}");
}

/// The top of a linked worktree's repository is walked as a tree of its own.
#[test]
fn a_link_of_a_repository_to_itself_leads_nowhere_else() {
    let workspace = worktrees::linked();
    let common = workspace.path("main/.git");
    let run = || worktrees::jail(&workspace).writable();
    symlink(".", common.join("itself")).expect("a link");
    symlink("./config", common.join("settings")).expect("a link");
    assert_eq!(run().run(&["say", "ran"]).ok(), "ran");
    let clone = workspace.clone_dir();
    symlink(clone.join("tracked"), common.join("out")).expect("a link");
    run().refused("git");
}
