//! What of a writable clone is git's and so must not be written: what lies there
//! is configuration that the host's git obeys later, hooks included.

use std::collections::BTreeSet;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::path::{Component, Path, PathBuf};

use nix::errno::Errno;
use nix::fcntl::{AT_FDCWD, AtFlags};
use nix::sys::stat::{fstat, fstatat};

use super::GitCovers;
use super::git_dir::{self, Around, read};
use super::gitdir;
use super::grant::Candidate;
use super::kinds::{What, inode};
use super::location::{Tree, join};
use super::paths::{Fault, Resolved, Start, open_without_links, resolve};
use super::survey::{Ask, Found, walk};
use crate::mountinfo::Mount;
use crate::plan::step::Inode;
use crate::refusal::{Reason, Refusal};

pub(super) const DOT_GIT: &str = ".git";
/// What a gitdir file begins with (gitrepository-layout(5)).
const GITDIR: &[u8] = b"gitdir: ";
/// The longest gitdir file that is read: the prefix, a path and a line end.
const GITDIR_MAX: u64 = 8 + 4096 + 2;

/// Judges a clone in mode `rw-git-ro` by what the survey found in it. `common` is the
/// repository that it is linked to, of `--git-worktree`.
///
/// # Errors
/// `git` where its own `.git` is no folder and it isn't linked, or a nested one is of
/// a shape that can't be covered, or something in one leads out.
pub(crate) fn judge(
    clone: &Candidate,
    common: Option<&Candidate>,
    out_dir: Option<&Path>,
    table: &[Mount],
    found: &Found,
) -> Result<GitCovers, Refusal> {
    let root = clone.fd.as_fd();
    let base = &clone.granted.path;
    let own_folder = base.join(DOT_GIT);
    let own = if let Some(common) = common {
        &common.granted.path
    } else {
        is_folder(clone, out_dir, table)?;
        &own_folder
    };
    let nested = found.gits.iter().map(PathBuf::as_path);
    let nested: Vec<&Path> = nested.filter(|path| *path != Path::new(DOT_GIT)).collect();
    let parents: BTreeSet<&Path> = nested.iter().flat_map(|path| parents_of(path)).collect();
    let all: Vec<&Path> = std::iter::once(Path::new(DOT_GIT)).chain(nested).collect();
    let around = Around {
        root,
        base,
        clone: base,
        own,
        table,
        writable: &writable(base, out_dir, table),
        gits: &all.iter().map(|path| base.join(path)).collect::<Vec<_>>(),
        parents: &parents.iter().map(|path| base.join(path)).collect(),
    };
    let gits = all.iter().map(|path| cover(&around, path));
    let gits = gits.collect::<Result<_, Refusal>>()?;
    for path in all {
        git_dir::judge(&around, path)?;
    }
    if let Some(common) = common {
        let (root, base) = (common.fd.as_fd(), common.granted.path.as_path());
        git_dir::judge(
            &Around {
                root,
                base,
                ..around
            },
            Path::new(""),
        )?;
    }
    // Sorted, a folder comes before what lies in it.
    let parents = parents
        .into_iter()
        .map(|path| Ok((base.join(path), node(root, base, path)?.1)))
        .collect::<Result<_, Refusal>>()?;
    Ok(GitCovers { gits, parents })
}

/// Without the entry itself, and without the clone, which is a mount point.
fn parents_of(path: &Path) -> impl Iterator<Item = &Path> {
    let above = path.ancestors().skip(1);
    above.filter(|path| !path.as_os_str().is_empty())
}

fn writable(clone: &Path, out_dir: Option<&Path>, table: &[Mount]) -> Vec<Tree> {
    let trees = std::iter::once(clone).chain(out_dir);
    trees.map(|tree| Tree::of(table, tree)).collect()
}

pub(super) fn refusal(path: impl AsRef<Path>) -> Refusal {
    Refusal::new(Reason::Git, "look at the clone's .git").path(path)
}

/// The clone's own `.git` must be a folder.
fn is_folder(clone: &Candidate, out_dir: Option<&Path>, table: &[Mount]) -> Result<(), Refusal> {
    let path = &clone.granted.path.join(DOT_GIT);
    let stat = match fstatat(&clone.fd, DOT_GIT, AtFlags::AT_SYMLINK_NOFOLLOW) {
        Ok(stat) => stat,
        Err(Errno::ENOENT) => {
            return Err(refusal(path).errno(Errno::ENOENT).remedy(
                "there is none, and the command could make one: name the top folder of a checkout, or use --clone-mode ro",
            ));
        }
        Err(errno) => return Err(refusal(path).errno(errno)),
    };
    Err(refusal(path).remedy(match What::of(stat.st_mode) {
        What::Dir => return Ok(()),
        What::File => {
            let way = gitdir::way(clone, out_dir, table);
            return Err(refusal(path).remedy(format!(
                "it is a gitdir file, whose repository lies elsewhere: {way}; or use --clone-mode ro"
            )));
        }
        What::Link => "it is a symbolic link: use a full clone, or --clone-mode ro",
        What::Socket | What::Special => "it is no folder: use a full clone, or --clone-mode ro",
    }))
}

