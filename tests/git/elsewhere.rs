//! Clones whose repository lies elsewhere: what is said to do works, and nothing else is said.

use std::fs;
use std::path::Path;

use crate::common::workspace::{git, make_repository};
use crate::common::{Jail, Run, Workspace, path_str};
use crate::worktrees::linked;

fn log(jail: Jail) -> Run {
    jail.run_program(&["git", "log", "--format=%s"])
}

/// The one line about git.
fn said(run: &Run) -> &str {
    let lines = run.stderr.lines();
    let mut lines = lines.filter(|line| line.starts_with("groom-ns: warning: git "));
    let said = lines.next().unwrap_or_default();
    assert_eq!(lines.next(), None, "{run:#?}");
    said
}

/// As it is on the host; the jail's HOME has no configuration either.
fn works(run: &Run) {
    assert_eq!((run.outcome(), said(run)), ("first", ""), "{run:#?}");
}

#[test]
fn a_part_of_a_checkout_is_not_the_checkout() {
    let workspace = Workspace::with_git();
    let inside = |part: &Path| log(workspace.jail().flag("--clone", part));
    let part = workspace.folder("clone/with space/deep");
    let clone = path_str(&workspace.clone_dir()).to_owned();
    works(&inside(&workspace.clone_dir()));
    let run = inside(&part);
    assert_ne!(run.code, Some(0), "vacuous: git works there");
    assert!(
        said(&run).ends_with(&format!(" give --clone {clone}")),
        "{run:#?}"
    );
    // The .git alone is no help: it lies beyond the edge of a filesystem. The whole is.
    let given = |given: &Path| {
        log(workspace
            .jail()
            .flag("--clone", &part)
            .flag("--ro-file", given))
    };
    let run = given(&workspace.path("clone/.git"));
    assert!(run.code != Some(0) && !said(&run).is_empty(), "{run:#?}");
    works(&given(&workspace.clone_dir()));
    // The inner of two checkouts is meant.
    make_repository(part.parent().expect("a folder"));
    let inner = format!(" give --clone '{clone}/with space'");
    assert!(
        said(&inside(&part)).ends_with(&inner),
        "{:#?}",
        inside(&part)
    );
    // A file names a repository, too.
    make_repository(&workspace.folder("main"));
    let main = format!("--git-dir={}", path_str(&workspace.path("main/.git")));
    git(
        workspace.root(),
        &[&main, "worktree", "add", "--quiet", "tree"],
    );
    let tree = path_str(&workspace.path("tree")).to_owned();
    let run = inside(&workspace.folder("tree/part"));
    assert!(
        said(&run).ends_with(&format!(" give --clone {tree}")),
        "{run:#?}"
    );
}

#[test]
fn what_is_no_part_of_a_checkout() {
    let workspace = Workspace::new();
    let part = workspace.folder("clone/part");
    let inside = || workspace.jail().flag("--clone", &part);
    assert_eq!(said(&log(inside())), "");
    // A folder of that name is no repository, and a home's isn't a checkout to be given.
    workspace.folder("clone/.git");
    assert_eq!(said(&log(inside())), "");
    fs::remove_dir(workspace.path("clone/.git")).expect("a folder");
    make_repository(&workspace.clone_dir());
    assert_ne!(said(&log(inside())), "", "vacuous");
    let home = inside().host_env("HOME", workspace.clone_dir());
    assert_eq!(said(&log(home)), "");
    // Nor is a folder of the system, whoever made a repository of it.
    let over = |point: &str| {
        let bind = format!("bind:{}:{point}", path_str(&workspace.clone_dir()));
        let jail = workspace.jail().flag("--clone", format!("{point}/part"));
        log(jail.in_situation(&["mounts", &bind]))
    };
    let point = workspace.folder("point");
    assert_ne!(said(&over(path_str(&point))), "", "vacuous");
    let run = over("/srv");
    assert!(run.stderr.contains("not a git repository"), "{run:#?}");
    assert_eq!(said(&run), "");
    // A bare repository is one by itself.
    fs::remove_dir(&part).expect("a folder");
    let words = ["clone", "--quiet", "--bare", "clone", "clone/part"];
    git(workspace.root(), &words);
    works(&log(inside()));
}

/// Where `--git-worktree` would be refused, it isn't named: neither in the warning, nor
/// where the clone is to be writable, nor where it was given.
fn other_way(workspace: &Workspace, clone: &Path, kind: &str) {
    let jail = || workspace.jail().flag("--clone", clone);
    let run = log(jail());
    assert_ne!(run.code, Some(0), "vacuous: git works there");
    let warned = said(&run).to_owned();
    let (_, git_dir) = warned.rsplit_once(" --ro-file ").expect("a flag");
    let refused = jail().writable().refused("git");
    let claimed = jail().switch("--git-worktree").refused("git");
    for text in [&warned, refused.refusal(), claimed.refusal()] {
        assert!(text.contains(kind) && text.contains(git_dir), "{text}");
        // Anybody's clone can name any repository.
        for words in ["the clone's .git says that ", "if that is this clone's"] {
            assert!(text.contains(words), "{text}");
        }
        assert!(!text.contains("give --git-worktree"), "{text}");
    }
    works(&log(jail().flag("--ro-file", git_dir)));
}

#[test]
fn a_submodule_is_called_one() {
    let workspace = Workspace::with_git();
    make_repository(&workspace.folder("other"));
    let (clone, other) = (workspace.clone_dir(), workspace.path("other"));
    let words = ["submodule", "--quiet", "add", path_str(&other), "libs/sub"];
    git(&clone, &words);
    let sub = workspace.path("clone/libs/sub");
    other_way(&workspace, &sub, "a submodule's");
    // The other thing that is said to do.
    let within = ["git", "-C", path_str(&sub), "log", "--format=%s"];
    works(&workspace.jail().run_program(&within));
    works(&workspace.jail().writable().run_program(&within));
}

#[test]
fn a_separate_repository_is_called_one() {
    for words in [
        &[
            "clone",
            "--quiet",
            "--separate-git-dir=apart",
            "other",
            "new",
        ][..],
        &["init", "--quiet", "--separate-git-dir=apart", "other"],
    ] {
        let workspace = Workspace::new();
        make_repository(&workspace.folder("other"));
        git(workspace.root(), words);
        let clone = workspace.path(words.last().expect("a folder"));
        other_way(&workspace, &clone, "--separate-git-dir");
    }
}

#[test]
fn a_linked_worktree_is_told_its_flag_where_that_will_do() {
    let workspace = linked();
    let run = log(workspace.jail());
    assert!(
        said(&run).ends_with("linked worktree's: give --git-worktree"),
        "{run:#?}"
    );
    works(&log(workspace.jail().switch("--git-worktree")));
    let moved = workspace.path("moved");
    fs::rename(workspace.clone_dir(), &moved).expect("a clone");
    let jail = || workspace.jail().flag("--clone", &moved);
    let run = log(jail());
    assert!(said(&run).contains("git worktree repair"), "{run:#?}");
    assert!(!said(&run).contains("give --git-worktree"), "{run:#?}");
    git(&moved, &["worktree", "repair"]);
    works(&log(jail().switch("--git-worktree")));
    // What is no repository gets nobody to show it.
    workspace.file("keys/key", "x");
    workspace.file("moved/.git", "gitdir: ../keys\n");
    let run = log(jail());
    assert!(said(&run).contains("and no repository"), "{run:#?}");
    assert!(!said(&run).contains("--ro-file"), "{run:#?}");
}
