//! What is granted, and how it lies to everything else.

use std::fs;
use std::os::fd::AsFd as _;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

use groom_ns::host::Host;
use groom_ns::plan::step::Route;
use groom_ns::policy::{CloneMode, Granted, GrantedKind, Held, OutDir, Policy};
use nix::sys::stat::fstat;

use crate::{Case, way};

pub fn check(case: &Case, policy: &Policy, held: &Held) {
    named(case, policy);
    for granted in existing(policy) {
        check_one(granted, held);
    }
    apart(case, policy);
    links(case, policy);
    if case.host.route == Route::Root {
        existing(policy).for_each(|granted| one_owner(&granted.path, granted.owner.uid));
        for tree in writable(policy).filter(|tree| tree.exists()) {
            each(tree, &mut |it| {
                assert!(!it.is_file() || it.mode() & 0o6000 == 0)
            });
        }
    }
    sockets(case, policy);
}

/// Whether it can be written to.
pub fn is_rw(policy: &Policy) -> bool {
    policy.clone_mode != CloneMode::Ro
}

/// Where the out-dir is or will be.
pub fn out_dir(policy: &Policy) -> Option<&Path> {
    policy
        .out_dir
        .as_ref()
        .map(|dir| match dir {
            OutDir::Exists(dir) => &dir.path,
            OutDir::Missing { path, .. } => path,
        })
        .map(PathBuf::as_path)
}

pub fn writable(policy: &Policy) -> impl Iterator<Item = &Path> {
    let clone = is_rw(policy).then_some(policy.clone.path.as_path());
    clone.into_iter().chain(out_dir(policy))
}

/// Trees that the command may have written, in this run or one before.
pub fn untrusted(policy: &Policy) -> impl Iterator<Item = &Path> {
    std::iter::once(policy.clone.path.as_path()).chain(out_dir(policy))
}

/// What can be read and not written.
fn read_only(policy: &Policy) -> impl Iterator<Item = &Granted> {
    let linked = policy.linked.iter();
    let linked = linked.flat_map(|linked| [&linked.git_dir, &linked.common]);
    policy.ro_files.iter().chain(linked)
}

/// Everything of the caller's that the command sees, but for the socket.
pub fn shown(policy: &Policy) -> impl Iterator<Item = &Path> {
    untrusted(policy).chain(read_only(policy).map(|file| file.path.as_path()))
}

fn existing(policy: &Policy) -> impl Iterator<Item = &Granted> {
    let out_dir = policy.out_dir.iter().filter_map(|dir| match dir {
        OutDir::Exists(dir) => Some(dir),
        OutDir::Missing { .. } => None,
    });
    let given = std::iter::once(&policy.clone).chain(out_dir);
    given.chain(read_only(policy)).chain(&policy.uds)
}

/// Everything that was typed is granted, where it leads to, and nothing else.
fn named(case: &Case, policy: &Policy) {
    let run = &case.run;
    let clone = run.clone.as_deref().unwrap_or(Path::new("."));
    assert_eq!(policy.clone.path, case.end(clone));
    assert_eq!(policy.out_dir.is_some(), run.out_dir.is_some());
    if let (Some(typed), Some(path)) = (&run.out_dir, out_dir(policy)) {
        match way::walk(&case.cwd, typed) {
            Some(way) => assert_eq!(way.end, path),
            None => {
                assert!(path.symlink_metadata().is_err());
                assert_eq!(typed.file_name(), path.file_name());
                let parent = typed
                    .parent()
                    .filter(|parent| !parent.as_os_str().is_empty());
                let parent = case.end(parent.unwrap_or(Path::new(".")));
                assert_eq!(Some(parent.as_path()), path.parent());
            }
        }
    }
    let typed: Vec<PathBuf> = run.ro_files.iter().map(|typed| case.end(typed)).collect();
    assert!(
        policy
            .ro_files
            .iter()
            .all(|file| typed.contains(&file.path))
    );
    assert!(
        typed
            .iter()
            .all(|end| policy.ro_files.iter().any(|file| file.path == *end))
    );
    assert_eq!(
        policy.uds.as_ref().map(|uds| &uds.path),
        run.uds.as_ref().map(|typed| case.end(typed)).as_ref()
    );
}