/// What lies at a path in the clone, and its identity.
fn node(root: BorrowedFd<'_>, base: &Path, path: &Path) -> Result<(OwnedFd, Inode), Refusal> {
    open_without_links(root, path)
        .and_then(|fd| fstat(&fd).map(|stat| (fd, inode(&stat))))
        .map_err(|errno| match errno {
            Errno::ELOOP => refusal(base.join(path))
                .errno(errno)
                .remedy("it is a symbolic link, which the command could turn: remove it, or use --clone-mode ro"),
            _ => refusal(base.join(path)).errno(errno),
        })
}

fn cover(around: &Around<'_>, path: &Path) -> Result<(PathBuf, Inode), Refusal> {
    let (fd, identity) = node(around.root, around.base, path)?;
    let whole = around.base.join(path);
    let stat = fstat(&fd).map_err(|errno| refusal(&whole).errno(errno))?;
    match What::of(stat.st_mode) {
        What::Dir => {}
        What::File => {
            git_dir::one_name(&whole, &stat)?;
            gitdir_file(around, path)?;
        }
        What::Link | What::Socket | What::Special => {
            return Err(refusal(&whole)
                .remedy("it is neither a folder nor a file: remove it, or use --clone-mode ro"));
        }
    }
    Ok((whole, identity))
}

/// A gitdir file must lead into the clone's own repository, by a way that the command
/// can't bend: up through folders that are held in place, then down.
fn gitdir_file(around: &Around<'_>, path: &Path) -> Result<(), Refusal> {
    let refuse = |errno: Option<Errno>| {
        let refusal = refusal(around.base.join(path)).remedy(
            "it is a gitdir file that doesn't lead into the clone's own .git: remove it, or use --clone-mode ro",
        );
        match errno {
            Some(errno) => refusal.errno(errno),
            None => refusal,
        }
    };
    let target = match follow(around.root, around.base, path) {
        Ok(target) => target,
        Err(Astray::Unreadable(errno)) => return Err(refuse(Some(errno))),
        Err(Astray::NoGitdir | Astray::Bent) => return Err(refuse(None)),
        Err(Astray::Nowhere(fault)) => return Err(refuse(Some(fault.errno))),
    };
    let mut links = target.followed.iter();
    let bendable = links.any(|link| around.is_writable(link));
    if bendable || !target.path.starts_with(around.own) || target.path == around.own {
        return Err(refuse(None));
    }
    Ok(())
}

/// Why a gitdir file leads nowhere.
pub(super) enum Astray {
    /// It can't be read, or is no small regular file.
    Unreadable(Errno),
    /// What it says is something else.
    NoGitdir,
    /// The way goes down into a folder and up again.
    Bent,
    /// What it names isn't to be found.
    Nowhere(Fault),
}

/// What the gitdir file at `path` in the tree names (gitrepository-layout(5)).
pub(super) fn follow(root: BorrowedFd<'_>, base: &Path, path: &Path) -> Result<Resolved, Astray> {
    let text = read(root, path, GITDIR_MAX).map_err(Astray::Unreadable)?;
    let target = git_dir::path_of(text.strip_prefix(GITDIR).ok_or(Astray::NoGitdir)?);
    if goes_up_after_down(target) {
        return Err(Astray::Bent);
    }
    let holder = path.parent().unwrap_or(Path::new(""));
    let dir = if holder.as_os_str().is_empty() {
        open_without_links(root, Path::new("."))
    } else {
        open_without_links(root, holder)
    };
    let start = dir.map(|dir| Start {
        dir,
        path: join(base, holder),
    });
    resolve(&start, target).map_err(Astray::Nowhere)
}

fn goes_up_after_down(path: &Path) -> bool {
    path.components()
        .skip_while(|part| !matches!(part, Component::Normal(_)))
        .any(|part| part == Component::ParentDir)
}

