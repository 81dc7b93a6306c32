//! What the unit tests of `policy` share.

use std::os::fd::OwnedFd;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use nix::fcntl::{OFlag, open};
use nix::sys::stat::Mode;

use super::grant::{Candidate, Role};
use super::{Granted, GrantedKind};
use crate::host::{Host, Masks, SystemDir, SystemShape};
use crate::plan::step::{Ids, Inode, Route};

/// A fresh directory with a canonical path, removed with all in it.
pub(crate) struct TempDir(PathBuf);

impl TempDir {
    pub(crate) fn new() -> TempDir {
        let template = std::env::temp_dir().join("groom-ns-test-XXXXXX");
        let made = nix::unistd::mkdtemp(&template).expect("mkdtemp");
        TempDir(made.canonicalize().expect("canonical"))
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    /// The path of `name` in it.
    pub(crate) fn at(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// Makes a directory and its parents.
    pub(crate) fn dir(&self, name: &str) -> PathBuf {
        let path = self.at(name);
        std::fs::create_dir_all(&path).expect("mkdir");
        path
    }

    /// Makes a file and its parents.
    pub(crate) fn file(&self, name: &str, text: &str) -> PathBuf {
        let path = self.at(name);
        std::fs::create_dir_all(path.parent().expect("parent")).expect("mkdir");
        std::fs::write(&path, text).expect("write");
        path
    }

    /// Makes a symbolic link.
    pub(crate) fn link(&self, name: &str, to: impl AsRef<Path>) -> PathBuf {
        let path = self.at(name);
        symlink(to, &path).expect("symlink");
        path
    }
}

impl Drop for TempDir {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A made-up candidate; no two paths have one identity.
pub(crate) fn candidate(role: Role, path: &str) -> Candidate {
    let mut hash = std::hash::DefaultHasher::new();
    std::hash::Hash::hash(path, &mut hash);
    let kind = match role {
        Role::Uds => GrantedKind::Socket,
        _ => GrantedKind::Dir,
    };
    Candidate {
        role,
        granted: Granted {
            path: path.into(),
            alias: None,
            kind,
            identity: Inode {
                dev: 9,
                ino: std::hash::Hasher::finish(&hash),
            },
            owner: USER,
        },
        followed: Vec::new(),
        fd: held(Path::new("/")),
        exists: true,
    }
}

const USER: Ids = Ids {
    uid: 1000,
    gid: 1000,
};

/// A made-up host with a merged /usr.
pub(crate) fn host() -> Host {
    let dir = |path: &str, ino| SystemDir {
        path: path.into(),
        shape: SystemShape::Dir {
            identity: Inode { dev: 1, ino },
            owner: Ids { uid: 0, gid: 0 },
        },
    };
    let link = |path: &str| SystemDir {
        path: path.into(),
        shape: SystemShape::Symlink(format!("usr{path}").into()),
    };
    Host {
        ids: USER,
        groups: Vec::new(),
        route: Route::User,
        kernel: "6.1.0".into(),
        landlock: Ok(9),
        system: vec![
            dir("/usr", 2),
            dir("/etc", 3),
            link("/bin"),
            link("/lib"),
            dir("/lib64", 4),
        ],
        masks: Masks::default(),
        warnings: Vec::new(),
    }
}

/// An `O_PATH` descriptor of a directory.
pub(crate) fn held(path: &Path) -> OwnedFd {
    open(path, OFlag::O_PATH | OFlag::O_CLOEXEC, Mode::empty()).expect("open")
}
