//! Reading the mount table back, after everything is in place.

use std::path::Path;

use nix::errno::Errno;

use crate::mountinfo;
use crate::plan::step::{Access, Standing};
use crate::refusal::{Reason, Refusal};
use crate::within::is_within;

/// Refuses unless the mount table of this process (proc_pid_mountinfo(5)) is
/// what the plan says: each planned mount stands, read-only where it must be; a
/// mount that the plan doesn't name came along with a tree, and obeys its rule.
pub fn mounts(planned: &[Standing]) -> Result<(), Refusal> {
    let table = mountinfo::read().map_err(|error| {
        Refusal::new(Reason::Selfcheck, "read the mount table back")
            .errno(Errno::try_from(error).unwrap_or(Errno::EIO))
    })?;
    let found: Vec<(&Path, bool)> = table
        .iter()
        .map(|mount| (mount.point.as_path(), mount.read_only))
        .collect();
    judge(planned, &found)
}

/// The rule itself, on (mount point, read-only) pairs.
fn judge(planned: &[Standing], found: &[(&Path, bool)]) -> Result<(), Refusal> {
    for standing in planned {
        if !found.iter().any(|(path, _)| is(standing, path)) {
            return Err(wrong("a mount that must be there is missing", &standing.path)
                .remedy("something on the host moved or removed what was mounted on: let nothing else write there, and start again"));
        }
    }
    for (path, is_ro) in found {
        match rule(planned, path) {
            None => return Err(wrong("there is a mount that the plan doesn't know", path)),
            Some(Access::Ro) if !is_ro => {
                return Err(wrong("a mount that must be read-only is writable", path));
            }
            Some(_) => {}
        }
    }
    Ok(())
}

/// By their bytes: both are as the kernel writes them.
fn is(standing: &Standing, path: &Path) -> bool {
    standing.path.as_os_str() == path.as_os_str()
}

/// What holds for a mount point: its own entry, or that of the innermost tree
/// that it lies in.
fn rule(planned: &[Standing], path: &Path) -> Option<Access> {
    let own = planned.iter().find(|standing| is(standing, path));
    let tree = || {
        planned
            .iter()
            .filter(|standing| standing.tree && is_within(path, &standing.path))
            .max_by_key(|standing| standing.path.as_os_str().len())
    };
    own.or_else(tree).map(|standing| standing.access)
}

fn wrong(what: &'static str, path: &Path) -> Refusal {
    Refusal::new(Reason::Selfcheck, what)
        .path(path)
        .remedy("this is a bug or an unknown kernel: please report it with `uname -r`")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn standing(path: &str, access: Access, tree: bool) -> Standing {
        Standing {
            path: path.into(),
            access,
            tree,
        }
    }

    fn verdict(found: &[(&str, bool)]) -> Option<String> {
        let planned = [
            standing("/", Access::Ro, false),
            standing("/usr", Access::Ro, true),
            standing("/w", Access::Rw, true),
            standing("/w/.git", Access::Ro, true),
        ];
        let found: Vec<_> = found
            .iter()
            .map(|(path, ro)| (Path::new(*path), *ro))
            .collect();
        judge(&planned, &found)
            .err()
            .map(|refusal| refusal.to_string())
    }

    const GOOD: [(&str, bool); 4] = [
        ("/", true),
        ("/usr", true),
        ("/w", false),
        ("/w/.git", true),
    ];

    #[test]
    fn what_was_planned_stands() {
        assert_eq!(verdict(&GOOD), None);
        assert_eq!(
            verdict(&[GOOD.as_slice(), &[("/usr/x", true), ("/w/y", false)]].concat()),
            None
        );
    }

    #[test]
    fn anything_else_is_refused() {
        for (extra, word) in [
            (("/usr/x", false), "writable"),
            (("/w/.git/x", false), "writable"),
            (("/mnt", true), "doesn't know"),
        ] {
            let found = [GOOD.as_slice(), &[extra]].concat();
            let message = verdict(&found).expect("must be refused");
            assert!(message.contains(word), "{extra:?}: {message}");
        }
        assert!(
            verdict(&GOOD[..3])
                .expect("must be refused")
                .contains("missing")
        );
    }
}
