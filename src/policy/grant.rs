//! From a flag's path to something that may be granted: resolved, of the right
//! kind, its descriptor held. Whether it may lie there is judged in `places`.

use std::ffi::{OsStr, OsString};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::fcntl::AtFlags;
use nix::sys::stat::fstatat;
use nix::unistd::{AccessFlags, faccessat};

use super::kinds::{What, filesystem, inode, owner};
use super::paths::{Fault, Resolved, Start, resolve};
use super::{Granted, GrantedKind, kinds::Filesystem};
use crate::refusal::{Reason, Refusal};

/// The flag that a path was given with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    Clone,
    OutDir,
    RoFile,
    Uds,
    /// What a linked worktree's `.git` names: its folder in the repository.
    GitDir,
    /// The repository itself, which holds the former.
    CommonDir,
}

impl Role {
    pub(crate) fn flag(self) -> &'static str {
        match self {
            Role::Clone => "--clone",
            Role::OutDir => "--out-dir",
            Role::RoFile => "--ro-file",
            Role::Uds => "--uds",
            Role::GitDir | Role::CommonDir => "--git-worktree",
        }
    }

    /// A socket's path is reported as the socket's fault, a repository's as git's.
    fn reason(self) -> Reason {
        match self {
            Role::Uds => Reason::Socket,
            Role::GitDir | Role::CommonDir => Reason::Git,
            _ => Reason::Path,
        }
    }

    pub(crate) fn refusal(self, verb: &str) -> Refusal {
        Refusal::new(self.reason(), format!("{verb} {}", self.flag()))
    }
}

/// What a flag names.
pub(crate) struct Candidate {
    pub(crate) role: Role,
    /// For an out-dir that is yet to be made: its path, with its parent's identity and owner.
    pub(crate) granted: Granted,
    /// Where the symbolic links lay that were followed.
    pub(crate) followed: Vec<PathBuf>,
    /// An `O_PATH` descriptor of it, or of the missing out-dir's parent.
    pub(crate) fd: OwnedFd,
    /// Whether it is there.
    pub(crate) exists: bool,
}

/// Resolves what must be there.
pub(crate) fn existing(
    role: Role,
    cwd: &Result<Start, Errno>,
    typed: &Path,
) -> Result<Candidate, Refusal> {
    let resolved = resolve(cwd, typed).map_err(|fault| unresolved(role, &fault))?;
    found(role, resolved)
}

/// What was resolved, if it is of the right kind.
pub(crate) fn found(role: Role, resolved: Resolved) -> Result<Candidate, Refusal> {
    let kind = judge_kind(role, &resolved)?;
    judge_filesystem(role, &resolved)?;
    Ok(candidate(role, resolved, kind))
}

fn candidate(role: Role, resolved: Resolved, kind: GrantedKind) -> Candidate {
    Candidate {
        role,
        granted: Granted {
            path: resolved.path,
            alias: resolved.alias,
            kind,
            identity: inode(&resolved.stat),
            owner: owner(&resolved.stat),
        },
        followed: resolved.followed,
        fd: resolved.fd,
        exists: true,
    }
}

fn unresolved(role: Role, fault: &Fault) -> Refusal {
    role.refusal("resolve")
        .path(&fault.at)
        .errno(fault.errno)
        .remedy(fault.remedy)
}

fn judge_kind(role: Role, resolved: &Resolved) -> Result<GrantedKind, Refusal> {
    let what = What::of(resolved.stat.st_mode);
    let wanted = match (role, what) {
        (Role::Uds, What::Socket) => return Ok(GrantedKind::Socket),
        (Role::Uds, _) => "a listening UNIX socket",
        (_, What::Dir) => return Ok(GrantedKind::Dir),
        (Role::RoFile, What::File) => return Ok(GrantedKind::File),
        (Role::RoFile, What::Socket) => {
            return Err(Refusal::new(Reason::Socket, "look at --ro-file")
                .path(&resolved.path)
                .remedy("a socket is no file to read; a broker's socket is given with --uds"));
        }
        (Role::RoFile, _) => "a regular file or a folder",
        (_, _) => "a folder",
    };
    Err(role.refusal("look at").path(&resolved.path).remedy(format!(
        "it is {}; {} takes {wanted}",
        what.name(),
        role.flag()
    )))
}

/// The kernel's own filesystems are windows onto the host, wherever they are mounted.
fn judge_filesystem(role: Role, resolved: &Resolved) -> Result<(), Refusal> {
    let refusal = || role.refusal("look at").path(&resolved.path);
    match filesystem(&resolved.fd).map_err(|errno| refusal().about("fstatfs").errno(errno))? {
        Filesystem::Kernel(name) => Err(refusal().remedy(format!(
            "it lies on {name}, which shows the host's kernel: give a path on a disk or tmpfs"
        ))),
        Filesystem::Unmappable(_) | Filesystem::Plain => Ok(()),
    }
}

/// Resolves the out-dir, of which the last component may be missing. It must be
/// writable for the caller, or its parent must.
pub(crate) fn out_dir(cwd: &Result<Start, Errno>, typed: &Path) -> Result<Candidate, Refusal> {
    match resolve(cwd, typed) {
        Ok(resolved) => {
            let kind = judge_kind(Role::OutDir, &resolved)?;
            judge_filesystem(Role::OutDir, &resolved)?;
            let found = candidate(Role::OutDir, resolved, kind);
            writable(&found.fd, &found.granted.path)?;
            Ok(found)
        }
        Err(fault) if fault.errno == Errno::ENOENT => missing_out_dir(cwd, typed, &fault),
        Err(fault) => Err(unresolved(Role::OutDir, &fault)),
    }
}

