//! Bad input: nothing is created, nothing is run.

use std::fs::{self, File};
use std::process::Stdio;

use crate::common::jail::{binary, finish, spawn};
use crate::common::{Workspace, path_str};

/// groom-ns with these words alone.
fn bare(words: &[&str]) -> crate::common::Run {
    finish(spawn(
        std::process::Command::new(binary())
            .args(words)
            .env_remove("GITHUB_ACTIONS"),
    ))
}

#[test]
fn a_command_line_that_says_nothing() {
    for words in [
        &["run"][..],
        &["run", "--"],
        &["run", "--clone-mode", "rw", "--", "true"],
        &["run", "--no-such-flag", "--", "true"],
        &["run", "--env", "=value", "--", "true"],
        &["run", "--env", "", "--", "true"],
        &["run", "--env", "NOT_SET_ANYWHERE_76543", "--", "true"],
        &["run", "--landlock", "off", "--", "true"],
        &["run", "--plan=yaml", "--", "true"],
        &["no-such-command"],
        &[],
    ] {
        bare(words).assert_refused("usage");
    }
}

#[test]
fn help_and_version_are_no_refusals() {
    for words in [&["--help"][..], &["run", "--help"]] {
        let run = bare(words);
        assert_eq!(run.code, Some(0), "{run:#?}");
        assert!(run.stdout.contains("--"), "{run:#?}");
    }
}

#[test]
fn paths_that_are_missing_or_of_the_wrong_kind() {
    let workspace = Workspace::new();
    let file = workspace.file("file", "x");
    let missing = workspace.path("missing");
    let dangling = workspace.path("dangling");
    std::os::unix::fs::symlink(&missing, &dangling).expect("a link");
    let fifo = workspace.path("fifo");
    nix::unistd::mkfifo(&fifo, nix::sys::stat::Mode::S_IRWXU).expect("a pipe");
    let no_parent = workspace.path("missing/out");
    for (flag, path) in [
        ("--clone", &missing),
        ("--clone", &file),
        ("--clone", &dangling),
        ("--ro-file", &missing),
        ("--ro-file", &dangling),
        ("--ro-file", &fifo),
        ("--out-dir", &file),
        ("--out-dir", &dangling),
        ("--out-dir", &no_parent),
    ] {
        let run = workspace.jail_with_out();
        // A second --out-dir would be bad usage.
        let run = if flag == "--out-dir" {
            workspace.jail()
        } else {
            run
        };
        let run = run.flag(flag, path).refused("path");
        assert!(
            [path, &missing]
                .iter()
                .any(|path| run.refusal().contains(path_str(path))),
            "{flag} names it or what it leads to: {run:#?}"
        );
    }
    assert!(!missing.exists() && file.is_file());
    assert_eq!(fs::read_to_string(&file).expect("untouched"), "x");
}

#[test]
fn system_folders_and_homes_are_no_clones() {
    let workspace = Workspace::new();
    let home = workspace.folder("home");
    for clone in [
        "/",
        "/usr",
        "/etc",
        "/proc",
        "/dev",
        "/sys",
        "/tmp",
        "/usr/bin",
        path_str(&home),
    ] {
        let run = workspace
            .jail()
            .host_env("HOME", &home)
            .flag("--clone", clone)
            .run(&["say", "ran"]);
        assert_eq!(
            (run.code, run.stdout.as_str()),
            (Some(125), ""),
            "{clone}: {run:#?}"
        );
        let refusal = run.refusal();
        let codes = ["(path)", "(overlap)"];
        assert!(
            codes.iter().any(|code| refusal.contains(code)),
            "{clone}: {refusal}"
        );
    }
}

#[test]
fn what_is_the_kernels_is_not_given() {
    let workspace = Workspace::new();
    for given in ["/", "/dev", "/dev/pts", "/proc", "/proc/version", "/sys"] {
        let run = workspace
            .jail_with_out()
            .flag("--ro-file", given)
            .refused("path");
        assert!(run.refusal().contains(given), "{run:#?}");
    }
    // Nor by another name: it is known by its file system.
    let other = workspace.folder("other");
    let sub = workspace.folder("clone/sub");
    let bound = |to: &std::path::Path| format!("bind:/proc/tty:{}", path_str(to));
    let jail = |to: &std::path::Path| {
        let mount = bound(to);
        workspace.jail().in_situation(&["mounts", &mount])
    };
    let run = jail(&other).flag("--ro-file", &other).run(&["say", "ran"]);
    run.assert_refused("path");
    // Nor beneath a folder that is given.
    let run = jail(&sub).run(&["say", "ran"]);
    run.assert_refused("path");
    assert!(run.refusal().contains(path_str(&sub)), "{run:#?}");
    // Control: where it is bound, but isn't given, it is nobody's business.
    assert_eq!(jail(&other).run(&["say", "ran"]).ok(), "ran");
}

#[test]
fn a_link_in_the_clone_does_not_lead_a_source_out_of_it() {
    let workspace = Workspace::with_git();
    let secret = workspace.file("secret/file", "secret");
    let link = workspace.clone_dir().join("link");
    std::os::unix::fs::symlink(workspace.path("secret"), &link).expect("a link");
    let through = link.join("file");
    for jail in [
        workspace.jail_with_out(),
        workspace.jail_with_out().writable(),
    ] {
        jail.flag("--ro-file", &through).refused("path");
    }
    // Control: the same file by its own path may be given.
    let run = workspace
        .jail()
        .flag("--ro-file", &secret)
        .run(&["read", path_str(&secret)]);
    assert_eq!(run.ok(), "secret");
}

#[test]
fn a_folder_or_device_as_descriptor() {
    let workspace = Workspace::new();
    let folder = || File::open(workspace.root()).expect("a folder");
    for fd in 0..3 {
        let jail = workspace.jail_with_out();
        let jail = if fd == 1 {
            jail
        } else {
            jail.stdio(fd, folder())
        };
        if fd == 2 {
            // The refusal itself can't be printed there.
            let run = jail.run(&["say", "ran"]);
            assert_eq!((run.code, run.stdout.as_str()), (Some(125), ""));
        } else if fd == 0 {
            jail.refused("stdio");
        }
    }
    let run = workspace
        .jail()
        .stdio(1, Stdio::from(folder()))
        .run(&["say", "ran"]);
    run.assert_refused("stdio");
}

#[test]
fn names_are_printed_so_that_no_terminal_obeys_them() {
    let workspace = Workspace::new();
    let run = workspace
        .jail()
        .flag("--ro-file", "/no/\u{1b}[31m\nsuch")
        .run(&["say", "ran"]);
    run.assert_refused("path");
    assert!(!run.stderr.contains('\u{1b}'), "{run:#?}");
    assert_eq!(run.stderr.lines().count(), 1, "{run:#?}");
}
