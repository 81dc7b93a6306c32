//! Promise 2: of the host's files the command sees what it was given, and
//! writes only where it was told to.

#![allow(clippy::expect_used, clippy::panic, missing_docs)]

mod common;
#[path = "files/homes.rs"]
mod homes;

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::PathBuf;

use common::host::{chmod, unique};
use common::workspace::snapshot;
use common::{Attack, Workspace, assert_denied, path_str};

const NOT_WRITABLE: &[&str] = &["EROFS", "EACCES"];

#[test]
fn the_root_holds_the_system_and_nothing_of_the_host() {
    let workspace = Workspace::new();
    let run = workspace.jail().run(&["list", "/"]);
    let first_of_tmp = workspace
        .root()
        .components()
        .nth(1)
        .expect("an absolute path");
    let expected = [
        ".groom-ns-canary",
        "bin",
        "dev",
        "etc",
        "home",
        "lib",
        "lib32",
        "lib64",
        "libx32",
        "proc",
        "run",
        "sbin",
        "tmp",
        "usr",
    ];
    for name in run.ok().split(' ') {
        let of_workspace = first_of_tmp.as_os_str() == name;
        assert!(
            expected.contains(&name) || of_workspace,
            "/{name} is of the host: {}",
            run.ok()
        );
    }
    let hidden = [
        "/root", "/sys", "/boot", "/var", "/srv", "/opt", "/mnt", "/media",
    ];
    let items = hidden.map(|path| format!("list {path}"));
    let each = std::iter::once("each").chain(items.iter().map(String::as_str));
    let run = workspace.jail().run(&each.collect::<Vec<_>>());
    assert_eq!(run.lines(), hidden.map(|_| "ENOENT"));
}

#[test]
fn canaries_in_home_temp_and_workspace_are_invisible() {
    let workspace = Workspace::new();
    let name = unique("canary");
    let home = workspace.folder("home");
    fs::write(home.join(&name), "x").expect("a canary");
    fs::write(workspace.path(&name), "x").expect("a canary");
    let in_temp = std::env::temp_dir().join(&name);
    fs::write(&in_temp, "x").expect("a canary");
    // Controls: all are where the probe looks, and the one in the clone is seen.
    fs::write(workspace.clone_dir().join(&name), "x").expect("a canary");
    let outside = workspace.unjailed(&["each", &format!("stat {}", path_str(&in_temp))]);
    assert!(
        outside.lines()[0].starts_with("ok file"),
        "vacuous: {outside:?}"
    );

    let run = workspace
        .jail()
        .host_env("HOME", &home)
        .run(&["find", &name]);
    fs::remove_file(&in_temp).expect("our canary");
    assert_eq!(run.ok(), path_str(&workspace.clone_dir().join(&name)));
}

#[test]
fn private_folders_are_empty_and_the_commands_own() {
    let workspace = Workspace::new();
    let shadowed = "groom-ns-shadowed";
    let items: Vec<String> = ["/tmp", "/home/agent", "/dev/shm"]
        .iter()
        .flat_map(|dir| {
            [
                format!("write {dir}/{shadowed} x"),
                format!("read {dir}/{shadowed}"),
            ]
        })
        .collect();
    let run = workspace
        .jail()
        .run(&[&["each".to_owned()], items.as_slice()].concat());
    let expected = ["ok", "ok x"].repeat(3);
    assert_eq!(run.lines(), expected, "the command writes there");
    let leaked = std::env::temp_dir().join(shadowed);
    assert!(!leaked.exists(), "the host's /tmp was written to");
    // The workspace itself lies in the host's /tmp: only what was named shows.
    let run = workspace.jail().run(&["list", path_str(workspace.root())]);
    assert_eq!(run.ok(), "clone probe");
}

#[test]
fn only_the_private_folders_and_the_out_dir_can_be_written() {
    // Where the workspace lies in /tmp, the folder that holds the mount points
    // is of the private /tmp too.
    let expected = |workspace: &Workspace, given: &[PathBuf]| -> Vec<String> {
        let private = ["/dev/shm", "/home/agent", "/tmp"].map(PathBuf::from);
        let above = workspace
            .root()
            .starts_with("/tmp")
            .then(|| workspace.root().to_owned());
        let mut all: Vec<PathBuf> = private.into_iter().chain(above).collect();
        all.extend_from_slice(given);
        all.sort();
        all.iter().map(|path| path_str(path).to_owned()).collect()
    };
    let workspace = Workspace::with_git();
    let (clone, out) = (workspace.clone_dir(), workspace.folder("out"));
    let folders =
        |run: &common::Run| -> Vec<String> { run.ok().split(' ').map(ToOwned::to_owned).collect() };
    let run = workspace.jail().run(&["writable"]);
    assert_eq!(folders(&run), expected(&workspace, &[]));
    let run = workspace.jail_with_out().run(&["writable"]);
    assert_eq!(
        folders(&run),
        expected(&workspace, std::slice::from_ref(&out))
    );
    let run = workspace.jail_with_out().writable().run(&["writable"]);
    assert_eq!(folders(&run), expected(&workspace, &[clone, out]));
}

