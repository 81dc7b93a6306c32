//! Mounts that lie beneath a granted tree, and so would come along with it.

use std::path::Path;

use super::GrantedKind;
use super::grant::{Candidate, Role};
use super::kinds::{Filesystem, filesystem, is_kernel_filesystem, is_unmappable};
use crate::mountinfo::Mount;
use crate::plan::step::Route;
use crate::refusal::{Reason, Refusal};
use crate::within::is_within;

/// Refuses granted trees with mounts beneath them that may not be handed in, or,
/// started by root, with filesystems that can't be id-mapped. What else can't be
/// is known when `mount_setattr(2)` says so.
///
/// # Errors
/// `path` for a filesystem of the kernel's own, `owner` for one without id-mapping.
pub(crate) fn judge(all: &[Candidate], route: Route, table: &[Mount]) -> Result<(), Refusal> {
    for found in all
        .iter()
        .filter(|found| route == Route::Root && found.exists)
    {
        let path = &found.granted.path;
        let known = filesystem(&found.fd)
            .map_err(|errno| mapping(found.role, path).about("fstatfs").errno(errno))?;
        if let Filesystem::Unmappable(name) = known {
            return Err(unmappable(found.role, path, name));
        }
    }
    judge_table(all, route, table)
}

fn judge_table(all: &[Candidate], route: Route, table: &[Mount]) -> Result<(), Refusal> {
    let trees: Vec<&Candidate> = all
        .iter()
        .filter(|found| found.exists && found.granted.kind == GrantedKind::Dir)
        .collect();
    for Mount { point, kind, .. } in table {
        for tree in &trees {
            let root = &tree.granted.path;
            if !is_within(point, root) || point == root {
                continue;
            }
            if is_kernel_filesystem(kind) {
                return Err(tree
                    .role
                    .refusal("look for mounts beneath")
                    .path(point)
                    .remedy(format!("{kind} is mounted there: unmount it first")));
            }
            if route == Route::Root && is_unmappable(kind) {
                return Err(unmappable(tree.role, point, kind));
            }
        }
    }
    Ok(())
}

fn mapping(role: Role, path: &Path) -> Refusal {
    Refusal::new(Reason::Owner, format!("map the owners of {}", role.flag())).path(path)
}

fn unmappable(role: Role, path: &Path, filesystem: &str) -> Refusal {
    mapping(role, path).remedy(format!(
        "{filesystem} can't be id-mapped: put it on a volume, or start groom-ns as its owner, not as root"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mountinfo;
    use crate::policy::testing::candidate;

    const TABLE: &str = "\
22 1 254:0 / / rw,relatime shared:1 master:2 - ext4 /dev/vda rw
23 22 0:20 / /c/over rw - overlay overlay rw
24 22 0:21 / /d/a\\040b/proc rw - proc proc rw
25 22 0:22 / /e rw shared:3 - proc proc rw
26 22 0:23 / /cc/x rw - proc proc rw
";

    #[test]
    fn beneath_granted_trees() {
        for (tree, route, reason, says) in [
            ("/c", Route::User, None, ""),
            ("/c", Route::Root, Some(Reason::Owner), "/c/over"),
            ("/d", Route::User, Some(Reason::Path), "/d/a b/proc"),
            ("/d/a b", Route::Root, Some(Reason::Path), "/d/a b/proc"),
            ("/e", Route::User, None, ""),
            ("/x", Route::Root, None, ""),
        ] {
            let table = mountinfo::parse(TABLE.as_bytes()).expect("a table");
            let refusal = judge_table(&[candidate(Role::Clone, tree)], route, &table).err();
            assert_eq!(refusal.as_ref().map(|r| r.reason), reason, "{tree}");
            assert_eq!(refusal.map(|r| r.subject).unwrap_or_default(), says);
        }
    }
}
