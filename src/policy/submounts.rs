//! Mounts that lie beneath a granted tree, and so would come along with it.

use std::ffi::OsStr;
use std::fs::File;
use std::io::Read as _;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use nix::errno::Errno;

use super::GrantedKind;
use super::grant::{Candidate, Role};
use super::kinds::{Filesystem, filesystem, is_kernel_filesystem, is_unmappable};
use crate::plan::step::Route;
use crate::refusal::{Reason, Refusal};

/// More than most hosts' mount tables are long, in bytes.
const TABLE_SIZE: usize = 32 << 10;

/// Refuses granted trees with mounts beneath them that may not be handed in, or,
/// started by root, with filesystems that can't be id-mapped. What else can't be
/// is known when `mount_setattr(2)` says so.
///
/// # Errors
/// `path` for a filesystem of the kernel's own, `owner` for one without id-mapping.
pub(crate) fn judge(all: &[Candidate], route: Route) -> Result<(), Refusal> {
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
    // With room from the start: the table is made anew for every small read.
    let mut table = Vec::with_capacity(TABLE_SIZE);
    File::open("/proc/self/mountinfo")
        .and_then(|mut file| file.read_to_end(&mut table))
        .map_err(|error| {
            Refusal::new(Reason::Proc, "read the mount table")
                .path("/proc/self/mountinfo")
                .errno(Errno::try_from(error).unwrap_or(Errno::EIO))
                .remedy("mount /proc")
        })?;
    judge_table(all, route, &table)
}

fn judge_table(all: &[Candidate], route: Route, table: &[u8]) -> Result<(), Refusal> {
    let trees: Vec<&Candidate> = all
        .iter()
        .filter(|found| found.exists && found.granted.kind == GrantedKind::Dir)
        .collect();
    for line in table.split(|byte| *byte == b'\n') {
        let Some((point, kind)) = point_and_type(line) else {
            continue;
        };
        for tree in &trees {
            let root = &tree.granted.path;
            if !point.starts_with(root) || point == *root {
                continue;
            }
            if is_kernel_filesystem(kind) {
                return Err(tree
                    .role
                    .refusal("look for mounts beneath")
                    .path(&point)
                    .remedy(format!("{kind} is mounted there: unmount it first")));
            }
            if route == Route::Root && is_unmappable(kind) {
                return Err(unmappable(tree.role, &point, kind));
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

/// Mount point and filesystem type of a line of mountinfo (proc_pid_mountinfo(5)):
/// `36 35 98:0 /mnt1 /mnt2 rw,noatime master:1 - ext3 /dev/root rw`.
fn point_and_type(line: &[u8]) -> Option<(PathBuf, &str)> {
    let mut fields = line.split(|byte| *byte == b' ');
    let point = unescape(fields.nth(4)?);
    fields.find(|field| *field == b"-")?;
    let kind = std::str::from_utf8(fields.next()?).ok()?;
    Some((PathBuf::from(OsStr::from_bytes(&point)), kind))
}

/// Blanks, tabs, newlines and backslashes come as three octal digits.
fn unescape(field: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(field.len());
    let mut rest = field;
    while let [first, tail @ ..] = rest {
        match tail {
            [
                a @ b'0'..=b'3',
                b @ b'0'..=b'7',
                c @ b'0'..=b'7',
                after @ ..,
            ] if *first == b'\\' => {
                out.push((a - b'0') << 6 | (b - b'0') << 3 | (c - b'0'));
                rest = after;
            }
            _ => {
                out.push(*first);
                rest = tail;
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
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
            let refusal =
                judge_table(&[candidate(Role::Clone, tree)], route, TABLE.as_bytes()).err();
            assert_eq!(refusal.as_ref().map(|r| r.reason), reason, "{tree}");
            assert_eq!(refusal.map(|r| r.subject).unwrap_or_default(), says);
        }
    }

    #[test]
    fn escapes() {
        assert_eq!(unescape(b"/a\\040b\\134c\\012"), b"/a b\\c\n");
        assert_eq!(unescape(b"/a\\04"), b"/a\\04");
        assert_eq!(unescape(b"\\999"), b"\\999");
    }
}
