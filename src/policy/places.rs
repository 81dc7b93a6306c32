//! Where a granted thing may lie: not in the system's, the kernel's or the
//! jail's own folders, not a whole home, and not at the end of a link that an
//! untrusted tree holds.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use super::grant::{Candidate, Role};
use super::paths::clean;
use crate::host::{Host, SystemShape};
use crate::plan::step::Route;
use crate::refusal::{Reason, Refusal, shown};
use crate::within::is_within;

/// Folders that are no clone and no out-dir, though folders in most of them are.
const SYSTEM_FOLDERS: [&str; 25] = [
    "/",
    "/bin",
    "/boot",
    "/dev",
    "/dev/shm",
    "/etc",
    "/home",
    "/home/agent",
    "/lib",
    "/lib32",
    "/lib64",
    "/libx32",
    "/media",
    "/mnt",
    "/opt",
    "/proc",
    "/root",
    "/run",
    "/sbin",
    "/srv",
    "/sys",
    "/tmp",
    "/usr",
    "/var",
    "/var/tmp",
];

/// The kernel's: nothing in them is granted, but for what lies in `/dev/shm`.
const KERNEL_FOLDERS: [&str; 3] = ["/dev", "/proc", "/sys"];

/// Where the jail has a tmpfs of its own. What lies in them on the host can be
/// granted: a mount point is made on the tmpfs.
const JAIL_FOLDERS: [&str; 4] = ["/dev/shm", "/home/agent", "/run", "/tmp"];

/// Where the jail has the broker's socket.
const BROKER_SOCKET: &str = "/run/broker.sock";

/// Homes of accounts that aren't people's: nothing of a person lies there.
const SERVICE_HOMES: [&str; 12] = [
    "/bin",
    "/boot",
    "/dev",
    "/etc",
    "/lib",
    "/nonexistent",
    "/proc",
    "/run",
    "/sbin",
    "/sys",
    "/usr",
    "/var",
];

/// Judges where one candidate lies. `homes` are whole home folders, cleaned.
pub(crate) fn judge(found: &Candidate, host: &Host, homes: &[PathBuf]) -> Result<(), Refusal> {
    // The typed path too: on a host where /home is a link, its target isn't listed.
    let granted = &found.granted;
    for path in std::iter::once(&granted.path).chain(granted.alias.as_ref()) {
        match found.role {
            Role::Clone | Role::OutDir | Role::GitDir | Role::CommonDir => {
                tree(found.role, path, host, homes)?;
            }
            Role::RoFile => {
                in_kernel_folder(found.role, path)?;
                shown_already(path, host)?;
                over_jail_folder(path)?;
                on_broker_socket(found.role, path)?;
            }
            Role::Uds => in_kernel_folder(found.role, path)?,
        }
    }
    Ok(())
}

/// Judges where a whole tree lies: a checkout, a repository, the out-dir.
pub(crate) fn tree(role: Role, path: &Path, host: &Host, homes: &[PathBuf]) -> Result<(), Refusal> {
    in_kernel_folder(role, path)?;
    whole_system_folder(role, path, host)?;
    whole_home(role, path, homes)?;
    on_broker_socket(role, path)
}

/// A line for each `--ro-file` that is a whole home, or holds one: what isn't refused, as
/// tools are shown that way, may still be more than was meant.
pub(crate) fn warnings(all: &[Candidate], homes: &[PathBuf]) -> Vec<String> {
    let files = all.iter().filter(|found| found.role == Role::RoFile);
    files
        .filter_map(|found| {
            let granted = &found.granted;
            let mut paths = std::iter::once(&granted.path).chain(granted.alias.as_ref());
            let (path, home) = paths.find_map(|path| Some((path, home_in(path, homes)?)))?;
            Some(format!(
                "--ro-file {} shows the command a whole home folder ({}), keys and settings too: name what it needs there",
                shown(path),
                shown(home)
            ))
        })
        .collect()
}

fn home_in<'h>(path: &Path, homes: &'h [PathBuf]) -> Option<&'h PathBuf> {
    homes.iter().find(|home| home.starts_with(path))
}

/// Given by root, what lies in a folder that is shown whole would be the command's to
/// read, whatever its mode.
fn shown_already(path: &Path, host: &Host) -> Result<(), Refusal> {
    let shown = ["/usr", "/etc"];
    if host.route == Route::User || !shown.iter().any(|folder| path.starts_with(folder)) {
        return Ok(());
    }
    Err(Role::RoFile.refusal("judge").path(path).remedy(
        "it is shown already, with what anybody may read there; given as root, its private \
         files would be the command's: copy what is needed",
    ))
}