/// After a run: every `.git` in the clone that wasn't there before, sorted, and
/// every folder that the command closed to our eyes. The host's git would obey
/// them, so they are reported.
pub fn new_gits(clone: &Path, known: &GitCovers) -> Vec<PathBuf> {
    let Ok(root) = open_without_links(AT_FDCWD, clone) else {
        return vec![clone.to_owned()];
    };
    let Ok(stat) = fstat(&root) else {
        return vec![clone.to_owned()];
    };
    let found = walk(
        root.as_fd(),
        &Ask {
            gits: true,
            sockets: false,
            foreign_to: None,
            privileged: false,
            command: stat.st_uid,
        },
    );
    let closed = found.closed.into_iter().map(|(path, _)| path);
    let mut new: Vec<PathBuf> = found
        .gits
        .into_iter()
        .chain(closed)
        .map(|path| clone.join(path))
        .filter(|path| !known.gits.iter().any(|(git, _)| git == path))
        .collect();
    new.sort();
    new
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::grant::{Role, existing};
    use crate::policy::testing::TempDir;

    fn judged(temp: &TempDir) -> Result<GitCovers, Refusal> {
        let clone = existing(Role::Clone, &Err(Errno::ENOENT), &temp.at("c")).expect("clone");
        let ask = Ask {
            gits: true,
            sockets: false,
            foreign_to: None,
            privileged: false,
            command: nix::unistd::geteuid().as_raw(),
        };
        let table = crate::mountinfo::read().expect("a table");
        judge(
            &clone,
            None,
            Some(&temp.at("o")),
            &table,
            &walk(clone.fd.as_fd(), &ask),
        )
    }

    fn paths(list: &[(PathBuf, Inode)]) -> Vec<&Path> {
        list.iter().map(|(path, _)| path.as_path()).collect()
    }

    fn refused(temp: &TempDir) -> Refusal {
        let refusal = judged(temp).expect_err("refused");
        assert_eq!(refusal.reason, Reason::Git);
        refusal
    }

    #[test]
    fn covers_and_parents() {
        let temp = TempDir::new();
        temp.dir("c/.git/modules/sub");
        temp.dir("c/a/b/.git");
        temp.dir("c/a/.Git");
        temp.file("c/x/sub/.git", "gitdir: ../../.git/modules/sub\n");
        let abs = format!("gitdir: {}\n", temp.at("c/.git/modules/sub").display());
        temp.file("c/y/.git", &abs);
        let covers = judged(&temp).expect("covered");
        let expected = [
            "c/.git",
            "c/a/.Git",
            "c/a/b/.git",
            "c/x/sub/.git",
            "c/y/.git",
        ];
        assert_eq!(paths(&covers.gits), expected.map(|name| temp.at(name)));
        let expected = ["c/a", "c/a/b", "c/x", "c/x/sub", "c/y"];
        assert_eq!(paths(&covers.parents), expected.map(|name| temp.at(name)));
        let stat = nix::sys::stat::lstat(&temp.at("c/a/b")).expect("stat");
        assert_eq!(covers.parents[1].1, inode(&stat));
    }

    #[test]
    fn own_dot_git() {
        let temp = TempDir::new();
        temp.dir("c/real");
        assert!(refused(&temp).to_string().contains("there is none"));
        temp.file("c/.git", "gitdir: real\n");
        assert!(refused(&temp).to_string().contains("use a full clone"));
        std::fs::remove_file(temp.at("c/.git")).expect("remove");
        temp.link("c/.git", "real");
        assert!(refused(&temp).to_string().contains("symbolic link"));
    }

    #[test]
    fn nested_gitdir_files_that_lead_elsewhere() {
        for target in [
            "../../../outside",
            "../real",
            "../../.git",
            "../../.git/none",
            "../../link/modules/m",
            "../../.git/modules/../../a",
            "../a/../../.git/modules/m",
            "",
        ] {
            let temp = TempDir::new();
            temp.dir("c/.git/modules/m");
            temp.dir("c/a/real");
            temp.dir("outside");
            temp.link("c/link", ".git");
            temp.file("c/a/n/.git", &format!("gitdir: {target}\n"));
            assert_eq!(
                refused(&temp).subject,
                temp.at("c/a/n/.git").display().to_string()
            );
        }
        let temp = TempDir::new();
        temp.dir("c/.git/modules/m");
        temp.file("c/n/.git", "../.git/modules/m\n");
        refused(&temp);
    }

    #[test]
    fn shapes_that_a_cover_does_not_reach() {
        let temp = TempDir::new();
        temp.dir("c/.git");
        temp.dir("c/hooks");
        temp.link("c/n", ".git");
        judged(&temp).expect("a link of another name");
        temp.dir("c/m");
        temp.link("c/m/.git", "../.git");
        refused(&temp);
        std::fs::remove_file(temp.at("c/m/.git")).expect("remove");
        nix::unistd::mkfifo(&temp.at("c/m/.git"), nix::sys::stat::Mode::S_IRWXU).expect("mkfifo");
        refused(&temp);
        std::fs::remove_file(temp.at("c/m/.git")).expect("remove");
        temp.link("c/.git/hooks", "../hooks");
        assert!(refused(&temp).subject.ends_with("/.git/hooks"));
        std::fs::remove_file(temp.at("c/.git/hooks")).expect("remove");
        temp.file("c/.git/commondir", "../elsewhere\n");
        assert!(refused(&temp).subject.ends_with("/.git/commondir"));
    }

    #[test]
    fn new_repositories_are_reported() {
        let temp = TempDir::new();
        temp.dir("c/.git");
        temp.dir("c/old/.git");
        let known = judged(&temp).expect("covers");
        assert_eq!(new_gits(&temp.at("c"), &known), [] as [PathBuf; 0]);
        temp.dir("c/old/new/.git");
        temp.file("c/f/.GIT", "gitdir: /x");
        let expected = ["c/f/.GIT", "c/old/new/.git"].map(|name| temp.at(name));
        assert_eq!(new_gits(&temp.at("c"), &known), expected);
    }
}
