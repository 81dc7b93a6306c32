//! What may not contain, equal or lie in what.

use std::path::{Path, PathBuf};

use super::grant::{Candidate, Role};
use super::paths::clean;
use crate::host::{Host, SystemShape};
use crate::plan::step::Inode;
use crate::refusal::{Reason, Refusal, shown};

/// How two canonical paths lie to each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Relation {
    Equals,
    Contains,
    LiesIn,
    Apart,
}

pub(super) fn relation(a: &Path, b: &Path) -> Relation {
    match (a.starts_with(b), b.starts_with(a)) {
        (true, true) => Relation::Equals,
        (false, true) => Relation::Contains,
        (true, false) => Relation::LiesIn,
        (false, false) => Relation::Apart,
    }
}

/// Judges the places of a run against each other and against the system's.
///
/// A writable place may not contain, equal or lie in a read-only one: one of the
/// two mounts would hide the other, or give a read-only file a second, writable
/// name. The out-dir and the clone are kept apart in every mode.
///
/// # Errors
/// `overlap`, naming both.
pub(crate) fn judge(all: &[Candidate], clone_writable: bool, host: &Host) -> Result<(), Refusal> {
    let writable = |found: &Candidate| match found.role {
        Role::OutDir => true,
        Role::Clone => clone_writable,
        Role::RoFile | Role::Uds | Role::GitDir | Role::CommonDir => false,
    };
    for place in all.iter().filter(|found| writable(found)) {
        for (path, identity) in system(host) {
            let relation = match relation(&place.granted.path, &path) {
                Relation::Apart if place.exists && identity == Some(place.granted.identity) => {
                    Relation::Equals
                }
                relation => relation,
            };
            apart(place, "the system", &path, relation)?;
        }
        // Only from above: who writes in the socket's folder can replace the socket.
        for socket in all.iter().filter(|found| found.role == Role::Uds) {
            let path = &socket.granted.path;
            match relation(&place.granted.path, path) {
                Relation::Apart => {}
                relation => return apart(place, "--uds", path, relation),
            }
        }
    }
    for (index, a) in all.iter().enumerate() {
        for b in &all[index + 1..] {
            let sockets = a.role == Role::Uds || b.role == Role::Uds;
            if sockets || !(writable(a) || writable(b)) {
                continue;
            }
            let (place, other) = if writable(a) { (a, b) } else { (b, a) };
            apart(
                place,
                other.role.flag(),
                &other.granted.path,
                relation_of(place, other),
            )?;
        }
    }
    Ok(())
}

/// By path, and by inode: a bind mount gives one folder two canonical paths. What
/// else mounts can do is judged in `location`.
fn relation_of(a: &Candidate, b: &Candidate) -> Relation {
    let same = a.granted.identity == b.granted.identity && a.exists && b.exists;
    match relation(&a.granted.path, &b.granted.path) {
        Relation::Apart if same => Relation::Equals,
        relation => relation,
    }
}

/// The system's folders, canonical, and their identity where they aren't links.
pub(super) fn system(host: &Host) -> impl Iterator<Item = (PathBuf, Option<Inode>)> {
    host.system.iter().map(|dir| match &dir.shape {
        SystemShape::Symlink(text) => (clean(&Path::new("/").join(text)), None),
        SystemShape::Dir { identity, .. } => (dir.path.clone(), Some(*identity)),
    })
}

fn apart(place: &Candidate, name: &str, path: &Path, relation: Relation) -> Result<(), Refusal> {
    let verb = match relation {
        Relation::Apart => return Ok(()),
        Relation::Equals => "equals",
        Relation::Contains => "contains",
        Relation::LiesIn => "lies in",
    };
    let flag = place.role.flag();
    Err(
        Refusal::new(Reason::Overlap, format!("compare {flag} with {name}"))
            .about(format!(
                "{} {verb} {}",
                shown(&place.granted.path),
                shown(path)
            ))
            .remedy(format!(
                "{flag} is writable and must lie apart: choose another folder"
            )),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::testing::{candidate, host};

    #[test]
    fn relations() {
        for (a, b, expected) in [
            ("/a", "/a", Relation::Equals),
            ("/a", "/a/b", Relation::Contains),
            ("/a/b", "/a", Relation::LiesIn),
            ("/a", "/ab", Relation::Apart),
            ("/a/b", "/a/c", Relation::Apart),
            ("/", "/a", Relation::Contains),
        ] {
            assert_eq!(relation(Path::new(a), Path::new(b)), expected, "{a} {b}");
        }
    }

    /// (clone, writable, out-dir, ro-file, socket) and whether it is refused.
    #[test]
    fn tables() {
        let all = [Role::Clone, Role::OutDir, Role::RoFile, Role::Uds];
        for (paths, rw, refused) in [
            (["/c", "/o", "/f", "/s/sock"], true, false),
            (["/c", "/c", "", ""], false, true),
            (["/c", "/c/o", "", ""], false, true),
            (["/c/x", "/c", "", ""], false, true),
            (["/c", "/c/o", "", ""], true, true),
            (["/c", "/cc", "", ""], true, false),
            // ro-files
            (["/c", "", "/c/f", ""], false, false),
            (["/c", "", "/c/f", ""], true, true),
            (["/c/x", "", "/c", ""], false, false),
            (["/c/x", "", "/c", ""], true, true),
            (["/c", "/o", "/o", ""], false, true),
            (["/c", "/o", "/o/f", ""], false, true),
            (["/c", "/o/x", "/o", ""], false, true),
            // sockets
            (["/c", "/o", "", "/o/s"], false, true),
            (["/c", "/o", "", "/o/d/s"], false, true),
            (["/c", "/s/o", "", "/s/sock"], false, false),
            (["/c", "", "", "/c/s"], false, false),
            (["/c", "", "", "/c/s"], true, true),
            // the system
            (["/usr/src/x", "", "", ""], false, false),
            (["/usr/src/x", "", "", ""], true, true),
            (["/c", "/etc/x", "", ""], false, true),
            (["/c", "/lib64/x", "", ""], false, true),
            (["/c", "/tmp/o", "/tmp/f", "/tmp/s"], false, false),
            (["/run/c", "/run/o", "", "/run/s"], true, false),
        ] {
            let places: Vec<Candidate> = all
                .into_iter()
                .zip(paths)
                .filter(|(_, path)| !path.is_empty())
                .map(|(role, path)| candidate(role, path))
                .collect();
            let reason = judge(&places, rw, &host()).err().map(|r| r.reason);
            let expected = refused.then_some(Reason::Overlap);
            assert_eq!(reason, expected, "{paths:?} rw={rw}");
        }
    }

    #[test]
    fn one_folder_under_two_names() {
        let mut places = [candidate(Role::Clone, "/c"), candidate(Role::OutDir, "/o")];
        places[1].granted.identity = places[0].granted.identity;
        assert!(judge(&places, false, &host()).is_err());
        let SystemShape::Dir { identity, .. } = host().system[0].shape else {
            panic!("/usr is a folder");
        };
        places[1].granted.identity = identity;
        assert!(judge(&places, false, &host()).is_err());
    }
}
