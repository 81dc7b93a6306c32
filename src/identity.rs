//! Who the command is on the host: its caller, or an unprivileged id if that is root.

use nix::errno::Errno;

use crate::host::Host;
use crate::plan::step::{Identity, Ids, Route};
use crate::refusal::{Reason, Refusal};
use crate::sys::users::has_process;

/// The first id that is tried, plus the own pid: no two live supervisors of a
/// pid namespace start from the same. Above what distributions, sssd and
/// systemd's services, homes and containers hand out.
const FREE_BASE: u32 = 2_100_000_000;
/// From one candidate to the next: the kernel's largest pid, plus one.
const FREE_STRIDE: u32 = 4_194_304;
/// systemd's range for foreign trees begins here
/// (<https://systemd.io/UIDS-GIDS>), and no candidate reaches it.
const FREE_END: u32 = 2_147_352_576;
/// How many ids are tried.
const CANDIDATES: u32 = 11;
/// What an id that isn't mapped is shown as; a real account too ("nobody"), which
/// daemons and other jails share.
const OVERFLOW: u32 = 65_534;
/// The command's ids inside, where root started it.
const INSIDE: u32 = 1000;

/// Picks the command's ids. `clone_owner` is the clone's owner on disk.
///
/// # Errors
/// `identity` where groom-ns was started by root and no unprivileged id can be
/// given: the clone's owner isn't mapped in this user namespace, or no id is free.
pub fn pick(host: &Host, clone_owner: Ids) -> Result<Identity, Refusal> {
    match host.route {
        Route::User => Ok(Identity {
            route: Route::User,
            host: host.ids,
            inside: host.ids,
            groups: host.groups.clone(),
        }),
        Route::Root => Ok(Identity {
            route: Route::Root,
            host: as_root(clone_owner)?,
            inside: Ids {
                uid: INSIDE,
                gid: INSIDE,
            },
            groups: Vec::new(),
        }),
    }
}

fn as_root(clone_owner: Ids) -> Result<Ids, Refusal> {
    let (uids, gids) = (
        read_map("/proc/self/uid_map")?,
        read_map("/proc/self/gid_map")?,
    );
    let passwd = read("/etc/passwd")?;
    let groups = read("/etc/group")?;
    // A uid and a gid are judged alike: one number that is neither, so that a
    // free gid is no user's private group.
    let taken = |id: u32| {
        names_id(&passwd, id, 2)
            || names_id(&passwd, id, 3)
            || names_id(&groups, id, 2)
            || has_process(id)
    };
    let pid = std::process::id();
    let free = |map: &[Range]| free_id(pid, map, taken).ok_or_else(none_free);
    let uid = match clone_owner.uid {
        0 => free(&uids)?,
        owner => mapped_owner(owner, &uids)?,
    };
    // Never the clone's group, nor the owner's: it may be docker, disk or root.
    let gid = free(&gids)?;
    Ok(Ids { uid, gid })
}

fn mapped_owner(owner: u32, map: &[Range]) -> Result<u32, Refusal> {
    if owner != OVERFLOW && map.iter().any(|range| range.contains(owner)) {
        return Ok(owner);
    }
    Err(Refusal::new(Reason::Identity, "run as the clone's owner")
        .about(format!("uid {owner}"))
        .remedy("that id can't be used here: chown the clone to root or to an unprivileged user"))
}

fn none_free() -> Refusal {
    Refusal::new(Reason::Identity, "find an unprivileged id")
        .about("no free id is mapped in this user namespace")
        .remedy("start groom-ns as a normal user, not as root of a user namespace")
}

/// A line of uid_map or gid_map (user_namespaces(7)), as ids of this namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Range {
    first: u32,
    count: u32,
}

impl Range {
    fn contains(self, id: u32) -> bool {
        id.checked_sub(self.first)
            .is_some_and(|offset| offset < self.count)
    }
}

fn parse_map(text: &str) -> Option<Vec<Range>> {
    text.lines()
        .map(|line| {
            let mut fields = line.split_ascii_whitespace().map(str::parse::<u32>);
            match (fields.next(), fields.next(), fields.next()) {
                (Some(Ok(first)), Some(Ok(_)), Some(Ok(count))) => Some(Range { first, count }),
                _ => None,
            }
        })
        .collect()
}