#[test]
fn a_read_only_clone_is_read_only() {
    let workspace = Workspace::with_git();
    workspace.folder("clone/folder");
    let clone = workspace.clone_dir();
    let before = snapshot(&clone);
    let copy = workspace.copy_of_clone();
    let dir = path_str(&clone);
    let attacks = [
        format!("write {dir}/tracked changed"),
        format!("write {dir}/new x"),
        format!("write {dir}/.git/config x"),
        format!("syscall truncate @{dir}/tracked 0"),
        format!("syscall chmod @{dir}/tracked 0x1ff"),
        format!("syscall mkdir @{dir}/new-folder 0x1ff"),
        format!("syscall rmdir @{dir}/folder"),
        format!("syscall symlink @/etc @{dir}/link"),
        format!("syscall mknod @{dir}/pipe S_IFIFO|0x1b6 0"),
        format!("syscall rename @{dir}/tracked @{dir}/moved"),
    ]
    .map(|attempt| Attack::new(attempt, NOT_WRITABLE).control_on_copy(&clone, &copy));
    assert_denied(&workspace, workspace.jail(), &attacks);
    assert_eq!(snapshot(&clone), before);
}

#[test]
fn writes_land_in_the_out_dir_as_the_callers() {
    let workspace = Workspace::new();
    let out = workspace.out_dir();
    let dir = path_str(&out);
    let run = workspace.jail_with_out().run(&[
        "seq",
        &format!("write {dir}/file made"),
        &format!("syscall mkdir @{dir}/folder 0x1ed"),
        &format!("write {dir}/folder/inner made"),
        &format!("syscall rename @{dir}/file @{dir}/folder/moved"),
        &format!("stat {dir}"),
    ]);
    assert_eq!(run.lines()[..4], ["ok", "ok 0", "ok", "ok 0"], "{run:#?}");
    assert!(run.lines()[4].starts_with("ok dir "), "{run:#?}");
    assert_eq!(
        fs::read_to_string(out.join("folder/moved")).expect("on the host"),
        "made"
    );
    let caller = nix::unistd::geteuid().as_raw();
    for path in [
        out.join("folder"),
        out.join("folder/moved"),
        out.join("folder/inner"),
    ] {
        let owner = fs::metadata(&path).expect("on the host").uid();
        // An out-dir that groom-ns made as root may belong to the command's id.
        let made_by_us = fs::metadata(&out).expect("on the host").uid();
        assert!(
            owner == caller || owner == made_by_us,
            "{} is {owner}'s",
            path.display()
        );
    }
}

#[test]
fn an_out_dir_that_exists_is_used_and_keeps_its_files() {
    let workspace = Workspace::new();
    let kept = workspace.file("out/kept", "before");
    let dir = path_str(&workspace.out_dir()).to_owned();
    let run = workspace.jail_with_out().run(&[
        "each",
        &format!("read {dir}/kept"),
        &format!("write {dir}/new after"),
    ]);
    assert_eq!(run.lines(), ["ok before", "ok"]);
    assert_eq!(fs::read_to_string(&kept).expect("kept"), "before");
    let new = fs::metadata(workspace.path("out/new")).expect("on the host");
    assert_eq!(
        new.uid(),
        fs::metadata(&kept).expect("kept").uid(),
        "one owner"
    );
}

#[test]
fn named_files_and_folders_are_readable_where_they_are() {
    let workspace = Workspace::new();
    let folder = workspace.folder("given");
    let file = workspace.file("given/inner", "in a folder");
    let alone = workspace.file("elsewhere/alone", "alone");
    workspace.file("elsewhere/secret", "next to it");
    let jail = || {
        workspace
            .jail()
            .flag("--ro-file", &folder)
            .flag("--ro-file", &alone)
    };
    let elsewhere = path_str(alone.parent().expect("a folder")).to_owned();
    let run = jail().run(&[
        "each",
        &format!("read {}", path_str(&file)),
        &format!("read {}", path_str(&alone)),
        &format!("read {elsewhere}/secret"),
        &format!("list {elsewhere}"),
    ]);
    assert_eq!(
        run.lines(),
        ["ok in a folder", "ok alone", "ENOENT", "ok alone"]
    );

    let (folder, alone) = (path_str(&folder), path_str(&alone));
    let attacks = [
        format!("write {folder}/inner x"),
        format!("write {folder}/new x"),
        format!("syscall unlink @{folder}/inner"),
        format!("write {alone} x"),
        format!("syscall truncate @{alone} 0"),
        format!("syscall chmod @{alone} 0x1ff"),
    ]
    .map(|attempt| Attack::new(attempt, NOT_WRITABLE));
    // The attempts come first: the controls use the files up.
    let text = fs::read_to_string(&file).expect("before");
    let copy = workspace.path("controls");
    for name in ["given", "elsewhere"] {
        workspace.file(&format!("controls/{name}/inner"), "x");
        workspace.file(&format!("controls/{name}/alone"), "x");
    }
    let attacks = attacks.map(|attack| attack.control_on_copy(workspace.root(), &copy));
    assert_denied(&workspace, jail(), &attacks);
    assert_eq!(fs::read_to_string(&file).expect("after"), text);
}

