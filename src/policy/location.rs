//! Where a path lies in a filesystem, whatever mounts lead there. A bind mount
//! gives one file two paths; by their text they are apart, and by their inodes
//! too if one lies somewhere beneath the other.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use nix::errno::Errno;

use super::GitCovers;
use super::git;
use super::grant::{Candidate, Role};
use super::overlap::{Relation, relation, system};
use crate::host::Host;
use crate::mountinfo::{self, Mount};
use crate::refusal::{Reason, Refusal, shown};
use crate::within::is_within;

/// A place in a filesystem, and the path that it was found by.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Spot {
    seen: PathBuf,
    device: String,
    inner: PathBuf,
}

impl Spot {
    fn relation(&self, other: &Spot) -> Relation {
        if self.device == other.device {
            relation(&self.inner, &other.inner)
        } else {
            Relation::Apart
        }
    }

    /// Whether this, a mount, shows `other` where it was found, and so is the
    /// very way to it.
    fn is_way_to(&self, other: &Spot) -> bool {
        let rest = other.seen.strip_prefix(&self.seen);
        rest.is_ok_and(|rest| join(&self.inner, rest) == other.inner)
    }
}

/// One reading for all that is judged by it.
pub(crate) fn mount_table() -> Result<Vec<Mount>, Refusal> {
    mountinfo::read().map_err(|error| {
        Refusal::new(Reason::Proc, "read the mount table")
            .path("/proc/self/mountinfo")
            .errno(Errno::try_from(error).unwrap_or(Errno::EIO))
            .remedy("mount /proc")
    })
}

/// The place of a canonical path, there or not; none where the table doesn't
/// know the root (a chroot).
pub(crate) fn locate(table: &[Mount], path: &Path) -> Option<Spot> {
    let mount = top(table, path)?;
    let rest = path.strip_prefix(&mount.point).ok()?;
    Some(Spot {
        seen: path.to_owned(),
        device: mount.device.clone(),
        inner: join(&mount.root, rest),
    })
}

/// Every folder that has a place beneath it, sorted: by each path that any mount gives to
/// the place, or to what holds it. Never the place itself.
pub(crate) fn above(table: &[Mount], path: &Path) -> Vec<PathBuf> {
    let mut met = BTreeSet::new();
    let mut next = vec![path.to_owned()];
    while let Some(path) = next.pop() {
        if met.insert(path.clone()) {
            next.extend(path.parent().map(Path::to_owned));
            let spot = locate(table, &path);
            next.extend(spot.iter().flat_map(|spot| ways(table, spot)));
        }
    }
    let own = locate(table, path);
    let is_own = |other: &Path| {
        let spots = own.as_ref().zip(locate(table, other));
        other == path || spots.is_some_and(|(own, spot)| own.relation(&spot) == Relation::Equals)
    };
    met.retain(|other| !is_own(other));
    met.into_iter().collect()
}

/// The paths by which a place, and each folder above it in its filesystem, is seen.
fn ways(table: &[Mount], spot: &Spot) -> impl Iterator<Item = PathBuf> {
    let shows = table.iter().filter(|mount| mount.device == spot.device);
    shows.flat_map(move |mount| {
        spot.inner.ancestors().filter_map(move |inner| {
            let seen = join(&mount.point, inner.strip_prefix(&mount.root).ok()?);
            let found = locate(table, &seen)?;
            (found.device == spot.device && found.inner == inner).then_some(seen)
        })
    })
}

/// Without the slash at the end that joining with an empty path would bring.
pub(super) fn join(path: &Path, rest: &Path) -> PathBuf {
    path.components().chain(rest.components()).collect()
}

/// The mount that a path leads to, found as the kernel does: from the outermost
/// on, at each component. A mount point can be covered by another, at itself or
/// above, so the longest one isn't it.
fn top<'t>(table: &'t [Mount], path: &Path) -> Option<&'t Mount> {
    let is_root = |mount: &Mount| {
        let mut others = table.iter();
        mount.parent == mount.id || !others.any(|other| other.id == mount.parent)
    };
    let mut at: Option<&Mount> = None;
    loop {
        let next = table
            .iter()
            .filter(|mount| is_within(path, &mount.point))
            .filter(|mount| match at {
                Some(at) => mount.parent == at.id && mount.id != at.id,
                None => is_root(mount),
            })
            .min_by_key(|mount| mount.point.as_os_str().len());
        match next {
            Some(mount) => at = Some(mount),
            None => return at,
        }
    }
}

