//! What the clone's git needs and the command isn't shown, said before the run: git's own
//! word inside would be that there is no repository.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::io::ErrorKind;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::fcntl::AtFlags;
use nix::sys::stat::fstatat;

use super::git::{Astray, DOT_GIT, follow};
use super::git_dir::{ALTERNATES_DEPTH, ALTERNATES_MAX, read};
use super::grant::{Candidate, Role};
use super::overlap::system;
use super::paths::{Fault, Resolved, Start, open_without_links, resolve};
use super::{gitdir, places, profile};
use crate::host::Host;
use crate::mountinfo::Mount;
use crate::refusal::{Reason, Refusal, shown};

const STORE: &str = "objects";
/// A store's list of others.
const LIST: &str = "info/alternates";
/// How many stores are named at most.
const STORES_MAX: usize = 8;
/// How many lines of a list are looked at.
const LINES_MAX: usize = 64;

/// A line for each thing outside that the clone's git would look for. Nothing of it is
/// given. What can't be read isn't judged, and a link isn't followed as git would: that is
/// said.
///
/// # Errors
/// `git` where the kernel's answer says nothing of what is there.
pub(crate) fn warnings(
    all: &[Candidate],
    host: &Host,
    homes: &[PathBuf],
    table: &[Mount],
) -> Result<Vec<String>, Refusal> {
    let seen = Shown {
        all,
        host,
        homes,
        table,
    };
    let Some(clone) = all.iter().find(|found| found.role == Role::Clone) else {
        return Ok(Vec::new());
    };
    let common = all.iter().find(|found| found.role == Role::CommonDir);
    let (tree, store) = match common {
        Some(common) => (common, PathBuf::from(STORE)),
        None => (clone, Path::new(DOT_GIT).join(STORE)),
    };
    let refuse = |errno| {
        let path = tree.granted.path.join(&store);
        Refusal::new(Reason::Git, "look for what git needs")
            .path(path)
            .errno(errno)
    };
    let mut lines = Vec::new();
    if common.is_none() {
        lines.extend(own_git(&seen, clone).map_err(refuse)?);
    }
    let path = tree.granted.path.join(&store);
    let mut borrowed = Borrowed::default();
    match open_without_links(tree.fd.as_fd(), &store) {
        Err(Errno::ELOOP) => borrowed.links.push(path),
        found => {
            if let Some(dir) = unless_absent(found).map_err(refuse)? {
                alternates(Start { dir, path }, &mut borrowed).map_err(refuse)?;
            }
        }
    }
    let outside = borrowed.stores.iter();
    lines.extend(outside.filter(|store| !seen.holds(&store.path)).map(line));
    lines.extend(borrowed.links.iter().map(|link| {
        format!(
            "git may lack objects inside: {} is a symbolic link, or lies beyond one, and isn't looked at",
            shown(link)
        )
    }));
    Ok(lines)
}

/// What of the host the command sees.
struct Shown<'a> {
    all: &'a [Candidate],
    host: &'a Host,
    homes: &'a [PathBuf],
    table: &'a [Mount],
}

impl Shown<'_> {
    fn holds(&self, path: &Path) -> bool {
        let given = self.all.iter().map(|found| found.granted.path.clone());
        let mut places = given.chain(system(self.host).map(|(path, _)| path));
        places.any(|place| path.starts_with(place))
    }
}

/// None for what isn't there, or can't be read by the caller: a socket, a broken disk. An
/// error is what says nothing of it.
fn unless_absent<T>(found: Result<T, Errno>) -> Result<Option<T>, Errno> {
    match found {
        Ok(found) => Ok(Some(found)),
        Err(errno @ (Errno::EMFILE | Errno::ENFILE | Errno::ENOMEM | Errno::ENOSYS)) => Err(errno),
        Err(_) => Ok(None),
    }
}

/// A `.git` that is a gitdir file, and leads out; or none, in a part of a checkout.
fn own_git(seen: &Shown<'_>, clone: &Candidate) -> Result<Option<String>, Errno> {
    let base = &clone.granted.path;
    let target = match follow(clone.fd.as_fd(), base, Path::new(DOT_GIT)) {
        Ok(target) if seen.holds(&target.path) => return Ok(None),
        Ok(target) => target,
        Err(Astray::Unreadable(Errno::ENOENT)) => return Ok(part(seen, clone)),
        Err(Astray::NoGitdir | Astray::Bent) => return Ok(None),
        Err(Astray::Unreadable(errno) | Astray::Nowhere(Fault { errno, .. })) => {
            return unless_absent(Err(errno));
        }
    };
    let (file, named) = (shown(&base.join(DOT_GIT)), shown(&target.path));
    let out_dir = seen.all.iter().find(|found| found.role == Role::OutDir);
    let out_dir = out_dir.map(|found| found.granted.path.as_path());
    let way = gitdir::way(clone, out_dir, seen.table);
    Ok(Some(format!(
        "git won't work inside: {file} is a gitdir file, and what it names isn't shown ({named}): {way}"
    )))
}