#[test]
fn the_system_is_read_only() {
    let workspace = Workspace::new();
    let places = [
        "/usr",
        "/usr/bin",
        "/usr/local",
        "/etc",
        "/",
        "/proc",
        "/run",
        "/dev",
        "/home",
    ];
    let copy = workspace.folder("copy");
    let attacks = places.map(|place| {
        Attack::new(
            format!("write {place}/planted x"),
            &["EROFS", "EACCES", "ENOENT"],
        )
        .control(format!("write {}/planted x", path_str(&copy)))
    });
    assert_denied(&workspace, workspace.jail(), &attacks);
}

#[test]
fn devices_are_the_harmless_ones() {
    let workspace = Workspace::new();
    let run = workspace.jail().run(&["list", "/dev"]);
    let expected = "fd full null ptmx pts random shm stderr stdin stdout tty urandom zero";
    assert_eq!(run.ok(), expected);
    let run = workspace.jail().run(&[
        "each",
        "write /dev/null x",
        "syscall openat AT_FDCWD @/dev/zero O_RDWR",
        "syscall openat AT_FDCWD @/dev/urandom O_RDONLY",
        "write /dev/full x",
        "syscall openat AT_FDCWD @/dev/ptmx O_RDWR",
    ]);
    let kinds = run
        .lines()
        .into_iter()
        .map(|line| line.split(' ').next().unwrap_or_default());
    assert_eq!(
        kinds.collect::<Vec<_>>(),
        ["ok", "ok", "ok", "ENOSPC", "ok"],
        "{run:#?}"
    );
}

#[test]
fn private_folders_have_limits() {
    let workspace = Workspace::new();
    let script = "cat /proc/mounts";
    let run = workspace.jail().run_program(&["sh", "-c", script]);
    for place in ["/", "/tmp", "/home/agent", "/dev/shm"] {
        let wanted = format!(" {place} tmpfs ");
        let line = run.stdout.lines().find(|line| line.contains(&wanted));
        let line = line.unwrap_or_else(|| panic!("{place} is a tmpfs: {}", run.stdout));
        for word in ["size=", "nr_inodes=", "nosuid", "nodev"] {
            assert!(line.contains(word), "{place} has {word}: {line}");
        }
        // A kibibyte is the unit that the kernel prints.
        let size = option(line, "size=").trim_end_matches('k').parse::<u64>();
        let inodes = option(line, "nr_inodes=").parse::<u64>();
        let (size, inodes) = (size.expect("a number"), inodes.expect("a number"));
        assert!(
            size <= memory() / 4 + 4,
            "{place} is part of the memory: {line}"
        );
        assert!((1..=262_144).contains(&inodes), "{place}: {line}");
    }
}

/// What a line of the mount table says after `name`.
fn option<'line>(line: &'line str, name: &str) -> &'line str {
    let options = line.split(' ').nth(3).unwrap_or_default();
    let mut values = options.split(',').filter_map(|one| one.strip_prefix(name));
    values.next().unwrap_or_default()
}

/// The host's memory, in kibibytes.
fn memory() -> u64 {
    let text = fs::read_to_string("/proc/meminfo").expect("/proc/meminfo");
    let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"));
    let number = line.and_then(|line| line.split_whitespace().next()?.parse().ok());
    number.expect("the memory's size")
}

#[test]
fn a_parent_that_can_only_be_searched_is_no_obstacle() {
    let workspace = Workspace::new();
    let file = workspace.file("closed/inner/file", "reached");
    let closed = workspace.path("closed");
    chmod(&closed, 0o111);
    let run = workspace
        .jail()
        .flag("--ro-file", &file)
        .run(&["read", path_str(&file)]);
    chmod(&closed, 0o755);
    assert_eq!(run.ok(), "reached");
}

#[test]
fn more_files_can_be_named_than_the_command_may_open() {
    let workspace = Workspace::new();
    let mut jail = workspace.jail();
    for number in 0..1100 {
        jail = jail.flag("--ro-file", workspace.file(&format!("many/{number}"), ""));
    }
    let many = workspace.path("many");
    let run = jail.run(&["list", path_str(&many)]);
    assert_eq!(run.ok().split(' ').count(), 1100);
}