/// The mounts that are seen in a folder, itself not counted.
fn beneath<'t>(table: &'t [Mount], path: &Path) -> impl Iterator<Item = &'t Mount> {
    table.iter().filter(move |mount| {
        is_within(&mount.point, path)
            && mount.point != path
            && top(table, &mount.point).is_some_and(|top| top.id == mount.id)
    })
}

/// A folder or file, with what is mounted in it.
pub(crate) struct Tree {
    path: PathBuf,
    spots: Vec<Spot>,
}

impl Tree {
    pub(crate) fn of(table: &[Mount], path: &Path) -> Tree {
        let points = beneath(table, path).map(|mount| mount.point.as_path());
        Tree {
            path: path.to_owned(),
            spots: std::iter::once(path)
                .chain(points)
                .filter_map(|point| locate(table, point))
                .collect(),
        }
    }

    /// Whether a path lies in this tree: by its text, or by its place.
    pub(crate) fn holds(&self, table: &[Mount], path: &Path) -> bool {
        path.starts_with(&self.path)
            || self.any(table, path, &[Relation::Contains, Relation::Equals])
    }

    /// Whether a path has this tree, or what is mounted in it, somewhere beneath.
    pub(crate) fn lies_in(&self, table: &[Mount], path: &Path) -> bool {
        self.path.starts_with(path) || self.any(table, path, &[Relation::LiesIn, Relation::Equals])
    }

    fn any(&self, table: &[Mount], path: &Path, relations: &[Relation]) -> bool {
        locate(table, path).is_some_and(|spot| {
            let mut spots = self.spots.iter();
            spots.any(|own| relations.contains(&own.relation(&spot)))
        })
    }
}

/// Judges what is writable against all else that is given, by place.
///
/// # Errors
/// `overlap` for two ways to one place, of which one is writable.
pub(crate) fn judge(
    all: &[Candidate],
    clone_writable: bool,
    host: &Host,
    table: &[Mount],
) -> Result<(), Refusal> {
    if !all.iter().any(|place| is_writable(place, clone_writable)) {
        return Ok(());
    }
    let trees: Vec<(&Candidate, Tree)> = all
        .iter()
        .map(|found| (found, Tree::of(table, &found.granted.path)))
        .collect();
    for (index, (place, tree)) in trees.iter().enumerate() {
        if !is_writable(place, clone_writable) {
            continue;
        }
        let others = trees.iter().enumerate().filter(|(at, _)| *at != index);
        for own in &tree.spots {
            for (path, _) in system(host) {
                apart(place, own, "the system", locate(table, &path).as_ref())?;
            }
            for (_, (other, theirs)) in others.clone() {
                for spot in &theirs.spots {
                    apart(place, own, other.role.flag(), Some(spot))?;
                }
            }
        }
    }
    Ok(())
}

/// The same for what is covered in a writable clone.
///
/// # Errors
/// `git` for a mount that its cover would not turn read-only; `overlap` for
/// another way to it.
pub(crate) fn judge_gits(
    all: &[Candidate],
    covers: &GitCovers,
    table: &[Mount],
) -> Result<(), Refusal> {
    for (git, _) in &covers.gits {
        let on_it = top(table, git).filter(|mount| mount.point == *git && !mount.read_only);
        if let Some(mount) = on_it.or_else(|| beneath(table, git).next()) {
            return Err(git::refusal(&mount.point)
                .remedy("something is mounted there: unmount it, or use --clone-mode ro"));
        }
    }
    for place in all.iter().filter(|found| is_writable(found, true)) {
        for own in &Tree::of(table, &place.granted.path).spots {
            for (git, _) in &covers.gits {
                // A clone shows its own, which is what the cover is for.
                let spot = locate(table, git).filter(|spot| !own.is_way_to(spot));
                apart(place, own, "a .git", spot.as_ref())?;
            }
        }
    }
    Ok(())
}

fn is_writable(found: &Candidate, clone_writable: bool) -> bool {
    match found.role {
        Role::OutDir => true,
        Role::Clone => clone_writable,
        Role::RoFile | Role::Uds | Role::GitDir | Role::CommonDir => false,
    }
}

fn apart(place: &Candidate, own: &Spot, name: &str, other: Option<&Spot>) -> Result<(), Refusal> {
    let Some(other) = other.filter(|other| own.relation(other) != Relation::Apart) else {
        return Ok(());
    };
    let flag = place.role.flag();
    let step = format!("compare what is mounted in {flag} and in {name}");
    let (here, there) = (shown(&own.seen), shown(&other.seen));
    Err(Refusal::new(Reason::Overlap, step)
        .about(format!("{here} and {there} show the same files"))
        .remedy(format!(
            "{flag} is writable and must lie apart: unmount one of the two, or choose another folder"
        )))
}

#[cfg(test)]
mod tests;