/// A canonical path, and the inode that is held is the one that lies there.
fn check_one(granted: &Granted, held: &Held) {
    let path = &granted.path;
    assert_eq!(&path.canonicalize().unwrap(), path);
    let there = path.symlink_metadata().unwrap();
    assert_eq!(
        (there.dev(), there.ino()),
        (granted.identity.dev, granted.identity.ino)
    );
    assert_eq!(
        (there.uid(), there.gid()),
        (granted.owner.uid, granted.owner.gid)
    );
    let stat = fstat(held[path].as_fd()).unwrap();
    assert_eq!((stat.st_dev, stat.st_ino), (there.dev(), there.ino()));
    let is_kind = match granted.kind {
        GrantedKind::Dir => there.is_dir(),
        GrantedKind::File => there.is_file(),
        GrantedKind::Socket => there.file_type().is_socket(),
    };
    assert!(is_kind, "{granted:?}");
    if let Some(alias) = &granted.alias {
        assert_eq!(&alias.canonicalize().unwrap(), path);
        assert!(alias.is_absolute() && !alias.components().any(|part| part.as_os_str() == ".."));
    }
}

/// What can be written lies apart from all that can't, and is nobody's home.
fn apart(case: &Case, policy: &Policy) {
    let collide = |a: &Path, b: &Path| a.starts_with(b) || b.starts_with(a);
    for place in writable(policy) {
        for system in system(&case.host) {
            assert!(!collide(place, &system), "{place:?} {system:?}");
        }
        for file in read_only(policy) {
            assert!(!collide(place, &file.path), "{place:?} {file:?}");
        }
        if let Some(socket) = &policy.uds {
            assert!(!socket.path.starts_with(place), "{place:?} {socket:?}");
        }
    }
    if let Some(out_dir) = out_dir(policy) {
        assert!(!collide(out_dir, &policy.clone.path), "{policy:?}");
    }
    for tree in untrusted(policy) {
        assert!(!case.tree.base.join("h/u").starts_with(tree), "{tree:?}");
        assert!(
            !["/", "/tmp", "/root", "/home", "/dev/shm", "/usr"]
                .contains(&tree.to_str().unwrap_or_default())
        );
    }
    for tree in shown(policy) {
        let mut kernels = ["/proc", "/sys", "/dev"].iter();
        assert!(tree != Path::new("/"));
        assert!(!kernels.any(|kernels| tree.starts_with(kernels)) || tree.starts_with("/dev/shm"));
    }
}

fn system(host: &Host) -> Vec<PathBuf> {
    host.system
        .iter()
        .map(|dir| dir.path.canonicalize().unwrap())
        .collect()
}

/// A link in a tree that the command may have written led nowhere out of it.
fn links(case: &Case, policy: &Policy) {
    let run = &case.run;
    let clone = run.clone.iter().chain(&run.out_dir);
    for typed in clone.chain(&run.ro_files).chain(&run.uds) {
        let Some(way) = way::walk(&case.cwd, typed) else {
            continue;
        };
        for tree in untrusted(policy).filter(|tree| tree.exists()) {
            let is_led = way
                .links
                .iter()
                .any(|link| link.starts_with(tree) && link != tree);
            assert!(!is_led || way.end.starts_with(tree), "{typed:?}: {way:?}");
        }
    }
}

fn one_owner(tree: &Path, uid: u32) {
    each(tree, &mut |it| assert_eq!(it.uid(), uid));
}

/// Sockets that the kernel's landlock doesn't close are known.
fn sockets(case: &Case, policy: &Policy) {
    let mut found = Vec::new();
    if !case.host.landlock.is_ok_and(|abi| abi >= 9) {
        let trees = existing(policy).filter(|granted| granted.kind == GrantedKind::Dir);
        trees.for_each(|tree| list(&tree.path, &mut found));
        found.retain(|path| path.symlink_metadata().unwrap().file_type().is_socket());
    }
    found.sort();
    found.dedup();
    assert_eq!(policy.sockets, found);
}

fn each(tree: &Path, judge: &mut impl FnMut(&fs::Metadata)) {
    let mut found = vec![tree.to_owned()];
    list(tree, &mut found);
    found
        .iter()
        .for_each(|path| judge(&path.symlink_metadata().unwrap()));
}

/// Everything beneath a folder, no link followed.
pub fn list(folder: &Path, into: &mut Vec<PathBuf>) {
    let Ok(entries) = fs::read_dir(folder) else {
        return;
    };
    for entry in entries.map(Result::unwrap) {
        into.push(entry.path());
        if entry.file_type().unwrap().is_dir() {
            list(&entry.path(), into);
        }
    }
}