fn missing_out_dir(
    cwd: &Result<Start, Errno>,
    typed: &Path,
    fault: &Fault,
) -> Result<Candidate, Refusal> {
    let role = Role::OutDir;
    let (parent, name) = split_last(typed).ok_or_else(|| unresolved(role, fault))?;
    let parent = resolve(cwd, parent).map_err(|fault| {
        unresolved(role, &fault).remedy("make its parent first: only the last folder is made")
    })?;
    let path = parent.path.join(&name);
    match fstatat(&parent.fd, name.as_os_str(), AtFlags::AT_SYMLINK_NOFOLLOW) {
        Err(Errno::ENOENT) => {}
        Err(errno) => return Err(role.refusal("look at").path(&path).errno(errno)),
        Ok(_) => {
            return Err(role
                .refusal("resolve")
                .path(&path)
                .errno(Errno::ENOENT)
                .remedy("it is a link that leads nowhere: remove it, or make the folder"));
        }
    }
    judge_filesystem(role, &parent)?;
    writable(&parent.fd, &parent.path)?;
    let mut found = candidate(role, parent, GrantedKind::Dir);
    found.granted.path = path;
    found.granted.alias = found.granted.alias.map(|alias| alias.join(&name));
    found.exists = false;
    Ok(found)
}

/// Parent and last component of a path by its text; none for `.`, `..`, `/` and
/// the empty path, which name no new folder.
pub(crate) fn split_last(typed: &Path) -> Option<(&Path, OsString)> {
    let bytes = typed.as_os_str().as_bytes();
    let end = bytes.iter().rposition(|byte| *byte != b'/')? + 1;
    let start = bytes[..end]
        .iter()
        .rposition(|byte| *byte == b'/')
        .map_or(0, |slash| slash + 1);
    let name = &bytes[start..end];
    if name == b"." || name == b".." {
        return None;
    }
    let parent = if start == 0 { b"." } else { &bytes[..start] };
    Some((
        Path::new(OsStr::from_bytes(parent)),
        OsStr::from_bytes(name).to_owned(),
    ))
}

/// Asked of the kernel for the caller (access(2)), so that a refusal comes
/// before anything is made.
fn writable(dir: &OwnedFd, path: &Path) -> Result<(), Refusal> {
    faccessat(
        dir,
        ".",
        AccessFlags::W_OK | AccessFlags::X_OK,
        AtFlags::empty(),
    )
    .map_err(|errno| {
        Role::OutDir
            .refusal("write to")
            .path(path)
            .errno(errno)
            .remedy("the caller can't write there: choose another folder, or change its mode")
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::testing::{TempDir, held};

    #[test]
    fn last_components() {
        for (typed, parts) in [
            ("a", Some((".", "a"))),
            ("a/b//", Some(("a/", "b"))),
            ("/a", Some(("/", "a"))),
            ("../a", Some(("../", "a"))),
            ("a/..", None),
            (".", None),
            ("a/./", None),
            ("/", None),
            ("", None),
        ] {
            let found = split_last(Path::new(typed));
            let expected = parts.map(|(dir, name)| (Path::new(dir), OsString::from(name)));
            assert_eq!(found, expected, "{typed:?}");
        }
    }

    #[test]
    fn out_dirs() {
        let temp = TempDir::new();
        temp.dir("d/e");
        temp.file("f", "");
        temp.link("l", "d");
        temp.link("dangling", "d/none");
        let cwd = Ok(Start {
            dir: held(temp.path()),
            path: temp.path().to_owned(),
        });
        for (typed, path, alias, exists) in [
            ("d/e", "d/e", None, true),
            ("l", "d", Some("l"), true),
            ("d/new", "d/new", None, false),
            ("l/new/", "d/new", Some("l/new"), false),
            ("new", "new", None, false),
        ] {
            let found = out_dir(&cwd, Path::new(typed)).unwrap_or_else(|r| panic!("{r}"));
            assert_eq!(found.granted.path, temp.at(path));
            assert_eq!(found.granted.alias, alias.map(|name| temp.at(name)));
            assert_eq!(found.exists, exists, "{typed}");
        }
        for typed in [
            "none/new",
            "dangling",
            "dangling/",
            "f",
            "f/new",
            "new/..",
            "new/.",
            "",
            "/proc/new",
        ] {
            let refusal = out_dir(&cwd, Path::new(typed)).err().expect(typed);
            assert_eq!(refusal.reason, Reason::Path, "{typed}");
        }
        assert!(!temp.at("new").exists(), "nothing is made");
    }

    #[test]
    fn kinds() {
        let temp = TempDir::new();
        temp.file("f", "");
        temp.dir("d");
        let socket = temp.at("s");
        let _listener = std::os::unix::net::UnixListener::bind(&socket).expect("bind");
        nix::unistd::mkfifo(&temp.at("p"), nix::sys::stat::Mode::S_IRUSR).expect("mkfifo");
        let all = [Role::Clone, Role::RoFile, Role::Uds];
        for (name, roles, reasons) in [
            ("d", &[Role::Clone, Role::RoFile][..], [Reason::Socket; 3]),
            (
                "f",
                &[Role::RoFile],
                [Reason::Path, Reason::Path, Reason::Socket],
            ),
            (
                "s",
                &[Role::Uds],
                [Reason::Path, Reason::Socket, Reason::Socket],
            ),
            ("p", &[], [Reason::Path, Reason::Path, Reason::Socket]),
        ] {
            for (role, reason) in all.into_iter().zip(reasons) {
                let found = existing(role, &Err(Errno::ENOENT), &temp.at(name));
                match found {
                    Ok(_) => assert!(roles.contains(&role), "{name} {role:?}"),
                    Err(refusal) => {
                        assert!(!roles.contains(&role), "{refusal}");
                        assert_eq!(refusal.reason, reason, "{refusal}");
                    }
                }
            }
        }
    }
}
