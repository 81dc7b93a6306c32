//! What the jail shows, seen from groom-ns's own files: they must lie apart
//! from it, by path and by place.

use std::path::{Path, PathBuf};

use nix::errno::Errno;

use super::grant::{Candidate, Role};
use super::location::Tree;
use super::overlap::system;
use super::own::Flag;
use super::paths::Start;
use crate::host::Host;
use crate::mountinfo::Mount;
use crate::refusal::Refusal;

/// Where groom-ns's own files are looked for, and what they may not lie in.
pub(crate) struct Ground<'r> {
    pub(crate) cwd: &'r Result<Start, Errno>,
    table: &'r [Mount],
    shown: Vec<Shown>,
}

/// A part of the jail.
struct Shown {
    name: &'static str,
    /// Its contents may be the command's word, of this run or one before.
    untrusted: bool,
    tree: Tree,
}

impl<'r> Ground<'r> {
    /// Of a run with these places.
    pub(crate) fn of_run(
        cwd: &'r Result<Start, Errno>,
        all: &[Candidate],
        host: &Host,
        table: &'r [Mount],
    ) -> Ground<'r> {
        let given = all
            .iter()
            .map(|found| (found.role, found.granted.path.clone()));
        let mut ground = Ground::of_paths(cwd, given, table);
        ground.shown.extend(system(host).map(|(path, _)| Shown {
            name: "the system's folders",
            untrusted: false,
            tree: Tree::of(table, &path),
        }));
        ground
    }

    /// Of these canonical paths alone.
    pub(crate) fn of_paths(
        cwd: &'r Result<Start, Errno>,
        given: impl Iterator<Item = (Role, PathBuf)>,
        table: &'r [Mount],
    ) -> Ground<'r> {
        let shown = given.map(|(role, path)| Shown {
            name: role.flag(),
            untrusted: matches!(role, Role::Clone | Role::OutDir),
            tree: Tree::of(table, &path),
        });
        Ground {
            cwd,
            table,
            shown: shown.collect(),
        }
    }

    /// Of a broker on its own, which knows no jail.
    pub(crate) fn alone(cwd: &'r Result<Start, Errno>) -> Ground<'r> {
        Ground {
            cwd,
            table: &[],
            shown: Vec::new(),
        }
    }

    /// Whether there is a jail that could show something.
    pub(crate) fn has_jail(&self) -> bool {
        !self.shown.is_empty()
    }

    /// Refuses a canonical path, there or not, that the command could see.
    pub(crate) fn unseen(&self, flag: Flag, path: &Path) -> Result<(), Refusal> {
        self.apart(flag, path, |_| true)
    }

    /// Refuses a canonical path whose contents the command may have written.
    pub(crate) fn trusted(&self, flag: Flag, path: &Path) -> Result<(), Refusal> {
        self.apart(flag, path, |shown| shown.untrusted)
    }

    fn apart(
        &self,
        flag: Flag,
        path: &Path,
        counts: impl Fn(&Shown) -> bool,
    ) -> Result<(), Refusal> {
        let mut places = self.shown.iter().filter(|shown| counts(shown));
        match places.find(|shown| shown.tree.holds(self.table, path)) {
            None => Ok(()),
            Some(shown) => Err(flag.refusal("judge").path(path).remedy(format!(
                "it lies in what the command sees ({}): keep it elsewhere",
                shown.name
            ))),
        }
    }

    /// Refuses a path to which one of these links led that the command may have made: it would
    /// have chosen the file.
    pub(crate) fn own_choice(&self, flag: Flag, followed: &[PathBuf]) -> Result<(), Refusal> {
        for link in followed {
            let mut untrusted = self.shown.iter().filter(|shown| shown.untrusted);
            if untrusted.any(|shown| shown.tree.holds(self.table, link)) {
                return Err(flag.refusal("follow a link for").path(link).remedy(
                    "the link lies in a tree that the command may have written: name its target instead",
                ));
            }
        }
        Ok(())
    }
}