/// The first candidate that is mapped and not taken. Where the usual candidates
/// aren't mapped (a rootless container), the highest range is searched.
fn free_id(pid: u32, map: &[Range], taken: impl Fn(u32) -> bool) -> Option<u32> {
    let usable = |id: &u32| {
        *id != 0 && *id != OVERFLOW && map.iter().any(|range| range.contains(*id)) && !taken(*id)
    };
    let usual = (0..CANDIDATES)
        .map(|n| FREE_BASE + pid % FREE_STRIDE + n * FREE_STRIDE)
        .filter(|id| *id < FREE_END)
        .find(usable);
    let highest = map.iter().max_by_key(|range| range.first)?;
    usual.or_else(|| {
        (0..CANDIDATES.min(highest.count))
            .map(|n| highest.first + pid.wrapping_add(n) % highest.count)
            .find(usable)
    })
}

/// Whether a line of passwd(5) or group(5) has `id` in this field.
fn names_id(file: &str, id: u32, field: usize) -> bool {
    let id = id.to_string();
    file.lines()
        .any(|line| line.split(':').nth(field) == Some(id.as_str()))
}

fn read_map(path: &'static str) -> Result<Vec<Range>, Refusal> {
    parse_map(&read(path)?)
        .ok_or_else(|| Refusal::new(Reason::Identity, "read the id map").path(path))
}

/// A file's text; a missing one is empty (images without /etc/passwd exist).
fn read(path: &'static str) -> Result<String, Refusal> {
    match std::fs::read(path) {
        Ok(bytes) => Ok(String::from_utf8_lossy(&bytes).into_owned()),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(String::new()),
        Err(error) => Err(Refusal::new(Reason::Identity, "find an unprivileged id")
            .path(path)
            .errno(Errno::try_from(error).unwrap_or(Errno::EIO))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FULL: [Range; 1] = [Range {
        first: 0,
        count: u32::MAX,
    }];

    #[test]
    fn free_ids() {
        let none = |_: u32| false;
        assert_eq!(free_id(7, &FULL, none), Some(2_100_000_007));
        assert_eq!(
            free_id(7, &FULL, |id| id == 2_100_000_007),
            Some(2_104_194_311)
        );
        assert_eq!(free_id(7, &FULL, |_| true), None);
        // The largest pid there is stays below systemd's foreign range.
        let last = free_id(4_194_303, &FULL, |id| id < 2_140_000_000).expect("an id");
        assert!(last < FREE_END);
        // `unshare -Ur`.
        let only_root = parse_map("         0       1000          1\n").expect("a map");
        assert_eq!(free_id(7, &only_root, none), None);
        // A rootless container.
        let rootless = parse_map("0 1000 1\n1 100000 65536\n").expect("a map");
        let id = free_id(70_000, &rootless, none).expect("an id");
        assert!((1..=65_536).contains(&id), "{id}");
        // Neither root nor nobody, whatever the pid.
        let small = parse_map("0 1000 2\n").expect("a map");
        for pid in 0..8 {
            assert_eq!(free_id(pid, &small, none), Some(1));
        }
        let nobody = [Range {
            first: OVERFLOW,
            count: 1,
        }];
        assert_eq!(free_id(1, &nobody, none), None);
    }

    #[test]
    fn owners() {
        assert_eq!(mapped_owner(1000, &FULL), Ok(1000));
        assert!(mapped_owner(OVERFLOW, &FULL).is_err());
        let few = [Range { first: 0, count: 5 }];
        assert_eq!(mapped_owner(4, &few), Ok(4));
        assert!(mapped_owner(5, &few).is_err());
    }

    #[test]
    fn named_ids() {
        let passwd = "root:x:0:0::/root:/bin/sh\nu:x:1000:1001::/home/u:/bin/sh\n";
        assert!(names_id(passwd, 1000, 2));
        assert!(names_id(passwd, 1001, 3));
        assert!(!names_id(passwd, 100, 2));
    }

    #[test]
    fn maps() {
        assert_eq!(parse_map("0 0 4294967295\n").expect("a map"), FULL);
        assert_eq!(parse_map("0 0\n"), None);
        assert_eq!(parse_map("").expect("none"), []);
    }
}