fn in_kernel_folder(role: Role, path: &Path) -> Result<(), Refusal> {
    let shm = path.starts_with("/dev/shm") && path != Path::new("/dev/shm");
    let kernel = KERNEL_FOLDERS.iter().any(|folder| path.starts_with(folder));
    if path != Path::new("/") && (!kernel || shm) {
        return Ok(());
    }
    // /dev/shm itself is refused with the jail's own folders, for its own reason.
    if role == Role::RoFile && path == Path::new("/dev/shm") {
        return Ok(());
    }
    Err(role.refusal("judge").path(path).remedy(match role {
        Role::Clone => {
            "it can't be given to the command: change to a checkout, or name one with --clone"
        }
        _ => "it can't be given to the command: name something of your own",
    }))
}

fn whole_system_folder(role: Role, path: &Path, host: &Host) -> Result<(), Refusal> {
    // /bin is a link on most hosts, and what it leads to is as much of the system.
    let linked = host.system.iter().any(|dir| match &dir.shape {
        SystemShape::Symlink(text) => clean(&Path::new("/").join(text)) == path,
        SystemShape::Dir { .. } => false,
    });
    let listed = SYSTEM_FOLDERS
        .iter()
        .any(|folder| path == Path::new(folder));
    if listed || linked {
        return Err(role.refusal("judge").path(path).remedy(match role {
            Role::Clone => {
                "it is a folder of the system: change to a checkout, or name one with --clone"
            }
            _ => "it is a folder of the system: make a folder in it and name that",
        }));
    }
    Ok(())
}

fn whole_home(role: Role, path: &Path, homes: &[PathBuf]) -> Result<(), Refusal> {
    match home_in(path, homes) {
        None => Ok(()),
        Some(_) => Err(role.refusal("judge").path(path).remedy(
            "it holds a whole home folder, with keys and settings in it: \
             change to the checkout, or name a folder in it",
        )),
    }
}

fn over_jail_folder(path: &Path) -> Result<(), Refusal> {
    match JAIL_FOLDERS
        .iter()
        .find(|own| Path::new(own).starts_with(path))
    {
        None => Ok(()),
        Some(own) => Err(Refusal::new(Reason::Overlap, "judge --ro-file")
            .path(path)
            .remedy(format!(
                "the command has a {own} of its own there: name what it needs in that folder"
            ))),
    }
}

fn on_broker_socket(role: Role, path: &Path) -> Result<(), Refusal> {
    if !path.starts_with(BROKER_SOCKET) {
        return Ok(());
    }
    Err(
        Refusal::new(Reason::Overlap, format!("judge {}", role.flag()))
            .path(path)
            .remedy("the broker's socket is shown there: choose another place"),
    )
}

/// Whole home folders: the caller's (`own`, canonical), and those of passwd(5),
/// by their text alone, since looking at them may mount them (autofs). The caller's
/// is one wherever it lies: a service that starts runs has its keys in `/var`.
pub(crate) fn homes(own: Option<PathBuf>, passwd: &[u8]) -> Vec<PathBuf> {
    passwd
        .split(|byte| *byte == b'\n')
        .filter_map(|line| line.split(|byte| *byte == b':').nth(5))
        .filter(|home| home.starts_with(b"/"))
        .map(|home| clean(Path::new(OsStr::from_bytes(home))))
        .filter(|home| {
            !SERVICE_HOMES
                .iter()
                .any(|place| is_within(home, Path::new(place)))
        })
        .chain(own)
        .filter(|home| home != Path::new("/"))
        .collect()
}