/// Where git on the host would find the repository above the clone.
fn part(seen: &Shown<'_>, clone: &Candidate) -> Option<String> {
    let path = &clone.granted.path;
    if gitdir::is_repository(&clone.fd) {
        return None;
    }
    let mut around = profile::checkouts_around(path, seen.homes, seen.table).into_iter();
    let checkout = around.rfind(|dir| path.starts_with(dir) && has_repository(dir))?;
    // With the .git alone shown, git would stop at the edge of another filesystem.
    let may_be_given = places::tree(Role::Clone, &checkout, seen.host, seen.homes).is_ok();
    (may_be_given && !seen.holds(&checkout)).then(|| {
        format!(
            "git won't work inside: the clone is a part of the checkout {}, whose .git isn't shown: if all of it is meant, give --clone {}",
            shown(&checkout),
            quoted(&checkout)
        )
    })
}

/// Whether its `.git` is a repository, or a file that may name one.
fn has_repository(dir: &Path) -> bool {
    match dir.join(DOT_GIT).join("HEAD").symlink_metadata() {
        Ok(_) => true,
        Err(error) => error.kind() == ErrorKind::NotADirectory,
    }
}

/// What is borrowed from: stores, and links that weren't followed.
#[derive(Default)]
struct Borrowed {
    stores: Vec<Resolved>,
    links: Vec<PathBuf>,
}

/// The stores that a list of alternates names, and theirs, as deep as git follows them.
fn alternates(start: Start, borrowed: &mut Borrowed) -> Result<(), Errno> {
    let mut met = BTreeSet::from([start.path.clone()]);
    let mut level = vec![start];
    for _ in 0..=ALTERNATES_DEPTH {
        let mut next = Vec::new();
        for store in level {
            let lines = match listed(&store) {
                Err(Errno::ELOOP) => {
                    borrowed.links.push(store.path.join(LIST));
                    continue;
                }
                lines => unless_absent(lines)?.unwrap_or_default(),
            };
            let start = Ok(store);
            for path in lines {
                let named = resolve(&start, &path).map_err(|fault| fault.errno);
                let Some(named) = unless_absent(named)? else {
                    continue;
                };
                if borrowed.stores.len() < STORES_MAX && met.insert(named.path.clone()) {
                    next.push(Start {
                        dir: named.fd.try_clone().map_err(|_| Errno::EMFILE)?,
                        path: named.path.clone(),
                    });
                    borrowed.stores.push(named);
                }
            }
        }
        level = next;
    }
    Ok(())
}

/// The lines of a store's own list, but for comments and quoted ones
/// (gitrepository-layout(5)).
fn listed(store: &Start) -> Result<Vec<PathBuf>, Errno> {
    let text = read(store.dir.as_fd(), Path::new(LIST), ALTERNATES_MAX)?;
    let lines = text.split(|byte| *byte == b'\n');
    let paths = lines.filter(|line| !matches!(line.first(), None | Some(b'#' | b'"')));
    let paths = paths.take(LINES_MAX).map(OsStr::from_bytes);
    Ok(paths.map(PathBuf::from).collect())
}

/// The flag is given for what is a repository's store alone: the list is the clone's
/// word, and shall get nobody to show a folder of another kind.
fn line(store: &Resolved) -> String {
    let path = store.alias.as_ref().unwrap_or(&store.path);
    if is_store(&store.path, &store.fd) {
        format!(
            "git lacks objects inside: the clone borrows them from {}; if that is right, give --ro-file {}",
            shown(path),
            quoted(path)
        )
    } else {
        format!(
            "git lacks objects inside: .git/objects/info/alternates names {}, which is no repository's",
            shown(path)
        )
    }
}

fn is_store(path: &Path, fd: &OwnedFd) -> bool {
    let is_there = |name: &str| fstatat(fd, name, AtFlags::AT_SYMLINK_NOFOLLOW).is_ok();
    path.ends_with(STORE) && is_there("../HEAD") && is_there("../refs")
}

/// As a shell takes it for one word.
pub(super) fn quoted(path: &Path) -> String {
    let text = shown(path);
    let is_plain = |c: char| c.is_alphanumeric() || "/._-+,:@%=".contains(c);
    if text.chars().all(is_plain) {
        text
    } else {
        format!("'{}'", text.replace('\'', r"'\''"))
    }
}

#[cfg(test)]
mod tests;