/// A link that lies in the clone or the out-dir is the command's word. It may
/// lead elsewhere in the same tree, and no further: the next run would else
/// show the command whatever it pointed at (CVE-2026-87766).
pub(crate) fn links(all: &[Candidate]) -> Result<(), Refusal> {
    let untrusted = || {
        all.iter()
            .filter(|found| matches!(found.role, Role::Clone | Role::OutDir) && found.exists)
    };
    for found in all {
        for link in &found.followed {
            let leaves = untrusted().any(|tree| {
                let tree = &tree.granted.path;
                link.starts_with(tree) && link != tree && !found.granted.path.starts_with(tree)
            });
            if leaves {
                return Err(Refusal::new(
                    Reason::Path,
                    format!("follow a link for {}", found.role.flag()),
                )
                .path(link)
                .remedy("the link lies in a tree that the command may have written, and leads out of it: name its target instead"));
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::testing::{candidate, host};

    fn judged(role: Role, path: &str) -> Option<Reason> {
        let homes = [PathBuf::from("/home/u"), PathBuf::from("/data/homes/v")];
        let mut found = candidate(role, path);
        found.granted.alias = None;
        judge(&found, &host(), &homes).err().map(|r| r.reason)
    }

    #[test]
    fn trees() {
        for path in [
            "/",
            "/usr",
            "/etc",
            "/usr/bin",
            "/usr/lib",
            "/lib64",
            "/proc",
            "/proc/1/cwd",
            "/sys/x",
            "/dev",
            "/dev/pts",
            "/dev/shm",
            "/run",
            "/var",
            "/var/tmp",
            "/tmp",
            "/home",
            "/home/agent",
            "/home/u",
            "/root",
            "/opt",
            "/data",
            "/data/homes",
            "/data/homes/v",
        ] {
            for role in [Role::Clone, Role::OutDir] {
                assert_eq!(judged(role, path), Some(Reason::Path), "{path}");
            }
        }
        for path in [
            "/home/u/src",
            "/home/agent/src",
            "/tmp/x",
            "/dev/shm/x",
            "/var/tmp/x",
            "/run/x",
            "/opt/x",
            "/data/x",
            "/home/u2",
            "/usrx",
            "/usr/src/x",
            "/procx",
        ] {
            for role in [Role::Clone, Role::OutDir] {
                assert_eq!(judged(role, path), None, "{path}");
            }
        }
        for path in ["/run/broker.sock", "/run/broker.sock/x"] {
            assert_eq!(judged(Role::Clone, path), Some(Reason::Overlap));
            assert_eq!(judged(Role::RoFile, path), Some(Reason::Overlap));
        }
    }

    #[test]
    fn ro_files() {
        for (path, reason) in [
            ("/", Some(Reason::Path)),
            ("/proc/version", Some(Reason::Path)),
            ("/sys/kernel", Some(Reason::Path)),
            ("/dev", Some(Reason::Path)),
            ("/dev/null", Some(Reason::Path)),
            ("/dev/shm", Some(Reason::Overlap)),
            ("/tmp", Some(Reason::Overlap)),
            ("/run", Some(Reason::Overlap)),
            ("/home", Some(Reason::Overlap)),
            ("/home/agent", Some(Reason::Overlap)),
            ("/dev/shm/x", None),
            ("/run/x", None),
            ("/tmp/x", None),
            ("/home/agent/.npmrc", None),
            ("/home/u", None),
            ("/usr/share", None),
            ("/opt", None),
        ] {
            assert_eq!(judged(Role::RoFile, path), reason, "{path}");
        }
    }

    #[test]
    fn the_typed_path_counts_too() {
        let mut found = candidate(Role::Clone, "/usr/home");
        found.granted.alias = Some(PathBuf::from("/home"));
        assert!(judge(&found, &host(), &[]).is_err());
    }

    #[test]
    fn home_folders() {
        let passwd = "root:x:0:0::/root:/bin/sh\nd:x:1:1::/usr/sbin:/x\nn:x:2:2::/nonexistent:/x\n\
                      a:x:3:3::/:/x\nu:x:4:4::/home/u/:/x\nshort:x\nr:x:5:5::rel:/x\n";
        let found = homes(Some(PathBuf::from("/h/me")), passwd.as_bytes());
        let expected = ["/root", "/home/u", "/h/me"].map(PathBuf::from);
        assert_eq!(found, expected);
        assert_eq!(homes(Some(PathBuf::from("/")), b""), [] as [PathBuf; 0]);
        let service = PathBuf::from("/var/lib/ci");
        assert_eq!(homes(Some(service.clone()), b""), [service]);
    }

    #[test]
    fn links_out_of_untrusted_trees() {
        for (link, target, refused) in [
            ("/c/l", "/etc/x", true),
            ("/c/l", "/c/x", false),
            ("/o/l", "/c/x", true),
            ("/c2/l", "/etc/x", false),
            ("/c", "/etc/x", false),
        ] {
            let mut file = candidate(Role::RoFile, target);
            file.followed = vec![PathBuf::from(link)];
            let all = [
                candidate(Role::Clone, "/c"),
                candidate(Role::OutDir, "/o"),
                file,
            ];
            let reason = links(&all).err().map(|r| r.reason);
            assert_eq!(reason, refused.then_some(Reason::Path), "{link} {target}");
        }
    }
}
